"""The as-of time of a run (scoring.md, section 1)."""

from datetime import UTC, date, datetime, time
from typing import Any

from ciris_scoring.errors import InputError

PERIODS = ("day", "hour")
_ALLOWED = "Write an ISO 8601 time that is not in the future, such as 2026-06-15 or 2026-06-15T06:00:00Z."


def parse_time(value: Any, name: str) -> datetime:
    """Read a time; one without an offset is taken as UTC.

    :param value: text in ISO 8601, or what YAML has made of it, a date or a datetime.
    :param name: what to call it in messages.
    :raises InputError: it is something else.
    """
    try:
        if isinstance(value, datetime):
            moment = value
        elif isinstance(value, date):
            moment = datetime.combine(value, time())
        else:
            moment = datetime.fromisoformat(str(value).strip())
        return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    except (ValueError, OverflowError) as error:
        raise InputError(f"{name} is {str(value)!r}, which is not a time.", _ALLOWED) from error


def check_period(period: Any) -> str:
    """Return the scoring period if it is one.

    :raises InputError: it is neither day nor hour.
    """
    if period not in PERIODS:
        raise InputError(
            f"The variable scoring_period is {period!r}; allowed are day and hour.",
            "Correct it in dbt_project.yml or in --vars.",
        )
    return period


def resolve(value: Any, period: str, now: datetime, name: str = "--as-of") -> datetime:
    """Return the as-of of a run: the given time, or now, cut down to a period end.

    :param value: see :func:`parse_time`; None for now.
    :param period: day or hour.
    :param now: an aware time.
    :raises InputError: the value is not a time, or lies in the future.
    """
    moment = now.astimezone(UTC) if value is None else parse_time(value, name)
    if moment > now:
        raise InputError(f"{name} is {str(value)!r}, which is in the future (now: {text(now)}).", _ALLOWED)
    hour = moment.hour if check_period(period) == "hour" else 0
    return moment.replace(hour=hour, minute=0, second=0, microsecond=0)


def text(moment: datetime) -> str:
    """Write a time in UTC, to the second, as dbt and people get it: 2026-06-15T06:00:00Z."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
