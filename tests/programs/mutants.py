"""Apply mutations to a copy of the project, one at a time, and run the checks.

`python tests/programs/mutants.py` applies random mutations of mutation_rules.py and prints which of them pass all
checks. The exit code is 0 although some pass: a person must read these, because some change no result and the others
need a test. Arguments select mutations whose names contain them. The checks of each mutation run in a separate process,
with a server per processor.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from queue import Queue
from random import Random

import tests_path  # noqa: F401
from ciris_scoring.errors import CirisError
from ciris_scoring.lab import embedded
from ciris_scoring.lab.embedded import Server
from conftest import Database, fresh_database
from mutation_rules import PROJECT, Mutant, mutants_by_rule
from pipeline import score_sample
from test_cases import wrong as wrong_cases
from test_dbt_unit_tests import wrong as wrong_unit_tests
from test_equals_reference import OTHER_PARAMETERS, wrong_sample
from test_equals_reference import wrong as wrong_fleet
from test_healing import wrong as wrong_histories
from test_late_arrivals import wrong as wrong_late_arrivals
from test_late_outcomes import wrong as wrong_late_outcomes
from test_red_flags import wrong_red_flags

NOT_COPIED = shutil.ignore_patterns(".git", ".venv*", ".ciris", "target", "logs", "__pycache__", ".*_cache")


def main() -> int:
    """Apply the mutations, print the result of each, and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("words", nargs="*", help="apply only mutations whose names contain one of the words")
    parser.add_argument("--sample", type=int, default=20, help="number of random mutations")
    parser.add_argument("--seed", type=int, default=1, help="seed of the sample")
    parser.add_argument("--check", nargs=3, metavar=("SOCKET", "PORT", "USER"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.check:
        socket_folder, port, user = options.check
        print(found_by(Server(socket_folder, int(port), user, Path())) or "SURVIVED")
        return 0
    chosen = [m for m in mutants_by_rule() if not options.words or any(w in m.name for w in options.words)]
    chosen = Random(options.seed).sample(chosen, min(options.sample, len(chosen)))
    survivors, n_processes = [], os.cpu_count() or 1
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        places: Queue[tuple[Path, Server]] = Queue()
        for number in range(n_processes):
            copy = folder / str(number)
            shutil.copytree(PROJECT, copy, ignore=NOT_COPIED)
            places.put((copy, stack.enter_context(embedded.throw_away())))
        if outcome := try_one(places, None):
            print(f"Without a mutation: {outcome}")
        if outcome != "SURVIVED":
            return 1
        pool = stack.enter_context(ThreadPoolExecutor(n_processes))
        for mutant, outcome in zip(chosen, pool.map(lambda m: try_one(places, m), chosen), strict=True):
            print(f"{mutant.name:75} {outcome}", flush=True)
            if outcome == "SURVIVED":
                survivors.append(mutant.name)
    print(f"{len(chosen)} mutants, {len(survivors)} survived: {', '.join(survivors) or 'none'}")
    return 0


def try_one(places: Queue[tuple[Path, Server]], mutant: Mutant | None) -> str:
    """Return the check that finds the mutation, or "SURVIVED" if no check does. None: change nothing."""
    copy, server = place = places.get()
    try:
        with applied(copy, mutant):
            command = [sys.executable, copy / "tests/programs/mutants.py", "--check"]
            # Python must not cache bytecode, because it would not notice a change within a second.
            environment = os.environ | {"PYTHONPATH": str(copy / "python"), "PYTHONDONTWRITEBYTECODE": "1"}
            done = subprocess.run(
                [*command, server.socket_folder, str(server.port), server.user],
                cwd=copy, env=environment, capture_output=True, text=True, check=False,
            )  # fmt: skip
        lines = done.stdout.splitlines() or [""]
        return lines[-1] if done.returncode == 0 else f"died: {(done.stderr.splitlines() or ['?'])[-1][:200]}"
    finally:
        places.put(place)


@contextmanager
def applied(copy: Path, mutant: Mutant | None) -> Iterator[None]:
    """Apply the mutation in the copy, and revert it afterwards."""
    if mutant is None:
        yield
        return
    file = copy / mutant.file
    file.write_text(mutant.applied())
    try:
        yield
    finally:
        file.write_text(mutant.text)


# --- run in the copy of the project ----------------------------------------------------------------------------------


def scored_and_wrong_sample(database: Database) -> list[str]:
    """Score the sample and return its differences from the reference implementation."""
    score_sample(database)
    return wrong_sample(database)


CHECKS: dict[str, Callable[[Database], Iterable[str]]] = {
    "red flags": lambda _: wrong_red_flags(),
    "cases by day": wrong_cases,
    "reference": lambda database: wrong_fleet(database, 4, OTHER_PARAMETERS, days=12),
    "cases by hour": lambda database: wrong_cases(database, by_hour=True),
    "sample": scored_and_wrong_sample,
    "unit tests": wrong_unit_tests,
    "late and logged": wrong_late_arrivals,
    "late outcomes": wrong_late_outcomes,
    "increments": lambda database: wrong_histories(database.server),
}
"""Checks by name, the fastest first. Each check yields the faults that it finds."""


def found_by(server: Server) -> str | None:
    """Return the name and first fault of the first check that fails, or None if all checks pass."""
    for name, check in CHECKS.items():
        started = time.monotonic()
        with tempfile.TemporaryDirectory() as folder, fresh_database(server, Path(folder)) as database:
            try:
                wrong = next(iter(check(database)), None)
            except (CirisError, AssertionError) as error:  # A data test can stop the run.
                wrong = f"the run failed: {error}".replace("\n", " ")
        if wrong:
            return f"{name} ({time.monotonic() - started:.0f} s): {re.sub(' +', ' ', wrong)[:160]}"
    return None


if __name__ == "__main__":
    sys.exit(main())
