"""Test with traces of real agents (tests/data), compared with the reference implementation."""

from __future__ import annotations

import gzip
from datetime import UTC, datetime, timedelta

import psycopg
from psycopg import sql

from ciris_scoring.basics.source_schema import create_source_tables
from ciris_scoring.lab.embedded import SCHEMA
from conftest import REPOSITORY, Database
from pipeline import differences_from_reference, score

DATA = REPOSITORY / "tests" / "data"
FILES = {name: DATA / "lens" / f"{name}.csv.gz" for name in ("covenant_traces", "covenant_public_keys")}

# Agents with different versions of the agent software, and the number of rows and the name of each.
NAMELESS, SCOUT, ALLY = "4685f71881ded1a8", "3f764637717ba9ec", "8d1300d170e6da7a"  # versions 1.9, 2.7, 2.15
ROWS = {NAMELESS: 83, SCOUT: 363, ALLY: 190}
NAMES = {NAMELESS: None, SCOUT: "Scout", ALLY: "Ally"}


def load(connection: psycopg.Connection) -> datetime:
    """Load the files and return the as-of: the end of the last trace's day.

    A run refuses an as-of in the future, so on a machine whose clock is behind the files, all times are moved back by
    whole days.
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
    as_of = last.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0) + timedelta(days=1)
    days = timedelta(days=max(0, -((datetime.now(UTC) - as_of) // timedelta(days=1))))
    connection.execute('update cirislens.covenant_traces set "timestamp" = "timestamp" - %s', [days])
    return as_of - days


def by_agent(connection: psycopg.Connection, condition: str) -> dict[str, int]:
    """Return the number of checked traces that meet a condition, by agent."""
    return dict(
        connection.execute(
            f"select agent_id_hash, count(*) from ciris.fct_trace_checks where {condition} group by 1"
        ).fetchall()
    )


COMPONENTS = """
    select component, agent_id_hash, component_value from ciris.fct_factor_components
    where window_days = 7 and component in ('i_coverage', 'signature_rate', 'link_rate', 'chain_duplicates')
"""
# The agent Scout sent its traces by two adapters. The lens stores the batch's time.
SENT_AGAIN = f"""
    insert into cirislens.covenant_traces (
        trace_id, thought_id, agent_id_hash, agent_name, signature, signature_verified, audit_sequence_number,
        "timestamp"
    )
    select trace_id, thought_id, agent_id_hash, agent_name, signature, signature_verified, audit_sequence_number,
        "timestamp" + interval '1 second'
    from cirislens.covenant_traces
    where agent_id_hash = '{SCOUT}'
"""


def test_real_traces_equal_reference(database: Database) -> None:
    with database.connect() as connection:
        as_of = load(connection)
        score(database.profiles_dir, as_of)
        assert differences_from_reference(connection, SCHEMA, as_of) == []
        assert by_agent(connection, "true") == by_agent(connection, "is_counted") == ROWS
        assert connection.execute("select * from ciris.fct_data_quality").fetchall() == []
        query = (
            "select agent_id_hash, agent_name, n_traces from ciris.fct_capacity_scores where window_days = 7"
        )
        rows = connection.execute(f"{query} and as_of = %s", [as_of]).fetchall()
        assert sorted(rows) == sorted((agent, NAMES[agent], n) for agent, n in ROWS.items())
        numbers = "previous_audit_sequence_number, audit_sequence_number"
        gaps = connection.execute(f"select {numbers} from ciris.fct_trace_checks where is_chain_gap")
        assert gaps.fetchall() == [(215, 217)]
        before = connection.execute(f"{COMPONENTS} and as_of = %s", [as_of]).fetchall()
        assert {value for name, _, value in before if name == "signature_rate"} == {1}
        connection.execute(SENT_AGAIN)
        score(database.profiles_dir, as_of)
        assert by_agent(connection, "is_counted") == ROWS
        assert by_agent(connection, "is_duplicate") == {SCOUT: ROWS[SCOUT]}
        after = connection.execute(f"{COMPONENTS} and as_of = %s", [as_of]).fetchall()
        assert sorted(after) == sorted(before)
        counted = "select agent_id_hash, issue, sum(n)::integer from ciris.fct_data_quality group by 1, 2"
        assert connection.execute(counted).fetchall() == [(SCOUT, "duplicate_trace", ROWS[SCOUT])]
        assert differences_from_reference(connection, SCHEMA, as_of) == []
