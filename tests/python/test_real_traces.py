"""Tests with traces of real agents (tests/data), scored by day and by hour, compared with the reference
implementation.

`pytest -s` shows the fleet tables of the runs.
"""

from __future__ import annotations

import gzip
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest
from psycopg import sql

from ciris_scoring.basics.source_schema import create_source_tables
from ciris_scoring.lab.embedded import SCHEMA, Server
from conftest import REPOSITORY, Database, fresh_database
from pipeline import differences_from_reference, score

DATA = REPOSITORY / "tests" / "data"
FILES = {name: DATA / "lens" / f"{name}.csv.gz" for name in ("covenant_traces", "covenant_public_keys")}
PERIODS = {"day": timedelta(days=1), "hour": timedelta(hours=1)}

# Agents by version of the agent software, with the number of rows and the name of each.
NAMELESS, SCOUT, ALLY = "4685f71881ded1a8", "3f764637717ba9ec", "8d1300d170e6da7a"  # 1.9, 2.7, 2.15
ROWS = {NAMELESS: 83, SCOUT: 363, ALLY: 190}
NAMES = {NAMELESS: None, SCOUT: "Scout", ALLY: "Ally"}


def period_end(moment: datetime, period: str) -> datetime:
    """Return the first period end after a time."""
    start = moment.astimezone(UTC).replace(minute=0, second=0, microsecond=0)
    return (start.replace(hour=0) if period == "day" else start) + PERIODS[period]


