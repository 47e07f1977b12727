"""Documents as JSON, and rows as CSV for spreadsheets."""

import csv
import io
import json
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import UTC, date, datetime
from typing import Any

_FORMULAS = re.compile("^(?=[\\t\\r\\n])|(^|[;\\t\\r\\n])( *)(?=[=+@\uff1d\uff0b\uff0d\uff20-])")
"""Places in a text where spreadsheets may see a formula: before =, +, - or @, in normal or full width, at the start of
the text or after a separator. Spreadsheets of many countries separate cells by semicolons."""


def time_text(moment: datetime) -> str:
    """Return a time in UTC to the microsecond, such as 2026-06-15T00:00:00Z or 2026-06-15T06:30:01.250000Z."""
    return moment.astimezone(UTC).replace(tzinfo=None).isoformat() + "Z"


def json_text(document: object, indent: int | None = 2) -> str:
    """Return a document as JSON."""

    def text(value: object) -> str:
        return time_text(value) if isinstance(value, datetime) else str(value)

    return json.dumps(document, indent=indent, default=text, allow_nan=False)


def csv_cell(value: object) -> object:
    """Format a cell of a CSV. Formulas in a text get a leading apostrophe."""
    if isinstance(value, datetime):
        return time_text(value)
    if isinstance(value, date):
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


def table_text(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return members of documents as CSV. Alerts and red flags become two columns with their names, and a mapping
    becomes a column for each of its keys."""
    divided = {name for row in rows for name, value in row.items() if isinstance(value, Mapping)}
    flat = [dict(_flat(row, divided)) for row in rows]
    return csv_text(list(dict.fromkeys(name for row in flat for name in row)), flat)


def _flat(row: Mapping[str, Any], divided: Collection[str]) -> Iterable[tuple[str, Any]]:
    """Yield the cells of a row. `divided`: names of mappings, which are null in some rows."""
    for name, value in row.items():
        if name == "raised":
            yield "alerts", [one["name"] for one in value if one["severity"] != "red_flag"]
            yield "red_flags", [one["name"] for one in value if one["severity"] == "red_flag"]
        elif name == "other_windows":
            yield name, [f"{one['name']} in {one['window_days']} days" for one in value]
        elif name in divided:
            yield from ((f"{name}_{key}", one) for key, one in (value or {}).items())
        else:
            yield name, value
