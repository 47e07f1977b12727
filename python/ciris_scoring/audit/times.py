"""Parse the times in batches."""

from datetime import UTC, datetime

from ciris_scoring.audit.reasons import BAD_TIME, MISSING_FIELD, Rejected

FIRST_YEAR, LAST_YEAR = 2000, 2099


def read(value: object, name: str) -> str:
    """Return an ISO 8601 time, converted to UTC, as text.

    :raises Rejected: the value is missing, is not an ISO 8601 time, has no time zone, or is not in the years 2000 to
        2099.
    """
    if value is None:
        raise Rejected(MISSING_FIELD, f"no {name}")
    if not isinstance(value, str):
        raise Rejected(BAD_TIME, f"{name} is not text")
    shown = value[:40]
    try:
        time = datetime.fromisoformat(value.upper())  # RFC 3339 permits lower-case t and z
    except ValueError as error:
        raise Rejected(BAD_TIME, f"{name} {shown!r} is not an ISO 8601 time") from error
    if time.tzinfo is None:
        raise Rejected(BAD_TIME, f"{name} {shown!r} has no zone")
    if not FIRST_YEAR <= time.year <= LAST_YEAR:
        raise Rejected(BAD_TIME, f"{name} {shown!r} is not in the years {FIRST_YEAR} to {LAST_YEAR}")
    return time.astimezone(UTC).isoformat(timespec="microseconds")
