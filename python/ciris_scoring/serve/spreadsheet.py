"""Rows of the marts as CSV for spreadsheets, and as JSON."""

import csv
import io
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

from ciris_scoring.marts.fleet import Score

_BEGIN_FORMULAS = ("=", "+", "-", "@", "\uff1d", "\uff0b", "\uff0d", "\uff20", "\t", "\r", "\n")
"""First characters of text that spreadsheets take for a formula, in normal and full width."""


def csv_cell(value: object) -> object:
    """Format a cell of a CSV. Text that a spreadsheet would take for a formula gets a leading apostrophe."""
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, Mapping):
        return "; ".join(f"{name}: {csv_cell(one)}" for name, one in value.items())
    if isinstance(value, Sequence) and not isinstance(value, str):
        value = "; ".join(str(csv_cell(one)) for one in value)
    if isinstance(value, str) and value.startswith(_BEGIN_FORMULAS):
        return "'" + value
    return value


def csv_text(columns: Sequence[str], rows: Iterable[Mapping[str, Any]]) -> str:
    """Return rows as CSV with the given columns. Values of other columns are omitted."""
    written = io.StringIO()
    writer = csv.DictWriter(written, columns, extrasaction="ignore")
    writer.writeheader()
    writer.writerows({name: csv_cell(value) for name, value in row.items()} for row in rows)
    return written.getvalue()


def json_text(document: object) -> str:
    """Return a document as JSON. Times are in UTC."""

    def text(value: object) -> str:
        return value.astimezone(UTC).isoformat() if isinstance(value, datetime) else str(value)

    return json.dumps(document, indent=2, default=text, allow_nan=False)


def fleet_row(score: Score, threshold: float | None = None) -> dict[str, Any]:
    """Return a score as a row: the columns of the marts, the verdict, and the names of alerts and red flags.

    :param threshold: see `Score.verdict`.
    """
    verdict = score.verdict(threshold)
    row = asdict(score)
    del row["raised"]
    return row | {
        "verdict": verdict.verdict,
        "verdict_reason": verdict.reason,
        "verdict_threshold": verdict.threshold,
        "probability_at_threshold": verdict.probability,
        "alerts": [one.name for one in score.raised if not one.is_red_flag],
        "red_flags": [one.name for one in score.raised if one.is_red_flag],
    }
