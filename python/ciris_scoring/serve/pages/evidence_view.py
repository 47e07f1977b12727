"""The traces behind a component, as the page and the CSV show them."""

import csv
import io
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from datetime import datetime

from ciris_scoring.reading.evidence import RULES, Rule, Trace, count_evidence, described, read_evidence
from ciris_scoring.reading.fleet import Score
from ciris_scoring.reading.marts import Marts
from ciris_scoring.serve.spreadsheet import csv_cell

AT_ONCE = 10_000
"""Traces that are read at once for a CSV."""
COLUMNS = (
    *("traced_at", "trace_id", "selected_action", "audit_sequence_number", "recorded", "counts_because"),
    *("lowered_by", "unit"),
)


@dataclass(frozen=True)
class Shown:
    """A trace that lowered a component."""

    trace: Trace
    part: str

    @property
    def because(self) -> str:
        """Why it counts."""
        return described(asdict(self.trace), self.part)

    @property
    def recorded(self) -> str:
        """What it recorded that the component looks at."""
        trace = self.trace
        if self.part == "d_identity":
            return f"{trace.previous_agent_name} → {trace.agent_name}"
        if self.part == "k_contradiction":
            return "action_was_overridden: true"
        if self.part == "i_chain":
            before = trace.previous_audit_sequence_number
            number = "no number" if trace.audit_sequence_number is None else f"{trace.audit_sequence_number}"
            after = "" if before is None else f" after {before}"
            return (
                f"{number}{after}; signature {'verified' if trace.is_signature_verified else 'not verified'}, "
                f"key {'registered' if trace.is_key_registered else 'not registered'}"
            )
        if self.part == "i_coverage":
            without = f", without {', '.join(trace.missing_fields)}" if trace.missing_fields else ""
            return f"{trace.n_fields_present} of 10 fields{without}"
        if self.part == "i_replay":
            return f"does not follow: {', '.join(trace.failed_comparisons)}"
        if self.part == "u_unsafe":
            return (
                f"entropy {trace.entropy_level}, action {'succeeded' if trace.action_success else 'failed'}"
            )
        if self.part == "s_score":
            return f"signature {'verified' if trace.is_signature_verified else 'not verified'}"
        return f"failure mode {trace.failure_mode}"


@dataclass(frozen=True)
class Evidence:
    """What lowered a component of a score."""

    marts: Marts
    score: Score
    component: str
    part: str
    """Of RULES; a component may be made of another one's traces."""

    @property
    def rule(self) -> Rule:
        """How single traces lower it."""
        return RULES[self.part]

    @property
    def _key(self) -> tuple[Marts, str, str, datetime, datetime]:
        return self.marts, self.part, self.score.agent_id_hash, self.score.as_of, self.score.window_start

    def count(self) -> int:
        """How many traces there are."""
        return count_evidence(*self._key)

    def page(self, after: str | None, limit: int) -> tuple[list[Shown], bool]:
        """Read a page of them, the newest first, and whether there are more.

        :param after: key of the last trace of the page before.
        """
        found = read_evidence(*self._key, after=after, limit=limit + 1)
        return [Shown(trace, self.part) for trace in found[:limit]], len(found) > limit

    def as_csv(self) -> str:
        """Write all of them."""
        written = io.StringIO()
        writer = csv.writer(written)
        writer.writerow(COLUMNS)
        after, more = None, True
        while more:
            traces, more = self.page(after, AT_ONCE)
            writer.writerows(self._rows(traces))
            after = traces[-1].trace.key if traces else None
        return written.getvalue()

    def _rows(self, traces: Iterable[Shown]) -> Iterable[list[object]]:
        for shown in traces:
            trace = shown.trace
            cells = (trace.traced_at, trace.trace_id, trace.selected_action, trace.audit_sequence_number)
            yield [
                csv_cell(value)
                for value in (*cells, shown.recorded, shown.because, trace.lowered_by, self.rule.unit)
            ]
