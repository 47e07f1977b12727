"""Tests of changes around the restatement window: a corrected clock, and a late row that replaces a deleted one.

test_healing.py tests that a run notices every change within the window.
"""

from __future__ import annotations

from datetime import UTC, datetime

import psycopg

from ciris_scoring.basics.connection import one_row
from ciris_scoring.lab.embedded import SCHEMA
from test_bad_input import NEWEST, dbt, refusal, run

PUBLISHED = SCORED_UNTIL = "2026-06-14T00:00:00Z"
TRACES = "cirislens.covenant_traces"


def corrected_clock(connection: psycopg.Connection) -> None:
    """Make the state of a server whose clock was corrected: the times of all runs so far are in the future."""
    connection.execute(
        f"""
        update {SCHEMA}_intermediate.int_runs
        set started_at = started_at + interval '1 day', ended_at = ended_at + interval '1 day',
            published_at = published_at + interval '1 day'
        """
    )


def test_unfinished_run_is_finished_after_a_correction_of_the_clock(restored):
    with restored.connect() as connection:
        corrected_clock(connection)
        assert dbt(restored, "run", "--select", "int_scoring_run", variables={"ciris_as_of": NEWEST}).succeeded
        corrected_clock(connection)
        assert run(restored).exit_code == 0
    older = refusal(run(restored, as_of=PUBLISHED))
    assert f"is before the newest published as-of, {NEWEST[:10]}" in older


def test_late_row_that_replaces_a_deleted_row_is_counted(restored):
    """The deleted row is older than the restatement window. The late row has the same time and another agent."""
    replaced = f"""
        update {TRACES} as gone
        set trace_id = 'late', agent_id_hash = (
            select min(others.agent_id_hash) from {TRACES} as others where others.agent_id_hash <> gone.agent_id_hash)
        where "timestamp" = (select min("timestamp") from {TRACES} where "timestamp" >= '2026-06-09')
        returning agent_id_hash
        """
    with restored.connect() as connection:
        [agent] = one_row(connection.execute(replaced))
        assert run(restored).exit_code == 0
        late = connection.execute(
            f"select agent_id_hash, period_start, n from {SCHEMA}.fct_data_quality where issue = 'late_trace'"
        ).fetchall()
    assert late == [(agent, datetime(2026, 6, 9, tzinfo=UTC), 1)]
