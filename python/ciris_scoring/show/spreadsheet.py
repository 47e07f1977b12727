"""Rows of the marts as CSV for spreadsheets, and as JSON."""

import csv
import io
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

from ciris_scoring.marts.score import Score
from ciris_scoring.marts.verdict import verdict

_FORMULAS = re.compile("^(?=[\\t\\r\\n])|(^|[;\\t\\r\\n])( *)(?=[=+@\uff1d\uff0b\uff0d\uff20-])")
"""Places in a text where spreadsheets may see a formula: before =, +, - or @, in normal or full width, at the start of
the text or after a separator. Spreadsheets of many countries separate cells by semicolons."""


def csv_cell(value: object) -> object:
    """Format a cell of a CSV. Formulas in a text get a leading apostrophe."""
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, Sequence) and not isinstance(value, str):
        value = "; ".join(str(csv_cell(one)) for one in value)
    return _FORMULAS.sub(r"\1\2'", value) if isinstance(value, str) else value


def csv_text(columns: Sequence[str], rows: Iterable[Mapping[str, Any]]) -> str:
    """Return rows as CSV with the given columns, every text in quotes. Values of other columns are omitted."""
    written = io.StringIO()
    writer = csv.DictWriter(written, columns, extrasaction="ignore", quoting=csv.QUOTE_NONNUMERIC)
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

    :param threshold: see `verdict`.
    """
    found = verdict(score, threshold)
    row = asdict(score)
    del row["raised"]
    return row | {
        "verdict": found.verdict,
        "verdict_reason": found.reason,
        "verdict_threshold": found.threshold,
        "probability_at_threshold": found.probability,
        "alerts": [one.name for one in score.raised if not one.is_red_flag],
        "red_flags": [one.name for one in score.raised if one.is_red_flag],
    }
