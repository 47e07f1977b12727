"""Run the examples of schedulers with the real programs, and compare their marts with those of one `dbt build`.

`python tests/programs/examples.py [NAME ...]` installs each scheduler in a separate environment. It scores the sample
first in an empty schema, and then in the schema that it has built.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

import psycopg

import tests_path  # noqa: F401
from ciris_scoring.lab import embedded
from ciris_scoring.lab.simulation.sample import SAMPLE, load_sample
from ciris_scoring.project_files import copy_project
from pipeline import relation_differences
from release import REPOSITORY, committed, environment, printed

EXAMPLES = REPOSITORY / "examples"
PACKAGES = {
    "airflow": ("apache-airflow>=3.1,<4", "astronomer-cosmos>=1.14,<2"),
    "dagster": ("dagster>=1.11,<2", "dagster-dbt"),
    "prefect": ("prefect>=3.4,<4", "prefect-dbt"),
    "cron": (),
    "github-actions": (),
}
SILENT = {
    "AIRFLOW__COSMOS__ENABLE_TELEMETRY": "False",
    "AIRFLOW__USAGE_DATA_COLLECTION__ENABLED": "False",
    "DAGSTER_DISABLE_TELEMETRY": "yes",
    "DO_NOT_TRACK": "1",
    "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
}
"""Variables that stop the schedulers from sending usage data to their makers."""
SCORE = {
    "airflow": "from ciris_scoring_dag import ciris_scoring as dag;"
    " run = dag.test(); assert run.state == 'success', run.state",
    "dagster": "from score_fleet import definitions; from dagster import DagsterInstance;"
    " job = definitions.resolve_job_def('score'); assert job.execute_in_process().success",
    "prefect": "from score_fleet import score; score()",
}


class Place:
    """A database with the sample, in which each scheduler writes its marts into a separate schema."""

    def __init__(self, folder: Path, server: embedded.Server, connection: psycopg.Connection[Any]):
        self.folder, self.server, self.connection = folder, server, connection
        load_sample(connection)
        wheels = folder / "wheels"
        printed(sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "-w", wheels, committed(folder))
        [self.wheel] = wheels.glob("*.whl")
        dbt = Path(sys.executable).parent / "dbt"
        printed(dbt, "build", "--quiet", cwd=self.project("whole"), env=self.variables("whole"))

    def project(self, name: str) -> Path:
        """Create a project as `ciris-scoring init` does, with the as-of of the sample."""
        folder = self.folder / name / "project"
        copy_project(REPOSITORY, folder)
        embedded.write_profile(folder, self.server, schema=name.replace("-", "_"))
        settings = folder / "dbt_project.yml"
        text = settings.read_text("utf-8").replace("ciris_as_of: null", f'ciris_as_of: "{SAMPLE["as_of"]}"')
        settings.write_text(text, "utf-8")
        # The traces of the sample are old.
        sources = folder / "models/staging/cirislens/_cirislens__sources.yml"
        sources.write_text(re.sub("error_after: .*", "error_after: {count: 9999, period: day}", sources.read_text()))
        return folder

    def variables(self, name: str) -> dict[str, str]:
        """Return the environment variables of a scheduler."""
        home = self.folder / name
        own = {
            "CIRIS_PROJECT": str(home / "project"),
            "HOME": str(home),
            "AIRFLOW_HOME": str(home),
            "AIRFLOW__CORE__DAGS_FOLDER": str(EXAMPLES / "airflow"),
            "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
            "AIRFLOW__CORE__DAGBAG_IMPORT_TIMEOUT": "600",
            "DAGSTER_HOME": str(home),
            "PREFECT_HOME": str(home),
            "PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS": "600",
            "PYTHONPATH": str(EXAMPLES / name),
            "PYTHONDONTWRITEBYTECODE": "1",
        }
        outer = {name: value for name, value in os.environ.items() if not name.startswith("DBT_")}  # conftest sets some
        return {**outer, **SILENT, **own, "PATH": f"{home / 'environment/bin'}:{os.environ['PATH']}"}

    def check(self, name: str, n_runs: int) -> None:
        """Fail unless a scheduler published in every run and its marts equal the marts of one `dbt build`."""
        schema = name.replace("-", "_")
        wrong = relation_differences(self.connection, "whole", schema)
        log = self.connection.execute(f"select outcome from {schema}.fct_scoring_runs").fetchall()
        assert log == [("published",)] * n_runs and not wrong, (log, wrong)


def with_scheduler(place: Place, name: str, programs: Path) -> None:
    """Score the sample with a scheduler."""
    place.project(name)
    folder, variables = place.folder / name, place.variables(name)
    command = [str(programs / "python"), "-c", SCORE[name]]
    if name == "dagster":
        printed(programs / "dbt", "parse", "--quiet", cwd=folder / "project", env=variables)
    if name == "airflow":
        printed(programs / "airflow", "db", "migrate", env=variables)
    for n_runs in (1, 2):
        printed(*command, env=variables, cwd=folder)
        place.check(name, n_runs)


def with_cron(place: Place, name: str, programs: Path) -> None:
    """Check the units with systemd, and run the command of the service."""
    project, units = place.project(name), place.folder / name
    for unit in sorted((EXAMPLES / name).glob("ciris-scoring.*")):
        text = unit.read_text("utf-8").replace("/srv/ciris-scoring/.venv/bin", str(programs))
        (units / unit.name).write_text(text, "utf-8")
        if shutil.which("systemd-analyze"):
            printed("systemd-analyze", "verify", units / unit.name)
    [command] = [line for line in text_lines(units / "ciris-scoring.service") if line.startswith("ExecStart=")]
    for n_runs in (1, 2):
        printed(*command.removeprefix("ExecStart=").split(), cwd=project, env=place.variables(name))
        place.check(name, n_runs)


def with_github_actions(place: Place, name: str, programs: Path) -> None:
    """Run the command of the GitHub workflow in a project. `make lint` checks the workflow."""
    [workflow] = (EXAMPLES / name).glob("*.yml")
    [command] = [line for line in text_lines(workflow) if line.startswith("- run: ciris-scoring")]
    project = place.project(name)
    for n_runs in (1, 2):
        printed(*command.removeprefix("- run: ").split(), cwd=project, env=place.variables(name))
        place.check(name, n_runs)
    assert (project / "ciris-report.html").exists()


def text_lines(file: Path) -> list[str]:
    """Return the lines of a file without indentation."""
    return [line.strip() for line in file.read_text("utf-8").splitlines()]


def main() -> None:
    """Run all examples."""
    with (
        embedded.throw_away() as server,
        tempfile.TemporaryDirectory() as name,
        psycopg.connect(server.conninfo(), autocommit=True, options="-c timezone=UTC") as connection,
    ):
        place = Place(Path(name), server, connection)
        for example in sys.argv[1:] or PACKAGES:
            programs = environment(place.folder / example / "environment", str(place.wheel), *PACKAGES[example])
            run = {"cron": with_cron, "github-actions": with_github_actions}.get(example, with_scheduler)
            run(place, example, programs)
            print(f"{example}: all marts equal those of a single dbt build", flush=True)


if __name__ == "__main__":
    main()
