"""The jobs that the benchmark runs in processes of their own.

This module imports what `ciris-scoring run` does and no more, because a process that it starts pays for the imports.
"""

from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from ciris_scoring.basics.connection import connect
from ciris_scoring.basics.project import Project, load_project
from ciris_scoring.job import run
from ciris_scoring.job.dbt_build import DbtBuild
from ciris_scoring.job.run_log import Attempt, logged

Place = tuple[Path, Path, str, Mapping[str, Any]]
"""What a project is loaded from."""


def place(project: Project) -> Place:
    """Where another process finds the same project and target."""
    return project.project_dir, project.profiles_dir, project.target_name, project.cli_vars


def score_at(place: Place, as_of: datetime) -> None:
    """Do the job of `ciris-scoring run`.

    :raises CirisError: something expected went wrong.
    """
    build = DbtBuild(load_project(*place))
    attempt = Attempt("run", as_of)
    with logged(build.project, build.relations, attempt), connect(build.project) as connection:
        run.score(connection, build, as_of, attempt)
