"""Convert a trace to a row of covenant_traces."""

import json
import math
import re
import string
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache, partial
from typing import Any, NamedTuple

import yaml

from ciris_scoring.audit import reasons, times
from ciris_scoring.audit.reasons import Rejected
from ciris_scoring.audit.signatures import FORMAT_VERSION, PROFILE, Verdict
from ciris_scoring.database.source_schema import DEPLOYMENT_TYPES, SOURCE_TABLES, TRACE_COLUMNS
from ciris_scoring.paths import own_project

REQUIRED = ("trace_id", "agent_id_hash", "timestamp")
DEPTH_LIMIT = 64
VERDICT_COLUMNS = ("trace_schema_version", "trace_level", "rule", "reason", "detail", "decision_sha256")
"""Columns of the verification result. In a row, they follow the columns of the trace."""

_MODELS = {"ACTION_RESULT": "models_used", "LLM_CALL": "model"}
"""Field with names of language models, by the event type of the JSON component."""
_VERSION = re.compile(r"([0-9]{1,6})[.]([0-9]{1,6})")
_LOWER = str.maketrans(string.ascii_uppercase, string.ascii_lowercase)

_SOURCES = "models/staging/cirislens/_cirislens__sources.yml"
_NUL = re.compile(r"(?<!\\)(?:\\\\)*\\u0000")
_JSON = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"))


class Field(NamedTuple):
    """Paths of a column in a trace. A path begins with `trace` or with the event type of a JSON component."""

    places: tuple[tuple[str, ...], ...]
    """Paths in the order in which they are tried. The first one with a value is used."""
    zero_needs: tuple[str, ...] | None
    """Path that must exist for the value 0 to be a measurement. Without it, 0 is loaded as null."""
    any_attempt: bool
    """Whether true in any JSON component of the event type counts, not only in the last one."""


@cache
def trace_fields() -> Mapping[str, Field]:
    """Return the paths of each column of covenant_traces, from the column metadata that dbt reads, too."""
    [source] = yaml.safe_load((own_project() / _SOURCES).read_text("utf-8"))["sources"]
    [table] = (table for table in source["tables"] if table["name"] == "covenant_traces")
    fields = {}
    for column in table["columns"]:
        meta = column["config"]["meta"]
        needed = meta.get("zero_needs")
        fields[column["name"]] = Field(
            tuple(tuple(place.split(".")) for place in meta.get("places", ())),
            tuple(needed.split(".")) if needed else None,
            meta.get("any_attempt", False),
        )
    return fields


class Row(NamedTuple):
    """A trace as it is loaded."""

    values: tuple[Any, ...]
    """Values of the columns of the trace and of `VERDICT_COLUMNS`. JSON components are texts."""
    agent_id_hash: str
    verified_by: str | None
    """Id of the key that verified the trace, or None."""
    run_kind: str
    """Run kind of the trace: production, mock or test (scoring.md §2)."""


def checked(trace: Any) -> dict[str, Any]:
    """Return the trace of an event, or raise Rejected if the value is not a trace."""
    if not isinstance(trace, dict):
        raise Rejected(reasons.WRONG_TYPE, "the event has no trace, or its trace is not an object")
    components = trace.get("components")
    if components is None:
        raise Rejected(reasons.MISSING_FIELD, "no components")
    if not isinstance(components, list) or not all(isinstance(part, dict) for part in components):
        raise Rejected(reasons.WRONG_TYPE, "components is not a list of objects")
    return trace


def row(trace: Mapping[str, Any], verdict: Verdict) -> Row:
    """Convert a trace to a row, or raise Rejected. If the trace is verified, the values come from its signed JSON
    components."""
    attempts = _attempts(verdict.components)
    found = {kind: of_kind[-1] for kind, of_kind in attempts.items()} | {"trace": trace}
    values: list[Any] = []
    fields = trace_fields()
    for kind, key in (field.places[0] for field in fields.values() if field.any_attempt):
        if any(_at(data, (key,)) is True for data in attempts.get(kind, ())):
            found[kind] = (found[kind] if isinstance(found[kind], dict) else {}) | {key: True}
    for column in TRACE_COLUMNS:
        value = _value(found, column, fields[column]) if fields[column].places else verdict.rule is not None
        values.append(None if value is None else _CONVERTERS[column](value))
    schema, level = trace.get("trace_schema_version"), trace.get("trace_level")
    values += [
        None if schema is None else str(schema)[:40],
        None if level is None else ascii(level)[:40],  # escapes NUL, which PostgreSQL cannot store
        *(verdict.rule, verdict.reason, verdict.detail, verdict.decision_sha256),
    ]
    text = "".join(value for value in values if isinstance(value, str))
    if "\0" in text:
        raise Rejected(reasons.INVALID_TEXT, "the character NUL in a text")
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise Rejected(reasons.INVALID_TEXT, "half of a surrogate pair in a text") from error
    key_id = trace["signature_key_id"] if verdict.rule else None
    return Row(tuple(values), trace["agent_id_hash"], key_id, _run_kind(trace, verdict))


