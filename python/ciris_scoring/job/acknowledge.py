"""Write acknowledgements of alerts and red flags (marts/acknowledgements.py)."""

from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, date, datetime

import psycopg
from psycopg import sql

from ciris_scoring.basics.connection import connect, one_row
from ciris_scoring.basics.dbt import read_relations
from ciris_scoring.basics.errors import DatabaseError, InputError, shown
from ciris_scoring.basics.project import Project
from ciris_scoring.basics.terminal import aligned, printable
from ciris_scoring.marts import acknowledgements, fleet
from ciris_scoring.marts.acknowledgements import TABLE, Acknowledgement
from ciris_scoring.marts.marts import Marts
from ciris_scoring.marts.parameters import windows
from ciris_scoring.marts.verdict import Raised, raised
from ciris_scoring.serve.explain import find_agent
from ciris_scoring.serve.spreadsheet import json_text

LONGEST_TEXT = 500
"""Maximum length of a name or a reason, in characters."""
# To write rows, a role needs only the right `insert`. The identity column and the defaults need no other right.
CREATE = """
create table {table} (
    acknowledgement_id bigint generated always as identity primary key,
    agent_id_hash text not null,
    kind text not null,
    action text not null check (action in ('acknowledge', 'withdraw')),
    severity text check (severity in ('critical', 'warning', 'red_flag')),
    seen_by text not null,
    reason text,
    until date,
    written_at timestamptz not null default clock_timestamp(),
    role_name text not null default session_user,
    check (action = 'withdraw' or num_nulls(severity, reason, until) = 0)
);
comment on table {table} is
'Acknowledgements of alerts and red flags, and their withdrawals. The newest row of an agent and a kind is in force.'
"""
# Roles that may read the alerts. They get the right to read the acknowledgements.
READERS = """
select distinct case rights.grantee when 0 then 'public' else quote_ident(rights.grantee::regrole::text) end
from pg_class as c
cross join aclexplode(c.relacl) as rights
where c.oid = to_regclass(%s) and rights.privilege_type = 'SELECT' and rights.grantee <> c.relowner
"""
OWNERS = """
select
    (select relowner::regrole::text from pg_class where oid = to_regclass(%(marts)s)),
    (select relowner::regrole::text from pg_class where oid = to_regclass(%(table)s)),
    quote_ident(current_user)
"""


def read(project: Project) -> tuple[list[Acknowledgement], list[Acknowledgement]]:
    """Return the acknowledgements in force, and all rows of the log, the newest first."""
    with connect(project) as connection:
        rows = acknowledgements.log(Marts(connection, read_relations(project)))
    return list(acknowledgements.in_force(rows).values()), rows


def write(
    project: Project, agent: str, kind: str, by: str, reason: str | None = None, until: str | None = None
) -> tuple[Acknowledgement, Acknowledgement | None]:
    """Acknowledge an alert or red flag that is raised now. Without a reason and a day, withdraw its acknowledgement.

    :returns: the new row, and the acknowledgement that was in force before it.
    :raises InputError: a value is wrong, the alert is not raised, or there is nothing to withdraw.
    :raises DatabaseError: the role may not write acknowledgements.
    """
    _check_text("--by", by)
    day = None if until is None else _day(until)
    if reason is not None:
        _check_text("--reason", reason)
    with connect(project, writes=True) as connection, connection.transaction():
        marts = Marts(connection, read_relations(project))
        marts.require()
        agent_id_hash, _ = find_agent(marts, agent)
        connection.execute(
            "select pg_advisory_xact_lock(hashtextextended(%s, 0))", [f"{TABLE} {project.schema}"]
        )
        _prepare(connection, marts)
        before = acknowledgements.in_force(acknowledgements.log(marts, [agent_id_hash])).get(
            (agent_id_hash, kind)
        )
        if reason is None and before is None:
            raise InputError(
                f"No acknowledgement of {shown(kind)} of agent {agent_id_hash} is in force.",
                "`ciris-scoring acknowledge` lists the acknowledgements in force.",
            )
        severity = None if reason is None else _severity(marts, agent_id_hash, kind)
        action = "withdraw" if reason is None else "acknowledge"
        connection.execute(
            sql.SQL(
                "insert into {} (agent_id_hash, kind, action, severity, seen_by, reason, until)"
                " values (%s, %s, %s, %s, %s, %s, %s)"
            ).format(acknowledgements.table(marts)),
            [agent_id_hash, kind, action, severity, by, reason, day],
        )
        return acknowledgements.log(marts, [agent_id_hash])[0], before


