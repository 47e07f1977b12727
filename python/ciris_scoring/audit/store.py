"""Write batches into the source tables: each trace once, with the result of its verification."""

import json
import uuid
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, NamedTuple

import psycopg
from psycopg import sql

from ciris_scoring.audit.documents import Batch, Deferral
from ciris_scoring.audit.incoming import (
    LOADED_KEY,
    Found,
    copy_incoming,
    key_uses,
    refuse_foreign_keys,
    share_marks,
)
from ciris_scoring.audit.keys import Key, registered_keys
from ciris_scoring.audit.reasons import BAD_KEY, CONFLICT, REPLAYED_SIGNATURE, Problem
from ciris_scoring.database.connection import connect, table_exists
from ciris_scoring.database.project import Project
from ciris_scoring.database.run_lock import LOAD_LOCK, take_in_turn
from ciris_scoring.database.source_schema import (
    BATCH_COLUMNS,
    PUBLIC_KEY_COLUMNS,
    SOURCE_TABLES,
    TRACE_COLUMNS,
    SourceTable,
    create_source_tables,
)
from ciris_scoring.database.statements import analyze, column_list
from ciris_scoring.errors import InputError

VERIFICATION_TABLE = "covenant_trace_verification"
_VERIFICATION = SourceTable(
    columns=(
        ("trace_id", "varchar(128)"),
        ("timestamp", "timestamptz"),
        ("agent_id_hash", "varchar(64)"),
        ("signature_key_id", "varchar(64)"),
        ("trace_schema_version", "text"),
        ("trace_level", "text"),
        ("rule", "text"),
        ("reason", "text"),
        ("detail", "text"),
        ("decision_sha256", "text"),
        ("batch_id", "uuid not null"),
    ),
    key=LOADED_KEY,
    indexes=(("signature_key_id", "rule"), ("batch_id", "rule"), ("decision_sha256",)),
)
"""Results of verification, one row per loaded trace; docs/auditing.md describes the columns."""
CONTRADICTING = tuple(
    name
    for name, type_ in SOURCE_TABLES["covenant_traces"].columns
    if type_ != "jsonb" and name not in (*LOADED_KEY, "signature", "signature_verified", "signature_key_id")
)
"""Columns in which two verified contents of a trace must not have different values. JSON components may differ, because
an agent sends a trace at several trace levels."""
COMPARED = tuple(name for name in TRACE_COLUMNS if name != "signature_verified")
"""Columns of which all values are equal if a content was sent again."""
LOADED_COLUMNS = (*TRACE_COLUMNS, "run_kind")
_TABLES = {
    **SOURCE_TABLES,
    "covenant_traces": replace(SOURCE_TABLES["covenant_traces"], key=LOADED_KEY),
    VERIFICATION_TABLE: _VERIFICATION,
}


def statements(project: Project) -> Iterator[str]:
    """Yield the SQL statements that create the tables in an empty database."""
    yield sql.SQL("create schema if not exists {}").format(sql.Identifier(project.source_schema)).as_string()
    for logical_name, table in _TABLES.items():
        name = project.source_table(logical_name)
        for statement in (table.create(name), *table.add_keys(name)):
            yield statement.as_string()


def create_tables(project: Project) -> None:
    """Create the tables that do not exist."""
    with connect(project, writes=True) as connection:
        Store(connection, project).create()


class Written(NamedTuple):
    """Result of writing batches."""

    new: int
    """Number of traces that were not in the database, or were there without being verified."""
    rejected: list[Found]
    """Traces that are not loaded, because another content of the trace is loaded, or its decision under another id."""
    refused: list[Found]
    """Traces that are loaded as not verified, because the key belongs to another agent."""


