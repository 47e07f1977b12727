"""Measure the speed of scoring.

A fleet is simulated for the history and a few more days. The history is loaded and scored from scratch. Then the
further days are loaded one after the other, and a run scores each of them.
"""

import os
import re
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory

import psycopg
from psycopg import sql

from benchmarks.activity import Activity, watched
from ciris_scoring.database.as_of import text
from ciris_scoring.database.connection import connect, one_row
from ciris_scoring.database.project import Project, load_project
from ciris_scoring.database.source_schema import SOURCE_TABLES
from ciris_scoring.database.terminal import say
from ciris_scoring.lab import embedded
from ciris_scoring.lab.simulation.fleet import stream_fleet
from ciris_scoring.lab.simulation.load import load_fleet
from ciris_scoring.lab.simulation.sample import SAMPLE
from ciris_scoring.lab.simulation.text_formats import copy_frames

REPOSITORY = Path(__file__).parents[1]
YARDSTICK_RUNS = 5

END = datetime.fromisoformat(SAMPLE["as_of"])
"""End of the simulated traces. It is fixed, so that benchmarks with the same options use the same traces."""


@dataclass(frozen=True)
class RunCost:
    """Time and memory of one run of ciris-scoring."""

    activity: Activity
    wall_seconds: float
    """Seconds from the start to the end of the run's process."""
    peak_bytes: int | None
    """Peak memory of the run's process; None on systems other than Linux."""
    autovacuum_seconds: float
    """Seconds that autovacuum needs after the run. It is off during the benchmark, and its work is done here."""


