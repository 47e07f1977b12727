"""The measurements of the benchmark, in the order in which time brings the traces.

A fleet is simulated of a history and a few days more. The history is loaded and scored from nothing; then each day
arrives, and is scored by an increment.
"""

import json
import statistics
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory

import psycopg
from psycopg import sql

from benchmarks import reads
from benchmarks.activity import Activity, watched
from benchmarks.arriving import Arriving, FleetOptions, daily_runs, settle
from benchmarks.errors import BenchFailed
from benchmarks.reads import Read, Size
from ciris_scoring.basics.as_of import text
from ciris_scoring.basics.connection import connect, one_row
from ciris_scoring.basics.dbt import read_relations
from ciris_scoring.basics.errors import InputError
from ciris_scoring.basics.project import PREFIX, Project
from ciris_scoring.basics.source_schema import table_identifier
from ciris_scoring.basics.terminal import say
from ciris_scoring.lab.simulation.load import Progress


@dataclass(frozen=True)
class RunCost:
    """What one run took."""

    activity: Activity
    wall_seconds: float
    """From the start of its process to its end."""
    peak_bytes: int | None
    """Largest memory of its process."""
    temporary_bytes: int
    """Written to the server's temporary files."""

    @property
    def scoring_seconds(self) -> float:
        """Time of the scores: of everything but tests."""
        return self.activity.building_seconds

    @property
    def dbt_seconds(self) -> float:
        """The rest of the wall time: Python and dbt starting, parsing, and what dbt does between queries."""
        return self.wall_seconds - self.activity.seconds


@dataclass(frozen=True)
class Measurements:
    """What was measured at one length of history."""

    fleet: FleetOptions
    days: int
    """Days of history, and as-ofs of the first run."""
    n_traces: int
    trace_bytes: float
    """Mean size of a trace's row."""
    server: str
    pass_seconds: float
    specification_seconds: float
    history: RunCost
    increments: tuple[RunCost, ...]
    reads: Mapping[str, Read]
    source_size: Size
    sizes: tuple[Size, ...]

    @property
    def increment(self) -> RunCost:
        """The increment of median database time."""
        ordered = sorted(self.increments, key=lambda run: run.scoring_seconds)
        return ordered[len(ordered) // 2]

    @property
    def increment_wall_seconds(self) -> float:
        """Median wall time of the increments."""
        return statistics.median(run.wall_seconds for run in self.increments)


def check_variables(project: Project) -> None:
    """Refuse variables by which the benchmark would measure something else than it says.

    :raises InputError: it measures days, and chooses each as-of itself.
    """
    if project.variables.get("scoring_period", "day") != "day":
        raise InputError("The benchmark measures daily scores.", "Leave ciris_scoring_period at day.")
    if project.cli_vars.get(f"{PREFIX}as_of") is not None:
        raise InputError("The benchmark chooses each as-of itself.", "Leave ciris_as_of out of --vars.")


def measure(
    project: Project, fleet: FleetOptions, lengths: tuple[int, ...], increments: int, progress: Progress
) -> list[Measurements]:
    """Measure at each length of history.

    :param project: its database is empty, and the benchmark's own.
    :param lengths: days of history, ascending; the traces of a length are those of the shorter ones, and more.
    :param increments: days that arrive after each length, one at a time.
    :param progress: is told how many traces have been written.
    :raises CirisError: something expected went wrong.
    """
    arriving = Arriving(fleet, lengths[-1] + increments, progress)
    measured = []
    with connect(project) as connection:
        for length in lengths:
            as_of = arriving.start + timedelta(days=length)
            if length == lengths[0]:
                say(f"Simulating {fleet.agents:,} agents and {length} days.")
                arriving.load(connection, project, as_of)
            else:
                say(f"Adding traces up to {text(as_of)}.")
                arriving.append(connection, project, as_of)
                _drop_scores(connection, project)
            measured.append(_measure_at(connection, project, fleet, length, as_of, arriving, increments))
    return measured


def _measure_at(
    connection: psycopg.Connection,
    project: Project,
    fleet: FleetOptions,
    days: int,
    as_of: datetime,
    arriving: Arriving,
    increments: int,
) -> Measurements:
    settle(connection, project)
    say("Measuring one pass over the source, and the specification's SQL.")
    traces = table_identifier("covenant_traces", project.source_schema, project.source_tables)
    query = sql.SQL("select count(*), avg(pg_column_size(traces.*))::float from {} as traces").format(traces)
    n_traces, trace_bytes = one_row(connection.execute(query))
    pass_seconds = reads.pass_seconds(connection, project)
    specification_seconds = reads.specification_seconds(connection, project, as_of)

    history, runs = daily_runs(
        connection, project, arriving, as_of, increments, lambda moment: _run(connection, project, moment)
    )

    say("Reading the marts.")
    source_size, sizes = reads.sizes(connection, project)
    return Measurements(
        fleet=fleet,
        days=days,
        n_traces=n_traces,
        trace_bytes=trace_bytes,
        server=_server(connection),
        pass_seconds=pass_seconds,
        specification_seconds=specification_seconds,
        history=history,
        increments=runs,
        reads=reads.reads(connection, read_relations(project)),
        source_size=source_size,
        sizes=tuple(sizes),
    )


def _drop_scores(connection: psycopg.Connection, project: Project) -> None:
    for schema in read_relations(project).schemas:
        connection.execute(sql.SQL("drop schema {} cascade").format(sql.Identifier(schema)))


def _server(connection: psycopg.Connection) -> str:
    query = """
        select
            current_setting('server_version'),
            current_setting('shared_buffers'),
            current_setting('work_mem')
        """
    version, shared_buffers, work_mem = one_row(connection.execute(query))
    return f"PostgreSQL {version}, shared_buffers {shared_buffers}, work_mem {work_mem}"


# The command writes the memory of its process when it ends; getrusage would count this one's too.
RUN = """
import atexit, shutil, sys
from ciris_scoring.cli import main
status = sys.argv.pop()
if sys.platform == "linux":
    atexit.register(shutil.copyfile, "/proc/self/status", status)
main()
"""


def _run(connection: psycopg.Connection, project: Project, as_of: datetime) -> RunCost:
    """Run `ciris-scoring run` as a scheduler does."""
    before = reads.temporary_bytes(connection)
    options = {
        "--project-dir": str(project.project_dir),
        "--profiles-dir": str(project.profiles_dir),
        "--target": project.target_name,
        "--vars": json.dumps(project.cli_vars),
        "--as-of": text(as_of),
    }
    arguments = [word for option in options.items() for word in option]
    with TemporaryDirectory() as folder, watched(project) as activity:
        status = Path(folder, "status")
        started = time.monotonic()
        command = [sys.executable, "-c", RUN, "run", *arguments, str(status)]
        exit_code = subprocess.run(command, stdout=subprocess.DEVNULL, check=False).returncode
        seconds = time.monotonic() - started
        peak_bytes = _peak_bytes(status)
    if exit_code:
        raise BenchFailed(
            f"A run of the benchmark ended with code {exit_code}.",
            "Its own words, if any, are above; code -9 often means that the machine was out of memory.",
        )
    return RunCost(activity, seconds, peak_bytes, reads.temporary_bytes(connection) - before)


def _peak_bytes(status: Path) -> int | None:
    """Largest resident memory of a process that Linux described in a file."""
    if not status.exists():
        return None
    [line] = [line for line in status.read_text().splitlines() if line.startswith("VmHWM:")]
    return int(line.split()[1]) * 1024
