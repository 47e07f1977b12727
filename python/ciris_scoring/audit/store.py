"""Write batches into the source tables: each trace once, with the result of its verification."""

import json
import uuid
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import psycopg
from psycopg import sql

from ciris_scoring.audit.documents import Batch, Deferral
from ciris_scoring.audit.incoming import LOADED_KEY, Found, copy_incoming, key_uses, refuse_foreign_keys
from ciris_scoring.audit.keys import Key, registered_key
from ciris_scoring.audit.reasons import BAD_KEY, CONFLICT, REPLAYED_SIGNATURE, Problem
from ciris_scoring.audit.replays import refuse_replays
from ciris_scoring.basics.connection import connect, table_exists
from ciris_scoring.basics.errors import InputError
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
_KEYS = {"covenant_traces": LOADED_KEY}
_VERIFIED = (
    *("trace_id", "timestamp", "content_sha256", "agent_id_hash", "signature_key_id", "trace_schema_version"),
    *("trace_level", "rule", "reason", "detail", "signed_sha256", "decision_sha256", "batch_id"),
)
"""Columns of covenant_trace_verification except is_loaded."""

_VERIFICATION_DDL = """
create table if not exists {verification} (
    trace_id varchar(128) not null,
    "timestamp" timestamptz not null,
    content_sha256 text not null,
    agent_id_hash varchar(64) not null,
    signature_key_id varchar(64),
    trace_schema_version text,
    trace_level text,
    rule text,
    reason text,
    detail text,
    signed_sha256 text,
    decision_sha256 text,
    is_loaded boolean not null,
    batch_id uuid not null,
    primary key (trace_id, "timestamp", content_sha256)
);
create index if not exists covenant_trace_verification_key on {verification} (signature_key_id) where rule is not null;
create index if not exists covenant_trace_verification_open on {verification} (batch_id) where rule is null;
create index if not exists covenant_trace_verification_decision on {verification} (decision_sha256);
comment on table {verification} is
'One row per content of a trace that was loaded: the key and the rule that verified it, or why none did.';
comment on column {verification}.trace_id is 'The trace, as in covenant_traces.';
comment on column {verification}."timestamp" is 'The time of the trace, as in covenant_traces.';
comment on column {verification}.content_sha256 is 'Hash of what was signed and of what was sent with it, hexadecimal.';
comment on column {verification}.agent_id_hash is 'The agent that the trace says it is of.';
comment on column {verification}.signature_key_id is 'The key that the trace names; null where it names none.';
comment on column {verification}.trace_schema_version is 'Schema version in the trace; null if it has none.';
comment on column {verification}.trace_level is 'How detailed the trace is, as JSON; null where it does not say.';
comment on column {verification}.rule is
'The rule by which the agent made the signed bytes, as in docs/auditing.md; null if the signature does not verify.';
comment on column {verification}.reason is 'Why the trace does not verify; null where it does.';
comment on column {verification}.detail is 'The reason in words, where there is more to say.';
comment on column {verification}.signed_sha256 is
'Hash of the public key and the bytes that it signed, hexadecimal; null where the signature is not valid.';
comment on column {verification}.decision_sha256 is
'Hash of public key, component times and audit entry, where the signature covers no ids; null otherwise.';
comment on column {verification}.is_loaded is
'Whether covenant_traces has this content; another content of the same trace and time is there otherwise.';
comment on column {verification}.batch_id is 'The first batch that brought it, in covenant_trace_batches.'
"""


def statements(project: Project) -> Iterator[str]:
    """Yield the SQL statements that create the tables."""
    created = ddl(project.source_schema, project.source_tables, _KEYS)
    for statement in (*created, *_verification_ddl(_names(project))):
        yield statement.as_string(None)


def create_tables(project: Project) -> None:
    """Create the tables that do not exist.

    :raises DatabaseError: the database returns an error.
    """
    with connect(project, writes=True) as connection:
        Store(connection, project).create()


def _names(project: Project) -> dict[str, sql.Composable]:
    return {
        **{name: project.source_table(name) for name in SOURCE_TABLES},
        "verification": project.source_table(VERIFICATION_TABLE),
        "columns": column_list(TRACE_COLUMNS),
        "verified": column_list(_VERIFIED),
        "key": column_list(LOADED_KEY),
        "replayed": sql.Literal(REPLAYED_SIGNATURE),
    }


def _verification_ddl(names: Mapping[str, sql.Composable]) -> Iterator[sql.Composed]:
    for statement in _VERIFICATION_DDL.strip().split(";\n"):
        yield sql.SQL(statement).format(**names)


class KnownBatch(NamedTuple):
    """Counts of a batch that is already loaded."""

    received: int
    rejected: int
    not_verified: int