def _run_kind(trace: Mapping[str, Any], verdict: Verdict) -> str:
    """Return the run kind of a trace by its marks. If the trace is verified, only signed marks are read, because
    anybody could add other marks and so hide the trace."""
    parts = [
        (str(part.get("event_type")), data) for part in verdict.components if isinstance(data := part.get("data"), dict)
    ]
    models = [data.get(_MODELS[kind]) for kind, data in parts if kind in _MODELS]
    beside = trace if verdict.beside is None else verdict.beside
    stating: list[Any] = [beside, *(data for _, data in parts)]
    stating += [data.get(PROFILE) for data in stating]

    def words(name: str) -> list[str]:
        texts = (text for part in stating if isinstance(part, dict) for text in _scalars(part.get(name)))
        return [word for text in texts if (word := text.strip().translate(_LOWER))]

    run_kinds = words("run_kind")
    has_types = not any(
        (version := _VERSION.match(word)) and tuple(map(int, version.groups())) >= (2, 8)
        for word in words(FORMAT_VERSION)
    )
    deployments = words("deployment_type") if has_types else []
    if "mock" in [*run_kinds, *deployments] or any(
        "mock" in text.translate(_LOWER) for value in models for text in _scalars(value)
    ):
        return "mock"
    is_test = any(word != "production" for word in run_kinds) or set(deployments) & set(DEPLOYMENT_TYPES["test"])
    return "test" if is_test else "production"


def _scalars(value: Any, levels: int = 3) -> Iterator[str]:
    """Yield the texts, numbers and booleans in a JSON value, as texts, at most so many levels deep."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from _scalars(inner, levels - 1) if levels else ()
    elif value is not None:
        yield json.dumps(value)


def _attempts(components: Sequence[Mapping[str, Any]]) -> dict[str, list[Any]]:
    """Return the data of the JSON components by event type, the last attempt last.

    Attempts are ordered as in the trace store: by attempt_index and time. Of two attempts with the same index
    and time, the lens keeps the first.
    """

    def order(part: Mapping[str, Any]) -> tuple[int, str]:
        index, moment = _at(part, ("data", "attempt_index")), part.get("timestamp")
        try:
            moment = times.read(moment, "timestamp")
        except Rejected:
            moment = ""
        return index if type(index) is int else 0, moment

    attempts: dict[str, list[Any]] = {}
    for part in sorted(reversed(components), key=order):
        attempts.setdefault(str(part.get("event_type")), []).append(part.get("data"))
    return attempts


def _value(found: Mapping[str, Any], column: str, field: Field) -> Any:
    value = next((value for place in field.places if (value := _at(found, place)) not in (None, "")), None)
    if value is None and column in REQUIRED:
        raise Rejected(reasons.MISSING_FIELD, f"no {field.places[0][-1]}")
    if column == "selected_action" and isinstance(value, str):
        return value.removeprefix("HandlerActionType.")
    if field.zero_needs and value == 0 and value is not False and _at(found, field.zero_needs) is None:
        return None
    return value


def _at(found: Mapping[str, Any], place: tuple[str, ...]) -> Any:
    """Return the value at a path of a trace, or None if the path does not exist."""
    value: Any = found
    for name in place:
        value = value.get(name) if isinstance(value, dict) else None
    return value


Converter = Callable[[Any], Any]


def _text(column: str, longest: int | None, value: Any) -> str:
    if not isinstance(value, str):
        raise Rejected(reasons.WRONG_TYPE, f"{column} is not text")
    if longest is not None and len(value) > longest:
        raise Rejected(reasons.OUT_OF_RANGE, f"{column} has {len(value):,} characters, {longest} at most")
    if not value and column in REQUIRED:
        raise Rejected(reasons.MISSING_FIELD, f"{column} is empty")
    return value


def _boolean(column: str, value: Any) -> bool:
    if not isinstance(value, bool):
        raise Rejected(reasons.WRONG_TYPE, f"{column} is neither true nor false")
    return value


def _number(column: str, limit: float, value: Any) -> Any:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise Rejected(reasons.WRONG_TYPE, f"{column} is not a number")
    if isinstance(value, float) and not math.isfinite(value) or abs(value) >= limit:
        raise Rejected(reasons.OUT_OF_RANGE, f"{column} is {str(value)[:40]}, which its column cannot store")
    return value


def _whole_number(column: str, value: Any) -> Any:
    if isinstance(value, bool) or not isinstance(value, int):
        raise Rejected(reasons.WRONG_TYPE, f"{column} is not a whole number")
    if not -(2**63) <= value < 2**63:
        raise Rejected(reasons.OUT_OF_RANGE, f"{column} is {str(value)[:40]}, which its column cannot store")
    return value


def _component(column: str, value: Any) -> str:
    if not isinstance(value, dict):
        raise Rejected(reasons.WRONG_TYPE, f"{column} is not an object")
    if _is_deep(value):
        raise Rejected(reasons.TOO_DEEP, f"{column} is nested more than {DEPTH_LIMIT} levels deep")
    try:
        text = _JSON.encode(value)
    except ValueError as error:
        raise Rejected(reasons.OUT_OF_RANGE, f"{column} contains a number that is too large") from error
    if "\\u0000" in text and _NUL.search(text):
        raise Rejected(reasons.INVALID_TEXT, f"the character NUL in {column}")
    return text


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
            # The smallest number that, rounded to the column's scale, has too many digits for the column.
            too_large = 10 ** (precision - scale) - 0.5 * 10**-scale
            return partial(_number, column, too_large)
        case "bigint":
            return partial(_whole_number, column)
        case "timestamptz":
            return partial(times.read, name="completed_at")
        case "jsonb":
            return partial(_component, column)
    raise AssertionError(f"no converter for {type_}")


_CONVERTERS = {column: _converter(column, type_) for column, type_ in SOURCE_TABLES["covenant_traces"].columns}
