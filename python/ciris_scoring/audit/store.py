"""The tables that batches are loaded into: each trace once, and how it was verified."""

import json
import uuid
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import psycopg
from psycopg import sql

from ciris_scoring.audit.documents import Batch, Deferral
from ciris_scoring.audit.incoming import Found, copy_incoming, problems_of, refuse_foreign_keys
from ciris_scoring.audit.keys import Key
from ciris_scoring.audit.reasons import BAD_KEY, CONFLICT, Problem
from ciris_scoring.basics.connection import connect, table_exists
from ciris_scoring.basics.project import Project
from ciris_scoring.basics.source_schema import (
    BATCH_COLUMNS,
    PUBLIC_KEY_COLUMNS,
    SOURCE_TABLES,
    TRACE_COLUMNS,
    create_source_tables,
    ddl,
)
from ciris_scoring.basics.statements import analyze, column_list

VERIFICATION_TABLE = "covenant_trace_verification"
LOAD_LOCK = "ciris_scoring_load"
_VERIFIED = (
    *("trace_id", "timestamp", "content_sha256", "agent_id_hash", "signature_key_id", "trace_schema_version"),
    *("rule", "reason", "detail", "batch_id"),
)
"""The columns of covenant_trace_verification, without is_loaded."""

_VERIFICATION_DDL = """
create table if not exists {verification} (
    trace_id varchar(128) not null,
    "timestamp" timestamptz not null,
    content_sha256 text not null,
    agent_id_hash varchar(64) not null,
    signature_key_id varchar(64),
    trace_schema_version text,
    rule text,
    reason text,
    detail text,
    is_loaded boolean not null,
    batch_id uuid not null,
    primary key (trace_id, "timestamp", content_sha256)
);
create index if not exists covenant_trace_verification_key on {verification} (signature_key_id) where rule is not null;
create index if not exists covenant_trace_verification_open on {verification} (batch_id) where rule is null;
comment on table {verification} is
'One row per content of a trace that was loaded: the key and the rule that verified it, or why none did.';
comment on column {verification}.trace_id is 'The trace, as in covenant_traces.';
comment on column {verification}."timestamp" is 'The time of the trace, as in covenant_traces.';
comment on column {verification}.content_sha256 is 'Hash of what was signed and of what was sent with it, hexadecimal.';
comment on column {verification}.agent_id_hash is 'The agent that the trace says it is of.';
comment on column {verification}.signature_key_id is 'The key that the trace names; null where it names none.';
comment on column {verification}.trace_schema_version is 'Schema version in the trace; null if it has none.';
comment on column {verification}.rule is
'The rule by which the agent made the signed bytes, as in docs/auditing.md; null if the signature does not verify.';
comment on column {verification}.reason is 'Why the trace does not verify; null where it does.';
comment on column {verification}.detail is 'The reason in words, where there is more to say.';
comment on column {verification}.is_loaded is
'Whether covenant_traces has this content; another content of the same trace and time is there otherwise.';
comment on column {verification}.batch_id is 'The first batch that brought it, in covenant_trace_batches.'
"""


def statements(project: Project) -> Iterator[str]:
    """Yield the statements that create the tables."""
    created = ddl(project.source_schema, project.source_tables)
    for statement in (*created, *_verification_ddl(_names(project))):
        yield statement.as_string(None)


def create_tables(project: Project) -> None:
    """Create the tables that do not exist.

    :raises DatabaseError: the database refuses.
    """
    with connect(project, writes=True) as connection:
        Store(connection, project).create()


def _names(project: Project) -> dict[str, sql.Composable]:
    return {
        **{name: project.source_table(name) for name in SOURCE_TABLES},
        "verification": project.source_table(VERIFICATION_TABLE),
        "columns": column_list(TRACE_COLUMNS),
        "verified": column_list(_VERIFIED),
    }


def _verification_ddl(names: Mapping[str, sql.Composable]) -> Iterator[sql.Composed]:
    for statement in _VERIFICATION_DDL.strip().split(";\n"):
        yield sql.SQL(statement).format(**names)


class KnownBatch(NamedTuple):
    """What a batch came to that was loaded before."""

    received: int
    rejected: int
    not_verified: int


class Written(NamedTuple):
    """What loading batches changed, and problems that only the database could tell."""

    new: int
    """Traces that were not in the database."""
    replaced: int
    """Traces that verify and took the place of the same one, or another of its name and time, that did not."""
    conflicting: int
    """Traces rejected because another content of the same name and time is loaded."""
    problems: list[Problem]


