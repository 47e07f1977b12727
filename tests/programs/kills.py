"""Kill runs at random times and compare the result of the next run with that of an undisturbed run.

`python tests/programs/kills.py` makes 40 kills (part of `make soak`). Each is determined by its number, so that it
can be repeated: `python tests/programs/kills.py --only 17`.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

import psycopg
from click.testing import Result

import tests_path  # noqa: F401
from ciris_scoring.basics.connection import one_row
from ciris_scoring.lab import embedded
from ciris_scoring.lab.embedded import SCHEMA
from command_line import at
from conftest import Database, fresh_database
from event_lens import AS_EVENTS, write_as_events
from pipeline import RUN_TIMES, create_loose_sources, table_differences
from replay import apply, daily_steps
from test_bad_input import fingerprints, refusal, restore, run, saved
from test_gate import EVIDENCE

PROGRAMS = Path(sys.executable).parent
DAYS = 12
UNDISTURBED = "undisturbed"
"""Schema with the result of an undisturbed run."""

CONTRADICTIONS = {
    f"{SCHEMA}.fct_factor_components": f"""
        select count(*)
        from {SCHEMA}.fct_capacity_scores as scores
        inner join (
            select
                agent_id_hash, as_of, window_days,
                max(component_value) filter (where component = 'i_chain')
                * max(component_value) filter (where component = 'i_coverage')
                * max(component_value) filter (where component = 'i_replay') as i_int,
                max(component_value) filter (where component = 'u_unsafe') as u_unsafe,
                max(component_value) filter (where component = 'ece') as ece,
                max(component_value) filter (where component = 'q_deferral') as q_deferral
            from {SCHEMA}.fct_factor_components
            group by agent_id_hash, as_of, window_days
        ) as explained using (agent_id_hash, as_of, window_days)
        where
            abs(i_int_score - i_int) > 1e-12
            or abs(i_inc_score - (1 - explained.ece) * explained.q_deferral * (1 - explained.u_unsafe)) > 1e-12
        """,
    f"{SCHEMA}.fct_score_attribution": f"""
        select count(*)
        from (
            select agent_id_hash, as_of, window_days, sum(points_lost) as points_lost
            from {SCHEMA}.fct_score_attribution
            group by agent_id_hash, as_of, window_days
        ) as explained
        left join {SCHEMA}.fct_capacity_scores as scores using (agent_id_hash, as_of, window_days)
        where (abs(1 - scores.capacity_score - explained.points_lost) <= 1e-12) is not true
        """,
    f"{SCHEMA}.fct_score_changes": f"""
        select count(*)
        from (
            select agent_id_hash, as_of, window_days, compared_as_of, sum(points) as points
            from {SCHEMA}.fct_score_changes
            group by agent_id_hash, as_of, window_days, compared_with, compared_as_of
        ) as explained
        left join {SCHEMA}.fct_capacity_scores as later using (agent_id_hash, as_of, window_days)
        left join {SCHEMA}.fct_capacity_scores as earlier
            on
                earlier.agent_id_hash = explained.agent_id_hash
                and earlier.as_of = explained.compared_as_of
                and earlier.window_days = explained.window_days
        where (abs(later.capacity_score - earlier.capacity_score - explained.points) <= 1e-12) is not true
        """,
}
"""For marts that explain scores: number of rows that contradict the published scores."""
LAYERS = ("", "_staging", "_intermediate")
OF_THE_RUN = ("int_scoring_run", "int_scoring_parameters", "int_source_periods")
SLOW_PYTHON_MODEL = f"""
    create function public.take_time() returns trigger language plpgsql as $$
        begin perform pg_sleep(0.03); return new; end $$;
    create trigger take_time before insert on {SCHEMA}_intermediate.int_windows
        for each row execute function public.take_time();
    """
"""Trigger that slows the Python model down. It is otherwise too short to be killed."""

PYTHON_MODEL_SECONDS = 1.2
"""Approximate duration of the slowed Python model in seconds."""

PATIENCE_SECONDS = 120
"""Seconds after which a test stops waiting for a command."""


class Command:
    """A program in a new process and session. At the end of a with block it is killed."""

    def __init__(self, *arguments: str | Path):
        self._stderr, path = tempfile.mkstemp()
        os.unlink(path)
        self.started = time.monotonic()
        self._process = subprocess.Popen(
            arguments, stdout=subprocess.DEVNULL, stderr=self._stderr, start_new_session=True
        )

    @property
    def said(self) -> str:
        """Output on stderr so far."""
        return os.pread(self._stderr, 1 << 20, 0).decode()

    def wait_until_said(self, pattern: str) -> None:
        """Wait for a line of output. Fail if the program ends without it."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not re.search(pattern, self.said):
            waiting = self._process.poll() is None and time.monotonic() < deadline
            assert waiting or re.search(pattern, self.said), f"never said {pattern!r}:\n{self.said}"
            time.sleep(0.002)

    def wait(self) -> int:
        """Wait for the end and return the exit code."""
        return self._process.wait(PATIENCE_SECONDS)

    @property
    def has_ended(self) -> bool:
        """Return whether the program has ended."""
        return self._process.poll() is not None

    def kill(self) -> None:
        """Kill the program with SIGKILL if it has not ended."""
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()

    def __enter__(self) -> Command:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()
        os.close(self._stderr)


