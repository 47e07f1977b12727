"""Shared helpers of tests that run the whole pipeline: load sources, run the project, compare the results."""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from operator import itemgetter
from pathlib import Path
from typing import Any
from unittest.mock import patch

import psycopg
import yaml
from psycopg import sql
from psycopg.abc import Buffer
from psycopg.rows import dict_row
from psycopg.types.datetime import TimestamptzLoader
from psycopg.types.json import set_json_loads

from ciris_scoring.database.project import load_project
from ciris_scoring.database.relations import Place, Relations
from ciris_scoring.database.source_schema import SOURCE_TABLES, create_source_tables
from ciris_scoring.database.variables import PARSED_VARIABLES
from ciris_scoring.job.run import run
from ciris_scoring.job.run_log import RunRecord
from ciris_scoring.lab.embedded import SCHEMA, write_profile
from ciris_scoring.lab.simulation.sample import SAMPLE, load_sample
from ciris_scoring.marts.marts import SCORED
from conftest import Database
from nasty_fleet import oversized
from reference.attribution import PARTS
from reference.marts import KEYS, Reference, Rows, attribution_rows
from reference.record import TRACES_FROM, WINDOWS, Fleet, Window

REPOSITORY = Path(__file__).parents[2]
SOURCES = ("covenant_traces", "wbd_deferrals", "covenant_public_keys")
TOLERANCE = 1e-9
EXACT = 1e-12
PATIENCE_SECONDS = 600
"""Seconds after which a test stops waiting for a command."""


