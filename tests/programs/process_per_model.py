"""Build the project with a dbt process for each model, as Cosmos for Airflow does, and compare with one `dbt build`.

`python tests/programs/process_per_model.py` scores the sample twice, in a first run and in an increment, once by one
`dbt build` and once by a process for each seed and model, which first builds it and then runs its tests. The processes
of a run have the same text in CIRIS_RUN. Eight run at once (--at-once). In the increment a process is killed while it
writes, and started again. All marts must be equal, and each run must have one row in the log of runs.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import multiprocessing.connection
import os
import signal
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import psycopg
from dbt.cli.main import dbtRunner
from dbt.contracts.graph.manifest import Manifest

import tests_path  # noqa: F401
from ciris_scoring.lab import embedded
from ciris_scoring.lab.simulation.sample import SAMPLE, load_sample
from pipeline import REPOSITORY, mart_differences

FORK = multiprocessing.get_context("fork")
KILLED = "int_windows"


def parents(manifest: Manifest, nodes: Mapping[str, Any], unique_id: str) -> set[str]:
    """Return the nodes that are built before a node. Ephemeral models are replaced by the nodes that they read."""
    found = set()
    for parent in manifest.nodes[unique_id].depends_on_nodes:
        if parent in nodes:
            found.add(parent)
        elif parent in manifest.nodes:
            found |= parents(manifest, nodes, parent)
    return found


def tasks(manifest: Manifest) -> dict[str, set[str]]:
    """Return the seeds and models of the project, each with those before it."""
    nodes = {
        unique_id: node
        for unique_id, node in manifest.nodes.items()
        if node.package_name == "ciris_scoring"
        and node.resource_type in ("seed", "model")
        and node.config.materialized != "ephemeral"
    }
    return {unique_id: parents(manifest, nodes, unique_id) for unique_id in nodes}


def build_and_test(manifest: Manifest, unique_id: str, options: list[str], folder: Path) -> None:
    """Build a node and run its tests, in a separate process. The exit code is 1 if one fails."""
    kind, _, name = unique_id.split(".")
    for command in ("seed" if kind == "seed" else "run", "test"):
        paths = ["--target-path", str(folder / name), "--log-path", str(folder / name)]
        done = dbtRunner(manifest=manifest).invoke([command, "--select", name, "--quiet", *paths, *options])
        if not done.success:
            os._exit(1)
    os._exit(0)


def wait_for_statement(connection: psycopg.Connection[Any], model: str) -> None:
    """Wait until a session runs a statement that dbt's comment says is of the model."""
    of_model = f'%"node_id": "model.ciris_scoring.{model}"%'
    query = "select count(*) from pg_catalog.pg_stat_activity where query like %s and pid <> pg_backend_pid()"
    while not connection.execute(query, (of_model,)).fetchall()[0][0]:
        time.sleep(0.002)


def build(
    manifest: Manifest,
    options: list[str],
    folder: Path,
    at_once: int,
    kill_in: psycopg.Connection[Any] | None = None,
) -> None:
    """Run a process for each node, in the order of the graph.

    With a connection, the process of one model is killed while it writes, and started again.

    :raises AssertionError: a process failed.
    """
    waiting, done, running = tasks(manifest), set[str](), dict[str, Any]()
    while waiting or running:
        ready = [unique_id for unique_id, before in waiting.items() if before <= done]
        for unique_id in ready[: at_once - len(running)]:
            del waiting[unique_id]
            running[unique_id] = start(manifest, unique_id, options, folder)
            if kill_in and unique_id.endswith(f".{KILLED}"):
                wait_for_statement(kill_in, KILLED)
                running[unique_id].kill()
                running[unique_id].join()
                print(f"killed {KILLED}: {running[unique_id].exitcode == -signal.SIGKILL}", flush=True)
                running[unique_id] = start(manifest, unique_id, options, folder)
        multiprocessing.connection.wait([process.sentinel for process in running.values()])
        for unique_id, process in list(running.items()):
            if process.exitcode is not None:
                assert process.exitcode == 0, f"{unique_id} failed: {folder}"
                done.add(unique_id)
                del running[unique_id]


def start(manifest: Manifest, unique_id: str, options: list[str], folder: Path) -> Any:
    """Start the process of a node."""
    process = FORK.Process(target=build_and_test, args=(manifest, unique_id, options, folder))
    process.start()
    return process


@contextmanager
def environment(**values: str) -> Iterator[None]:
    """Set environment variables during the block."""
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def differences(at_once: int, n_runs: int = 2) -> list[str]:
    """Score the sample both ways in a first run and increments. Return the differences."""
    wrong: list[str] = []
    newest = datetime.fromisoformat(SAMPLE["as_of"])
    with (
        embedded.throw_away() as server,
        tempfile.TemporaryDirectory() as folder,
        psycopg.connect(server.conninfo(), autocommit=True, options="-c timezone=UTC") as connection,
    ):
        load_sample(connection)
        for name in ("whole", "parts"):
            (Path(folder) / name).mkdir()
            embedded.write_profile(Path(folder) / name, server, schema=name)
        for number, as_of in enumerate(newest - timedelta(days=n) for n in reversed(range(n_runs))):
            run = f"scheduled {as_of}"
            options = [
                "--vars",
                json.dumps({"ciris_as_of": as_of.isoformat()}),
                "--project-dir",
                str(REPOSITORY),
            ]
            whole = [*options, "--profiles-dir", f"{folder}/whole"]
            parts = [*options, "--profiles-dir", f"{folder}/parts"]
            assert dbtRunner().invoke(["build", "--quiet", *whole]).success, "dbt build failed"
            manifest = dbtRunner().invoke(["parse", "--quiet", *parts]).result
            with environment(CIRIS_RUN=run):
                build(manifest, parts, Path(folder), at_once, connection if number == n_runs - 1 else None)
            wrong += mart_differences(connection, "whole", "parts")
            log = connection.execute(
                "select outcome, n_scores > 0 from parts.fct_scoring_runs order by started_at"
            ).fetchall()
            if log != [("published", True)] * (number + 1):
                wrong.append(f"the log of runs has {log}")
            print(f"{run}: {wrong or 'all marts are equal'}", flush=True)
    return wrong


def main() -> int:
    """Compare both ways. The exit code is 1 if anything differs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--at-once", type=int, default=8, help="processes that run at once")
    parser.add_argument("--runs", type=int, default=2, help="runs: the first one and increments")
    options = parser.parse_args()
    return 1 if differences(options.at_once, options.runs) else 0


if __name__ == "__main__":
    sys.exit(main())