def real_run(database: Database, case: Case) -> Command:
    """Start `ciris-scoring run`."""
    return Command(
        PROGRAMS / "ciris-scoring", "run", *at(database), "--as-of", case.as_of.isoformat(), *case.options
    )


BEFORE_PYTHON = r" s  model int_agent_periods\n"
NODE = r"\d+ of \d+ +\S+ +[\d.]+ s +(.+)"


def place(said: str) -> str:
    """Return the step of a run that its last line of output names."""
    if "Scoring " not in said:
        return "start-up"
    if "Done in " in said:
        return "ended"
    built = re.findall(NODE, said)
    where = (
        "behind the scores"
        if "model fct_capacity_scores" in built
        else "before the scores"
        if "model int_windows" in built or "model int_agent_periods" not in built
        else "Python model"
    )
    return f"{where}, after {built[-1]}" if built else where


@dataclass
class Case:
    """A run to kill: initial state, options, and the result without a kill."""

    name: str
    state: str
    """Saved database with the initial state of the target, and the result of an undisturbed run in another schema."""
    as_of: datetime
    options: tuple[str, ...] = ()
    before: dict[str, str] = field(default_factory=dict)
    """Fingerprints of the marts in the initial state."""
    behind_before: dict[str, str] = field(default_factory=dict)
    """Fingerprints of the tables behind the marts in the initial state."""
    after: dict[str, str] = field(default_factory=dict)
    seconds: float = 0


@dataclass(frozen=True)
class Outcome:
    """Result of a kill."""

    description: str
    wrong: list[str]

    def __str__(self) -> str:
        return "\n    ".join(
            [f"{self.description}: {'WRONG' if self.wrong else 'as it should be'}", *self.wrong]
        )


def marts(database: Database) -> dict[str, str]:
    """Return the fingerprints of the marts. Of the view on the current run it is only checked that it can be read.

    Views that explain a score may lack rows while their second table is not yet written, but must never contradict a
    score.
    """
    with database.connect() as connection:
        found = _fingerprints(connection, SCHEMA, "rv")
        for name in CONTRADICTIONS.keys() & found.keys():
            found[name] = f"{one_row(connection.execute(CONTRADICTIONS[name]))[0]} contradictions"
    return {n: "live" if n in EVIDENCE else rows for n, rows in found.items()}


def _fingerprints(connection: psycopg.Connection, schema: str, kinds: str) -> dict[str, str]:
    """Return fingerprints without the times of runs and without tables that remain from swaps."""
    found = fingerprints(connection, schema, kinds=kinds, without=RUN_TIMES, may_be_none=True)
    return {n: rows for n, rows in found.items() if not n.endswith("__dbt_backup")}


def behind_the_marts(database: Database) -> dict[str, str]:
    """Return fingerprints of the tables behind the marts."""
    with database.connect() as connection:
        found = _fingerprints(connection, f"{SCHEMA}_intermediate", "r")
    return {n: rows for n, rows in found.items() if not n.endswith(OF_THE_RUN)}


@contextmanager
def cases(
    server: embedded.Server, folder: Path, *, only_increment: bool = False, as_events: bool = False
) -> Iterator[tuple[Database, dict[str, Case]]]:
    """Yield a database with a replayed fleet, and the runs: the first one, an incremental one, and a full refresh
    with other parameters.

    :param only_increment: omit the first run and the full refresh.
    :param as_events: runs read events instead of traces.
    """
    *steps, last = daily_steps(DAYS)
    source = AS_EVENTS if as_events else {}
    options = ("--vars", json.dumps(source))
    other = json.dumps({**source, "ciris_scoring_parameters": {"lambda_c": 6}})
    rescoring = ("--full-refresh", "--allow-rescoring", "--vars", other)
    with fresh_database(server, folder) as database:
        with database.connect() as connection:
            create_loose_sources(connection)
            if as_events:
                write_as_events(connection)
            for step in steps:
                apply(connection, step)
        with saved(database) as empty:
            first = Case("first run", empty, steps[-1].as_of, options)
            # dbt has then parsed the project before a run whose duration is measured.
            with real_run(database, first) as command:
                assert command.wait() == 0, command.said
            found = [] if only_increment else [_undisturbed(first, database)]
            with database.connect() as connection:
                apply(connection, last)
            with saved(database) as scored, saved(database) as rescored:
                found.append(_undisturbed(Case("increment", scored, last.as_of, options), database))
                if not only_increment:
                    refresh = Case("full refresh", rescored, last.as_of, rescoring)
                    found.append(_undisturbed(refresh, database))
                yield database, {case.name: case for case in found}


