"""Tests that a replay reads exactly the source row that was sampled, even if other rows have the same time."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal

from conftest import Database
from nasty_fleet import START, Row
from pipeline import create_loose_sources, insert_rows, score

TRUE, FALSE = Decimal("0.9"), Decimal("0.1")
"""Plausibility that agrees with the JSON component of a row, so that the replay succeeds, and one that does not."""


def row(trace_id: str | None, signature: str, plausibility: Decimal) -> Row:
    return {
        "agent_id_hash": "a" * 16,
        "trace_id": trace_id,
        "timestamp": START,
        "signature": signature,
        "audit_sequence_number": 1,
        "csdma_plausibility_score": plausibility,
        "thought_start": {},
        "dma_results": {"csdma": {"plausibility_score": float(TRUE)}},
    }


def test_rows_with_the_same_time_have_separate_replays(database: Database) -> None:
    """Three rows have the same trace_id and time, so one of them counts. Three rows without a trace_id have the same
    time, two of them are identical, and all three count.
    """
    rows = [
        row(trace_id, f"{signature} {number}", plausibility)
        for number in range(6)
        for trace_id in (f"trace {number}", None)
        for signature, plausibility in (("true", TRUE), ("false", FALSE), ("false", FALSE))
    ]
    with database.connect() as connection:
        create_loose_sources(connection)
        insert_rows(connection, "covenant_traces", rows)
        score(database.profiles_dir, START + timedelta(days=1))
        checks = connection.execute(
            "select trace_id, is_replay_sampled, csdma_plausibility_score, is_replayable, failed_comparisons"
            " from ciris.fct_trace_checks where is_counted"
        ).fetchall()
        assert connection.execute(
            "select distinct is_replayable, failed_comparisons from ciris.fct_trace_checks where not is_counted"
        ).fetchall() == [(None, None)]
    assert len(checks) == 6 + 18
    for _, is_sampled, plausibility, is_replayable, failed in checks:
        assert is_sampled
        expected = (True, []) if plausibility == float(TRUE) else (False, ["csdma_plausibility_score"])
        assert (is_replayable, failed) == expected
    assert {is_replayable for trace_id, _, _, is_replayable, _ in checks if trace_id} == {True, False}
