"""The dbt project and its profile, as dbt itself reads them.

dbt is imported inside the functions: it takes a second, which `--help` should not cost.
"""

import difflib
import os
from argparse import Namespace
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from ciris_scoring.errors import InputError, ProfileError, one_line, shown
from ciris_scoring.source_schema import SOURCE_TABLES

PARSED_VARIABLES = frozenset({"source_schema", *(f"{name}_table" for name in SOURCE_TABLES)})
"""Variables that decide how dbt parses the project: where the sources are. The others decide what its SQL says."""


@dataclass(frozen=True)
class Project:
    """A dbt project with a target to build it in."""

    project_dir: Path
    profiles_dir: Path
    profile_name: str
    target_name: str
    credentials: Any = field(repr=False)
    """dbt's PostgresCredentials."""
    cli_vars: Mapping[str, Any]
    """Variables given on the command line."""
    variables: Mapping[str, Any]
    """Those of dbt_project.yml, overridden by those of the command line."""

    @property
    def schema(self) -> str:
        """Schema of the marts."""
        return str(self.credentials.schema)

    @property
    def source_schema(self) -> str:
        """Schema of the source tables."""
        return str(self.variables.get("source_schema", "cirislens"))

    @property
    def source_tables(self) -> dict[str, str]:
        """Name of each source table in the database, by its own name."""
        return {name: str(self.variables.get(f"{name}_table", name)) for name in SOURCE_TABLES}


def parse_vars(text: str | None) -> dict[str, Any]:
    """Read the argument of ``--vars``: a YAML dictionary, as dbt takes it.

    :raises InputError: it is something else.
    """
    hint = "Write a YAML dictionary, for example --vars '{scoring_period: hour}'."
    try:
        variables = yaml.safe_load(text or "{}")
    except (yaml.YAMLError, ValueError) as error:  # ValueError: a date that there is not
        reason = " ".join(str(error).split())
        raise InputError(f"--vars is not YAML: {text!r} ({reason})", hint) from error
    if not isinstance(variables, dict):
        raise InputError(f"--vars must be a dictionary, not {text!r}.", hint)
    return variables


def find_project(project_dir: Path | None = None) -> Path:
    """Return the folder of the dbt project.

    :param project_dir: default: this folder, or the nearest one above it with a dbt_project.yml.
    :raises ProfileError: there is none.
    """
    from dbt.cli.resolvers import default_project_dir

    folder = (project_dir or default_project_dir()).resolve()
    if not (folder / "dbt_project.yml").is_file():
        raise ProfileError(
            f"There is no dbt_project.yml in {folder}.",
            "Run the command in the project's folder, or name it with --project-dir.",
        )
    return folder


def load_project(
    project_dir: Path | None = None,
    profiles_dir: Path | None = None,
    target: str | None = None,
    cli_vars: Mapping[str, Any] | None = None,
) -> Project:
    """Find the project and the profile the way dbt does, and read both with dbt's loader.

    :param project_dir: see :func:`find_project`.
    :param profiles_dir: default: DBT_PROFILES_DIR, this folder if it has a profiles.yml, ~/.dbt.
    :param target: default: the profile's own.
    :raises ProfileError: one of them is missing, cannot be read, or is not for PostgreSQL.
    :raises InputError: a variable is given that the project does not have.
    """
    from dbt.cli.resolvers import default_profiles_dir
    from dbt.config.runtime import load_profile
    from dbt.config.runtime import load_project as load_dbt_project
    from dbt.flags import set_from_args
    from dbt_common.clients.system import get_env
    from dbt_common.context import set_invocation_context
    from dbt_common.exceptions import DbtBaseException

    cli_vars = dict(cli_vars or {})
    project_dir = find_project(project_dir)
    profiles_dir = profiles_dir or Path(os.environ.get("DBT_PROFILES_DIR") or default_profiles_dir())
    profiles_dir = profiles_dir.resolve()
    if not (profiles_dir / "profiles.yml").is_file():
        raise ProfileError(
            f"There is no dbt profile: {profiles_dir / 'profiles.yml'} does not exist.",
            f"Copy {project_dir / 'profiles.yml.example'} to {profiles_dir / 'profiles.yml'} and fill in your "
            "PostgreSQL, or try the sample without one: ciris-scoring run --embedded",
        )
    try:
        set_invocation_context(get_env())
        set_from_args(Namespace(profiles_dir=str(profiles_dir), project_dir=str(project_dir)), None)
        profile = load_profile(str(project_dir), cli_vars, target_override=target)
        project = load_dbt_project(str(project_dir), False, profile, cli_vars)
    except DbtBaseException as error:
        reason = one_line(getattr(error, "msg", error))
        raise ProfileError(
            f"dbt cannot use the profile in {profiles_dir} or the project in {project_dir}: {reason}",
            f"{project_dir / 'profiles.yml.example'} shows what a profile holds; `dbt debug` checks it.",
        ) from error
    if profile.credentials.type != "postgres":
        raise ProfileError(
            f"Target {profile.target_name!r} of profile {profile.profile_name!r} is for "
            f"{profile.credentials.type}; the project needs PostgreSQL.",
            "Name another target with --target.",
        )
    project_vars = project.vars.to_dict()
    variables = {**project_vars, **(project_vars.get(project.project_name) or {})}
    _check_names(cli_vars, variables)
    return Project(
        project_dir=project_dir,
        profiles_dir=profiles_dir,
        profile_name=profile.profile_name,
        target_name=profile.target_name,
        credentials=profile.credentials,
        cli_vars=cli_vars,
        variables={**variables, **cli_vars},
    )


def _check_names(given: Mapping[str, Any], known: Mapping[str, Any]) -> None:
    """Refuse what dbt ignores: a variable that no model reads, because its name is misspelt."""
    for name in (name for name in given if name not in known):
        nearest = difflib.get_close_matches(str(name), known, n=1)
        meant = f"; did you mean {nearest[0]}?" if nearest else "."
        raise InputError(
            f"--vars names {shown(name)}, which is no variable of the project{meant}",
            f"The variables are {', '.join(sorted(known))}.",
        )
