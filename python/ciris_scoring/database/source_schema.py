"""Source tables: the four tables of `cirislens` with the column types of production, and functions that create them.

No function here changes a table that exists.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType

import psycopg
from psycopg import sql
from psycopg.rows import scalar_row

from ciris_scoring.database.ownership import refuse_untrusted_tables
from ciris_scoring.database.statements import column_list

DEFAULT_SCHEMA = "cirislens"
"""Schema of the source tables in production (docs/ciris_scoring_specification.md)."""


@dataclass(frozen=True)
class SourceTable:
    """A source table: columns (name, type) in COPY order, primary key, and other indexes."""

    columns: tuple[tuple[str, str], ...]
    key: tuple[str, ...]
    indexes: tuple[tuple[str, ...], ...] = ()
    marks: tuple[tuple[str, str], ...] = ()
    """Columns (name, type) of tables that are created here. Tables of a lens may lack them."""

    @property
    def column_names(self) -> tuple[str, ...]:
        """Names of the columns in COPY order."""
        return tuple(name for name, _ in self.columns)

    def create(self, name: sql.Identifier) -> sql.Composed:
        """Return the statement that creates the table under a name, without keys and indexes."""
        columns = sql.SQL(",").join(
            sql.SQL("\n    {} {}").format(sql.Identifier(column), sql.SQL(column_type))
            for column, column_type in (*self.columns, *self.marks)
        )
        return sql.SQL("create table {} ({}\n)").format(name, columns)

    def add_keys(self, name: sql.Identifier) -> Iterator[sql.Composed]:
        """Yield the statements that add the indexes and the primary key."""
        for columns in self.indexes:
            yield sql.SQL("create index on {} ({})").format(name, column_list(columns))
        yield sql.SQL("alter table {} add primary key ({})").format(name, column_list(self.key))


SOURCE_TABLES: Mapping[str, SourceTable] = {
    "covenant_traces": SourceTable(
        columns=(
            ("trace_id", "varchar(128)"),
            ("thought_id", "varchar(128)"),
            ("agent_id_hash", "varchar(64) not null"),
            ("agent_name", "varchar(255)"),
            ("timestamp", "timestamptz not null"),
            ("signature", "text"),
            ("signature_verified", "boolean"),
            ("signature_key_id", "varchar(64)"),
            ("audit_entry_hash", "varchar(64)"),
            ("audit_sequence_number", "bigint"),
            ("csdma_plausibility_score", "numeric(3,2)"),
            ("dsdma_domain_alignment", "numeric(3,2)"),
            ("idma_k_eff", "numeric"),
            ("idma_fragility_flag", "boolean"),
            ("idma_phase", "varchar"),
            ("conscience_passed", "boolean"),
            ("action_was_overridden", "boolean"),
            ("entropy_level", "numeric(5,4)"),
            ("coherence_level", "numeric(5,4)"),
            ("coherence_passed", "boolean"),
            ("selected_action", "varchar(50)"),
            ("action_success", "boolean"),
            ("thought_start", "jsonb"),
            ("dma_results", "jsonb"),
            ("conscience_result", "jsonb"),
            ("action_result", "jsonb"),
        ),
        key=("trace_id", "timestamp"),
        indexes=(
            ("timestamp",),
            ("agent_id_hash", "timestamp"),
            ("agent_id_hash", "audit_sequence_number"),
        ),
        marks=(("run_kind", "text"),),
    ),
    "wbd_deferrals": SourceTable(
        columns=(
            ("deferral_id", "uuid"),
            ("agent_id", "varchar not null"),
            ("agent_name", "varchar"),
            ("status", "varchar"),
            ("resolution_summary", "text"),
            ("resolved_at", "timestamptz"),
            ("created_at", "timestamptz"),
        ),
        key=("deferral_id",),
    ),
    "covenant_public_keys": SourceTable(
        columns=(
            ("key_id", "varchar(64)"),
            ("public_key_base64", "varchar(128)"),
            ("algorithm", "varchar"),
            ("created_at", "timestamptz"),
            ("expires_at", "timestamptz"),
            ("revoked_at", "timestamptz"),
        ),
        key=("key_id",),
    ),
    "covenant_trace_batches": SourceTable(
        columns=(
            ("batch_id", "uuid"),
            ("batch_timestamp", "timestamptz"),
            ("consent_timestamp", "timestamptz"),
            ("traces_received", "integer"),
            ("traces_accepted", "integer"),
            ("traces_rejected", "integer"),
            ("rejection_reasons", "jsonb"),
        ),
        key=("batch_id",),
    ),
}
"""Tables of a lens that stores whole traces, by their names in the project, with the types of production (scoring.md
§10)."""

ENGINE_TABLES = ("trace_events", "federation_keys", "federation_revocations", "accord_public_keys")
"""Source tables of a lens that stores events, as the engine ciris-persist creates them."""

TABLES_OF_SHAPE: Mapping[str, Mapping[str, bool]] = {
    "traces": dict.fromkeys(SOURCE_TABLES, True),
    "events": {
        **{name: name == "trace_events" for name in ENGINE_TABLES},
        "wbd_deferrals": False,
        "covenant_trace_batches": False,
    },
}
"""Source tables of each format (traces or events), by name: whether a run requires the table."""

RUN_KINDS = ("production", "mock", "test")
"""Run kinds of traces (scoring.md §2). A trace without a mark is of production."""
DEPLOYMENT_TYPES: Mapping[str, tuple[str, ...]] = {
    "mock": ("mock",),
    "test": ("qa", "battery", "test", "development"),
}
"""Types of deployment that mark traces, by run kind."""

TRACE_COLUMNS = SOURCE_TABLES["covenant_traces"].column_names
DEFERRAL_COLUMNS = SOURCE_TABLES["wbd_deferrals"].column_names
PUBLIC_KEY_COLUMNS = SOURCE_TABLES["covenant_public_keys"].column_names
BATCH_COLUMNS = SOURCE_TABLES["covenant_trace_batches"].column_names
SAME_NAMES: Mapping[str, str] = MappingProxyType({})
"""Value of a parameter ``tables`` if all source tables in the database have the names in SOURCE_TABLES."""


def create_source_tables(
    connection: psycopg.Connection,
    schema: str = DEFAULT_SCHEMA,
    tables: Mapping[str, str] = SAME_NAMES,
    wanted: Mapping[str, SourceTable] = SOURCE_TABLES,
) -> None:
    """Create the schema and the missing source tables, with keys and indexes, in one transaction or savepoint.

    :param tables: names in the database by the names in SOURCE_TABLES, for tables whose two names differ.
    """
    with connection.transaction():
        add_keys(connection, create_missing_tables(connection, schema, tables, wanted), schema, tables)


def create_missing_schema(connection: psycopg.Connection, schema: str = DEFAULT_SCHEMA) -> None:
    """Create the schema if it does not exist."""
    ask = connection.cursor(row_factory=scalar_row)
    # `create schema if not exists` needs the right to create even if the schema exists.
    if ask.execute("select to_regnamespace(quote_ident(%s))", [schema]).fetchone() is None:
        ask.execute(sql.SQL("create schema if not exists {}").format(sql.Identifier(schema)))


def create_missing_tables(
    connection: psycopg.Connection,
    schema: str,
    tables: Mapping[str, str],
    wanted: Mapping[str, SourceTable],
) -> dict[str, SourceTable]:
    """Create missing tables without keys and indexes, and return them by name. The caller must call `add_keys` in the
    same transaction. Existing tables of untrusted roles are refused, because the caller writes the tables.

    In bulk loads, indexes that are built after the rows take a third of the time.

    :param tables: as in :func:`create_source_tables`.
    :param wanted: tables by their names in the project.
    :raises DatabaseError: another role could run code as this role.
    """
    create_missing_schema(connection, schema)
    # A new cursor, because the row factory of the connection is not known.
    ask = connection.cursor(row_factory=scalar_row)
    created = {}
    for logical_name, table in wanted.items():
        name = sql.Identifier(schema, tables.get(logical_name, logical_name))
        if ask.execute("select to_regclass(%s)", [name.as_string(connection)]).fetchone() is None:
            connection.execute(table.create(name))
            created[logical_name] = table
    kinds = {tables.get(name, name): "source" if name in SOURCE_TABLES else "table" for name in wanted}
    refuse_untrusted_tables(connection, schema, kinds)
    return created


def add_keys(
    connection: psycopg.Connection,
    created: Mapping[str, SourceTable],
    schema: str,
    tables: Mapping[str, str],
) -> None:
    """Add primary keys and indexes to tables created by `create_missing_tables`."""
    for logical_name, table in created.items():
        name = sql.Identifier(schema, tables.get(logical_name, logical_name))
        for statement in table.add_keys(name):
            connection.execute(statement)


TIME_COLUMNS = {
    "covenant_traces": "timestamp",
    "wbd_deferrals": "created_at",
    "covenant_public_keys": "created_at",
    "covenant_trace_batches": "batch_timestamp",
    "trace_events": "ts",
    "federation_keys": "valid_from",
    "federation_revocations": "effective_at",
    "accord_public_keys": "created_at",
}
"""Time column of each source table."""
