"""Permissions by name: the seed permissions.csv, with a threshold and a window for each (deciding.md)."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from psycopg import sql

from ciris_scoring.database.connection import has_right, table_exists
from ciris_scoring.database.terminal import plural
from ciris_scoring.errors import DatabaseError, NoRight, shown
from ciris_scoring.marts.marts import Marts
from ciris_scoring.marts.parameters import windows
from ciris_scoring.marts.score import Score
from ciris_scoring.marts.verdict import Verdict, verdict

COLUMNS = ("name", "threshold", "window_days")
LONGEST_NAME = 40
"""Largest number of characters of a name (deciding.md), so that it fits into a column of a table."""
MOST_PERMISSIONS = 20
"""Largest number of permissions. Pages show a verdict for each permission."""
REMEDY = "Correct permissions.csv and run `dbt seed`."


@dataclass(frozen=True, slots=True)
class Permission:
    """A permission, which an agent gets if its steady score in a window is likely to reach a threshold."""

    name: str | None
    """Name in the seed, or None if no permission of the seed has this threshold and window."""
    threshold: float | None
    """Steady score that the permission requires, or None for the threshold of the published verdicts."""
    window_days: int


def words(name: str | None, threshold: float, window_days: int) -> str:
    """Return a permission in words, for example "Standard operation (0.6 in 7 days)", or "0.6 in 7 days"."""
    said = f"{threshold:g} in {plural(window_days, 'day')}"
    return f"{name} ({said})" if name else said


def permissions(marts: Marts) -> list[Permission]:
    """Read the permissions of the seed in the order of window, threshold and name; none if there is no seed.

    :raises DatabaseError: a row is wrong, or the role may not read the seed.
    """
    place = marts.relations.permissions
    if place is None or not table_exists(marts.connection, *place):
        return []
    if not has_right(marts.connection, place):
        raise NoRight(
            f"The role has no right to read {place}, which names the permissions.",
            f"Let its owner grant it: grant usage on schema {place.schema} and grant select on {place}.",
        )
    query = sql.SQL("select name::text, threshold::text, window_days::text from {}")
    rows = marts.connection.execute(query.format(sql.Identifier(*place))).fetchall()
    found = _checked(rows, [window.window_days for window in windows(marts)])
    return sorted(found, key=lambda one: (one.window_days, one.threshold, one.name))


def published_permission(marts: Marts, window_days: int) -> Permission:
    """Return the permission without a name that the newest published verdicts are about."""
    query = "select verdict_threshold from {fct_verdicts} order by as_of desc limit 1"
    found = marts.dicts(query, {})
    return Permission(None, found[0]["verdict_threshold"] if found else None, window_days)


def threshold_warning(found: Sequence[Permission], threshold: float | None) -> str | None:
    """Return a warning if the threshold of the published verdicts is not that of the first permission, else None."""
    if not found or threshold in (None, found[0].threshold):
        return None
    first = found[0]
    return (
        f"The verdicts of fct_verdicts have the threshold {threshold:g} (ciris_verdict_threshold), but the first "
        f"permission, {words(first.name, first.threshold or 0, first.window_days)}, has another. Set the variable to "
        f"{first.threshold:g}, or change permissions.csv."
    )


def threshold_remarks(marts: Marts, threshold: float | None) -> list[str]:
    """Return a remark if the threshold of the next verdicts is not that of the first permission."""
    warning = None if marts.missing() else threshold_warning(permissions(marts), threshold)
    return [] if warning is None else [f"Warning: {warning}"]


def _checked(rows: Sequence[Sequence[str | None]], published: Sequence[int]) -> list[Permission]:
    """Check the rows of the seed, and return their permissions. `published`: published windows in days."""
    found: dict[str, Permission] = {}
    if len(rows) > MOST_PERMISSIONS:
        raise DatabaseError(f"permissions.csv has {len(rows)} rows, more than {MOST_PERMISSIONS}.", REMEDY)
    for number, (name, threshold, window_days) in enumerate(rows, 1):
        where = f"Row {number} of permissions.csv"
        if not name or name != name.strip() or not name.isprintable() or len(name) > LONGEST_NAME:
            must = f"must be 1 to {LONGEST_NAME} printable characters without spaces around them"
            raise DatabaseError(f"{where} has the name {shown(name)}, which {must}.", REMEDY)
        if name in found:
            raise DatabaseError(f"{where} has the name {shown(name)} of an earlier row.", REMEDY)
        where += f", {shown(name)},"
        value = _number(threshold)
        if value is None or not 0 <= value <= 1:
            raise DatabaseError(
                f"{where} has the threshold {shown(threshold)}, which must be a number in [0, 1].", REMEDY
            )
        days = _number(window_days)
        if days is None or days not in published:
            raise DatabaseError(
                f"{where} has the window_days {shown(window_days)}, which is not a published window; there are "
                f"{' and '.join(map(str, published))}.",
                REMEDY,
            )
        found[name] = Permission(name, value, int(days))
    return list(found.values())


def _number(text: str | None) -> float | None:
    try:
        return None if text is None else float(text)
    except ValueError:
        return None


def meant(
    found: Sequence[Permission], published: Sequence[int], threshold: float | None, window_days: int | None
) -> Permission:
    """Return the permission with a threshold and a window.

    :param found: permissions of the seed.
    :param published: lengths of the published windows in days, in ascending order.
    :param threshold: None for the first permission of the seed with this window. If the seed does not have one, the
        result has the threshold None, which means the threshold of the published verdicts.
    :param window_days: None for the window of the first permission of the seed. If the seed is missing or a
        threshold is given, None means the shortest window.
    """
    if window_days is None:
        window_days = found[0].window_days if found and threshold is None else published[0]
    for permission in found:
        if permission.window_days == window_days and threshold in (None, permission.threshold):
            return permission
    return Permission(None, threshold, window_days)


def state(marts: Marts) -> str:
    """Return a text that changes with the seed; empty if the seed does not exist."""
    try:
        found = permissions(marts)
    except DatabaseError as error:
        return f" {error.message}"
    return f" {found}" if found else ""


def verdicts(
    found: Sequence[Permission], scores: Mapping[int, Sequence[Score]]
) -> Mapping[str, list[tuple[Permission, Verdict]]]:
    """Return the verdict for each permission, by agent hash, from the scores of one as-of by window."""
    judged: dict[str, list[tuple[Permission, Verdict]]] = defaultdict(list)
    for permission in found:
        for score in scores.get(permission.window_days, ()):
            judged[score.agent_id_hash].append((permission, verdict(score, permission.threshold)))
    return judged
