"""As-of of a run, and other times that users give (scoring.md §1)."""

from collections.abc import Mapping
from datetime import UTC, date, datetime, time
from typing import Any

from ciris_scoring.errors import InputError, shown

_ALLOWED = "Write an ISO 8601 time, such as 2026-06-15 or 2026-06-15T06:00:00Z."
_OVER = "Write an as-of that is over, or leave it out."


def parse_time(value: Any, name: str) -> datetime:
    """Parse a time and return it in UTC. A time without an offset is UTC.

    :param value: text in ISO 8601, or a date or datetime that YAML has parsed.
    :param name: what the message calls the value, such as ``--as-of``.
    :raises InputError: the value is not a time, or lies outside the years 1 to 9999 in UTC.
    """
    try:
        if isinstance(value, datetime):
            moment = value
        elif isinstance(value, date):
            moment = datetime.combine(value, time())
        else:
            moment = datetime.fromisoformat(str(value).strip())
        return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    except OverflowError as error:
        raise InputError(
            f"{name} is {shown(value)}, which in UTC lies outside the years 0001 to 9999.", _ALLOWED
        ) from error
    except ValueError as error:
        raise InputError(f"{name} is {shown(value)}, which is not a time.", _ALLOWED) from error


def traces_from(variables: Mapping[str, Any]) -> datetime:
    """Return the variable ``ciris_traces_from``, a time from 1970 on. Earlier traces are ignored (scoring.md §2).

    :param variables: variables by their names without the prefix.
    :raises InputError: the variable is not a time, or lies before 1970.
    """
    name = "The variable ciris_traces_from"
    moment = parse_time(variables.get("traces_from"), name)
    if moment.year < 1970:
        raise InputError(
            f"{name} is {text(moment)}, but must be in the year 1970 or later.",
            "Set a later time. The windows of the first score begin long before this time.",
        )
    return moment


def resolve(
    value: Any, period: str, now: datetime, name: str = "--as-of", earliest: datetime | None = None
) -> datetime:
    """Return the as-of of a run: the given time, or now, rounded down to a period end (scoring.md §1).

    :param value: as in :func:`parse_time`; None for now.
    :param period: day or hour.
    :param now: present time, with an offset.
    :param name: what messages call the value.
    :param earliest: time before which no as-of may lie; None for no limit.
    :raises InputError: the value is not a time, or lies in the future or before ``earliest``.
    """
    moment = now.astimezone(UTC) if value is None else parse_time(value, name)
    if moment > now:
        raise InputError(f"{name} is {shown(value)}, which is in the future (now: {text(now)}).", _OVER)
    hour = moment.hour if period == "hour" else 0
    moment = moment.replace(hour=hour, minute=0, second=0, microsecond=0)
    if earliest is not None and moment < earliest:
        called = "The as-of" if value is None else name
        raise InputError(
            f"{called} is {text(moment)}, which is before the variable ciris_traces_from, {text(earliest)}.",
            "Scores do not use earlier traces: give a later time, or set an earlier ciris_traces_from.",
        )
    return moment


def text(moment: datetime) -> str:
    """Return a time in UTC, to the second, in the format for dbt and people: 2026-06-15T06:00:00Z."""
    return moment.astimezone(UTC).replace(tzinfo=None).isoformat(timespec="seconds") + "Z"
