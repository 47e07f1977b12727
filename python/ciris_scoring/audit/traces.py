"""Convert a trace to a row of covenant_traces in the text format of COPY."""

import json
import math
import re
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple

from ciris_scoring.audit import times
from ciris_scoring.audit.fields import Field, trace_fields
from ciris_scoring.audit.reasons import (
    INVALID_TEXT,
    MISSING_FIELD,
    OUT_OF_RANGE,
    TOO_DEEP,
    WRONG_TYPE,
    Rejected,
)
from ciris_scoring.audit.signatures import Verdict
from ciris_scoring.basics.source_schema import SOURCE_TABLES, TRACE_COLUMNS

NULL = "\\N"
REQUIRED = ("trace_id", "agent_id_hash", "timestamp")
DEPTH_LIMIT = 64
VERDICT_COLUMNS = (
    *("trace_schema_version", "trace_level", "rule", "reason", "detail"),
    *("content_sha256", "signed_sha256", "decision_sha256"),
)
"""Columns of the verification result, which follow those of the trace."""

_ESCAPES = str.maketrans({"\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r"})
_NUL = re.compile(r"(?<!\\)(?:\\\\)*\\u0000")
_JSON = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"))


class Row(NamedTuple):
    """A trace in the text format of COPY."""

    line: bytes
    agent_id_hash: str
    verified_by: str | None
    """Id of the key that verified the trace, or None."""


def checked(trace: Any) -> dict[str, Any]:
    """Return the value if it is a trace.

    :raises Rejected: the value is not a trace.
    """
    if not isinstance(trace, dict):
        raise Rejected(WRONG_TYPE, "the event has no trace that is an object")
    components = trace.get("components")
    if components is None:
        raise Rejected(MISSING_FIELD, "no components")
    if not isinstance(components, list) or not all(isinstance(part, dict) for part in components):
        raise Rejected(WRONG_TYPE, "components is not a list of objects")
    return trace


def row(trace: Mapping[str, Any], verdict: Verdict) -> Row:
    """Convert a trace to a row. If it is verified, the values come from the signed components.

    :raises Rejected: a column cannot store the value of the trace.
    """
    found = {str(part.get("event_type")): part.get("data") for part in verdict.components} | {"trace": trace}
    fields = trace_fields()
    cells = [
        _cell(column, _value(found, column, fields[column]))
        if fields[column].places
        else "ft"[verdict.rule is not None]
        for column in TRACE_COLUMNS
    ]
    schema, level = trace.get("trace_schema_version"), trace.get("trace_level")
    cells += [
        _or_null(str(schema)[:40] if schema is not None else None),
        _or_null(
            ascii(level)[:40] if level is not None else None
        ),  # as ASCII, which PostgreSQL can store in any case
        _or_null(verdict.rule),
        _or_null(verdict.reason),
        _or_null(verdict.detail),
        verdict.content_sha256,
        _or_null(verdict.signed_sha256),
        _or_null(verdict.decision_sha256),
    ]
    try:
        line = "\t".join(cells).encode()
    except UnicodeEncodeError as error:
        raise Rejected(INVALID_TEXT, "half of a surrogate pair in a text") from error
    return Row(line, trace["agent_id_hash"], trace["signature_key_id"] if verdict.rule else None)


def _value(found: Mapping[str, Any], column: str, field: Field) -> Any:
    value = next((value for place in field.places if (value := _at(found, place)) is not None), None)
    if value is None and column in REQUIRED:
        raise Rejected(MISSING_FIELD, f"no {field.places[0][-1]}")
    if column == "selected_action" and isinstance(value, str):
        return value.removeprefix("HandlerActionType.")
    if field.zero_needs and value == 0 and value is not False and _at(found, field.zero_needs) is None:
        return None
    return value


def _at(found: Mapping[str, Any], place: tuple[str, ...]) -> Any:
    """Return the value at a path, or None if it does not exist."""
    value: Any = found
    for name in place:
        value = value.get(name) if isinstance(value, dict) else None
    return value


