"""Allowed values of dbt variables and scoring parameters. The macros check them by this module."""

import difflib
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from datetime import datetime
from typing import Any

from ciris_scoring.database.as_of import parse_time, traces_from
from ciris_scoring.database.relations import PACKAGE
from ciris_scoring.database.source_schema import RUN_KINDS, SOURCE_TABLES, TABLES_OF_SHAPE
from ciris_scoring.errors import shown
from ciris_scoring.names import PERIODS

PREFIX = "ciris_"
"""Prefix of this project's variables, which distinguishes them from those of other projects."""
PARSED_VARIABLES = frozenset(
    f"{PREFIX}{name}" for name in ("source_schema", "time_spine", *(f"{name}_table" for name in SOURCE_TABLES))
)
"""Variables that change how dbt parses the project. All other variables only change the SQL of the project."""
SET_BY_US = frozenset(f"{PREFIX}{name}" for name in ("run_record",))
"""Variables that only the command line sets."""

Check = Callable[[Any], bool]
WEIGHTS = ("weight_c", "weight_i_int", "weight_r", "weight_i_inc", "weight_s")
"""Scoring parameters that sum to 1."""
OPTIONAL = ("source", "lookback_periods")
"""Variables that may be null although CHECKS has a check for them."""
KINDS: Mapping[str, tuple[Any, str]] = {
    "boolean": (bool, "true or false"),
    "text": (str, "text, in quotes"),
    "integer": (int, "a whole number"),
    "number": (int | float, "a number"),
}
"""Python type and description of each kind of scoring parameter."""


def number(minimum: float, maximum: float, kind: Any = int | float) -> Check:
    """Return a check that a value is a number from minimum to maximum."""
    return lambda value: isinstance(value, kind) and not isinstance(value, bool) and bool(minimum <= value <= maximum)


def size(value: Any) -> bool:
    """Return whether a value is text in the range of PostgreSQL's maintenance_work_mem: 1MB to 2147483647kB."""
    kilobytes = {"kB": 1, "MB": 1024, "GB": 1024**2}
    found = re.fullmatch("([1-9][0-9]{0,9})(kB|MB|GB)", value) if isinstance(value, str) else None
    return found is not None and 1024 <= int(found[1]) * kilobytes[found[2]] <= 2**31 - 1


def is_name(value: Any) -> bool:
    """Return whether a value is a name that PostgreSQL keeps whole (63 bytes or less), and that dbt and psycopg can
    quote."""
    unfit = "[\"'%\\0\ud800-\udfff]"
    fits = isinstance(value, str) and value == value.strip() and not re.search(unfit, value)
    return fits and 0 < len(value.encode()) <= 63


def choice(*choices: str) -> tuple[Check, str]:
    """Return a check that a value is one of several texts, and the texts in words, such as "day or hour"."""
    return lambda value: value in choices, " or ".join(choices)


BOOLEAN = (lambda value: isinstance(value, bool), "true or false, without quotes")
PERIOD_COUNT = (number(0, 100_000, int), "a whole number of periods from 0 to 100000, without quotes")
NAME = (
    is_name,
    "a name of 1 to 63 bytes without quotes, per cent signs and outer spaces (in quotes if it looks like a number)",
)
# Schemas of PostgreSQL itself are refused: a superuser could write tables into some of them, but a dump would not
# contain these tables.
SCHEMA: tuple[Check, str] = (
    lambda value: is_name(value) and not re.fullmatch("pg_.*|information_schema", value),
    f"{NAME[1]}, and not a schema of PostgreSQL itself",
)
PROBABILITY = (
    lambda value: number(0, 1)(value) and 0 < value < 1,
    "a number between 0 and 1, such as 0.8. Correct it in dbt_project.yml or in --vars",
)
CHECKS: Mapping[str, tuple[Check, str]] = {
    "source": choice(*TABLES_OF_SHAPE),
    "source_schema": SCHEMA,
    **{f"{name}_table": NAME for name in SOURCE_TABLES},
    "scoring_period": choice(*PERIODS),
    "scored_run_kinds": (
        lambda value: isinstance(value, list) and bool(value) and all(kind in RUN_KINDS for kind in value),
        "a list of one or more of production, mock and test, such as [production]",
    ),
    "verdict_threshold": (
        number(0, 1),
        "a number in [0, 1], such as 0.6. Correct it in dbt_project.yml or in --vars",
    ),
    "grant_probability": PROBABILITY,
    "withhold_probability": PROBABILITY,
    "lookback_periods": PERIOD_COUNT,
    "late_detection_periods": PERIOD_COUNT,
    "vanished_share": (number(0, 1), "a number in [0, 1], such as 0.2"),
    "allow_rescoring": BOOLEAN,
    "lock_wait_seconds": (number(0, 86400), "a number of seconds from 0 to 86400"),
    "scoring_work_mem": (size, "a size from 1MB to 2047GB, such as 256MB"),
    "distribution": choice("none", "citus"),
    "time_spine": BOOLEAN,
}
"""Check of a variable's value, and the allowed values in words, as in "must be day or hour"."""
VARIABLES = (
    *CHECKS,
    *("as_of", "rescore_from", "traces_from", "scoring_parameters"),
    *(name.removeprefix(PREFIX) for name in sorted(SET_BY_US)),
)
"""All variables of the project, without their prefix."""


