"""Tests of changes around the restatement window: a corrected clock, and a late row that replaces a deleted one.

test_healing.py tests that a run notices every change within the window.
"""

from __future__ import annotations

from datetime import UTC, datetime

import psycopg

from ciris_scoring.database.connection import one_row
from ciris_scoring.lab.embedded import SCHEMA
from command_line import succeeded
from test_bad_input import NEWEST, dbt, marts, refusal, run

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
        succeeded(dbt(restored, "run", "--select", "int_scoring_run", variables={"ciris_as_of": NEWEST}))
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


def test_vanished_traces_stop_the_run_or_are_a_warning(restored):
    """The restatement window has lost a tenth and then two fifths of the traces that the last run counted."""
    window = f"\"timestamp\" >= '2026-06-11' and \"timestamp\" < '{PUBLISHED}'"
    [[n_before]] = restored.execute(f"select count(*) from {TRACES} where {window}")
    lose = f"delete from {TRACES} where {window} and abs(hashtext(trace_id)) %% 10 = any(%s)"
    restored.execute(lose, [[0]])
    [[n_after]] = restored.execute(f"select count(*) from {TRACES} where {window}")
    warned = succeeded(dbt(restored, "build", variables={"ciris_as_of": PUBLISHED})).output
    assert f"Got {n_before - n_after} results, configured to warn if > 0" in warned, warned

    rows = marts(restored)
    restored.execute(lose, [[1, 2, 3, 4]])
    [[n_left]] = restored.execute(f"select count(*) from {TRACES} where {window}")
    for said in map(refusal, (run(restored), dbt(restored, "build", variables={"ciris_as_of": NEWEST}))):
        assert f"cirislens.covenant_traces no longer has {n_after - n_left} of {n_after} traces that" in said, said
        assert "most of them on 2026-06-1" in said and "--vars 'ciris_vanished_share: 1'" in said, said
        part = refusal(dbt(restored, "build", "--select", "int_replays+", variables={"ciris_as_of": NEWEST}))
        assert "int_replays reads int_trace_checks, which the run of " in part, part
    evidence = {f"{SCHEMA}.fct_trace_checks", f"{SCHEMA}.fct_deferral_values"}
    assert {name for name, found in marts(restored).items() if found != rows[name]} <= evidence
    succeeded(run(restored, variables={"ciris_vanished_share": 1}))