class Store:
    """Writes batches and keys into the source tables of a project."""

    def __init__(self, connection: psycopg.Connection, project: Project):
        self._connection = connection
        self._project = project
        self._names: dict[str, sql.Composable] = {
            **{name: project.source_table(name) for name in SOURCE_TABLES},
            "verification": project.source_table(VERIFICATION_TABLE),
            "columns": column_list(LOADED_COLUMNS),
            "verified": column_list(_VERIFICATION.column_names),
            "excluded": column_list(_VERIFICATION.column_names, "excluded"),
            "key": column_list(LOADED_KEY),
            "loaded_key": column_list(LOADED_KEY, "loaded"),
            "incoming_key": column_list(LOADED_KEY, "incoming"),
            "replayed": sql.Literal(REPLAYED_SIGNATURE),
            "are_same": sql.SQL("row({}) is not distinct from row({})").format(
                column_list(COMPARED, "loaded"), column_list(COMPARED, "incoming")
            ),
            "contradicts": sql.SQL(" or ").join(
                sql.SQL("loaded.{0} <> incoming.{0}").format(sql.Identifier(name)) for name in CONTRADICTING
            ),
        }
        self.keys: dict[str, bytes] = {}
        """The registered public keys by id. Several ids may have the same key."""

    def create(self) -> None:
        """Create the tables that do not exist, in one transaction."""
        with self._locked():
            schema = self._project.source_schema
            # A run reads whole traces if both forms exist, and would drop the events without an error.
            if self._project.variables.get("source") is None and table_exists(self._connection, schema, "copied_nodes"):
                raise InputError(
                    f"The schema {schema} has events that --from-node copied, and a run reads only one form.",
                    "Load the batches into another schema: --vars 'ciris_source_schema: NAME'.",
                )
            create_source_tables(self._connection, schema, self._project.source_tables, _TABLES)

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Open a transaction under the load lock, so that loads run one after the other.

        :raises RunInProgress: another session holds the lock for longer than ``ciris_lock_wait_seconds``.
        """
        seconds = self._project.variables["lock_wait_seconds"]
        with self._connection.transaction():
            take_in_turn(self._connection, LOAD_LOCK, self._project.source_schema, seconds)
            yield

    def _execute(self, query: str, parameters: Sequence[Any] | None = None) -> psycopg.Cursor:
        return self._connection.execute(sql.SQL(query).format(**self._names), parameters)

    def _insert(self, table: str, columns: Sequence[str], rows: Sequence[tuple[Any, ...]]) -> int:
        """Insert rows that do not exist yet and return their number."""
        query = sql.SQL("insert into {} ({}) values ({}) on conflict do nothing").format(
            self._names[table], column_list(columns), sql.SQL(", ").join(sql.Placeholder() * len(columns))
        )
        with self._connection.cursor() as cursor:
            cursor.executemany(query, rows)
            return cursor.rowcount

    def register(self, keys: Iterable[Key]) -> tuple[int, list[Problem]]:
        """Register new keys. Registered keys are not changed. Return the number of new keys, and problems."""
        new, problems = [], []
        with self._locked():
            registered = self.registered_keys()
            for key in keys:
                there = registered.get(key.key_id)
                if there is None:
                    new.append(key)
                elif differing := key.contradiction(there):
                    detail = f"already registered with another {differing}, which a load does not change"
                    problems.append(Problem(f"key {key.key_id}", BAD_KEY, detail))
            n_new = self._insert("covenant_public_keys", PUBLIC_KEY_COLUMNS, new)
        return n_new, problems

    def registered_keys(self) -> dict[str, Key]:
        """Return the keys in the registry by id."""
        with self._connection.transaction():
            return registered_keys(self._connection, self._names["covenant_public_keys"])

    def write(self, batches: Sequence[Batch]) -> Written:
        """Load batches in one transaction."""
        with self._locked():
            copy_incoming(self._connection, self._names["covenant_traces"], batches)
            uses = key_uses(batches)
            foreign = refuse_foreign_keys(self._connection, uses, self.keys, self._known_uses(uses))
            replays = self._refuse_replays()
            self._delete_superseded()
            n_new = self._insert_traces()
            share_marks(self._connection, self._names["covenant_traces"])
            rejected = [*replays, *self._conflicts()]
            deferrals = [deferral for batch in batches for deferral in batch.deferrals]
            self._insert("wbd_deferrals", Deferral._fields, deferrals)
            self._write_batches(batches, rejected)
        replayed = {(found.batch_id, found.trace_id) for found in replays}
        return Written(
            n_new, rejected, [found for found in foreign if (found.batch_id, found.trace_id) not in replayed]
        )

    def analyze(self) -> None:
        """Update the planner statistics of the source tables."""
        for name in SOURCE_TABLES:
            analyze(self._connection, self._project.source_table(name))

    def _known_uses(self, uses: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
        """Return the agents of which the keys have verified loaded traces, under all ids of each key."""
        used = {self.keys[key_id] for key_id, _ in uses}
        query = """
            select keys.key_id, uses.agent_id_hash
            from unnest(%s::text[]) as keys (key_id)
            cross join lateral (
                select agent_id_hash from {verification}
                where signature_key_id = keys.key_id and rule is not null
                limit 1
            ) as uses
        """
        return self._execute(query, [[key_id for key_id, key in self.keys.items() if key in used]]).fetchall()

    def _refuse_replays(self) -> list[Found]:
        """Mark incoming copies of a decision under other trace ids as not verified, and return them.

        The right trace of a decision is the first one that verifies.
        """
        # Without planner statistics, the next query would scan the whole table `verification`.
        self._connection.execute("analyze incoming")
        replays = self._execute(
            """
            with claims as (
                select decision_sha256, {key}, rule, 0 as ordinal
                from {verification}
                where decision_sha256 in (select decision_sha256 from incoming)
                union all
                select decision_sha256, {key}, rule, ordinal
                from incoming
                where decision_sha256 is not null
            ),

            right_traces as (
                select distinct on (decision_sha256) *
                from claims
                order by decision_sha256 asc, (rule is not null) desc, ordinal asc
            )

            update incoming
            set
                signature_verified = false, rule = null, reason = {replayed},
                detail = format(
                    'this decision of the agent %%s is the trace %%s; the signature covers no ids',
                    loaded.agent_id_hash, loaded.trace_id
                )
            from incoming as sent
            inner join right_traces as loaded using (decision_sha256)
            where incoming.ordinal = sent.ordinal and ({incoming_key}) <> ({loaded_key})
            returning
                incoming.batch_id, incoming.origin, incoming.trace_id, incoming.trace_schema_version, sent.rule,
                incoming.reason, incoming.detail
            """,
            [],
        )
        return [Found(*row) for row in replays]

    def _delete_superseded(self) -> None:
        """Delete loaded traces that are not verified, if a content with a valid signature comes, or if the trace is a
        copy of a decision that is loaded under another id."""
        self._execute(
            """
            with superseded as (
                select {loaded_key}
                from {covenant_traces} as loaded
                inner join incoming using ({key})
                where
                    loaded.signature_verified is distinct from true
                    and (incoming.signature_verified or incoming.reason = {replayed})
                union
                select {loaded_key}
                from {verification} as loaded
                inner join incoming using (decision_sha256)
                where incoming.reason is distinct from {replayed} and ({incoming_key}) <> ({loaded_key})
            ),

            unmarked as (
                delete from {verification} as loaded using superseded
                where ({loaded_key}) = (superseded.trace_id, superseded."timestamp", superseded.agent_id_hash)
            )

            delete from {covenant_traces} as loaded using superseded
            where ({loaded_key}) = (superseded.trace_id, superseded."timestamp", superseded.agent_id_hash)
            """
        )

    def _insert_traces(self) -> int:
        """Insert the first verified content of each incoming trace that is not loaded, or else the first content, with
        the result of its verification. Return the number of traces."""
        return self._execute(
            """
            with best as (
                select distinct on ({key}) *
                from incoming
                where reason is distinct from {replayed}
                order by {key}, signature_verified desc, ordinal asc
            ),

            loaded as (
                insert into {covenant_traces} ({columns})
                select {columns}
                from best
                order by ordinal
                on conflict ({key}) do nothing
                returning {key}
            )

            insert into {verification} ({verified})
            select {verified}
            from best
            inner join loaded using ({key})
            -- Somebody may have deleted the trace that this row is about.
            on conflict ({key}) do update set ({verified}) = row({excluded})
            """
        ).rowcount

    def _conflicts(self) -> list[Found]:
        """Return the incoming contents that contradict the loaded content of the same trace."""
        conflicts = self._execute(
            """
            select
                incoming.batch_id, incoming.origin, incoming.trace_id, incoming.trace_schema_version, incoming.rule,
                %s, 'another content of this trace and time is loaded'
            from incoming
            inner join {covenant_traces} as loaded using ({key})
            where
                incoming.reason is distinct from {replayed}
                and not {are_same}
                and (({contradicts}) or not (loaded.signature_verified and incoming.signature_verified))
            order by incoming.ordinal
            """,
            [CONFLICT],
        )
        return [Found(*row) for row in conflicts]

    def _write_batches(self, batches: Sequence[Batch], found: Iterable[Found]) -> None:
        """Write the counts of batches, also of batches that are read again."""
        of_batches: dict[uuid.UUID, Counter[str]] = {batch.batch_id: batch.rejected.copy() for batch in batches}
        for one in found:
            of_batches[one.batch_id][one.reason] += 1
        rows = []
        for batch in batches:
            rejected = of_batches[batch.batch_id]
            times = [batch.times.get(name) for name in ("batch_timestamp", "consent_timestamp")]
            counts = (batch.received, batch.received - rejected.total(), rejected.total(), json.dumps(rejected))
            rows.append((batch.batch_id, *times, *counts))
        query = """
            insert into {covenant_trace_batches} ({columns}) values (%s, %s, %s, %s, %s, %s, %s)
            on conflict (batch_id) do update set
                traces_accepted = excluded.traces_accepted, traces_rejected = excluded.traces_rejected,
                rejection_reasons = excluded.rejection_reasons
        """
        statement = sql.SQL(query).format(**self._names | {"columns": column_list(BATCH_COLUMNS)})
        with self._connection.cursor() as cursor:
            cursor.executemany(statement, rows)
