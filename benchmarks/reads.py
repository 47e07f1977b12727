"""What the benchmark asks the database directly: the two yardsticks, reads as an API would make them, sizes."""

import itertools
import statistics
import time
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

import psycopg
from psycopg import sql
from psycopg.rows import TupleRow, scalar_row

from ciris_scoring.basics.connection import one_row
from ciris_scoring.basics.relations import Relations

REPOSITORY = Path(__file__).parents[1]
YARDSTICK_RUNS = 5
READ_RUNS = 200

MART = "fct_capacity_scores"
LATEST, HISTORY, FLEET = "latest score of one agent", "history of one agent", "the fleet at the latest as-of"
READS = {
    LATEST: "select * from {mart} where agent_id_hash = %(agent)s and window_days = %(window)s"
    " order by as_of desc limit 1",
    HISTORY: "select * from {mart} where agent_id_hash = %(agent)s and window_days = %(window)s"
    " order by as_of desc limit 90",
    FLEET: "select * from {mart} where as_of = (select max(as_of) from {mart}) and window_days = %(window)s",
}


class Read(NamedTuple):
    """A read of the marts: the median time from sending it to its last row, in seconds."""

    seconds: float
    n_rows: int
    by_index: bool
    """Whether the plan has no scan of the whole mart."""


class Size(NamedTuple):
    """A table on disk, in bytes."""

    name: str
    table_bytes: int
    index_bytes: int


def pass_seconds(connection: psycopg.Connection) -> float:
    """Time of one pass over the wide rows: a column that no index has is summed."""
    query = "select count(*), sum(coherence_level) from cirislens.covenant_traces"
    return _median_seconds(lambda: connection.execute(query).fetchall(), YARDSTICK_RUNS)


def specification_seconds(connection: psycopg.Connection, as_of: datetime) -> float:
    """Time of the specification's complete composite, as it stands there, at an as-of."""
    query = specification_query(REPOSITORY).replace("NOW()", sql.Literal(as_of).as_string(connection))
    return _median_seconds(lambda: connection.execute(query.encode()).fetchall(), YARDSTICK_RUNS)


def specification_query(project_dir: Path, heading: str = "## Composite Score Calculation") -> str:
    """The SQL under a heading of the specification."""
    document = (project_dir / "docs/ciris_scoring_specification.md").read_text("utf-8")
    _, _, section = document.partition(f"{heading}\n")
    return section.split("```sql\n")[1].split("```")[0]


def reads(connection: psycopg.Connection, relations: Relations) -> dict[str, Read]:
    """Time each of `READS`, agents in turn."""
    cursor = connection.cursor(row_factory=scalar_row)
    find_agents = sql.SQL("select agent_id_hash from {} order by md5(agent_id_hash) limit {}")
    agents = cursor.execute(find_agents.format(relations["dim_agents"], READ_RUNS)).fetchall()
    find_window = sql.SQL("select min(window_days) from {}").format(relations["dim_scoring_windows"])
    [window] = one_row(connection.execute(find_window))
    return {
        name: _read(connection, sql.SQL(query).format(mart=relations[MART]), agents, window)
        for name, query in READS.items()
    }


def _read(connection: psycopg.Connection, query: sql.Composed, agents: list[str], window: int) -> Read:
    values = itertools.cycle([{"agent": agent, "window": window} for agent in agents])

    def execute() -> list[TupleRow]:
        # Planned each time, as by clients that do not keep prepared statements.
        return connection.execute(query, next(values), prepare=False).fetchall()

    plan = connection.execute(sql.SQL("explain ") + query, next(values)).fetchall()
    by_index = not any(f"Seq Scan on {MART}" in line for [line] in plan)
    return Read(_median_seconds(execute, READ_RUNS), len(execute()), by_index)


def sizes(connection: psycopg.Connection, schemas: list[str]) -> list[Size]:
    """Size of every table of these schemas, the largest first."""
    query = """
        select
            class.relname,
            pg_table_size(class.oid),
            pg_indexes_size(class.oid)
        from pg_class as class
        inner join pg_namespace as namespace on class.relnamespace = namespace.oid
        where class.relkind = 'r' and namespace.nspname = any(%s)
        order by pg_total_relation_size(class.oid) desc
        """
    return [Size(*row) for row in connection.execute(query, [schemas])]


def temporary_bytes(connection: psycopg.Connection) -> int:
    """What queries in this database have written to temporary files so far."""
    time.sleep(0.5)  # the sessions of a run that has just ended may still be handing in their numbers
    connection.execute("select pg_stat_force_next_flush()")
    query = "select temp_bytes from pg_stat_database where datname = current_database()"
    written: int = one_row(connection.execute(query))[0]
    return written


def _median_seconds(execute: Callable[[], object], n: int) -> float:
    """Median of n executions, after one that warms the caches."""
    execute()
    seconds = []
    for _ in range(n):
        started = time.perf_counter()
        execute()
        seconds.append(time.perf_counter() - started)
    return statistics.median(seconds)