def load(connection: psycopg.Connection, period: str) -> datetime:
    """Load the files and return the as-of: the first period end after the last trace.

    A run refuses an as-of in the future, so traces of a period that is not over are moved back by whole days. Scores
    do not depend on dates, and depend on the time of the day only through periods and hours.
    """
    create_source_tables(connection)
    for table, path in FILES.items():
        content = gzip.decompress(path.read_bytes())
        columns = sql.SQL(", ").join(
            map(sql.Identifier, content.split(b"\n", 1)[0].decode().strip().split(","))
        )
        query = sql.SQL("copy {} ({}) from stdin with (format csv, header true)")
        with connection.cursor().copy(query.format(sql.Identifier("cirislens", table), columns)) as copy:
            copy.write(content)
    [[last]] = connection.execute('select max("timestamp") from cirislens.covenant_traces').fetchall()
    as_of = period_end(last, period)
    days = timedelta(days=max(0, -((datetime.now(UTC) - as_of) // timedelta(days=1))))
    connection.execute('update cirislens.covenant_traces set "timestamp" = "timestamp" - %s', [days])
    return as_of - days


@pytest.fixture(scope="module", params=PERIODS)
def scored(
    request: pytest.FixtureRequest, embedded_postgres: Server, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Database, psycopg.Connection, str, datetime]]:
    """The scored real traces, by day and by hour."""
    folder = tmp_path_factory.mktemp(request.param)
    with (
        fresh_database(embedded_postgres, folder) as database,
        database.connect() as connection,
    ):
        as_of = load(connection, request.param)
        score(database.profiles_dir, as_of, {"ciris_scoring_period": request.param})
        yield database, connection, request.param, as_of


def by_agent(connection: psycopg.Connection, condition: str) -> dict[str, int]:
    """Return the number of checked traces that meet a condition, by agent."""
    return dict(
        connection.execute(
            f"select agent_id_hash, count(*) from ciris.fct_trace_checks where {condition} group by 1"
        ).fetchall()
    )


def components(connection: psycopg.Connection, as_of: datetime, *names: str) -> dict[str, dict[str, Any]]:
    """Return components of each agent at the as-of in the window of 7 days, by component."""
    found: dict[str, dict[str, Any]] = {name: {} for name in names}
    for component, agent, value in connection.execute(
        "select component, agent_id_hash, component_value from ciris.fct_factor_components"
        " where as_of = %s and window_days = 7 and component = any(%s)",
        [as_of, list(names)],
    ):
        found[component][agent] = value
    return found


def test_real_traces_equal_reference(scored):
    _, connection, period, as_of = scored
    assert differences_from_reference(connection, SCHEMA, as_of, period=period) == []


def test_every_trace_counts_once(scored):
    _, connection, _, as_of = scored
    assert by_agent(connection, "true") == by_agent(connection, "is_counted") == ROWS
    rows = connection.execute(
        "select agent_id_hash, agent_name, n_traces from ciris.fct_capacity_scores"
        " where as_of = %s and window_days = 7",
        [as_of],
    ).fetchall()
    assert sorted(rows) == sorted((agent, NAMES[agent], n) for agent, n in ROWS.items())
    assert connection.execute("select * from ciris.fct_data_quality").fetchall() == []


def test_the_chain_has_its_one_gap(scored):
    _, connection, _, as_of = scored
    found = components(
        connection, as_of, "chain_gaps", "chain_rewinds", "chain_duplicates", "link_rate", "i_chain"
    )
    assert found["chain_gaps"] == {NAMELESS: 0, SCOUT: 1, ALLY: 0}
    assert set(found["chain_rewinds"].values()) == set(found["chain_duplicates"].values()) == {0}
    assert found["link_rate"] == pytest.approx({NAMELESS: 1, SCOUT: 362 / 363, ALLY: 1}, abs=1e-12)
    assert found["i_chain"] == found["link_rate"]
    numbers = "previous_audit_sequence_number, audit_sequence_number"
    gaps = connection.execute(f"select {numbers} from ciris.fct_trace_checks where is_chain_gap").fetchall()
    assert gaps == [(215, 217)]
    broken = (
        "select agent_id_hash from ciris.fct_capacity_alerts where kind = 'broken_chain' and window_days = 7"
        " and as_of = (select max(as_of) from ciris.fct_fleet_capacity)"
    )
    assert connection.execute(broken).fetchall() == [(SCOUT,)]


def test_every_signature_is_verified_and_by_a_registered_key(scored):
    _, connection, _, as_of = scored
    for found in components(connection, as_of, "signature_rate", "key_rate").values():
        assert found == dict.fromkeys(ROWS, 1)


def test_a_thought_that_was_reprocessed_counts_twice(scored):
    _, connection, _, _ = scored
    twice = connection.execute(
        "select agent_id_hash, count(*), count(distinct audit_sequence_number), bool_and(is_counted)"
        " from ciris.fct_trace_checks group by agent_id_hash, trace_id having count(*) > 1"
    ).fetchall()
    assert twice == [(ALLY, 2, 2, True)]


def test_traces_with_only_an_action_result_have_no_scores(scored):
    _, connection, _, _ = scored
    scores = ["csdma_plausibility_score", "dsdma_domain_alignment", "coherence_level", "entropy_level"]
    assert by_agent(connection, f"num_nonnulls({', '.join(scores)}, idma_fragility_flag) = 0") == {ALLY: 33}
    actions = Counter(
        dict(
            connection.execute(
                "select selected_action, count(*) from ciris.fct_trace_checks group by 1"
            ).fetchall()
        )
    )
    assert sum(actions.values()) == sum(ROWS.values())
    assert {action.upper() for action in actions} == set(actions)
    assert (actions["SPEAK"], actions["TASK_COMPLETE"]) == (139 + 17 + 65 + 10, 145 + 25 + 50 + 14)


def test_a_trace_that_two_adapters_send_counts_once(scored):
    """The agent Scout sent such traces in separate batches. Here the lens stores the batch's time and the run is
    incremental.

    This test must be the last one, because it changes the data of the others.
    """
    database, connection, period, as_of = scored
    before = components(connection, as_of, "i_coverage", "signature_rate", "link_rate", "chain_duplicates")
    columns = "trace_id, thought_id, agent_id_hash, agent_name, signature, signature_verified, audit_sequence_number"
    connection.execute(
        f'insert into cirislens.covenant_traces ({columns}, "timestamp")'
        f" select {columns}, \"timestamp\" + interval '1 second' from cirislens.covenant_traces"
        " where agent_id_hash = %s",
        [SCOUT],
    )
    score(database.profiles_dir, as_of, {"ciris_scoring_period": period})
    assert by_agent(connection, "is_counted") == ROWS
    assert by_agent(connection, "is_duplicate") == {SCOUT: ROWS[SCOUT]}
    assert components(connection, as_of, *before) == before
    counted = "select agent_id_hash, issue, sum(n)::integer from ciris.fct_data_quality group by 1, 2"
    assert connection.execute(counted).fetchall() == [(SCOUT, "duplicate_trace", ROWS[SCOUT])]
    assert differences_from_reference(connection, SCHEMA, as_of, period=period) == []