def _undisturbed(case: Case, database: Database) -> Case:
    """Make the run without a kill, and store its result in the saved state and in the database."""
    restore(database, case.state)
    case.before, case.behind_before = marts(database), behind_the_marts(database)
    with real_run(database, case) as command:
        assert command.wait() == 0, command.said
        case.seconds = time.monotonic() - command.started
    case.after = marts(database)
    assert case.after["ciris.fct_capacity_scores"] != case.before.get("ciris.fct_capacity_scores")
    _copy_as_undisturbed(database, case.state)
    return case


def _copy_as_undisturbed(database: Database, state: str) -> None:
    """Copy the scored schemas into a saved database under another name."""
    server = database.server
    where = ["-h", server.socket_folder, "-p", str(server.port), "-U", server.user]
    psql = [server.programs / "psql", *where, "-qX", "-v", "ON_ERROR_STOP=1", "-o", os.devnull]
    with saved(database) as renamed:
        with psycopg.connect(server.conninfo(renamed), autocommit=True) as connection:
            for layer in LAYERS:
                connection.execute(f"alter schema {SCHEMA}{layer} rename to {UNDISTURBED}{layer}")
        dump = [server.programs / "pg_dump", *where, "-n", f"{UNDISTURBED}*", renamed]
        copied = subprocess.run(dump, check=True, capture_output=True).stdout
    subprocess.run([*psql, "-d", state], input=copied, check=True)


def kill(database: Database, case: Case, number: int) -> Outcome:
    """Kill the run at a time that is derived from a number, and examine the marts."""
    rng = random.Random(number)
    if number % 10 == 0:
        with database.connect() as connection:
            connection.execute(SLOW_PYTHON_MODEL)
    with real_run(database, case) as command:
        if number % 10 == 0:
            command.wait_until_said(BEFORE_PYTHON)
            time.sleep(rng.uniform(0, PYTHON_MODEL_SECONDS))
        else:
            time.sleep(rng.uniform(0, case.seconds))
        command.kill()
        seconds, where = time.monotonic() - command.started, place(command.said)
    found = marts(database)
    changing = {name for name, rows in case.after.items() if rows != case.before.get(name)}
    new = {name for name in changing if found.get(name) == case.after[name]}
    return Outcome(
        f"kill {number}: {case.name}, at {seconds:.1f} of {case.seconds:.1f} s, {where}; "
        f"{len(new)} of {len(changing)} marts new",
        half_published(case, found),
    )


def half_published(case: Case, found: dict[str, str]) -> list[str]:
    """Return marts that are missing, or equal neither the state before the run nor that after it."""
    wrong = [f"{name} is gone" for name in case.before.keys() - found.keys()]
    return wrong + [
        f"{name} is neither as before nor as after"
        for name, rows in found.items()
        if rows not in (case.before.get(name), case.after.get(name))
    ]


def differences_after_another_run(database: Database, case: Case) -> list[str]:
    """Make the next run in this process. Return the differences from an undisturbed run."""
    again = _run_again(database, case)
    if again.exit_code:
        return [again.output]
    with database.connect() as connection:
        return table_differences(connection, SCHEMA, UNDISTURBED)


def _run_again(database: Database, case: Case) -> Result:
    """Make the next run. After an unfinished full refresh any other run must be refused with a message."""
    if "--full-refresh" in case.options and _is_unfinished(database, case):
        message = refusal(run(database, as_of=case.as_of.isoformat()), exit_code=1)
        assert "did not end" in message, message
    return run(database, *case.options, as_of=case.as_of.isoformat())


def _is_unfinished(database: Database, case: Case) -> bool:
    with database.connect() as connection:
        runs = connection.execute(
            f"select count(*) from {SCHEMA}_intermediate.int_runs where published_at is not null"
        ).fetchone()
    return runs == (1,) and behind_the_marts(database) != case.behind_before


def draw(number: int) -> str:
    """Return the name of the run that a number kills. Every tenth number kills an incremental run in its Python
    model."""
    return ["increment", "increment", "first run", "increment", "full refresh"][number // 2 % 5]


def main() -> int:
    """Run the soak test. The exit code is 1 if anything is wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=40)
    parser.add_argument("--events", action="store_true", help="read events in the place of traces")
    parser.add_argument("--only", type=int, help="number of one kill to repeat")
    options = parser.parse_args()
    numbers = [options.only] if options.only else range(1, options.kills + 1)
    n_wrong = 0
    with (
        embedded.throw_away() as server,
        tempfile.TemporaryDirectory() as folder,
        cases(server, Path(folder), as_events=options.events) as (database, by_name),
    ):
        for number in numbers:
            case = by_name[draw(number)]
            restore(database, case.state)
            outcome = kill(database, case, number)
            outcome.wrong.extend(differences_after_another_run(database, case))
            print(outcome, flush=True)
            n_wrong += bool(outcome.wrong)
    print(f"kills: {len(numbers)}, {n_wrong} with something wrong")
    return 1 if n_wrong else 0


if __name__ == "__main__":
    sys.exit(main())
