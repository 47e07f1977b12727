"""What a run judges again: from the first period inside the lookback in which anything has changed, and nothing before.

That increments equal a full refresh while traces arrive late and are edited is tested by replay (test_increments.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime

import psycopg
import pytest

from ciris_scoring.connection import one_row
from ciris_scoring.embedded import SCHEMA, Server
from conftest import Database
from test_bad_input import NEWEST, dbt, fleet_database, restore, run, saved

PUBLISHED = "2026-06-14T00:00:00Z"
LOOKBACK = "2026-06-11T00:00:00+00:00"
TRACES = "cirislens.covenant_traces"
VERDICTS = f"{SCHEMA}_intermediate.int_trace_verdicts"
ONE_TRACE = f"""
    where (trace_id, "timestamp") = (
        select trace_id, "timestamp" from {TRACES} where "timestamp" >= '2026-06-12T09:00Z'
        order by "timestamp" limit 1)
    """
DAY_OF_TRACE = "2026-06-12T00:00:00+00:00"
AGAIN = "create table public.kept as select * from {traces} {where}; delete from {traces} {where};"


@pytest.fixture(scope="module")
def fleet(embedded_postgres: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database]:
    with fleet_database(embedded_postgres, tmp_path_factory.mktemp("fleet")) as database:
        result = run(database, as_of=PUBLISHED)
        assert result.exit_code == 0, result.output
        yield database


@pytest.fixture(scope="module")
def state(fleet: Database) -> Iterator[str]:
    with saved(fleet) as state:
        yield state


@pytest.fixture
def published(fleet: Database, state: str) -> Database:
    """Scored the day before the run that is looked at."""
    restore(fleet, state)
    return fleet


def judged_from(database: Database, *, as_of: str = NEWEST, **variables: str) -> str:
    """From when on a run would judge again."""
    models = ("--select", "stg_cirislens__covenant_traces", "int_source_periods", "int_scoring_run")
    outcome = dbt(database, "run", *models, variables={"ciris_as_of": as_of, **variables})
    assert outcome.succeeded, outcome.said
    with database.connect() as connection:
        query = f"select rejudged_from from {SCHEMA}_intermediate.int_scoring_run"
        moment: datetime = one_row(connection.execute(query))[0]
    return moment.isoformat()


def judge(database: Database, *models: str) -> None:
    outcome = dbt(database, "run", "--select", *models, variables={"ciris_as_of": NEWEST})
    assert outcome.succeeded, outcome.said


def test_nothing_new(published):
    assert judged_from(published, as_of=PUBLISHED) == PUBLISHED.replace("Z", "+00:00")


def test_a_new_day_alone(published):
    assert judged_from(published) == PUBLISHED.replace("Z", "+00:00")


EDITS = {
    "a flag": f"update {TRACES} set signature_verified = not signature_verified {ONE_TRACE}",
    "a flag there and back": "; ".join(
        [f"update {TRACES} set signature_verified = not signature_verified {ONE_TRACE}"] * 2
    ),
    "a row that goes": f"delete from {TRACES} {ONE_TRACE}",
    "a row that comes": f"insert into {TRACES} select * from {TRACES} {ONE_TRACE}",
    "a row in place of another": AGAIN.format(traces=TRACES, where=ONE_TRACE)
    + f"insert into {TRACES} select * from public.kept",
    "all rows of a day": f"""delete from {TRACES} where "timestamp" >= '2026-06-12' and "timestamp" < '2026-06-13'""",
}


@pytest.mark.parametrize("edit", EDITS)
def test_any_edit_of_a_row_is_seen(published, edit):
    with published.connect() as connection:
        connection.execute(f"alter table {TRACES} drop constraint if exists covenant_traces_pkey")
        connection.execute(EDITS[edit])
    assert judged_from(published) == DAY_OF_TRACE


def revoke_a_key(connection: psycopg.Connection) -> None:
    connection.execute("update cirislens.covenant_public_keys set revoked_at = '2026-06-12T12:00Z'")


def hide_behind_a_view(connection: psycopg.Connection) -> None:
    connection.execute(f"create view cirislens.a_view as select * from {TRACES}")


def write_all_rows_anew(connection: psycopg.Connection) -> None:
    connection.execute(f"update {TRACES} set trace_id = trace_id")
    connection.execute(f"vacuum full {TRACES}")


@pytest.mark.parametrize(
    ("change", "variables"),
    [
        (revoke_a_key, {}),
        (hide_behind_a_view, {"ciris_covenant_traces_table": "a_view"}),
        (write_all_rows_anew, {}),
    ],
)
def test_what_concerns_every_trace(
    published, change: Callable[[psycopg.Connection], None], variables: dict[str, str]
):
    with published.connect() as connection:
        change(connection)
    assert judged_from(published, **variables) == LOOKBACK


@pytest.mark.parametrize(
    "models",
    [
        pytest.param(
            ("int_source_periods", "int_scoring_run", "int_trace_verdicts"), id="a run that did not end"
        ),
        pytest.param(("int_source_periods",), id="a run that ended at once"),
        pytest.param(("int_trace_verdicts",), id="verdicts alone"),
    ],
)
def test_a_row_that_came_and_went_unseen(published, models):
    """Between two whole runs a third judged it, or read the source with it: verdicts may be older than they look."""
    comer = "trace_id = 'came-and-went'"
    with published.connect() as connection:
        connection.execute(f"create table public.comer as select * from {TRACES} {ONE_TRACE}")
        connection.execute("update public.comer set trace_id = 'came-and-went'")
        connection.execute(f"insert into {TRACES} select * from public.comer")
    judge(published, *models)
    with published.connect() as connection:
        connection.execute(f"delete from {TRACES} where {comer}")
    assert run(published).exit_code == 0
    with published.connect() as connection:
        [n] = one_row(connection.execute(f"select count(*) from {VERDICTS} where {comer}"))
    assert n == 0
