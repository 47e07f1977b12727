"""Tests of the Python model int_windows: chunks and blocks do not change results, and invalid inputs are refused."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import partial

import numpy as np
import psycopg
import pytest
from psycopg import sql
from psycopg.rows import dict_row

from ciris_scoring.lab.embedded import write_profile
from ciris_scoring.statistics.blocks import blocks
from ciris_scoring.statistics.factors import Components, components
from ciris_scoring.statistics.inputs import Parameters, Window
from ciris_scoring.statistics.setting import Setting
from conftest import Database
from nasty_fleet import START, nasty_fleet
from pipeline import load_rows
from test_bad_input import Dbt, dbt, restore, run, saved

DAYS = 10
AS_OF = START + timedelta(days=DAYS)
SCHEMA = "Scores of Ægir"  # needs quoting
WINDOWS = """
    select to_jsonb(w) - 'computed_at' from int_windows as w order by agent_id_hash, as_of, window_days
    """
COMPUTED_AT = "select max(computed_at) from int_windows"


@pytest.fixture(scope="module")
def scored(module_database: Database) -> Iterator[tuple[Database, str]]:
    """A scored random fleet and its saved copy."""
    database = module_database
    write_profile(database.profiles_dir, database.server, database=database.name, schema=SCHEMA)
    with database.connect() as connection:
        load_rows(connection, nasty_fleet(3, agents=5, days=DAYS))
    result = run(database, as_of=AS_OF.isoformat())
    assert result.exit_code == 0, result.output
    with saved(database) as state:
        yield database, state


@pytest.fixture
def database(scored: tuple[Database, str]) -> Database:
    restore(*scored)
    return scored[0]


@pytest.fixture
def connection(database: Database) -> Iterator[psycopg.Connection]:
    with database.connect() as connection:
        connection.execute(sql.SQL("set search_path to {}").format(sql.Identifier(f"{SCHEMA}_intermediate")))
        yield connection


def build_alone(database: Database) -> Dbt:
    """Build only this model in plain dbt. After a first run it computes all as-ofs."""
    return dbt(database, "run", "--select", "int_windows", variables={"ciris_as_of": AS_OF.isoformat()})


# --- computing -------------------------------------------------------------------------------------------------------


def test_two_runs_on_the_same_data_compute_the_same_rows(database, connection):
    before = connection.execute(WINDOWS).fetchall()
    assert len(before) > 50
    assert run(database, as_of=AS_OF.isoformat()).exit_code == 0
    assert connection.execute(WINDOWS).fetchall() == before


@pytest.mark.parametrize(
    ("chunk_agents", "read_agents", "block_periods"), [(1, 2, 4000), (2, 3, 3), (100, 1, 1), (1, 100, 5)]
)
def test_chunks_and_blocks_do_not_change_results(
    database, connection, chunk_agents, read_agents, block_periods, monkeypatch
):
    module = "ciris_scoring.statistics.one_pass"
    monkeypatch.setattr("ciris_scoring.statistics.intervals.CHUNK_ROWS", 3)
    monkeypatch.setattr(f"{module}.agents_per_chunk", lambda n_periods: chunk_agents)
    monkeypatch.setattr(f"{module}.agents_per_read", lambda n_periods: read_agents)
    monkeypatch.setattr(f"{module}.blocks", partial(blocks, block_periods=block_periods))
    before = connection.execute(WINDOWS).fetchall()
    computed_at = connection.execute(COMPUTED_AT).fetchall()
    done = build_alone(database)
    assert done.succeeded, done.said
    assert connection.execute(WINDOWS).fetchall() == before
    assert connection.execute(COMPUTED_AT).fetchall() != computed_at


# --- refused inputs --------------------------------------------------------------------------------------------------

REFUSED = {
    "nine bins": (
        "update int_agent_periods set judged_by_bin = judged_by_bin[2:] where period_start ="
        " (select max(period_start) from int_agent_periods)",
        "do not have ten bins. Build them again: dbt build --full-refresh",
    ),
    "a null in a bin": (
        "update int_agent_periods set judged_by_bin[3] = null where period_start ="
        " (select max(period_start) from int_agent_periods)",
        "hold a null, or .* Build them again: dbt build --full-refresh",
    ),
    "a null count": (
        "alter table int_agent_periods alter n_unsafe drop not null;"
        " update int_agent_periods set n_unsafe = null where period_start ="
        " (select max(period_start) from int_agent_periods)",
        "hold a null, or .* Build them again: dbt build --full-refresh",
    ),
    "an unusable parameter": (
        "update int_scoring_parameters set parameter_value = 'yes' where parameter_name = 'replay_enabled'",
        "replay_enabled is 'yes', which .* Build it again: dbt build --select int_scoring_parameters",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_inputs_that_do_not_fit_are_refused(database, connection, case):
    statement, message = REFUSED[case]
    before = connection.execute(WINDOWS).fetchall()
    connection.execute(statement)
    refused = build_alone(database)
    assert not refused.succeeded
    assert re.search(f"int_windows.*{message}", " ".join(refused.said.split())), refused.said
    assert connection.execute(WINDOWS).fetchall() == before


# --- numpy and SQL ---------------------------------------------------------------------------------------------------


def test_numpy_computes_the_components_that_sql_publishes(database, connection):
    """Each formula is written in SQL and in numpy. The results are equal to 1e-12."""
    rows = (
        connection.cursor(row_factory=dict_row)
        .execute("select * from int_windows order by agent_id_hash, as_of, window_days")
        .fetchall()
    )
    made = components({name: np.array([row[name] for row in rows]) for name in rows[0]}, Parameters())
    published = connection.execute("""
        select
            i_chain, i_coverage, i_replay, ece, mttr_hours, n_episodes, rho_regression, q_deferral
        from int_resilience
        inner join int_integrity using (agent_id_hash, as_of, window_days)
        inner join int_incompleteness_awareness using (agent_id_hash, as_of, window_days)
        order by agent_id_hash, as_of, window_days
        """).fetchall()
    assert len(published) == len(rows) > 50
    for name, values in zip(Components._fields, zip(*published, strict=True), strict=True):
        np.testing.assert_allclose(getattr(made, name), values, rtol=1e-12, atol=1e-12, err_msg=name)
        # Equality of constants would prove little.
        assert len(set(values)) > 1, name


# --- blocks ----------------------------------------------------------------------------------------------------------

START_OF_DAYS = datetime(2026, 1, 1, tzinfo=UTC)


class TracedDays:
    """Replacement of a session that returns the days with traces."""

    def __init__(self, *days: int):
        self.days = days

    def rows(self, query: object, parameters: object) -> list[tuple[datetime]]:
        return [(START_OF_DAYS + timedelta(days=day),) for day in self.days]


@pytest.mark.parametrize(
    ("traced", "as_of", "cutoff", "expected"),
    [
        ((0, 1, 2), 3, None, [(1, 3)]),
        ((0, 100), 101, None, [(1, 30), (101, 101)]),
        ((0, 40), 41, None, [(1, 10), (11, 20), (21, 30), (41, 41)]),
        ((70, 99), 100, 97, [(98, 100)]),
        ((60,), 100, 97, []),
        ((), 100, None, []),
    ],
)
def test_blocks_hold_the_as_ofs_whose_windows_have_a_trace(traced, as_of, cutoff, expected):
    """The longest window has 30 days. If the history is longer than 40 days, a block has at most 10 as-ofs."""

    def at(day: int) -> datetime:
        return START_OF_DAYS + timedelta(days=day)

    setting = Setting(
        Parameters(),
        (Window(7, 23, 30), Window(30, 30, 30)),
        timedelta(days=1),
        at(as_of),
        None if cutoff is None else at(cutoff),
    )
    longest = 10 if as_of == 41 else 4000
    found = list(blocks(TracedDays(*traced), sql.SQL(""), setting, longest))
    assert [((b.first - START_OF_DAYS).days, (b.last - START_OF_DAYS).days) for b in found] == expected
    assert all(b.origin == b.first - timedelta(days=133) for b in found)