class Written(NamedTuple):
    """Numbers of traces that loading changed, and the traces that were refused because of other traces."""

    new: int
    """Number of traces that were not in the database."""
    replaced: int
    """Number of verified traces that replaced an unverified trace of the same id, time and agent, or of the same
    decision."""
    rejected: list[Found]
    """Traces that are not loaded: a different content with the same id is loaded, or the same decision with another
    id."""
    refused: list[Found]
    """Traces that are loaded as not verified, because the key belongs to another agent."""


class Store:
    """Writes batches and keys into the source tables of a project."""

    def __init__(self, connection: psycopg.Connection, project: Project):
        self._connection = connection
        self._project = project
        self._names = _names(project)
        self.keys: dict[str, bytes] = {}
        """The registered public keys by id, of which several may be the same key."""
        self._agents_of_keys: dict[bytes, str] = {}

    def create(self) -> None:
        """Create the tables that do not exist, in one transaction."""
        with self._locked():
            schema = self._project.source_schema
            create_source_tables(self._connection, schema, self._project.source_tables, _KEYS)
            self._refuse_other_key()
            if not table_exists(self._connection, schema, VERIFICATION_TABLE):
                for statement in _verification_ddl(self._names):
                    self._connection.execute(statement)
            self._refuse_earlier_verification()

    def _refuse_other_key(self) -> None:
        """Raise an error if the key of the table of traces would let an agent overwrite a trace of another one.

        :raises InputError: the primary key does not include the agent.
        """
        name = self._names["covenant_traces"].as_string(self._connection)
        query = """
            select names.relname, array_agg(columns.attname::text order by columns.attnum)
            from pg_index as indexes
            inner join pg_class as names on indexes.indexrelid = names.oid
            inner join pg_attribute as columns
                on
                    indexes.indrelid = columns.attrelid
                    and columns.attnum = any((indexes.indkey::int2[])[0:indexes.indnkeyatts - 1])
            where indexes.indrelid = to_regclass(%s) and indexes.indisunique and indexes.indpred is null
            group by names.relname
        """
        keys: dict[str, list[str]] = dict(self._connection.execute(query, [name]).fetchall())
        narrow = sorted(key for key, columns in keys.items() if set(columns) < set(LOADED_KEY))
        if not narrow and any(set(columns) == set(LOADED_KEY) for columns in keys.values()):
            return
        dropped = "".join(
            f" drop constraint {sql.Identifier(key).as_string(self._connection)}," for key in narrow
        )
        columns_ = column_list(LOADED_KEY).as_string(self._connection)
        raise InputError(
            f"Traces are loaded by the key (trace_id, timestamp, agent_id_hash), which {name} does not have"
            + (f"; its key {', '.join(narrow)} has room for one agent only." if narrow else "."),
            f"Run: alter table {name}{dropped} add primary key ({columns_})",
        )

    def _refuse_earlier_verification(self) -> None:
        """Raise an error if an earlier version created the verification table.

        :raises InputError: the table lacks columns.
        """
        query = "select attname from pg_attribute where attrelid = to_regclass(%s) and attnum > 0"
        name = self._names["verification"].as_string(self._connection)
        columns = {column for (column,) in self._connection.execute(query, [name])}
        if missing := [column for column in _VERIFIED if column not in columns]:
            batches = self._names["covenant_trace_batches"].as_string(self._connection)
            raise InputError(
                f"The table {name} has no columns {', '.join(missing)}: an earlier version created it.",
                f"Run: drop table {name}; delete from {batches}; then load all files again. No trace is lost.",
            )

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Open a transaction under the load lock, so that loads run one after the other."""
        with self._connection.transaction():
            lock = "select pg_advisory_xact_lock(hashtext(%s), hashtext(%s))"
            self._connection.execute(lock, [LOAD_LOCK, self._project.source_schema])
            yield

    def _execute(self, query: str, parameters: Sequence[Any] = ()) -> psycopg.Cursor:
        return self._connection.execute(sql.SQL(query).format(**self._names), parameters)

    def _insert(self, table: str, columns: Sequence[str], rows: Sequence[tuple[Any, ...]]) -> int:
        """Insert rows that do not exist yet and return their number."""
        query = sql.SQL("insert into {} ({}) values ({}) on conflict do nothing").format(
            self._names[table], column_list(columns), sql.SQL(", ").join(sql.Placeholder() * len(columns))
        )
        with self._connection.cursor() as cursor:
            cursor.executemany(query, rows)
            return cursor.rowcount

    # --- Keys --------------------------------------------------------------------------------------------------------

    def register(self, keys: Iterable[Key]) -> tuple[int, list[Problem]]:
        """Register keys. Return the number of new keys, and problems. A key that is already registered is not
        changed."""
        new, problems = [], []
        query = """
            select
                key_id, public_key_base64,
                case when isfinite(expires_at) then expires_at end, case when isfinite(revoked_at) then revoked_at end
            from {covenant_public_keys}
            where public_key_base64 is not null
        """
        with self._locked():
            registered = {key_id: registered_key(*rest) for key_id, *rest in self._execute(query)}
            for key in keys:
                there = registered.get(key.key_id)
                if there is None:
                    new.append(key)
                elif differing := key.difference(there):
                    detail = f"registered already, with another {differing}, which a load does not change"
                    problems.append(Problem(f"key {key.key_id}", BAD_KEY, detail))
            n_new = self._insert("covenant_public_keys", PUBLIC_KEY_COLUMNS, new)
        return n_new, problems

    def registered_keys(self) -> list[tuple[str, str]]:
        """Return ids and base64 texts of the Ed25519 keys in the registry."""
        query = """
            select key_id, public_key_base64 from {covenant_public_keys}
            where lower(coalesce(algorithm, 'ed25519') collate "C") = 'ed25519' and public_key_base64 is not null
        """
        return self._execute(query).fetchall()

    # --- Batches -----------------------------------------------------------------------------------------------------

    def known(self, batch_ids: Sequence[uuid.UUID]) -> dict[uuid.UUID, KnownBatch]:
        """Return the batches that are loaded and need not be read again.

        A batch is read again if a key has been registered since that one of its traces needs.
        """
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
        """Load batches in one transaction."""
        with self._locked():
            n = copy_incoming(self._connection, self._names["covenant_traces"], batches)
            uses = key_uses(batches)
            self._learn_agents({self.keys[key_id] for key_id, _ in uses})
            for key_id, agent in uses:
                self._agents_of_keys.setdefault(self.keys[key_id], agent)
            agents = {key_id: self._agents_of_keys[self.keys[key_id]] for key_id, _ in uses}
            foreign = refuse_foreign_keys(self._connection, uses, agents)
            replays, n_displaced = refuse_replays(self._connection, self._names)
            n_new, n_replaced, conflicts = self._write_traces(n - len(replays))
            deferrals = [deferral for batch in batches for deferral in batch.deferrals]
            self._insert("wbd_deferrals", Deferral._fields, deferrals)
            rejected = [*replays, *conflicts]
            self._write_batches(batches, Counter((found.batch_id, found.reason) for found in rejected))
        replayed = {(found.batch_id, found.trace_id) for found in replays}
        refused = [found for found in foreign if (found.batch_id, found.trace_id) not in replayed]
        return Written(n_new - n_displaced, n_replaced + n_displaced, rejected, refused)

    def analyze(self) -> None:
        """Update the planner statistics of the source tables."""
        for name in SOURCE_TABLES:
            analyze(self._connection, self._project.source_table(name))

    def _learn_agents(self, keys: set[bytes]) -> None:
        """Look up the agents of public keys in the database, under every id of a key. A key belongs to the agent whose
        trace it verified first."""
        unknown = [key_id for key_id, key in self.keys.items() if key in keys - self._agents_of_keys.keys()]
        query = """
            select keys.key_id, uses.agent_id_hash
            from unnest(%s::text[]) as keys (key_id)
            cross join lateral (
                select agent_id_hash from {verification}
                where signature_key_id = keys.key_id and rule is not null
                limit 1
            ) as uses
        """
        if unknown:
            for key_id, agent in self._execute(query, [unknown]).fetchall():
                self._agents_of_keys.setdefault(self.keys[key_id], agent)

    def _write_traces(self, n_incoming: int) -> tuple[int, int, list[Found]]:
        """Write traces and verification results. Return the numbers of new and of replaced traces, and the traces
        that conflict with a different content of the same trace.

        :param n_incoming: number of incoming traces without replays.
        """
        n_new = self._execute(
            """
            insert into {covenant_traces} ({columns})
            select {columns}
            from (
                select distinct on ({key}) *
                from incoming
                where reason is distinct from {replayed}
                order by {key}, signature_verified desc, ordinal asc
            ) as best
            order by ordinal
            on conflict do nothing
            """
        ).rowcount
        n_replaced = self._replace_unverified() if n_new < n_incoming else 0
        self._write_verification(all_new=n_new == n_incoming)
        if n_new == n_incoming:
            return n_new, 0, []
        detail = "another content of this trace and time is loaded"
        conflicts = self._execute(
            """
            select
                incoming.batch_id, incoming.origin, incoming.trace_id, incoming.trace_schema_version, incoming.rule,
                %s, %s
            from incoming
            inner join {verification} as verification using (trace_id, "timestamp", content_sha256)
            where
                not verification.is_loaded
                and incoming.reason is distinct from {replayed}
                and not exists (
                    -- Not a conflict: another trace level of the same decision, or the same signed bytes.
                    select from {verification} as loaded
                    where
                        loaded.trace_id = incoming.trace_id and loaded."timestamp" = incoming."timestamp"
                        and loaded.agent_id_hash = incoming.agent_id_hash
                        and loaded.is_loaded and loaded.rule is not null and incoming.rule is not null
                        and (
                            loaded.trace_level is distinct from incoming.trace_level
                            or loaded.signed_sha256 = incoming.signed_sha256
                        )
                )
            order by incoming.ordinal
            """,
            [CONFLICT, detail],
        ).fetchall()
        return n_new, n_replaced, [Found(*row) for row in conflicts]

    def _replace_unverified(self) -> int:
        """Replace loaded traces that are not verified by verified ones of the same id, time and agent. Return their
        number."""
        assignments = sql.SQL(", ").join(
            sql.SQL("{0} = best.{0}").format(sql.Identifier(name)) for name in TRACE_COLUMNS
        )
        query = """
            with best as (
                select distinct on ({key}) *
                from incoming
                where signature_verified
                order by {key}, ordinal asc
            ),

            replaced as (
                update {covenant_traces} as traces
                set {assignments}
                from best
                where
                    traces.trace_id = best.trace_id and traces."timestamp" = best."timestamp"
                    and traces.agent_id_hash = best.agent_id_hash
                    and traces.signature_verified is distinct from true
                returning traces.trace_id, traces."timestamp", traces.agent_id_hash
            )

            update {verification} as verification
            set is_loaded = false
            from replaced
            where
                verification.trace_id = replaced.trace_id and verification."timestamp" = replaced."timestamp"
                and verification.agent_id_hash = replaced.agent_id_hash
                and verification.is_loaded
        """
        return self._connection.execute(
            sql.SQL(query).format(**self._names, assignments=assignments)
        ).rowcount

    def _write_verification(self, *, all_new: bool) -> None:
        is_loaded = sql.SQL("reason is distinct from {replayed}").format(**self._names)
        if not all_new:
            is_loaded += sql.SQL(" and ") + self._is_same_as_loaded()
        query = """
            insert into {verification} as verification ({verified}, is_loaded)
            select distinct on (trace_id, "timestamp", content_sha256) {verified}, {is_loaded}
            from incoming
            order by trace_id asc, "timestamp" asc, content_sha256 asc, ordinal asc
            on conflict (trace_id, "timestamp", content_sha256) do update
            set
                rule = excluded.rule, reason = excluded.reason, detail = excluded.detail,
                signed_sha256 = excluded.signed_sha256, decision_sha256 = excluded.decision_sha256,
                is_loaded = excluded.is_loaded
            where verification.rule is null
        """
        self._connection.execute(sql.SQL(query).format(**self._names, is_loaded=is_loaded))

    def _is_same_as_loaded(self) -> sql.Composed:
        query = """
            exists (
                select from {covenant_traces} as traces
                where
                    traces.trace_id = incoming.trace_id and traces."timestamp" = incoming."timestamp"
                    and traces.agent_id_hash = incoming.agent_id_hash
                    and coalesce(traces.signature_verified, false) = incoming.signature_verified
                    and {others}
            )
        """
        others = sql.SQL(" and ").join(
            sql.SQL("traces.{0} is not distinct from incoming.{0}").format(sql.Identifier(name))
            for name in TRACE_COLUMNS
            if name not in (*LOADED_KEY, "signature_verified")
        )
        return sql.SQL(query).format(**self._names, others=others)

    def _write_batches(self, batches: Sequence[Batch], found: Mapping[tuple[uuid.UUID, str], int]) -> None:
        """Write the counts of batches. Update them for batches that are read again because a key was registered."""
        rows = []
        for batch in batches:
            rejected = batch.rejected + Counter(
                {reason: found.get((batch.batch_id, reason), 0) for reason in (CONFLICT, REPLAYED_SIGNATURE)}
            )
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
        query = """
            update {covenant_trace_batches} set traces_accepted = %s, traces_rejected = %s, rejection_reasons = %s
            where batch_id = %s and traces_rejected <> %s
        """
        with self._connection.cursor() as cursor:
            cursor.executemany(
                sql.SQL(query).format(**self._names),
                [(*counts, batch_id, counts[1]) for batch_id, _, _, _, *counts in rows],
            )
        self._insert("covenant_trace_batches", BATCH_COLUMNS, rows)
