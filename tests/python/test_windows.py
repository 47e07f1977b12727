"""Test of the Python models int_windows and fct_score_certainty: the order of rows on disk does not change results.

Hourly cases (test_cases.py) are computed in several chunks of agents, and three years (test_long_history.py) in several
blocks of periods.
"""

from __future__ import annotations

from datetime import timedelta

import psycopg
import pytest
from psycopg import sql

from ciris_scoring.lab.embedded import write_profile
from command_line import succeeded
from conftest import Database
from nasty_fleet import START, nasty_fleet
from pipeline import load_rows
from test_bad_input import dbt, run

DAYS = 10
AS_OF = START + timedelta(days=DAYS)
SCHEMA = "Scores of Ægir"  # needs quoting


def computed(connection: psycopg.Connection, certainty: str) -> tuple[list, list]:
    """Return the rows of both models. A run that does not publish leaves the certainty in a staging table."""
    query = sql.SQL("select to_jsonb(c) from {} as c order by agent_id_hash, as_of, window_days")
    windows = "select to_jsonb(w) - 'computed_at' from int_windows as w order by agent_id_hash, as_of, window_days"
    return connection.execute(windows).fetchall(), connection.execute(query.format(sql.SQL(certainty))).fetchall()


@pytest.mark.slow
def test_order_of_rows_on_disk_does_not_change_results(database: Database) -> None:
    """One agent has eight episodes at the same time, whose order follows only from the audit numbers of the traces."""
    fleet = nasty_fleet(3, agents=5, days=DAYS)
    fleet["covenant_traces"] += [
        fleet["covenant_traces"][0]
        | {
            "trace_id": f"simultaneous {number}",
            "signature": f"simultaneous {number}",
            "audit_sequence_number": 10**6 + number,
            "idma_fragility_flag": number % 2 == 0,
            "idma_phase": "a" if number % 4 < 2 else "b",
        }
        for number in range(16)
    ]
    write_profile(database.profiles_dir, database.server, database=database.name, schema=SCHEMA)
    with database.connect() as connection:
        load_rows(connection, fleet)
        succeeded(run(database, as_of=AS_OF.isoformat()))
        connection.execute(sql.SQL("set search_path to {}").format(sql.Identifier(f"{SCHEMA}_intermediate")))
        before = computed(connection, f'"{SCHEMA}".fct_score_certainty')
        for table in ("int_agent_events", "int_agent_periods", "int_deferral_values"):
            connection.execute(
                f"create temporary table {table}_kept as select * from {table}; truncate {table};"
                f"insert into {table} select * from {table}_kept order by md5({table}_kept::text)"
            )
        # The only earlier run was a first run, so all as-ofs are computed again.
        models, variables = "int_windows+,+fct_score_certainty", {"ciris_as_of": AS_OF.isoformat()}
        succeeded(dbt(database, "run", "--select", models, variables=variables))
        assert computed(connection, "fct_score_certainty__next") == before
