"""Test of traces that arrive late: data quality, log of runs and the note of a run, computed by hand."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

from cases.notation import Case, T, ago, traces
from ciris_scoring.database.as_of import text
from ciris_scoring.lab.embedded import SCHEMA
from conftest import Database
from pipeline import insert_rows, load_rows, score
from test_bad_input import run

DAY = timedelta(days=1)
NOON = timedelta(hours=12)
MOCK = traces(ago(40), 3, agent="B", audit_sequence_number=[1, 2, 3], run_kind="mock")
EARLY = Case("late", traces(ago(44) + NOON, 44, every=DAY) + MOCK)
"""Traces that arrive before the first run. Agent B has no counted trace yet."""
LATE = Case(
    "late",
    [row for days in (36, 34, 19.25, 4.25, 4) for row in traces(ago(days))]
    + traces(ago(0.5), agent="B", audit_sequence_number=5),
)
"""Traces that arrive after the first run. At the second run (as-of T), the restatement window begins 4 days before T.
Late traces are counted in the 30 days before this window, in [34 days before T, 4 days before T). These are three of
the traces of agent A. The chain of agent B begins with its traces that are not scored, so the number 4 is missing.
"""
AS_OFS = [T - DAY, T]

NOTE = (
    f"Note: the scores as of {text(ago(33))} to {text(T)} would be different if they were computed now (traces "
    "that came late: 3; traces with an outcome or another event that came late: 0). To score these and all later ones "
    f"again: ciris-scoring run --allow-rescoring --vars 'ciris_rescore_from: {text(ago(33))}'\n"
)
GAPS = """
    select period_start, previous_audit_sequence_number from {schema}_intermediate.int_trace_checks
    where is_chain_gap and previous_audit_sequence_number = 3"""
LATE_OF = """
    select period_start, n, first_as_of, last_as_of from {{schema}}.fct_data_quality where issue = '{}' order by 1"""
RUNS = """
    select as_of, outcome, n_scores, n_late_traces from {schema}_intermediate.int_runs order by started_at"""
PUBLICATIONS = """
    select published_until, newest_as_of, final_until from {schema}_intermediate.int_runs order by published_at"""
EXPECTED = {
    LATE_OF.format("late_trace"): [(ago(days), 1, ago(days - 1), T) for days in (34, 20, 5)],
    # The first run scores 43 as-ofs in two windows. The second run scores three as-ofs of the restatement window again,
    # and the new as-of, also of agent B.
    RUNS: [(T - DAY, "published", 86, 0), (T, "published", 10, 3)],
    GAPS: [(ago(1), 3)],
    PUBLICATIONS: [(T - DAY, T - DAY, None), (T, T, ago(4))],
}
"""Expected rows by query."""


def wrong(database: Database) -> Iterator[str]:
    """Yield the differences from the expected values after two runs.

    Between the runs traces arrive late.
    """
    with database.connect() as connection:
        load_rows(connection, {"covenant_traces": EARLY.traces_of_source()})
        score(database.profiles_dir, AS_OFS[0])
        rows = [row | {"trace_id": f"late {i}"} for i, row in enumerate(LATE.traces_of_source())]
        insert_rows(connection, "covenant_traces", rows)
        said = run(database, as_of=AS_OFS[1].isoformat()).output
        if NOTE not in said:
            yield f"not the note: {said[-500:]}"
        if "warn_late_traces_need_a_rescore" not in said:
            yield "no warning"
        for query, expected in EXPECTED.items():
            found = connection.execute(query.format(schema=SCHEMA)).fetchall()
            if found != expected:
                yield f"{query}: {found}, not {expected}"


def test_late_data_are_counted_and_logged(database: Database) -> None:
    assert list(wrong(database)) == []
