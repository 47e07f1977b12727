"""Write batches into the source tables: each trace once, with the result of its verification."""

import json
import uuid
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
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
    has_run_kind,
    key_uses,
    refuse_foreign_keys,
    share_marks,
)
from ciris_scoring.audit.keys import REGISTERED_ENDS, Key, registered_key
from ciris_scoring.audit.reasons import BAD_KEY, CONFLICT, NOT_OF_PRODUCTION, REPLAYED_SIGNATURE, Problem
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
        ("content_sha256", "text"),
        ("agent_id_hash", "varchar(64) not null"),
        ("signature_key_id", "varchar(64)"),
        ("trace_schema_version", "text"),
        ("trace_level", "text"),
        ("rule", "text"),
        ("reason", "text"),
        ("detail", "text"),
        ("signed_sha256", "text"),
        ("decision_sha256", "text"),
        ("batch_id", "uuid not null"),
        ("is_loaded", "boolean not null"),
    ),
    key=("trace_id", "timestamp", "content_sha256"),
    indexes=(("signature_key_id", "rule"), ("batch_id", "rule"), ("decision_sha256",)),
)
"""Contents of traces, loaded or not; docs/auditing.md describes the columns."""
_SENT_AGAIN = """
    traces.signature_verified and incoming.rule is not null and (
        (
            (traces.agent_name is null or incoming.agent_name is null or traces.agent_name = incoming.agent_name)
            and {are_alike}
        )
        or exists (
            select from {verification} as loaded
            where
                loaded.trace_id = incoming.trace_id and loaded."timestamp" = incoming."timestamp"
                and loaded.agent_id_hash = incoming.agent_id_hash
                and loaded.is_loaded and loaded.rule is not null
                and (
                    loaded.trace_level is distinct from incoming.trace_level
                    or loaded.signed_sha256 = incoming.signed_sha256
                )
        )
    )
"""
"""Condition of an incoming content that is verified, and does not contradict the loaded one: no column of the trace
differs but the signature, or a name is beside none; or the trace level differs; or the same bytes are signed."""
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


class KnownBatch(NamedTuple):
    """Counts of a batch that is already loaded."""

    received: int
    rejected: int
    not_verified: int


class Written(NamedTuple):
    """Result of writing batches."""

    new: int
    """Number of traces that were not in the database."""
    replaced: int
    """Number of verified traces that replaced an unverified trace: a trace with the same id, time and agent, or a copy
    of the same decision."""
    rejected: list[Found]
    """Traces that are refused, because the trace is loaded with another content, or its decision under another id, or
    because the table has no column for the run kind."""
    refused: list[Found]
    """Traces that are loaded as not verified, because the key belongs to another agent."""


def _are_equal(*ignored: str) -> sql.Composable:
    """Return the condition that an incoming content and the loaded trace of its key have equal columns."""
    return sql.SQL(" and ").join(
        sql.SQL("traces.{0} is not distinct from incoming.{0}").format(sql.Identifier(name))
        for name in TRACE_COLUMNS
        if name not in (*LOADED_KEY, "signature_verified", *ignored)
    )