def variable_fault(name: str, value: Any) -> str | None:
    """Return the fault of a variable's value, or None.

    :param name: name without the prefix.
    """
    given = f"Variable {PREFIX}{name} is {shown(value)}, but"
    if f"{PREFIX}{name}" in SET_BY_US:
        if value is None or (isinstance(value, Mapping) and value.keys() == {"id", "command"}):
            return None
        return f"{given} it is set by ciris-scoring alone. Leave it out."
    check, allowed = CHECKS.get(name, (lambda _: True, ""))
    if check(value) or (value is None and name in OPTIONAL):
        return None
    return f"{given} must be {allowed}{'; or leave it out' if name in OPTIONAL else ''}."


def time_of(name: str, value: Any) -> datetime:
    """Return the time of the variable as_of, rescore_from or traces_from, in UTC.

    :raises InputError: the value is not a time; for traces_from also if it lies before 1970.
    """
    return traces_from({name: value}) if name == "traces_from" else parse_time(value, f"Variable {PREFIX}{name}")


def faults(config: Any, settings: Mapping[str, Any], definitions: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    """Yield the faults of all variables and scoring parameters.

    :param config: dbt's RuntimeConfig of the root project.
    :param settings: value of each variable, by its name without the prefix.
    :param definitions: result of the macro scoring_parameter_definitions.
    """
    found = [variable_fault(name, value) for name, value in settings.items()]
    yield from filter(None, found)
    withhold, grant = settings["withhold_probability"], settings["grant_probability"]
    if not any(found) and withhold > grant:
        yield (
            f"Variable ciris_withhold_probability is {withhold}, but must be at most ciris_grant_probability "
            f"({grant}). Correct one of them in dbt_project.yml or in --vars."
        )
    for name, nearest in unknown_variables(config, [f"{PREFIX}{name}" for name in VARIABLES]).items():
        meant = f"did you mean {nearest}?" if nearest else "docs/configuration.md lists them."
        yield (
            f"There is no variable {name}; {meant} Correct it, or take it out; a variable of another project belongs "
            "below that project's name under vars."
        )
    given = settings["scoring_parameters"]
    if given is None or isinstance(given, Mapping):
        for fault in _parameter_faults(given or {}, definitions):
            yield f"{fault} Correct the variable ciris_scoring_parameters."
    else:
        yield f"Variable ciris_scoring_parameters is {shown(given)}, but must be a dictionary, such as {{lambda_c: 5}}."


def _parameter_faults(given: Mapping[str, Any], definitions: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    known = ", ".join(sorted(definitions))
    faults = [
        f"Unknown scoring parameter {shown(name)} (value {shown(value)}). Known are: {known}."
        for name, value in given.items()
        if name not in definitions
    ]
    values = {name: given.get(name, definition["default"]) for name, definition in definitions.items()}
    for name, definition in definitions.items():
        kind, allowed = KINDS[definition["kind"]]
        fits = isinstance(values[name], kind)
        if "minimum" in definition:
            fits = number(definition["minimum"], definition["maximum"], kind)(values[name])
            allowed += f" in [{definition['minimum']}, {definition['maximum']}]"
        if not fits:
            faults.append(f"Scoring parameter {name} is {shown(values[name])}, but must be {allowed}.")
    yield from faults
    total = sum(values[name] for name in WEIGHTS) if not faults else 1
    if abs(total - 1) > 1e-9:
        yield f"The weights {', '.join(WEIGHTS)} sum to {total}, but must sum to 1 (tolerance 1e-9)."


def unknown_variables(config: Any, known: Collection[str]) -> dict[str, str | None]:
    """Return given variables that look like the package's but do not exist, each with the most similar known name."""
    variables = config.vars.to_dict()
    scoped = variables.get(PACKAGE)
    given = [*variables, *(scoped if isinstance(scoped, Mapping) else ()), *config.cli_vars]
    return {
        name: next(iter(difflib.get_close_matches(_as_ours(name), known, n=1)), None)
        for name in dict.fromkeys(map(str, given))
        if name not in known and _as_ours(name).startswith("ciris_") and name != PACKAGE
    }


def _as_ours(name: str) -> str:
    return name.strip().lower().replace("-", "_")