@dataclass(frozen=True)
class Measurements:
    """Cost of the specification's SQL, of the first run over the full history, and of the daily runs after it."""

    agents: int
    seed: int
    days: int
    """Number of days of history. The first run scores one as-of per day."""
    n_traces: int
    specification_seconds: float
    history: RunCost
    increments: tuple[RunCost, ...]

    @property
    def increment(self) -> RunCost:
        """Cost of the daily run with the median database time."""
        ordered = sorted(self.increments, key=lambda run: run.activity.building_seconds)
        return ordered[len(ordered) // 2]

    @property
    def increment_wall_seconds(self) -> float:
        """Median wall time of the daily runs."""
        return statistics.median(run.wall_seconds for run in self.increments)


@contextmanager
def throw_away_project(*, default_settings: bool = False) -> Iterator[Project]:
    """Start a temporary embedded PostgreSQL for this project. By default it has settings that are fast but not safe."""
    with embedded.throw_away(default_settings=default_settings) as server, TemporaryDirectory() as folder:
        embedded.write_profile(Path(folder), server)
        yield load_project(REPOSITORY, Path(folder))


def measure(agents: int, days: int, traces_per_day: float, seed: int, increments: int) -> Measurements:
    """Measure the speed of scoring a simulated fleet on a server with default settings.

    :param days: days of history, which the first run scores.
    :param increments: number of further days. They are loaded and scored one after the other.
    """
    stream = stream_fleet(agents, days + increments, traces_per_day, seed, END, rows_per_chunk=1)
    a_day_each = stream.traces
    as_of = END - timedelta(days=increments)
    with throw_away_project(default_settings=True) as project, connect(project) as connection:
        say(f"Simulating {agents:,} agents and {days} days.")
        history_of_traces = replace(stream, traces=islice(a_day_each, days))
        load_fleet(connection, history_of_traces)
        # Bring the tables into the state that autovacuum and checkpoints maintain in production.
        for table in SOURCE_TABLES:
            connection.execute(sql.SQL("vacuum (analyze) cirislens.{}").format(sql.Identifier(table)))
        connection.execute("alter system set autovacuum to off")
        connection.execute("select pg_reload_conf()")
        connection.execute("checkpoint")

        say("Measuring the specification's SQL.")
        [n_traces] = one_row(connection.execute("select count(*) from cirislens.covenant_traces"))
        yardstick_seconds = specification_seconds(connection, as_of)

        say("Full history.")
        history = _run(connection, project, as_of)
        runs = []
        for number, traces in enumerate(a_day_each, start=1):
            say(f"Daily increment {number} of {increments}.")
            copy_frames(connection, project.source_table("covenant_traces"), traces.columns, [traces])
            runs.append(_run(connection, project, as_of + timedelta(days=number)))
        return Measurements(agents, seed, days, n_traces, yardstick_seconds, history, tuple(runs))


def specification_seconds(connection: psycopg.Connection, as_of: datetime) -> float:
    """Return the median time of the specification's composite query at an as-of, with warm caches."""
    document = (REPOSITORY / "docs/ciris_scoring_specification.md").read_text("utf-8")
    _, _, section = document.partition("## Composite Score Calculation\n")
    composite = section.split("```sql\n")[1].split("```")[0]
    query = composite.replace("NOW()", sql.Literal(as_of).as_string(connection)).encode()
    connection.execute(query)
    seconds = []
    for _ in range(YARDSTICK_RUNS):
        started = time.perf_counter()
        connection.execute(query)
        seconds.append(time.perf_counter() - started)
    return statistics.median(seconds)


# The scoring process copies its memory figures from /proc when it ends. getrusage is not used, because its peak would
# include the memory of the benchmark's process.
RUN = """
import atexit, shutil, sys
from ciris_scoring.cli.commands import main
status = sys.argv.pop()
if sys.platform == "linux":
    atexit.register(shutil.copyfile, "/proc/self/status", status)
main()
"""


def score(project: Project, as_of: datetime, status: str = os.devnull) -> None:
    """Run `ciris-scoring run` in a process, like a scheduler.

    :param status: file for the memory figures of the process, on Linux.
    """
    place = ["--project-dir", str(project.project_dir), "--profiles-dir", str(project.profiles_dir)]
    command = [sys.executable, "-c", RUN, "run", *place, "--as-of", text(as_of), status]
    subprocess.run(command, stdout=subprocess.DEVNULL, check=True)


# Statements of the work that autovacuum has now. The conditions are those of PostgreSQL's manual ("The Autovacuum
# Daemon") with the default settings.
AUTOVACUUM = """
    select
        case
            when not is_analyzed then 'vacuum '
            when is_vacuumed then 'vacuum (analyze) '
            else 'analyze '
        end || name
    from (
        select
            stat.relid::regclass::text as name,
            stat.n_dead_tup > 50 + 0.2 * greatest(c.reltuples, 0)
            or stat.n_ins_since_vacuum > 1000 + 0.2 * greatest(c.reltuples, 0) as is_vacuumed,
            stat.n_mod_since_analyze > 50 + 0.1 * greatest(c.reltuples, 0) as is_analyzed
        from pg_stat_user_tables as stat
        inner join pg_class as c on c.oid = stat.relid
        where stat.schemaname <> 'cirislens'
    ) as tables
    where is_vacuumed or is_analyzed
    """


def autovacuum(connection: psycopg.Connection) -> float:
    """Do for the project's tables what autovacuum would do now, and return the seconds that this takes."""
    statements = connection.execute(AUTOVACUUM).fetchall()
    started = time.perf_counter()
    for (statement,) in statements:
        connection.execute(statement.encode())
    return time.perf_counter() - started


def _run(connection: psycopg.Connection, project: Project, as_of: datetime) -> RunCost:
    with TemporaryDirectory() as folder, watched(project) as activity:
        status = Path(folder, "status")
        started = time.monotonic()
        score(project, as_of, str(status))
        seconds = time.monotonic() - started
        found = re.search(r"VmHWM:\s+(\d+)", status.read_text("utf-8")) if status.exists() else None
    peak_bytes = None if found is None else int(found[1]) * 1024
    return RunCost(activity, seconds, peak_bytes, autovacuum(connection))
