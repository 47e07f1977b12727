"""Traces on their way into the database: a temporary table, emptied at the end of each transaction."""

import uuid
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import psycopg
from psycopg import sql

from ciris_scoring.audit.documents import Batch
from ciris_scoring.audit.reasons import FOREIGN_KEY, Problem
from ciris_scoring.audit.traces import VERDICT_COLUMNS, escaped
from ciris_scoring.basics.source_schema import TRACE_COLUMNS
from ciris_scoring.basics.statements import column_list

LOADED_KEY = ("trace_id", "timestamp", "agent_id_hash")
"""Key of a loaded trace. It includes the agent, so that no agent takes the place of another one's trace."""


class Found(NamedTuple):
    """A trace about which only the other traces tell."""

    batch_id: uuid.UUID
    origin: str
    trace_id: str
    trace_schema_version: str | None
    rule: str | None
    """The rule that verified it, until the others were looked at."""
    reason: str
    detail: str

    @property
    def problem(self) -> Problem:
        """The same, for the report."""
        return Problem(f"{self.origin}, trace {self.trace_id}", self.reason, self.detail)


def copy_incoming(
    connection: psycopg.Connection, traces: sql.Composable, batches: Iterable[Batch], n_before: int = 0
) -> int:
    """Put the rows of batches into the table ``incoming``, with columns as those of the table of traces.

    :param n_before: how many rows it has.
    :returns: how many it has now.
    """
    columns = column_list(TRACE_COLUMNS)
    texts = sql.SQL(", ").join(
        sql.SQL("''::text as {}").format(sql.Identifier(name)) for name in (*VERDICT_COLUMNS, "origin")
    )
    query = """
        create temporary table if not exists incoming on commit delete rows as
        select {}, {}, null::uuid as batch_id, null::bigint as ordinal
        from {}
        with no data
    """
    connection.execute(sql.SQL(query).format(columns, texts, traces))
    names = column_list((*TRACE_COLUMNS, *VERDICT_COLUMNS, "origin", "batch_id", "ordinal"))
    n = n_before
    with connection.cursor().copy(sql.SQL("copy incoming ({}) from stdin").format(names)) as copy:
        for batch in batches:
            origin = escaped(batch.origin).encode("utf-8", "backslashreplace")
            for row in batch.rows:
                n += 1
                copy.write(b"%b\t%b\t%b\t%d\n" % (row.line, origin, str(batch.batch_id).encode(), n))
    return n


def key_uses(batches: Sequence[Batch]) -> dict[tuple[str, str], None]:
    """Keys that verified traces, and the agents that these traces name, in the order in which they came."""
    return {
        (row.verified_by, row.agent_id_hash): None
        for batch in batches
        for row in batch.rows
        if row.verified_by is not None
    }


def refuse_foreign_keys(
    connection: psycopg.Connection, uses: Iterable[tuple[str, str]], agents_of_keys: Mapping[str, str]
) -> list[Found]:
    """Refuse traces of other agents than the one that a key signs for."""
    foreign = [(key_id, agent) for key_id, agent in uses if agents_of_keys[key_id] != agent]
    if not foreign:
        return []
    query = """
        with verified as (
            select ordinal, rule
            from incoming
            where rule is not null
        )

        update incoming
        set
            signature_verified = false, rule = null, reason = %s,
            detail = format('the key %%s signs for the agent %%s', uses.key_id, uses.right_agent)
        from unnest(%s::text[], %s::text[], %s::text[]) as uses (key_id, agent, right_agent)
        inner join verified on true
        where
            incoming.signature_key_id = uses.key_id and incoming.agent_id_hash = uses.agent
            and verified.ordinal = incoming.ordinal
        returning
            incoming.batch_id, incoming.origin, incoming.trace_id, incoming.trace_schema_version, verified.rule,
            incoming.reason, incoming.detail
    """
    key_ids, agents = map(list, zip(*foreign, strict=True))
    right = [agents_of_keys[key_id] for key_id in key_ids]
    return [Found(*row) for row in connection.execute(query, [FOREIGN_KEY, key_ids, agents, right])]
