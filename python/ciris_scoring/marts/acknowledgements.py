"""An acknowledgement says that somebody has seen an alert or a red flag of an agent, and until which day it counts as
seen. It does not change a score or a verdict.

Acknowledgements are rows of a table in the schema of the marts. Runs do not change this table. It is also the log: each
acknowledgement and each withdrawal is a row, and the newest row of an agent and a kind is in force.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime

from psycopg import sql
from psycopg.rows import class_row

from ciris_scoring.basics.connection import has_right
from ciris_scoring.marts.marts import Marts

TABLE = "ciris_acknowledgements"
"""Name of the table of acknowledgements, in the schema of the marts."""


@dataclass(frozen=True, slots=True)
class Acknowledgement:
    """A row of the table of acknowledgements: an acknowledgement or a withdrawal."""

    acknowledgement_id: int
    agent_id_hash: str
    kind: str
    """Kind of an alert, or name of a red flag."""
    action: str
    """acknowledge or withdraw."""
    severity: str | None
    """Highest severity when the alert was acknowledged: critical, warning or red_flag. Null for a withdrawal."""
    seen_by: str
    reason: str | None
    until: date | None
    """Last day (UTC) of the acknowledgement. Null for a withdrawal."""
    written_at: datetime
    role_name: str
    """Role of the database session that wrote the row."""

    @property
    def words(self) -> str:
        """Text for people, for example "seen by Ana until 2026-12-01: known outage"."""
        return f"seen by {self.seen_by} until {self.until}: {self.reason}"

    def applies(self, severity: str, since: datetime | None) -> bool:
        """Return whether an alert or red flag counts as seen: it began before the acknowledgement, and did not become
        critical since.

        :param severity: severity at present: critical, warning or red_flag.
        :param since: as-of since which it has been raised, or None if that is unknown.
        """
        is_worse = severity == "critical" and self.severity != "critical"
        return not is_worse and (since is None or since <= self.written_at)


def table(marts: Marts) -> sql.Identifier:
    """Return the quoted name of the table of acknowledgements."""
    return sql.Identifier(marts.relations.marts_schema, TABLE)


def may_read(marts: Marts) -> bool:
    """Return whether the table of acknowledgements exists and the role may read it."""
    return has_right(marts.connection, marts.relations.marts_schema, TABLE)


def log(marts: Marts, agents: Sequence[str] | None = None) -> list[Acknowledgement]:
    """Read acknowledgements and withdrawals of agents (None: of all), the newest first; none if the role may not read
    them."""
    if not may_read(marts):
        return []
    with marts.connection.cursor(row_factory=class_row(Acknowledgement)) as cursor:
        query = sql.SQL(
            "select * from {} where %(agents)s::text[] is null or agent_id_hash = any(%(agents)s)"
            " order by acknowledgement_id desc"
        ).format(table(marts))
        return cursor.execute(query, {"agents": None if agents is None else list(agents)}).fetchall()


def in_force(rows: Iterable[Acknowledgement]) -> dict[tuple[str, str], Acknowledgement]:
    """Return the acknowledgements that are neither withdrawn nor over, by agent hash and kind.

    :param rows: acknowledgements and withdrawals, the newest first.
    """
    newest: dict[tuple[str, str], Acknowledgement] = {}
    for row in rows:
        newest.setdefault((row.agent_id_hash, row.kind), row)
    today = datetime.now(UTC).date()
    return {key: row for key, row in newest.items() if row.until is not None and row.until >= today}


def state(marts: Marts) -> str:
    """Return a text that changes when an acknowledgement or a withdrawal is written, and every day at midnight UTC,
    when acknowledgements end."""
    if not may_read(marts):
        return ""
    query = sql.SQL("select max(acknowledgement_id) from {}").format(table(marts))
    newest = marts.connection.execute(query).fetchone()
    return f" {newest[0]} {datetime.now(UTC).date()}" if newest and newest[0] else ""
