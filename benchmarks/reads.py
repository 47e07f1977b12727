"""What the benchmark asks the database directly: the two yardsticks, reads as an API would make them, sizes."""

import itertools
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import psycopg
from psycopg import sql
from psycopg.rows import TupleRow, scalar_row

from benchmarks.errors import BenchFailed
from ciris_scoring.basics.connection import one_row
from ciris_scoring.basics.dbt import read_relations
from ciris_scoring.basics.project import Project
from ciris_scoring.basics.relations import Relations
from ciris_scoring.basics.source_schema import table_identifier

YARDSTICK_RUNS = 5
READ_RUNS = 200
SPECIFICATION = Path("docs/ciris_scoring_specification.md")
HISTORY_AS_OFS = 90

MART = "fct_capacity_scores"
LATEST, HISTORY, FLEET = "latest score of one agent", "history of one agent", "the fleet at the latest as-of"
READS = {
    LATEST: "select * from {mart} where agent_id_hash = %(agent)s and window_days = %(window)s"
    " order by as_of desc limit 1",
    HISTORY: "select * from {mart} where agent_id_hash = %(agent)s and window_days = %(window)s"
    f" order by as_of desc limit {HISTORY_AS_OFS}",
    FLEET: "select * from {mart} where as_of = (select max(as_of) from {mart}) and window_days = %(window)s",
}


@dataclass(frozen=True)
class Read:
    """A read of the marts: the median time from sending it to its last row, in seconds."""

    seconds: float
    n_rows: int
    by_index: bool
    """Whether the plan has no scan of the whole mart."""


@dataclass(frozen=True)
class Size:
    """A table on disk, in bytes."""

    name: str
    table_bytes: int
    index_bytes: int


def pass_seconds(connection: psycopg.Connection, project: Project) -> float:
    """Time of one pass over the wide rows: a column that no index has is summed."""
    query = sql.SQL("select count(*), sum(coherence_level) from {}").format(_traces(project))
    return _median_seconds(lambda: connection.execute(query).fetchall(), YARDSTICK_RUNS)


def specification_seconds(connection: psycopg.Connection, project: Project, as_of: datetime) -> float:
    """Time of the specification's complete composite, as it stands there, at an as-of.

    :raises BenchFailed: the document is not where it should be, or the query finds no agent.
    """
    query = specification_query(project.project_dir)
    query = query.replace("cirislens.covenant_traces", _traces(project).as_string(connection))
    query = query.replace("NOW()", sql.Literal(as_of).as_string(connection))
    if not connection.execute(query).fetchall():
        raise BenchFailed("The specification's SQL finds no agent to score.", "Simulate a larger fleet.")
    return _median_seconds(lambda: connection.execute(query).fetchall(), YARDSTICK_RUNS)


def specification_query(project_dir: Path, heading: str = "## Composite Score Calculation") -> str:
    """The SQL under a heading of the specification.

    :raises BenchFailed: it is not there.
    """
    document = project_dir / SPECIFICATION
    try:
        _, found, rest = document.read_text("utf-8").partition(f"{heading}\n")
        return rest.split("```sql\n")[1].split("```")[0]
    except (OSError, IndexError) as error:
        raise BenchFailed(
            f"{document} has no SQL under '{heading.lstrip('# ')}', so there is nothing to compare with.",
            "Restore the document from the project's repository.",
        ) from error


def reads(connection: psycopg.Connection, relations: Relations) -> dict[str, Read]:
    """Time each of `READS`, agents in turn."""
    mart = relations[MART]
    cursor = connection.cursor(row_factory=scalar_row)
    find_agents = sql.SQL("select agent_id_hash from {} order by md5(agent_id_hash) limit {}")
    agents = cursor.execute(find_agents.format(relations["dim_agents"], READ_RUNS)).fetchall()
    find_window = sql.SQL("select min(window_days) from {}").format(relations["dim_scoring_windows"])
    [window] = one_row(connection.execute(find_window))
    return {
        name: _read(connection, sql.SQL(query).format(mart=mart), agents, window)
        for name, query in READS.items()
    }


def _read(connection: psycopg.Connection, query: sql.Composed, agents: list[str], window: int) -> Read:
    values = itertools.cycle([{"agent": agent, "window": window} for agent in agents])

    def execute() -> list[TupleRow]:
        # Planned each time, as by clients that do not keep prepared statements.
        return connection.execute(query, next(values), prepare=False).fetchall()

    explain = sql.SQL("explain (format json) ") + query
    [plan] = one_row(connection.execute(explain, next(values)))
    scans = {node["Node Type"] for node in _nodes(plan[0]["Plan"]) if node.get("Relation Name") == MART}
    return Read(_median_seconds(execute, READ_RUNS), len(execute()), "Seq Scan" not in scans)


def _nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for child in plan.get("Plans", ()):
        yield from _nodes(child)


def sizes(connection: psycopg.Connection, project: Project) -> tuple[Size, list[Size]]:
    """Size of the traces table, and of every table of the project, the largest first."""
    query = """
        select
            class.relname,
            pg_table_size(class.oid),
            pg_indexes_size(class.oid)
        from pg_class as class
        inner join pg_namespace as namespace on class.relnamespace = namespace.oid
        where class.relkind = 'r' and namespace.nspname = any(%s) and (%s::text is null or class.relname = %s)
        order by pg_total_relation_size(class.oid) desc
        """

    def found(schemas: list[str], table: str | None = None) -> list[Size]:
        return [Size(*row) for row in connection.execute(query, [schemas, table, table])]

    [traces] = found([project.source_schema], project.source_tables["covenant_traces"])
    return traces, found(list(read_relations(project).schemas))


def temporary_bytes(connection: psycopg.Connection) -> int:
    """What queries in this database have written to temporary files so far."""
    time.sleep(0.5)  # the sessions of a run that has just ended may still be handing in their numbers
    connection.execute("select pg_stat_force_next_flush()")
    query = "select temp_bytes from pg_stat_database where datname = current_database()"
    written: int = one_row(connection.execute(query))[0]
    return written


def _traces(project: Project) -> sql.Identifier:
    return table_identifier("covenant_traces", project.source_schema, project.source_tables)


def _median_seconds(execute: Callable[[], object], n: int) -> float:
    """Median of n executions, after one that warms the caches."""
    execute()
    seconds = []
    for _ in range(n):
        started = time.perf_counter()
        execute()
        seconds.append(time.perf_counter() - started)
    return statistics.median(seconds)
