"""Build the project with a dbt process for each model, as Cosmos for Airflow does, and compare with one `dbt build`.

`python tests/programs/process_per_model.py` scores the sample by one `dbt build`, and by a process for each seed and
model, which first builds it and then runs its tests. Up to eight processes run at once, with the same CIRIS_RUN.
All marts must be equal, and the log of runs must have one row for all processes.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import sys
import tempfile
from graphlib import TopologicalSorter
from multiprocessing.connection import wait
from pathlib import Path
from typing import Any
from unittest.mock import patch

import psycopg
from dbt.cli.main import dbtRunner
from dbt.contracts.graph.manifest import Manifest

import tests_path  # noqa: F401
from ciris_scoring.lab import embedded
from ciris_scoring.lab.simulation.sample import SAMPLE, load_sample
from pipeline import REPOSITORY, relation_differences

FORK = multiprocessing.get_context("fork")
AT_ONCE = 8
"""Number of processes that run at once."""


def parts(manifest: Manifest) -> dict[str, set[str]]:
    """Return the seeds and models of the project, each with those before it."""
    nodes = {
        unique_id: node
        for unique_id, node in manifest.nodes.items()
        if node.package_name == "ciris_scoring" and node.resource_type in ("seed", "model")
    }
    return {unique_id: nodes.keys() & node.depends_on_nodes for unique_id, node in nodes.items()}


def build_and_test(manifest: Manifest, unique_id: str, options: list[str], folder: Path) -> None:
    """Build a node and run its tests, in a separate process. The exit code is 1 if one fails."""
    kind, _, name = unique_id.split(".")
    for command in ("seed" if kind == "seed" else "run", "test"):
        paths = ["--target-path", str(folder / name), "--log-path", str(folder / name)]
        done = dbtRunner(manifest=manifest).invoke([command, "--select", name, "--quiet", *paths, *options])
        if not done.success:
            os._exit(1)
    os._exit(0)


def build(manifest: Manifest, options: list[str], folder: Path) -> None:
    """Run a process for each node, in the order of the graph.

    :raises AssertionError: a process failed.
    """
    sorter, ready, running = TopologicalSorter(parts(manifest)), list[str](), dict[str, Any]()
    sorter.prepare()
    while sorter.is_active():
        ready += sorter.get_ready()
        while ready and len(running) < AT_ONCE:
            unique_id = ready.pop()
            arguments = (manifest, unique_id, options, folder)
            running[unique_id] = FORK.Process(target=build_and_test, args=arguments)
            running[unique_id].start()
        wait([process.sentinel for process in running.values()])
        for unique_id, process in list(running.items()):
            if process.exitcode is not None:
                assert process.exitcode == 0, f"{unique_id} failed: {folder}"
                sorter.done(unique_id)
                del running[unique_id]


def main() -> int:
    """Score the sample both ways. The exit code is 1 if anything differs."""
    with (
        embedded.throw_away() as server,
        tempfile.TemporaryDirectory() as folder,
        psycopg.connect(server.conninfo(), autocommit=True, options="-c timezone=UTC") as connection,
    ):
        load_sample(connection)
        for name in ("whole", "parts"):
            (Path(folder) / name).mkdir()
            embedded.write_profile(Path(folder) / name, server, schema=name)
        variables = json.dumps({"ciris_as_of": SAMPLE["as_of"]})
        options = ["--vars", variables, "--project-dir", str(REPOSITORY), "--profiles-dir"]
        assert dbtRunner().invoke(["build", "--quiet", *options, f"{folder}/whole"]).success
        options.append(f"{folder}/parts")
        manifest = dbtRunner().invoke(["parse", "--quiet", *options]).result
        with patch.dict(os.environ, CIRIS_RUN="scheduled"):
            build(manifest, options, Path(folder))
        wrong = relation_differences(connection, "whole", "parts")
        log = connection.execute("select outcome, n_scores > 0 from parts.fct_scoring_runs").fetchall()
    if log != [("published", True)]:
        wrong.append(f"the log of runs has {log}")
    print(wrong or "all marts are equal")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