class Store:
    """The source tables of a project, for loading."""

    def __init__(self, connection: psycopg.Connection, project: Project):
        self._connection = connection
        self._project = project
        self._names = _names(project)
        self._agents_of_keys: dict[str, str] = {}

    def create(self) -> None:
        """Create the tables that do not exist, in one transaction."""
        with self._locked():
            schema = self._project.source_schema
            create_source_tables(self._connection, schema, self._project.source_tables)
            if not table_exists(self._connection, schema, VERIFICATION_TABLE):
                for statement in _verification_ddl(self._names):
                    self._connection.execute(statement)

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Open a transaction that other loaders wait for."""
        with self._connection.transaction():
            lock = "select pg_advisory_xact_lock(hashtext(%s), hashtext(%s))"
            self._connection.execute(lock, [LOAD_LOCK, self._project.source_schema])
            yield

    def _execute(self, query: str, parameters: Sequence[Any] = ()) -> psycopg.Cursor:
        return self._connection.execute(sql.SQL(query).format(**self._names), parameters)

    def _insert(self, table: str, columns: Sequence[str], rows: Sequence[tuple[Any, ...]]) -> int:
        """Insert rows that are not there; return how many were not."""
        query = sql.SQL("insert into {} ({}) values ({}) on conflict do nothing").format(
            self._names[table], column_list(columns), sql.SQL(", ").join(sql.Placeholder() * len(columns))
        )
        with self._connection.cursor() as cursor:
            cursor.executemany(query, rows)
            return cursor.rowcount

    # --- Keys --------------------------------------------------------------------------------------------------------

    def register(self, keys: Iterable[Key]) -> tuple[int, list[Problem]]:
        """Register keys; return how many are new. A key that is registered stays as it is."""
        new, problems = [], []
        with self._locked():
            registered = dict(self.registered_keys())
            for key in keys:
                there = registered.get(key.key_id)
                if there is None:
                    new.append(key)
                elif not key.is_same(there):
                    problems.append(
                        Problem(f"key {key.key_id}", BAD_KEY, "registered already, with another public key")
                    )
            n_new = self._insert("covenant_public_keys", PUBLIC_KEY_COLUMNS, new)
        return n_new, problems

    def registered_keys(self) -> list[tuple[str, str]]:
        """Key ids and base64 texts of the registry, as far as they are for Ed25519."""
        query = """
            select key_id, public_key_base64 from {covenant_public_keys}
            where lower(coalesce(algorithm, 'ed25519') collate "C") = 'ed25519' and public_key_base64 is not null
        """
        return self._execute(query).fetchall()

    # --- Batches -----------------------------------------------------------------------------------------------------

    def known(self, batch_ids: Sequence[uuid.UUID]) -> dict[uuid.UUID, KnownBatch]:
        """Those of the batches that need not be looked at again: no key has come since that they were missing."""
        query = """
            select batches.batch_id, batches.traces_received, batches.traces_rejected, open.n
            from {covenant_trace_batches} as batches
            cross join lateral (
                select
                    count(*) as n,
                    count(*) filter (where verification.reason = 'unknown_key' and keys.key_id is not null) as n_now
                from {verification} as verification
                left join {covenant_public_keys} as keys on verification.signature_key_id = keys.key_id
                where verification.batch_id = batches.batch_id and verification.rule is null
            ) as open
            where batches.batch_id = any(%s) and open.n_now = 0
        """
        rows = self._execute(query, [list(batch_ids)]).fetchall()
        return {batch_id: KnownBatch(*numbers) for batch_id, *numbers in rows}

    def write(self, batches: Sequence[Batch]) -> Written:
        """Load batches, all of them or, where the database fails, none."""
        with self._locked():
            n = copy_incoming(self._connection, self._names["covenant_traces"], batches)
            foreign = refuse_foreign_keys(self._connection, batches, self._agents_of_keys, self._learn_agents)
            n_new, n_replaced, conflicts = self._write_traces(n)
            deferrals = [deferral for batch in batches for deferral in batch.deferrals]
            self._insert("wbd_deferrals", Deferral._fields, deferrals)
            self._write_batches(batches, Counter(conflict.batch_id for conflict in conflicts))
        problems = problems_of([*foreign, *conflicts], batches)
        return Written(n_new, n_replaced, len(conflicts), problems)

    def analyze(self) -> None:
        """Analyse the tables."""
        for name in SOURCE_TABLES:
            analyze(self._connection, self._project.source_table(name))

    def _learn_agents(self, key_ids: set[str]) -> None:
        query = """
            select keys.key_id, uses.agent_id_hash
            from unnest(%s::text[]) as keys (key_id)
            cross join lateral (
                select agent_id_hash from {verification}
                where signature_key_id = keys.key_id and rule is not null
                limit 1
            ) as uses
        """
        if key_ids:
            self._agents_of_keys.update(self._execute(query, [list(key_ids)]).fetchall())

    def _write_traces(self, n_incoming: int) -> tuple[int, int, list[Found]]:
        """Write traces and verification; return how many are new or replaced, and those of which another content is
        there.
        """
        n_new = self._execute(
            """
            insert into {covenant_traces} ({columns})
            select {columns}
            from (
                select distinct on (trace_id, "timestamp") *
                from incoming
                order by trace_id asc, "timestamp" asc, signature_verified desc, ordinal asc
            ) as best
            order by ordinal
            on conflict do nothing
            """
        ).rowcount
        n_replaced = self._replace_unverified() if n_new < n_incoming else 0
        self._write_verification(all_new=n_new == n_incoming)
        if n_new == n_incoming:
            return n_new, 0, []
        conflicts = self._execute(
            """
            select incoming.batch_id, incoming.trace_id
            from incoming
            inner join {verification} as verification using (trace_id, "timestamp", content_sha256)
            where not verification.is_loaded
            order by incoming.ordinal
            """
        ).fetchall()
        detail = "another content of this trace and time is loaded"
        return (
            n_new,
            n_replaced,
            [Found(batch_id, trace_id, CONFLICT, detail) for batch_id, trace_id in conflicts],
        )

    def _replace_unverified(self) -> int:
        """Put traces that verify in the place of those, of the same name and time, that do not; count them."""
        assignments = sql.SQL(", ").join(
            sql.SQL("{0} = best.{0}").format(sql.Identifier(name)) for name in TRACE_COLUMNS
        )
        query = """
            with best as (
                select distinct on (trace_id, "timestamp") *
                from incoming
                where signature_verified
                order by trace_id asc, "timestamp" asc, ordinal asc
            ),

            replaced as (
                update {covenant_traces} as traces
                set {assignments}
                from best
                where
                    traces.trace_id = best.trace_id and traces."timestamp" = best."timestamp"
                    and traces.signature_verified is distinct from true
                returning traces.trace_id, traces."timestamp"
            )

            update {verification} as verification
            set is_loaded = false
            from replaced
            where
                verification.trace_id = replaced.trace_id and verification."timestamp" = replaced."timestamp"
                and verification.is_loaded
        """
        return self._connection.execute(
            sql.SQL(query).format(**self._names, assignments=assignments)
        ).rowcount

    def _write_verification(self, *, all_new: bool) -> None:
        is_loaded = sql.SQL("true") if all_new else self._is_same_as_loaded()
        query = """
            insert into {verification} as verification ({verified}, is_loaded)
            select distinct on (trace_id, "timestamp", content_sha256) {verified}, {is_loaded}
            from incoming
            order by trace_id asc, "timestamp" asc, content_sha256 asc, ordinal asc
            on conflict (trace_id, "timestamp", content_sha256) do update
            set rule = excluded.rule, reason = excluded.reason, detail = excluded.detail, is_loaded = excluded.is_loaded
            where verification.rule is null and excluded.rule is not null
        """
        self._connection.execute(sql.SQL(query).format(**self._names, is_loaded=is_loaded))

    def _is_same_as_loaded(self) -> sql.Composed:
        query = """
            exists (
                select from {covenant_traces} as traces
                where
                    traces.trace_id = incoming.trace_id and traces."timestamp" = incoming."timestamp"
                    and coalesce(traces.signature_verified, false) = incoming.signature_verified
                    and {others}
            )
        """
        others = sql.SQL(" and ").join(
            sql.SQL("traces.{0} is not distinct from incoming.{0}").format(sql.Identifier(name))
            for name in TRACE_COLUMNS
            if name not in ("trace_id", "timestamp", "signature_verified")
        )
        return sql.SQL(query).format(**self._names, others=others)

    def _write_batches(self, batches: Sequence[Batch], conflicts: Mapping[uuid.UUID, int]) -> None:
        rows = []
        for batch in batches:
            rejected = batch.rejected + Counter({CONFLICT: conflicts.get(batch.batch_id, 0)})
            rows.append(
                (
                    batch.batch_id,
                    batch.times.get("batch_timestamp"),
                    batch.times.get("consent_timestamp"),
                    batch.received,
                    batch.received - rejected.total(),
                    rejected.total(),
                    json.dumps({reason: n for reason, n in rejected.items() if n}),
                )
            )
        self._insert("covenant_trace_batches", BATCH_COLUMNS, rows)
