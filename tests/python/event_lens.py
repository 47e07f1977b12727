"""Store the rows of covenant_traces also in the event format of the source.

Triggers write the events, so the same statements of a test change the source in both formats.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import psycopg
from psycopg import sql
from psycopg.types.json import Jsonb

from ciris_scoring.lab.simulation.events import UNFOLD, create_engine_tables, index_events

AS_EVENTS = {"ciris_source": "events"}
"""Variable that makes runs read events. By default they would read traces, because the schema has both formats."""

# Marks of the run kind, which the simulation does not have.
_MARKED = (
    UNFOLD.replace("shard_key\n)", "shard_key, deployment_type, run_kind\n)")
    .replace("& 63\n", "& 63, traces.deployment_type, traces.run_kind\n")
    .replace(
        '\'{{"model": "simulated", "status": "ok"}}\'',
        "jsonb_build_object('model', coalesce(traces.model, 'simulated'), 'deployment_profile', "
        "traces.deployment_profile, 'trace_format_version', traces.trace_format_version)",
    )
)

# The engine stores each event only once. A trace that is sent again does not add events.
_NEW = """(
    select distinct on (rows.agent_id_hash, rows.trace_id) rows.*
    from new_rows as rows
    where not exists (
        select from cirislens.trace_events as known
        where known.trace_id = rows.trace_id and known.agent_id_hash is not distinct from rows.agent_id_hash
    )
)"""
_TRIGGERS = """
create function cirislens.write_events() returns trigger language plpgsql as $body$
begin
    if tg_op <> 'INSERT' then
        delete from cirislens.trace_events as events using old_rows as rows
        where events.trace_id = rows.trace_id and events.agent_id_hash is not distinct from rows.agent_id_hash;
    end if;
    if tg_op <> 'DELETE' then
        {unfold};
    end if;
    return null;
end
$body$;
create trigger events_of_new after insert on cirislens.covenant_traces
    referencing new table as new_rows for each statement execute function cirislens.write_events();
create trigger events_of_other after update on cirislens.covenant_traces
    referencing old table as old_rows new table as new_rows
    for each statement execute function cirislens.write_events();
create trigger events_of_gone after delete on cirislens.covenant_traces
    referencing old table as old_rows for each statement execute function cirislens.write_events();
drop table cirislens.accord_public_keys;
create view cirislens.accord_public_keys as
    select key_id, algorithm, created_at, expires_at, revoked_at from cirislens.covenant_public_keys
"""


def insert_events(connection: psycopg.Connection, events: Iterable[tuple[Any, ...]]) -> None:
    """Insert events into trace_events: trace id, type, attempt, time, agent and payload of each event."""
    with connection.cursor() as cursor:
        cursor.executemany(
            "insert into cirislens.trace_events (trace_id, thought_id, event_type, attempt_index, ts,"
            " agent_id_hash, trace_level, payload, signature, signing_key_id, signature_verified, schema_version)"
            " values (%s, 'th', %s, %s, %s, %s, 'detailed', %s, 's', 'k', true, '9.9.9')",
            [(*columns, Jsonb(payload)) for *columns, payload in events],
        )


def write_as_events(connection: psycopg.Connection) -> None:
    """Write the events of all existing and future traces into the tables of the event format."""
    schema = sql.Identifier("cirislens")
    create_engine_tables(connection)
    index_events(connection)
    connection.execute("alter table cirislens.trace_events add run_kind text")
    unfold = sql.SQL(_MARKED)
    connection.execute(sql.SQL(_TRIGGERS).format(unfold=unfold.format(schema=schema, traces=sql.SQL(_NEW))).as_string())
    connection.execute("update cirislens.covenant_traces set trace_id = trace_id")
    connection.execute("analyze cirislens.trace_events")