def as_json(in_force: Sequence[Acknowledgement], rows: Sequence[Acknowledgement]) -> str:
    """Return acknowledgements and log as a JSON object."""
    return json_text({"acknowledgements": list(map(asdict, in_force)), "log": list(map(asdict, rows))})


def page(in_force: Sequence[Acknowledgement]) -> str:
    """Return the acknowledgements in force as a table."""
    if not in_force:
        return "Nothing is acknowledged."
    rows = ((one.agent_id_hash, one.kind, one.seen_by, str(one.until), one.reason or "") for one in in_force)
    cells = [list(map(printable, row)) for row in rows]
    return "\n".join(aligned(("agent", "kind", "seen by", "until", "reason"), cells))


def _check_text(option: str, text: str) -> None:
    is_text = text.isprintable() and len(text.strip()) > 0 and len(text) <= LONGEST_TEXT
    if not is_text:
        raise InputError(
            f"{option} is {shown(text[:LONGEST_TEXT])}.", f"Write 1 to {LONGEST_TEXT} characters on one line."
        )


def _day(text: str) -> date:
    today = datetime.now(UTC).date()
    try:
        day = date.fromisoformat(text)
    except ValueError as error:
        raise InputError(
            f"--until is {shown(text)}, which is not a day.", "Write a day: 2026-12-31."
        ) from error
    if day < today:
        raise InputError(
            f"--until is {day}, which is in the past.", f"Write today ({today}, UTC) or a later day."
        )
    return day


def _severity(marts: Marts, agent_id_hash: str, kind: str) -> str:
    """Return the highest severity with which an alert or red flag is raised now, in any window."""
    newest = fleet.newest(marts)
    found: list[Raised] = [
        one
        for window in windows(marts)
        if newest
        for one in raised(marts, window.window_days, newest.as_of, agents=[agent_id_hash])[agent_id_hash]
    ]
    severities = sorted(one.severity for one in found if one.name == kind)
    if not severities:
        kinds = ", ".join(dict.fromkeys(one.name for one in found))
        raise InputError(
            f"Agent {agent_id_hash} has no alert or red flag {shown(kind)} now.",
            f"Acknowledge one of these: {kinds}."
            if kinds
            else "The agent has no alert and no red flag, so there is nothing to acknowledge.",
        )
    return severities[0]


def _prepare(connection: psycopg.Connection, marts: Marts) -> None:
    """Create the table if it does not exist, and let the readers of the alerts read it.

    The table must belong to the owner of the marts: PostgreSQL would run triggers of another owner as this role.
    """
    table = acknowledgements.table(marts)
    names = {"marts": marts.relations["fct_capacity_alerts"], "table": table}
    quoted = {name: identifier.as_string(connection) for name, identifier in names.items()}
    owner, of_table, me = one_row(connection.execute(OWNERS, quoted))
    if of_table is not None and of_table != owner:
        raise DatabaseError(
            f"{quoted['table']} does not belong to {owner}, the owner of the marts.",
            f"As a superuser: alter table {quoted['table']} owner to {owner};",
        )
    if of_table is None and me != owner:
        raise DatabaseError(
            f"There is no {quoted['table']} yet, and only {owner}, the owner of the marts, may create it.",
            f"Acknowledge an alert once as {owner}, then run: grant select, insert on {quoted['table']} to {me};",
        )
    if of_table is None:
        connection.execute(sql.SQL(CREATE).format(table=table))
    if me == owner:
        for (role,) in connection.execute(READERS, [quoted["marts"]]).fetchall():
            connection.execute(sql.SQL("grant select on {} to {}").format(table, sql.SQL(role)))
