"""Copy traces into the temporary table ``incoming``. PostgreSQL empties the table at the end of each transaction."""

import uuid
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import psycopg
from psycopg import sql

from ciris_scoring.audit.documents import Batch
from ciris_scoring.audit.reasons import FOREIGN_KEY, Problem
from ciris_scoring.audit.traces import VERDICT_COLUMNS
from ciris_scoring.database.source_schema import TRACE_COLUMNS
from ciris_scoring.database.statements import column_list

LOADED_KEY = ("trace_id", "timestamp", "agent_id_hash")
"""Key of a loaded trace. It includes the agent, so that an agent cannot overwrite a trace of another agent."""


_BESIDE = (*VERDICT_COLUMNS, "origin", "run_kind")
"""Text columns of the table ``incoming``, besides the columns of the trace."""


class Found(NamedTuple):
    """A trace that is refused, although it can be read.

    Its signing key belongs to another agent, another content of the same trace is loaded, or its decision is loaded
    under another id.
    """

    batch_id: uuid.UUID
    origin: str
    trace_id: str
    trace_schema_version: str | None
    rule: str | None
    """Rule by which the signature is valid, although the trace is refused; None if the signature is not valid."""
    reason: str
    detail: str

    @property
    def problem(self) -> Problem:
        """Problem that the report of the load lists for the trace."""
        return Problem(f"{self.origin}, trace {self.trace_id}", self.reason, self.detail)


def copy_incoming(
    connection: psycopg.Connection, traces: sql.Composable, batches: Iterable[Batch], n_before: int = 0
) -> int:
    """Append the rows of batches to the ``n_before`` rows of the table ``incoming``. Return the new number of rows."""
    columns = column_list(TRACE_COLUMNS)
    texts = sql.SQL(", ").join(sql.SQL("''::text as {}").format(sql.Identifier(name)) for name in _BESIDE)
    query = """
        create temporary table if not exists incoming on commit delete rows as
        select {}, {}, null::uuid as batch_id, null::bigint as ordinal
        from {}
        with no data
    """
    connection.execute(sql.SQL(query).format(columns, texts, traces))
    names = column_list((*TRACE_COLUMNS, *_BESIDE, "batch_id", "ordinal"))
    n = n_before
    with connection.cursor().copy(sql.SQL("copy incoming ({}) from stdin").format(names)) as copy:
        for batch in batches:
            origin = batch.origin.encode("utf-8", "backslashreplace").decode()
            for row in batch.rows:
                n += 1
                copy.write_row((*row.values, origin, row.run_kind, batch.batch_id, n))
    return n


def has_run_kind(connection: psycopg.Connection, traces: sql.Composable) -> bool:
    """Return whether a table of traces has a column for the run kind."""
    query = "select from pg_attribute where attrelid = to_regclass(%s) and attname = 'run_kind' and not attisdropped"
    return connection.execute(query, [traces.as_string(connection)]).fetchone() is not None


def share_marks(connection: psycopg.Connection, table: sql.Composable) -> None:
    """Give the traces of a table the run kind that a verified incoming content states: mock before test before
    production.

    An agent sends a decision at several trace levels, and some levels lack the mark.
    """
    query = """
        update {table} as traces
        set run_kind = marked.run_kind
        from (
            select {key}, min(run_kind) as run_kind
            from incoming
            where run_kind <> 'production' and rule is not null
            group by {key}
        ) as marked
        where
            traces.trace_id = marked.trace_id and traces."timestamp" = marked."timestamp"
            and traces.agent_id_hash = marked.agent_id_hash
            and coalesce(traces.run_kind, 'production') not in ('mock', marked.run_kind)
    """
    connection.execute(sql.SQL(query).format(table=table, key=column_list(LOADED_KEY)))


def key_uses(batches: Sequence[Batch]) -> dict[tuple[str, str], None]:
    """Return the pairs of key and agent of verified traces, in the order of first use."""
    return {
        (row.verified_by, row.agent_id_hash): None
        for batch in batches
        for row in batch.rows
        if row.verified_by is not None
    }


def refuse_foreign_keys(
    connection: psycopg.Connection,
    uses: Iterable[tuple[str, str]],
    keys: Mapping[str, bytes],
    known_uses: Iterable[tuple[str, str]] = (),
) -> list[Found]:
    """Mark traces as not verified if their key belongs to another agent, and return them.

    A public key, which may have several ids, belongs to the agent of which it verified a trace first.

    :param known_uses: pairs of key and agent of traces that were verified earlier.
    """
    agents: dict[bytes, str] = {}
    for key_id, agent in [*known_uses, *uses]:
        agents.setdefault(keys[key_id], agent)
    foreign = [(key_id, agent, right) for key_id, agent in uses if (right := agents[keys[key_id]]) != agent]
    if not foreign:
        return []
    query = """
        update incoming
        set
            signature_verified = false, rule = null, reason = %s,
            detail = format('the key %%s signs for the agent %%s', uses.key_id, uses.right_agent)
        from incoming as sent
        inner join unnest(%s::text[], %s::text[], %s::text[]) as uses (key_id, agent, right_agent)
            on sent.signature_key_id = uses.key_id and sent.agent_id_hash = uses.agent
        where incoming.ordinal = sent.ordinal and sent.rule is not null
        returning
            incoming.batch_id, incoming.origin, incoming.trace_id, incoming.trace_schema_version, sent.rule,
            incoming.reason, incoming.detail
    """
    found = connection.execute(query, [FOREIGN_KEY, *map(list, zip(*foreign, strict=True))])
    return [Found(*row) for row in found]