class Store:
    """Writes batches and keys into the source tables of a project."""

    def __init__(self, connection: psycopg.Connection, project: Project):
        self._connection = connection
        self._project = project
        self._names: dict[str, sql.Composable] = {
            **{name: project.source_table(name) for name in SOURCE_TABLES},
            "verification": project.source_table(VERIFICATION_TABLE),
            "columns": column_list(TRACE_COLUMNS),
            "named": column_list(TRACE_COLUMNS, "named"),
            "verified": column_list(_VERIFICATION.column_names[:-1]),
            "key": column_list(LOADED_KEY),
            "replayed": sql.Literal(REPLAYED_SIGNATURE),
        }
        self._names["are_alike"] = _are_equal("signature", "agent_name")
        self._names["are_same"] = _are_equal()
        self._names["sent_again"] = sql.SQL(_SENT_AGAIN).format(**self._names)
        self.keys: dict[str, bytes] = {}
        """The registered public keys by id. Several ids may have the same key."""
        self._agents_of_keys: dict[bytes, str] = {}
        self._columns = TRACE_COLUMNS
        """Columns of the table of traces that are loaded: with the run kind, if the table has it."""

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
            self._refuse_other_key()
            if has_run_kind(self._connection, self._names["covenant_traces"]):
                self._columns = (*TRACE_COLUMNS, "run_kind")
                self._names["columns"] = column_list(self._columns)
                self._names["named"] = column_list(self._columns, "named")

    def _refuse_other_key(self) -> None:
        """Raise an error if the unique keys of the table of traces would let an agent overwrite a trace of another
        agent."""
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
        dropped = "".join(f" drop constraint {sql.Identifier(key).as_string(self._connection)}," for key in narrow)
        columns_ = column_list(LOADED_KEY).as_string(self._connection)
        raise InputError(
            f"Traces are loaded by the key (trace_id, timestamp, agent_id_hash), which {name} does not have"
            + (f"; its key {', '.join(narrow)} does not include the agent." if narrow else "."),
            f"Run: alter table {name}{dropped} add primary key ({columns_})",
        )

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
        query = f"""
            select key_id, public_key_base64, {REGISTERED_ENDS}
            from {{covenant_public_keys}}
            where public_key_base64 is not null
        """
        with self._locked():
            registered = {key_id: registered_key(*rest) for key_id, *rest in self._execute(query)}
            for key in keys:
                there = registered.get(key.key_id)
                if there is None:
                    new.append(key)
                elif differing := key.difference(there):
                    detail = f"already registered with another {differing}, which a load does not change"
                    problems.append(Problem(f"key {key.key_id}", BAD_KEY, detail))
            n_new = self._insert("covenant_public_keys", PUBLIC_KEY_COLUMNS, new)
        return n_new, problems

    def registered_keys(self) -> list[tuple[str, str]]:
        """Return ids and base64 texts of the Ed25519 keys in the registry."""
        query = """
            select key_id, public_key_base64 from {covenant_public_keys}
            where lower(coalesce(algorithm, 'ed25519') collate "C") = 'ed25519' and public_key_base64 is not null
        """
        with self._connection.transaction():
            return self._execute(query).fetchall()

    def known(self, batch_ids: Sequence[uuid.UUID]) -> dict[uuid.UUID, KnownBatch]:
        """Return the batches that are loaded and need not be read again.

        A batch is read again if the key of one of its traces has been registered since, or if traces were skipped
        because the table had no column for their run kind, and it has one now.
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
            where
                batches.batch_id = any(%s) and open.n_now = 0
                and (batches.rejection_reasons ?| %s) is not true
        """
        loadable = list(NOT_OF_PRODUCTION) if "run_kind" in self._columns else []
        with self._connection.transaction():
            rows = self._execute(query, [list(batch_ids), loadable]).fetchall()
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
            replays = self._refuse_replays()
            share_marks(self._connection)
            skipped = self._skip_marked()
            self._write_verification()
            n_displaced = self._delete_replays()
            n_replaced = self._delete_unverified()
            n_inserted = self._insert_traces()
            self._mark_loaded()
            are_all_new = n_inserted == n - len(skipped) - len(replays) and not n_replaced
            conflicts = [] if are_all_new else self._conflicts()
            deferrals = [deferral for batch in batches for deferral in batch.deferrals]
            self._insert("wbd_deferrals", Deferral._fields, deferrals)
            rejected = [*skipped, *replays, *conflicts]
            self._write_batches(batches, Counter((found.batch_id, found.reason) for found in rejected))
            self._connection.execute("drop table right_traces")
        replayed = {(found.batch_id, found.trace_id) for found in replays}
        refused = [found for found in foreign if (found.batch_id, found.trace_id) not in replayed]
        n_replaced += n_displaced
        return Written(n_inserted - n_replaced, n_replaced, rejected, refused)

    def analyze(self) -> None:
        """Update the planner statistics of the source tables."""
        for name in SOURCE_TABLES:
            analyze(self._connection, self._project.source_table(name))

    def _learn_agents(self, keys: set[bytes]) -> None:
        """Look up the agents of public keys, under all ids of each key. One key verifies traces of one agent only."""
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

    def _skip_marked(self) -> list[Found]:
        """Remove traces that are not of production if the table has no column for the run kind, and return them. A
        scoring run would take them for traces of production."""
        if "run_kind" in self._columns:
            return []
        table = self._names["covenant_traces"].as_string(self._connection)
        detail = f"{table} has no column for the run kind: alter table {table} add run_kind text"
        query = """
            delete from incoming
            where run_kind <> 'production' and reason is distinct from {replayed}
            returning
                batch_id, origin, trace_id, trace_schema_version, coalesce(rule, reason), run_kind || '_trace', %s::text
        """
        return [Found(*row) for row in self._execute(query, [detail])]

    def _refuse_replays(self) -> list[Found]:
        """Mark incoming copies of a decision under other trace ids as not verified, and return them.

        The right trace of a decision is the first one that verifies. It is written into the temporary table
        ``right_traces``.
        """
        self._connection.execute(
            "analyze incoming"
        )  # without planner statistics, the next query would scan the whole table `verification`
        self._execute(
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
                    'this decision of the agent %s is the trace %s; the signature covers no ids',
                    agent_id_hash, trace_id
                ) as detail
            from claims
            order by decision_sha256 asc, (rule is not null) desc, ordinal asc
            """
        )
        replays = self._execute(
            """
            update incoming
            set signature_verified = false, rule = null, reason = {replayed}, detail = right_traces.detail
            from incoming as sent
            inner join right_traces using (decision_sha256)
            where
                incoming.ordinal = sent.ordinal
                and (sent.agent_id_hash, sent.trace_id, sent."timestamp")
                <> (right_traces.agent_id_hash, right_traces.trace_id, right_traces."timestamp")
            returning
                incoming.batch_id, incoming.origin, incoming.trace_id, incoming.trace_schema_version, sent.rule,
                incoming.reason, incoming.detail
            """
        )
        return [Found(*row) for row in replays]

    def _write_verification(self) -> None:
        """Write the verification result of each incoming content of a trace. New contents are marked as loaded;
        `_conflicts` corrects the mark."""
        self._execute(
            """
            insert into {verification} as verification ({verified}, is_loaded)
            select distinct on (trace_id, "timestamp", content_sha256) {verified}, reason is distinct from {replayed}
            from incoming
            order by trace_id asc, "timestamp" asc, content_sha256 asc, ordinal asc
            on conflict (trace_id, "timestamp", content_sha256) do update
            set
                rule = excluded.rule, reason = excluded.reason, detail = excluded.detail,
                signed_sha256 = excluded.signed_sha256, decision_sha256 = excluded.decision_sha256
            where verification.rule is null
            """
        )

    def _delete_replays(self) -> int:
        """Delete loaded traces that are copies of a decision, if another trace is the right one for this decision.

        Return the number of deleted traces that are not incoming.
        """
        deleted = self._execute(
            """
            with copies as (
                select
                    verification.*,
                    right_traces.detail as why,
                    (verification.trace_id, verification."timestamp", verification.content_sha256)
                    in (select trace_id, "timestamp", content_sha256 from incoming) as is_incoming
                from {verification} as verification
                inner join right_traces using (decision_sha256)
                where
                    (verification.agent_id_hash, verification.trace_id, verification."timestamp")
                    <> (right_traces.agent_id_hash, right_traces.trace_id, right_traces."timestamp")
                    and (verification.is_loaded or verification.reason is distinct from {replayed})
            ),

            marked as (
                update {verification} as verification
                set is_loaded = false, rule = null, reason = {replayed}, detail = copies.why
                from copies
                where
                    verification.trace_id = copies.trace_id and verification."timestamp" = copies."timestamp"
                    and verification.content_sha256 = copies.content_sha256
            )

            delete from {covenant_traces} as traces
            using copies
            where
                copies.is_loaded
                and traces.agent_id_hash = copies.agent_id_hash and traces.trace_id = copies.trace_id
                and traces."timestamp" = copies."timestamp"
            returning copies.is_incoming
            """
        )
        return sum(not is_incoming for (is_incoming,) in deleted)

    def _delete_unverified(self) -> int:
        """Delete loaded traces that are not verified if an incoming trace of the same id, time and agent is verified.
        Return their number."""
        return self._execute(
            """
            with deleted as (
                delete from {covenant_traces} as traces
                using incoming
                where
                    traces.trace_id = incoming.trace_id and traces."timestamp" = incoming."timestamp"
                    and traces.agent_id_hash = incoming.agent_id_hash
                    and traces.signature_verified is distinct from true and incoming.signature_verified
                returning traces.trace_id, traces."timestamp", traces.agent_id_hash
            ),

            marked as (
                update {verification} as verification
                set is_loaded = false
                from deleted
                where
                    verification.trace_id = deleted.trace_id and verification."timestamp" = deleted."timestamp"
                    and verification.agent_id_hash = deleted.agent_id_hash
            )

            select from deleted
            """
        ).rowcount

    def _insert_traces(self) -> int:
        """Insert the best content of each incoming trace that is not loaded. Return their number."""
        return self._execute(
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

    def _mark_loaded(self) -> None:
        """Give loaded traces the run kind that a verified incoming content of the same trace states."""
        if "run_kind" not in self._columns:
            return
        self._execute(
            """
            update {covenant_traces} as traces
            set run_kind = incoming.run_kind
            from incoming
            where
                traces.trace_id = incoming.trace_id and traces."timestamp" = incoming."timestamp"
                and traces.agent_id_hash = incoming.agent_id_hash
                and incoming.run_kind <> 'production' and incoming.rule is not null
                and coalesce(traces.run_kind, 'production') not in ('mock', incoming.run_kind)
            """
        )

    def _conflicts(self) -> list[Found]:
        """Correct ``is_loaded`` of the incoming contents, and return the traces of which another content is loaded."""
        self._execute(
            """
            with compared as (
                select distinct on (incoming.trace_id, incoming."timestamp", incoming.content_sha256)
                    incoming.trace_id,
                    incoming."timestamp",
                    incoming.content_sha256,
                    incoming.rule,
                    incoming.reason is distinct from {replayed}
                    and coalesce(traces.signature_verified, false) = incoming.signature_verified
                    and {are_same} as is_loaded
                from incoming
                inner join {covenant_traces} as traces using ({key})
            )

            update {verification} as verification
            set is_loaded = compared.is_loaded
            from compared
            where
                verification.trace_id = compared.trace_id and verification."timestamp" = compared."timestamp"
                and verification.content_sha256 = compared.content_sha256
                and verification.is_loaded <> compared.is_loaded
                -- If a content was verified earlier and its key is gone now, its mark is not changed.
                and (verification.rule is null or compared.rule is not null)
            """
        )
        self._load_names()
        conflicts = self._execute(
            """
            select
                incoming.batch_id, incoming.origin, incoming.trace_id, incoming.trace_schema_version, incoming.rule,
                %s, 'another content of this trace and time is loaded'
            from incoming
            inner join {verification} as verification using (trace_id, "timestamp", content_sha256)
            where
                not verification.is_loaded
                and incoming.reason is distinct from {replayed}
                and not exists (
                    select from {covenant_traces} as traces
                    where
                        traces.trace_id = incoming.trace_id and traces."timestamp" = incoming."timestamp"
                        and traces.agent_id_hash = incoming.agent_id_hash
                        and {sent_again}
                )
            order by incoming.ordinal
            """,
            [CONFLICT],
        )
        return [Found(*row) for row in conflicts]

    def _load_names(self) -> None:
        """Replace each loaded trace without a name by the first content that was sent again and has a name."""
        self._execute(
            """
            with named as (
                select distinct on ({key}) incoming.*
                from incoming
                inner join {covenant_traces} as traces using ({key})
                where traces.agent_name is null and incoming.agent_name is not null and {sent_again}
                order by {key}, incoming.ordinal
            ),

            replaced as (
                update {covenant_traces} as traces
                set ({columns}) = row({named})
                from named
                where
                    traces.trace_id = named.trace_id and traces."timestamp" = named."timestamp"
                    and traces.agent_id_hash = named.agent_id_hash
            )

            update {verification} as verification
            set is_loaded = verification.content_sha256 = named.content_sha256
            from named
            where
                verification.trace_id = named.trace_id and verification."timestamp" = named."timestamp"
                and verification.agent_id_hash = named.agent_id_hash
            """
        )

    def _write_batches(self, batches: Sequence[Batch], found: Mapping[tuple[uuid.UUID, str], int]) -> None:
        """Write the counts of batches. Update them for batches that are read again because a key was registered."""
        rows = []
        for batch in batches:
            rejected = batch.rejected + Counter(
                {
                    reason: found.get((batch.batch_id, reason), 0)
                    for reason in (CONFLICT, REPLAYED_SIGNATURE, *NOT_OF_PRODUCTION)
                }
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
