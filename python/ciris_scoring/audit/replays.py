"""Refuse copies of a decision under other trace ids. They are possible where the signature does not cover the ids."""

from collections.abc import Mapping

import psycopg
from psycopg import sql

from ciris_scoring.audit.incoming import Found


def refuse_replays(
    connection: psycopg.Connection, names: Mapping[str, sql.Composable]
) -> tuple[list[Found], int]:
    """Refuse replays among the incoming traces, and delete replays that are loaded.

    Of several traces of one decision, the original is the first one that verifies. A trace does not verify if its ids
    contradict the signed fields.

    :returns: the replays among the incoming traces, and the number of loaded traces that an incoming one replaces.
    """
    if (
        connection.execute("select from incoming where decision_sha256 is not null limit 1").fetchone()
        is None
    ):
        return [], 0
    connection.execute("analyze incoming")  # statistics avoid a full scan of verification

    def execute(query: str) -> psycopg.Cursor:
        return connection.execute(sql.SQL(query).format(**names))

    execute(
        """
        create temporary table right_traces on commit drop as
        with claims as (
            select decision_sha256, agent_id_hash, trace_id, "timestamp", rule, 0 as ordinal
            from {verification}
            where
                decision_sha256 in (select decision_sha256 from incoming)
                and reason is distinct from {replayed}
            union all
            select decision_sha256, agent_id_hash, trace_id, "timestamp", rule, ordinal
            from incoming
            where decision_sha256 is not null
        )

        select distinct on (decision_sha256)
            decision_sha256, agent_id_hash, trace_id, "timestamp",
            format(
                'this decision of the agent %s is the trace %s; the signature covers no ids', agent_id_hash, trace_id
            ) as detail
        from claims
        order by decision_sha256 asc, (rule is not null) desc, ordinal asc
        """
    )
    replays = execute(
        """
        with sent as (
            select ordinal, rule
            from incoming
            where decision_sha256 is not null
        )

        update incoming
        set signature_verified = false, rule = null, reason = {replayed}, detail = right_traces.detail
        from right_traces
        inner join sent on true
        where
            incoming.decision_sha256 = right_traces.decision_sha256 and incoming.ordinal = sent.ordinal
            and (incoming.agent_id_hash, incoming.trace_id, incoming."timestamp")
            <> (right_traces.agent_id_hash, right_traces.trace_id, right_traces."timestamp")
        returning
            incoming.batch_id, incoming.origin, incoming.trace_id, incoming.trace_schema_version, sent.rule,
            incoming.reason, incoming.detail
        """
    ).fetchall()
    displaced = _delete_loaded(connection, names)
    execute(
        """
        update {verification} as verification
        set is_loaded = false, rule = null, reason = {replayed}, detail = right_traces.detail
        from right_traces
        where
            verification.decision_sha256 = right_traces.decision_sha256
            and verification.reason is distinct from {replayed}
            and (verification.agent_id_hash, verification.trace_id, verification."timestamp")
            <> (right_traces.agent_id_hash, right_traces.trace_id, right_traces."timestamp")
            and not exists (
                select from incoming
                where
                    incoming.trace_id = verification.trace_id and incoming."timestamp" = verification."timestamp"
                    and incoming.content_sha256 = verification.content_sha256
            )
        """
    )
    connection.execute("drop table right_traces")
    return [Found(*row) for row in replays], displaced


def _delete_loaded(connection: psycopg.Connection, names: Mapping[str, sql.Composable]) -> int:
    """Delete loaded traces that are replays. The role needs the right to delete only if there are any.

    :returns: number of deleted traces that are not among the incoming traces.
    """
    query = """
        with found as (
            select verification.agent_id_hash, verification.trace_id, verification."timestamp", false as is_incoming
            from right_traces
            inner join {verification} as verification using (decision_sha256)
            where
                verification.is_loaded
                and (verification.agent_id_hash, verification.trace_id, verification."timestamp")
                <> (right_traces.agent_id_hash, right_traces.trace_id, right_traces."timestamp")
            union all
            select verification.agent_id_hash, verification.trace_id, verification."timestamp", true as is_incoming
            from incoming
            inner join {verification} as verification using (trace_id, "timestamp", content_sha256)
            where verification.is_loaded and incoming.reason = {replayed}
        ),

        copies as (
            select agent_id_hash, trace_id, "timestamp", bool_or(is_incoming) as is_incoming
            from found
            group by agent_id_hash, trace_id, "timestamp"
        )
    """
    composed = sql.SQL(query).format(**names)
    if connection.execute(composed + sql.SQL("select from copies limit 1")).fetchone() is None:
        return 0
    delete = """
        delete from {covenant_traces} as traces
        using copies
        where
            traces.agent_id_hash = copies.agent_id_hash and traces.trace_id = copies.trace_id
            and traces."timestamp" = copies."timestamp"
        returning copies.is_incoming
    """
    deleted = connection.execute(composed + sql.SQL(delete).format(**names)).fetchall()
    return sum(not is_incoming for (is_incoming,) in deleted)