def wait_until(condition: Callable[[], Any]) -> None:
    """Wait until a condition is true."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not condition():
        assert time.monotonic() < deadline, f"the condition is not true after {PATIENCE_SECONDS} s"
        time.sleep(0.02)


def relations(schema: str = SCHEMA) -> Relations:
    """Return the relations of all models. The schemas are those of dbt_project.yml."""
    places = {"scoring_windows": Place(f"{schema}_intermediate", "scoring_windows")}
    for path in [*(REPOSITORY / "models").rglob("*.sql"), *(REPOSITORY / "models").rglob("*.py")]:
        layer = path.relative_to(REPOSITORY / "models").parts[0]
        suffix = {"marts": "", "staging": "_staging"}.get(layer, "_intermediate")
        places[path.stem] = Place(schema + suffix, path.stem)
    return Relations(schema, places, Place(schema, "permissions"))


SCORED_MARTS = SCORED.translate(str.maketrans("", "", "{}"))
"""Scores with their certainty and verdict, in the search path."""
MARTS = relations()
"""Relations in the default target schemas of the tests."""


def create_loose_sources(connection: psycopg.Connection) -> None:
    """Create the source tables without keys, indexes and column scales, so that they can store any invalid row."""
    create_source_tables(connection)
    found = connection.execute(
        "select indexrelid::regclass from pg_index"
        " where indrelid = 'cirislens.covenant_traces'::regclass and not indisprimary"
    )
    for (index,) in found.fetchall():
        connection.execute(f"drop index {index}")
    connection.execute(
        """
        alter table cirislens.covenant_traces drop constraint covenant_traces_pkey;
        alter table cirislens.covenant_traces
            add deployment_type text,
            add model text,
            add models_used text[],
            add deployment_profile jsonb,
            add trace_format_version text,
            alter trace_id drop not null,
            alter csdma_plausibility_score type numeric,
            alter dsdma_domain_alignment type numeric,
            alter entropy_level type numeric,
            alter coherence_level type numeric
        """
    )


def insert_rows(connection: psycopg.Connection, table: str, rows: Iterable[Mapping[str, Any]]) -> None:
    """Insert rows into a source table. JSON components are Python values."""
    rows = list(rows)
    if not rows:
        return
    columns = list(rows[0])
    query = sql.SQL("copy {} ({}) from stdin").format(
        sql.Identifier("cirislens", table), sql.SQL(", ").join(map(sql.Identifier, columns))
    )
    json_columns = ("thought_start", "dma_results", "conscience_result", "action_result", "deployment_profile")
    with connection.cursor().copy(query) as copy:
        for row in rows:
            copy.write_row(
                [
                    json.dumps(row[c], default=float) if c in json_columns and row[c] is not None else row[c]
                    for c in columns
                ]
            )


def load_rows(connection: psycopg.Connection, fleet: Mapping[str, Iterable[Mapping[str, Any]]]) -> None:
    """Create source tables without constraints and insert the rows of a fleet."""
    create_loose_sources(connection)
    for table, rows in fleet.items():
        insert_rows(connection, table, rows)


def load_nasty_fleet(
    connection: psycopg.Connection, fleet: Mapping[str, list[dict[str, Any]]], *, distributed: bool
) -> None:
    """Create source tables without constraints and insert a random fleet. Hashes may be blank or too long.

    :param distributed: whether to distribute the tables on a Citus cluster.
    """
    traces = [trace | {"agent_id_hash": trace["agent_id_hash"] or ""} for trace in fleet["covenant_traces"]]
    create_loose_sources(connection)
    connection.execute("alter table cirislens.covenant_traces alter agent_id_hash type text")
    if distributed:
        for table in set(SOURCE_TABLES) - {"covenant_traces"}:
            connection.execute(f"select create_reference_table('cirislens.{table}')")
        connection.execute("select create_distributed_table('cirislens.covenant_traces', 'agent_id_hash')")
    for table, rows in (fleet | {"covenant_traces": [*traces, oversized(traces[0])]}).items():
        insert_rows(connection, table, rows)


def score(
    profiles_dir: Path,
    as_of: datetime | str,
    cli_vars: Mapping[str, Any] | None = None,
    *,
    full_refresh: bool = False,
    project_dir: Path = REPOSITORY,
) -> None:
    """Run the scoring job in this process."""
    project = load_project(project_dir, profiles_dir, cli_vars=cli_vars)
    moment = as_of if isinstance(as_of, str) else as_of.isoformat()
    with kept_parsed(profiles_dir, cli_vars):
        run(project, moment, RunRecord("run"), full_refresh=full_refresh, allow_rescoring=full_refresh)


def score_sample(database: Database) -> None:
    """Load and score the sample."""
    with database.connect() as connection:
        load_sample(connection)
    score(database.profiles_dir, SAMPLE["as_of"])


@contextmanager
def kept_parsed(profiles_dir: Path, cli_vars: Mapping[str, Any] | None = None) -> Iterator[None]:
    """Give dbt a separate target folder for each profile and set of variables that influence parsing. In a shared
    folder, dbt would parse the project again at each change, and parsing takes longer than many tests.
    """
    key = parsed_for(profiles_dir, cli_vars)
    folder = Path(os.environ.get("DBT_TARGET_PATH", REPOSITORY / "target"), hashlib.md5(key.encode()).hexdigest()[:12])
    with patch.dict(os.environ, {"DBT_TARGET_PATH": str(folder)}):
        yield


def deciding(cli_vars: Mapping[str, Any]) -> dict[str, Any]:
    """Return the variables that influence how dbt parses the project."""
    return {name: value for name, value in cli_vars.items() if name in PARSED_VARIABLES}


def parsed_for(profiles_dir: Path, cli_vars: Mapping[str, Any] | None) -> str:
    """Return the settings that influence how dbt parses the project, as JSON text."""
    profile = yaml.safe_load((profiles_dir / "profiles.yml").read_text())
    for output in next(iter(profile.values()))["outputs"].values():
        for which_server in ("host", "port", "user", "password"):
            output.pop(which_server, None)
    readers = os.environ.get("CIRIS_MART_READERS")
    return json.dumps([profile, deciding(cli_vars or {}), readers], default=str, sort_keys=True)


class AnyTimeLoader(TimestamptzLoader):
    """Load timestamps, also those that Python cannot represent. Infinite times become the first and last time of
    Python, times before the year 1 become 0001-01-02, and times after the year 9999 become 9999-12-31.
    """

    def load(self, data: Buffer) -> datetime:
        text = bytes(data)
        infinite = {b"infinity": datetime.max, b"-infinity": datetime.min}.get(text)
        if infinite is not None:
            return infinite.replace(tzinfo=UTC)
        if text.endswith(b"BC"):
            return datetime(1, 1, 2, tzinfo=UTC)
        return datetime(9999, 12, 31, tzinfo=UTC) if text.index(b"-") > 4 else super().load(data)


def read_sources(connection: psycopg.Connection) -> tuple[list[dict], list[dict], list[dict]]:
    """Return traces, deferrals and keys in the format of the reference implementation."""
    connection.adapters.register_loader("timestamptz", AnyTimeLoader)

    def load_json(text: str | bytes) -> Any:
        # Python's int() raises an error for a text with more than 4300 digits.
        return json.loads(text, parse_float=Decimal, parse_int=lambda n: int(n) if len(n) < 4000 else Decimal(n))

    set_json_loads(load_json, connection)
    with connection.cursor(row_factory=dict_row) as cursor:
        traces, deferrals, keys = (
            cursor.execute(sql.SQL("select * from {}").format(sql.Identifier("cirislens", table))).fetchall()
            for table in SOURCES
        )
    return traces, deferrals, keys


def differences_from_reference(
    connection: psycopg.Connection,
    run_as_of: datetime,
    *,
    period: str = "day",
    as_ofs: Iterable[datetime] | None = None,
    parameters: Mapping[str, Any] | None = None,
    windows: Sequence[Window] = WINDOWS,
    scored: Sequence[str] = ("production",),
    retired: Mapping[str, datetime] | None = None,
    traces_from: datetime = TRACES_FROM,
) -> list[str]:
    """Return all differences between the published marts and the reference implementation.

    :param as_ofs: as-ofs to compare; None for all.
    :param scored: run kinds that the run scores.
    :param retired: times of retirement by agent.
    :param traces_from: time from which traces count.
    """
    # The time zone is UTC, because in another one, subtracting days would keep the local time of the day.
    connection.execute("set timezone = 'UTC'")
    length = timedelta(**{f"{period}s": 1})
    wanted = sorted(_all_as_ofs(connection) if as_ofs is None else set(as_ofs))
    fleet = Fleet(*read_sources(connection), run_as_of, parameters, length, windows, scored, retired, traces_from)
    expected = Reference(fleet).rows(wanted)
    assert any(row["capacity_score"] is not None for row in expected["fct_capacity_scores"].values())
    wrong = _wrong_rows(connection, expected, wanted)
    wrong += _wrong_counts(connection, fleet.data_quality())
    wrong += _wrong_verdicts(connection, wanted)
    return wrong + attribution_differences(
        connection, length, lambda _: parameters or {}, as_ofs=wanted, windows=windows
    )


def _wrong_rows(
    connection: psycopg.Connection, expected: Rows, as_ofs: list[datetime], tolerance: float = TOLERANCE
) -> list[str]:
    """Return the differences between the expected and the published rows of marts at the as-ofs."""
    wrong = []
    for mart, rows in expected.items():
        found = _by_key(connection, mart, as_ofs)
        wrong += [f"{mart} {key} is missing" for key in rows.keys() - found.keys()]
        wrong += [f"{mart} {key} is not expected" for key in found.keys() - rows.keys()]
        for key in rows.keys() & found.keys():
            wrong += [f"{mart} {key} {line}" for line in _unequal(rows[key], found[key], tolerance)]
    return wrong


def _by_key(connection: psycopg.Connection, mart: str, as_ofs: list[datetime]) -> dict[tuple, dict[str, Any]]:
    """Return the rows of a mart at the as-ofs."""
    condition = " where as_of = any(%s)" if "as_of" in KEYS[mart] else ""
    relation = SCORED if mart == "fct_capacity_scores" else f"{{{mart}}}"
    rows = _query(connection, f"select * from {relation}{condition}", [as_ofs] if condition else None)
    found = {tuple(row[name] for name in KEYS[mart]): row for row in rows}
    assert len(found) == len(rows), f"two rows of {mart} have the same key"
    return found


def _wrong_verdicts(connection: psycopg.Connection, as_ofs: list[datetime]) -> list[str]:
    """Return the verdicts that do not follow from the published bounds, alerts and red flags (certainty.md §4b)."""
    key = itemgetter("agent_id_hash", "as_of", "window_days")
    against: dict[tuple, set[tuple[int, str]]] = defaultdict(set)
    for alert in _query(connection, "select * from {fct_capacity_alerts}"):
        critical = alert["severity"] == "critical"
        if critical or alert["kind"] != "broken_chain":
            against[key(alert)].add((1 if critical else 2, alert["kind"]))
    for red_flag in _query(connection, "select * from {fct_red_flags}"):
        against[key(red_flag)].add((3, red_flag["red_flag"]))
    rows = _by_key(connection, "fct_capacity_scores", as_ofs)
    last = {row["last_scored_as_of"] for row in rows.values() if row["last_scored_as_of"] is not None}
    scored = rows | _by_key(connection, "fct_capacity_scores", sorted(last - set(as_ofs)))
    wrong = []
    for place, row in rows.items():
        agent, _, window = place
        before = (agent, row["last_scored_as_of"], window)
        expected = {
            "verdict": _verdict(place, scored, against[place]),
            "verdict_threshold": 0.6,
            "review_for": [name for _, name in sorted(against[place])],
            "last_verdict": _verdict(before, scored, against[before]) if before in scored else None,
        }
        wrong += [f"{place} {line}" for line in _unequal(expected, row)]
    return wrong


def _verdict(place: tuple, rows: Mapping[tuple, Mapping[str, Any]], against: set[tuple[int, str]]) -> str:
    """Return the verdict by the table of deciding.md, "How to decide".

    :param against: reasons for a review, each with 1 if it is a critical alert.
    """
    agent, as_of, window = place
    row, shorter = rows[place], [rows.get((agent, as_of, days)) for days in range(1, window + 1)]
    fragile = [one["capacity_score_high"] for one in shorter if one and one["category"] == "high_fragility"]
    probability = row["probability_at_threshold"]
    if row["score_status"] in ("final", "provisional") and probability < 0.45:
        return "withhold"
    is_suspended = {(1, "untrusted_key"), (1, "silent")} & against
    is_fading = (2, "silent") in against and (row["capacity_score"] is None or fragile)
    if row["score_status"] == "no_traces" or is_suspended or is_fading or any(high < 0.6 for high in fragile):
        return "suspend"
    if row["score_status"] != "final":
        return "wait"
    if against or fragile:
        return "review"
    return "grant" if probability >= 0.85 and row["capacity_score"] >= 0.6 else "keep"


def attribution_differences(
    connection: psycopg.Connection,
    period: timedelta,
    parameters_of: Callable[[str], Mapping[str, Any]],
    as_ofs: Iterable[datetime] | None = None,
    windows: Sequence[Window] = WINDOWS,
) -> list[str]:
    """Return all differences of the published attribution and score changes from the reference implementation.

    The reference implementation computes them from the published scores and components.

    :param parameters_of: function that returns the parameters of a parameter_set_id that are not defaults.
    :param as_ofs: as-ofs to compare; None for all.
    """
    wanted = sorted(_all_as_ofs(connection) if as_ofs is None else as_ofs)
    lengths = (timedelta(), period, *(timedelta(window.days) for window in windows))
    read = [t - length for t in wanted for length in lengths]
    scores = _by_key(connection, "fct_capacity_scores", read)
    for row in scores.values():
        row["components"] = {"s_score": row["s_score"]}
    for (*place, component), row in _by_key(connection, "fct_factor_components", read).items():
        if row["component_value"] is not None:
            scores[tuple(place)]["components"][component] = row["component_value"]
    expected = attribution_rows(scores, wanted, period, parameters_of)
    wrong = _wrong_rows(connection, expected, wanted, EXACT)
    for mart, column, direction in (("fct_score_attribution", "points_lost", -1), ("fct_score_changes", "points", 1)):
        groups: dict[tuple, list[tuple]] = defaultdict(list)
        for key, row in _by_key(connection, mart, wanted).items():
            # Loss components with equal points are ranked in the order of PARTS.
            groups[key[:-1]].append((direction * row[column], PARTS.index(key[-1]), row["rank"]))
            is_still = "loss_change" in row and not any(expected[mart].get(key, {}).values())
            if is_still and (row["loss_change"] or row["points"]):
                wrong.append(f"{mart} {key}: {row['loss_change']} and {row['points']} must both be 0")
        for key, places in groups.items():
            if [rank for *_, rank in sorted(places)] != list(range(1, len(PARTS) + 1)):
                wrong.append(f"{mart} {key}: ranks {sorted(places)}")
    return wrong


def _all_as_ofs(connection: psycopg.Connection) -> set[datetime]:
    """Return the as-ofs that have a published score."""
    return {row["as_of"] for row in _query(connection, "select distinct as_of from {fct_capacity_scores}")}


def score_rows(connection: psycopg.Connection) -> dict[tuple, dict[str, Any]]:
    """Return the published scores by agent, as-of and window, without the times of computation."""
    found = _by_key(connection, "fct_capacity_scores", sorted(_all_as_ofs(connection)))
    return {key: {name: row[name] for name in row.keys() - RUN_TIMES} for key, row in found.items()}


def _wrong_counts(connection: psycopg.Connection, expected: Mapping[tuple, int]) -> list[str]:
    found: Counter = Counter()
    query = "select * from {fct_data_quality} where issue not like 'ingestion%' and issue not like '%traces\\_%'"
    for row in _query(connection, query):
        found[row["agent_id_hash"], row["period_start"], row["issue"]] += row["n"]
    return [
        f"data quality {key}: {expected.get(key)} expected, {found.get(key)} found"
        for key in expected.keys() | found.keys()
        if expected.get(key) != found.get(key)
    ]


def _query(connection: psycopg.Connection, query: str, values: Any = None) -> list[dict]:
    with connection.cursor(row_factory=dict_row) as cursor:
        return cursor.execute(sql.SQL(query).format(**MARTS), values).fetchall()


def _unequal(expected: Mapping[str, Any], found: Mapping[str, Any], tolerance: float = TOLERANCE) -> list[str]:
    wrong = []
    for name, value in expected.items():
        other = found[name]
        if isinstance(value, set):
            if other not in value:
                wrong.append(f"{name}: one of {value} expected, {other!r} found")
        elif isinstance(value, int | float | Decimal) and not isinstance(value, bool) and other is not None:
            if not abs(float(value) - float(other)) <= tolerance * max(1.0, abs(float(value))):
                wrong.append(f"{name}: {value} expected, {other} found")
        elif value != other:
            wrong.append(f"{name}: {value!r} expected, {other!r} found")
    return wrong


# Columns and tables that always differ between an incremental run and a full refresh: the times of runs, and relations
# that describe a single run.
RUN_TIMES = {"scored_at", "computed_at", "latest_scored_at", "published_at", "started_at"}
LOG_OF_RUNS = ("int_runs", "fct_scoring_runs")
OF_ONE_RUN = {"int_scoring_run", "int_built", *LOG_OF_RUNS}


# Views that combine several rows of a table are compared like tables. A row of any other view depends on one row of a
# table, so other views are equal if the tables are equal.
ATTRIBUTION = ("fct_score_attribution", "fct_score_comparisons", "fct_score_changes")


def table_differences(connection: psycopg.Connection, schema: str, other: str) -> list[str]:
    """Return the rows that differ between two target schemas, in all tables and in the views listed in ATTRIBUTION."""
    wrong = relation_differences(connection, schema, other, ATTRIBUTION)
    for layer in ("", "_intermediate"):
        query = "select tablename from pg_tables where schemaname = %s"
        ours, theirs = ({name for (name,) in connection.execute(query, [target + layer])} for target in (schema, other))
        assert ours == theirs
        wrong += relation_differences(connection, schema + layer, other + layer, ours)
    return wrong


def differences_from_refresh(
    database: Database, as_of: datetime, variables: Mapping[str, Any] | None = None, project_dir: Path = REPOSITORY
) -> list[str]:
    """Score everything once into another schema, and return the differences of all tables from those of the runs."""
    profiles_dir = database.profiles_dir / "refreshed"
    profiles_dir.mkdir()
    write_profile(profiles_dir, database.server, database=database.name, schema="refreshed")
    score(profiles_dir, as_of, variables, project_dir=project_dir)
    with database.connect() as connection:
        return table_differences(connection, SCHEMA, "refreshed")


def relation_differences(
    connection: psycopg.Connection, left: str, right: str, names: Iterable[str] | None = None
) -> list[str]:
    """Return the rows that only one of two schemas has. Doubles may have a relative difference of 1e-12.

    Relations and columns that only one schema has are ignored.

    :param names: relations to compare; None for all.
    """
    ours, theirs = _columns(connection, left), _columns(connection, right)
    relations = ours.keys() & theirs.keys() if names is None else set(names)
    assert relations, f"nothing to compare in {left}"
    wrong = []
    for table in sorted(relations - OF_ONE_RUN):
        compared = sorted((ours[table].keys() & theirs[table].keys()) - RUN_TIMES)
        doubles = [name for name in compared if ours[table][name] == "double precision"]
        one, other = (
            sql.SQL(
                "(select to_jsonb(r) - {names}::text[] as others, array[{doubles}]::double precision[] as doubles"
                " from (select {columns} from {table}) as r)"
            ).format(
                names=sql.Literal(doubles),
                doubles=sql.SQL(", ").join(map(sql.Identifier, doubles)),
                columns=sql.SQL(", ").join(map(sql.Identifier, compared)),
                table=sql.Identifier(schema, table),
            )
            for schema in (left, right)
        )
        query = sql.SQL(
            """
            select count(*), min(others::text)
            from {} as a full join {} as b using (others)
            where a.doubles is null or b.doubles is null or exists (
                select from unnest(a.doubles, b.doubles) as d (x, y)
                where x is distinct from y and not coalesce(abs(x - y) <= 1e-12 * greatest(1, abs(x)), false)
            )
            """
        ).format(one, other)
        n, example = connection.execute(query).fetchone()
        if n:
            wrong.append(f"{table}: {n} rows differ, such as {example}")
    return wrong


def _columns(connection: psycopg.Connection, schema: str) -> dict[str, dict[str, str]]:
    """Return the types of the columns of each relation of a schema."""
    return dict(
        connection.execute(
            """
            select c.relname, jsonb_object_agg(a.attname, format_type(a.atttypid, null))
            from pg_class as c
            join pg_namespace as n on n.oid = c.relnamespace
            join pg_attribute as a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
            where n.nspname = %s and c.relkind in ('r', 'p', 'v', 'm')
            group by c.relname
            """,
            [schema],
        ).fetchall()
    )
