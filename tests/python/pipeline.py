"""What the whole-pipeline tests share: sources in a fresh database, a run of the project, and what it published."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import psycopg
from psycopg import sql
from psycopg.abc import Buffer
from psycopg.rows import dict_row
from psycopg.types.datetime import TimestamptzLoader
from psycopg.types.json import set_json_loads

from brute_force import scoring as brute_force
from ciris_scoring.connection import Project, load_project
from ciris_scoring.run import run
from ciris_scoring.source_schema import create_source_tables

REPOSITORY = Path(__file__).parents[2]
SOURCES = ("covenant_traces", "wbd_deferrals", "covenant_public_keys")
TOLERANCE = 1e-9


def create_loose_sources(connection: psycopg.Connection) -> None:
    """The source tables without production's key and column scales, so that any bad row fits in."""
    create_source_tables(connection)
    connection.execute(
        """
        alter table cirislens.covenant_traces drop constraint covenant_traces_pkey;
        alter table cirislens.covenant_traces
            alter trace_id drop not null,
            alter csdma_plausibility_score type numeric,
            alter dsdma_domain_alignment type numeric,
            alter entropy_level type numeric,
            alter coherence_level type numeric
        """
    )


def insert_rows(connection: psycopg.Connection, table: str, rows: Iterable[Mapping[str, Any]]) -> None:
    """Insert rows of one source table; JSON components as Python values."""
    rows = list(rows)
    if not rows:
        return
    columns = list(rows[0])
    query = sql.SQL("copy {} ({}) from stdin").format(
        sql.Identifier("cirislens", table), sql.SQL(", ").join(map(sql.Identifier, columns))
    )
    json_columns = ("thought_start", "dma_results", "conscience_result", "action_result")
    with connection.cursor().copy(query) as copy:
        for row in rows:
            copy.write_row(
                [
                    json.dumps(row[c], default=float) if c in json_columns and row[c] is not None else row[c]
                    for c in columns
                ]
            )


def score(
    profiles_dir: Path,
    as_of: datetime | str,
    cli_vars: Mapping[str, Any] | None = None,
    *,
    full_refresh: bool = False,
    allow_rescoring: bool = False,
) -> Project:
    """One run of the main job, in this process."""
    project = load_project(REPOSITORY, profiles_dir, cli_vars=cli_vars)
    moment = as_of if isinstance(as_of, str) else as_of.isoformat()
    run(project, moment, full_refresh=full_refresh, allow_rescoring=allow_rescoring)
    return project


class InfinityLoader(TimestamptzLoader):
    """Infinite timestamps as the first and the last that Python has."""

    def load(self, data: Buffer) -> datetime:
        infinite = {b"infinity": datetime.max, b"-infinity": datetime.min}.get(bytes(data))
        return super().load(data) if infinite is None else infinite.replace(tzinfo=UTC)


def read_sources(connection: psycopg.Connection) -> tuple[list[dict], list[dict], list[dict]]:
    """Traces, deferrals and keys as the brute-force implementation wants them."""
    connection.adapters.register_loader("timestamptz", InfinityLoader)
    set_json_loads(lambda text: json.loads(text, parse_float=Decimal), connection)
    with connection.cursor(row_factory=dict_row) as cursor:
        traces, deferrals, keys = (
            cursor.execute(sql.SQL("select * from {}").format(sql.Identifier("cirislens", table))).fetchall()
            for table in SOURCES
        )
    return traces, deferrals, keys


def differences_from_brute_force(
    connection: psycopg.Connection,
    schema: str,
    run_as_of: datetime,
    *,
    period: str = "day",
    as_ofs: Iterable[datetime] | None = None,
    parameters: Mapping[str, Any] | None = None,
) -> list[str]:
    """Everything in which the published marts differ from the brute-force implementation; as_ofs: all by default."""
    traces, deferrals, keys = read_sources(connection)
    rows = _query(
        connection,
        "select scores.*, components.components from {schema}.fct_capacity_scores as scores"
        " join (select agent_id_hash, as_of, window_days, json_object_agg(component, component_value) as components"
        " from {schema}.fct_factor_components group by 1, 2, 3) as components"
        " using (agent_id_hash, as_of, window_days)",
        schema,
    )
    wanted = sorted(set(as_ofs) if as_ofs is not None else {row["as_of"] for row in rows})
    found = {(r["agent_id_hash"], r["as_of"], r["window_days"]): r for r in rows if r["as_of"] in set(wanted)}
    expected = brute_force.score_fleet(
        traces, deferrals, keys, as_ofs=wanted, run_as_of=run_as_of, period=period, parameters=parameters
    )
    assert expected, "nothing to compare"
    wrong = [f"missing {key}" for key in expected.keys() - found.keys()]
    wrong += [f"unexpected {key}" for key in found.keys() - expected.keys()]
    for key in expected.keys() & found.keys():
        wrong += [f"{key} {line}" for line in _unequal(expected[key], found[key])]
    common = {"run_as_of": run_as_of, "period": period, "parameters": parameters}
    quality = brute_force.data_quality(traces, deferrals, keys, **common)
    found_quality = {
        (r["agent_id_hash"], r["period_start"], r["issue"]): r["n"]
        for r in _query(
            connection, "select * from {schema}.fct_data_quality where issue not like 'ingestion%%'", schema
        )
    }
    wrong += [
        f"data quality {key}: {quality.get(key)} expected, {found_quality.get(key)} found"
        for key in quality.keys() | found_quality.keys()
        if quality.get(key) != found_quality.get(key)
    ]
    alerts = {
        (a["agent_id_hash"], a["window_days"], a["kind"], a["severity"])
        for a in brute_force.alerts(traces, deferrals, keys, **common)
    }
    found_alerts = {
        (a["agent_id_hash"], a["window_days"], a["kind"], a["severity"])
        for a in _query(connection, "select * from {schema}.fct_capacity_alerts", schema)
    }
    wrong += [f"alert {alert} in one of the two only" for alert in alerts ^ found_alerts]
    hours = brute_force.fleet_coherence_hourly(traces, run_as_of)
    found_hours = {
        r["hour_start"]: r
        for r in _query(connection, "select * from {schema}.fct_fleet_coherence_hourly", schema)
    }
    wrong += [f"hour {hour} in one of the two only" for hour in hours.keys() ^ found_hours.keys()]
    for hour in hours.keys() & found_hours.keys():
        wrong += [f"hour {hour} {line}" for line in _unequal(hours[hour], found_hours[hour])]
    return wrong


