"""Traces on their way into the database: a temporary table, emptied at the end of each transaction."""

import uuid
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import psycopg
from psycopg import sql

from ciris_scoring.audit.documents import Batch
from ciris_scoring.audit.reasons import FOREIGN_KEY, Problem
from ciris_scoring.audit.traces import VERDICT_COLUMNS
from ciris_scoring.basics.source_schema import TRACE_COLUMNS
from ciris_scoring.basics.statements import column_list


class Found(NamedTuple):
    """A trace about which only the other traces tell."""

    batch_id: uuid.UUID
    trace_id: str
    reason: str
    detail: str


def problems_of(found: Iterable[Found], batches: Sequence[Batch]) -> list[Problem]:
    """Say in which files they are."""
    origins = {batch.batch_id: batch.origin for batch in batches}
    return [
        Problem(f"{origins[one.batch_id]}, trace {one.trace_id}", one.reason, one.detail) for one in found
    ]


def copy_incoming(connection: psycopg.Connection, traces: sql.Composable, batches: Iterable[Batch]) -> int:
    """Put the rows of batches into the table ``incoming``, with columns as those of the table of traces; count them."""
    columns = column_list(TRACE_COLUMNS)
    query = """
        create temporary table if not exists incoming on commit delete rows as
        select
            {}, ''::text as trace_schema_version, ''::text as rule, ''::text as reason, ''::text as detail,
            ''::text as content_sha256, null::uuid as batch_id, null::bigint as ordinal
        from {}
        with no data
    """
    connection.execute(sql.SQL(query).format(columns, traces))
    names = column_list((*TRACE_COLUMNS, *VERDICT_COLUMNS, "batch_id", "ordinal"))
    n = 0
    with connection.cursor().copy(sql.SQL("copy incoming ({}) from stdin").format(names)) as copy:
        for batch in batches:
            for row in batch.rows:
                n += 1
                copy.write(b"%b\t%b\t%d\n" % (row.line, str(batch.batch_id).encode(), n))
    return n


def refuse_foreign_keys(
    connection: psycopg.Connection,
    batches: Iterable[Batch],
    agents_of_keys: dict[str, str],
    learn: Callable[[set[str]], None] = lambda key_ids: None,
) -> list[Found]:
    """A key signs for one agent, whose trace it verified first. Others' traces by it do not verify.

    :param agents_of_keys: those of the keys met so far; those met first now are added.
    :param learn: gets the keys that are not among them, and adds their agents.
    """
    uses = {
        (row.verified_by, row.agent_id_hash): None
        for batch in batches
        for row in batch.rows
        if row.verified_by is not None
    }
    learn({key_id for key_id, _ in uses} - set(agents_of_keys))
    found: list[Found] = []
    for key_id, agent in uses:
        if agents_of_keys.setdefault(key_id, agent) == agent:
            continue
        detail = f"the key {key_id} signs for the agent {agents_of_keys[key_id]}"
        query = """
            update incoming set signature_verified = false, rule = null, reason = %s, detail = %s
            where signature_key_id = %s and agent_id_hash = %s and rule is not null
            returning batch_id, trace_id
        """
        rows = connection.execute(query, [FOREIGN_KEY, detail, key_id, agent]).fetchall()
        found += [Found(batch_id, trace_id, FOREIGN_KEY, detail) for batch_id, trace_id in rows]
    return found