# --- From a value to the text of its column --------------------------------------------------------------------------

Converter = Callable[[Any], str]


def _cell(column: str, value: Any) -> str:
    return NULL if value is None else _CONVERTERS[column](value)


def _or_null(value: str | None) -> str:
    return NULL if value is None else escaped(value)


def escaped(text: str) -> str:
    """Escape a text for COPY.

    :raises Rejected: the text contains the character NUL.
    """
    if "\0" in text:
        raise Rejected(INVALID_TEXT, "the character NUL in a text")
    return text.translate(_ESCAPES)


def _text(column: str, longest: int | None, value: Any) -> str:
    if not isinstance(value, str):
        raise Rejected(WRONG_TYPE, f"{column} is not text")
    if longest is not None and len(value) > longest:
        raise Rejected(OUT_OF_RANGE, f"{column} has {len(value):,} characters, {longest} at most")
    if not value and column in REQUIRED:
        raise Rejected(MISSING_FIELD, f"{column} is empty")
    return escaped(value)


def _boolean(column: str, value: Any) -> str:
    if not isinstance(value, bool):
        raise Rejected(WRONG_TYPE, f"{column} is neither true nor false")
    return "ft"[value]


def _number(column: str, limit: float, value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise Rejected(WRONG_TYPE, f"{column} is not a number")
    if isinstance(value, float) and not math.isfinite(value) or abs(value) >= limit:
        raise Rejected(OUT_OF_RANGE, f"{column} is {str(value)[:40]}, which its column does not hold")
    return repr(value)


def _whole_number(column: str, value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, int):
        raise Rejected(WRONG_TYPE, f"{column} is not a whole number")
    if not -(2**63) <= value < 2**63:
        raise Rejected(OUT_OF_RANGE, f"{column} is {str(value)[:40]}, which its column does not hold")
    return repr(value)


def _time(column: str, value: Any) -> str:
    return times.read(value, "completed_at").isoformat()


def _component(column: str, value: Any) -> str:
    if not isinstance(value, dict):
        raise Rejected(WRONG_TYPE, f"{column} is not an object")
    if _is_deep(value):
        raise Rejected(TOO_DEEP, f"{column} is nested more than {DEPTH_LIMIT} deep")
    try:
        text = _JSON.encode(value)
    except ValueError as error:
        raise Rejected(OUT_OF_RANGE, f"{column} holds a number that is too large") from error
    if "\\u0000" in text and _NUL.search(text):
        raise Rejected(INVALID_TEXT, f"the character NUL in {column}")
    return text.replace("\\", "\\\\")


def _is_deep(value: Any) -> bool:
    level = [value]
    for _ in range(DEPTH_LIMIT):
        level = [
            inner
            for outer in level
            for inner in (outer.values() if isinstance(outer, dict) else outer)
            if isinstance(inner, dict | list)
        ]
        if not level:
            return False
    return True


def _converter(column: str, type_: str) -> Converter:
    """Return the function that converts values to the text of a column, depending on the column's type."""
    name, *arguments = re.findall(r"\w+", type_.removesuffix(" not null"))
    match name:
        case "varchar" | "text":
            return partial(_text, column, int(arguments[0]) if arguments else None)
        case "boolean":
            return partial(_boolean, column)
        case "numeric":
            if not arguments:
                return partial(_number, column, math.inf)
            precision, scale = map(int, arguments)
            return partial(
                _number, column, 10 ** (precision - scale) - 0.5 * 10**-scale
            )  # the smallest number that rounds to too many digits
        case "bigint":
            return partial(_whole_number, column)
        case "timestamptz":
            return partial(_time, column)
        case "jsonb":
            return partial(_component, column)
    raise AssertionError(f"no converter for {type_}")


_CONVERTERS = {
    column: _converter(column, type_) for column, type_ in SOURCE_TABLES["covenant_traces"].columns
}