def _query(connection: psycopg.Connection, query: str, schema: str) -> list[dict]:
    with connection.cursor(row_factory=dict_row) as cursor:
        return cursor.execute(sql.SQL(query).format(schema=sql.Identifier(schema))).fetchall()


def _unequal(expected: Mapping[str, Any], found: Mapping[str, Any]) -> list[str]:
    wrong = []
    for name, value in expected.items():
        other = found[name]
        if isinstance(value, Mapping):
            wrong += [f"{name}.{line}" for line in _unequal(value, other)]
        elif isinstance(value, int | float | Decimal) and not isinstance(value, bool) and other is not None:
            if not abs(float(value) - float(other)) <= TOLERANCE * max(1.0, abs(float(value))):
                wrong.append(f"{name}: {value} expected, {other} found")
        elif value != other:
            wrong.append(f"{name}: {value!r} expected, {other!r} found")
    return wrong


# What differs by nature between an increment and a full refresh: the times of the runs, and the two tables that
# describe one run and nothing older.
RUN_TIMES = {"scored_at", "computed_at", "latest_scored_at", "published_at", "started_at"}
OF_ONE_RUN = {"int_scoring_run", "int_agent_spine", "int_score_publications"}


def table_differences(connection: psycopg.Connection, schema: str, other: str) -> list[str]:
    """Rows that differ between the tables of two target schemas: exactly, doubles to 1e-12 of their size."""
    wrong = []
    for layer in ("", "_intermediate"):
        left, right = schema + layer, other + layer
        tables = _tables(connection, left)
        assert tables.keys() == _tables(connection, right).keys()
        assert tables, f"no tables in {left}"
        for table, columns in tables.items():
            if table in OF_ONE_RUN:
                continue
            keys = (
                ["agent_id_hash", "as_of", "window_days"]
                if table == "int_resilience_scores"
                else [next(iter(columns))]
            )
            unequal = sql.SQL(" or ").join(
                sql.SQL(
                    "a.{c} is distinct from b.{c}"
                    " and not coalesce(abs(a.{c} - b.{c}) <= 1e-12 * greatest(1, abs(a.{c})), false)"
                ).format(c=sql.Identifier(c))
                if kind == "double precision"
                else sql.SQL("a.{c} is distinct from b.{c}").format(c=sql.Identifier(c))
                for c, kind in columns.items()
                if c not in RUN_TIMES
            )
            query = sql.SQL(
                "select count(*), min(coalesce(a.{key}, b.{key})::text)"
                " from {left} as a full join {right} as b on {join} where {unequal}"
            ).format(
                key=sql.Identifier(keys[0]),
                left=sql.Identifier(left, table),
                right=sql.Identifier(right, table),
                join=sql.SQL(" and ").join(
                    sql.SQL("a.{k} = b.{k}").format(k=sql.Identifier(k)) for k in keys
                ),
                unequal=unequal,
            )
            n, example = connection.execute(query).fetchone()
            if n:
                wrong.append(f"{table}: {n} rows differ, such as {example}")
    return wrong


def _tables(connection: psycopg.Connection, schema: str) -> dict[str, dict[str, str]]:
    rows = connection.execute(
        """
        select c.table_name, c.column_name, c.data_type
        from information_schema.columns as c
        join information_schema.tables as t using (table_schema, table_name)
        where c.table_schema = %s and t.table_type = 'BASE TABLE'
        order by c.table_name, c.ordinal_position
        """,
        [schema],
    ).fetchall()
    tables: dict[str, dict[str, str]] = {}
    for table, column, kind in rows:
        tables.setdefault(table, {})[column] = kind
    return tables
