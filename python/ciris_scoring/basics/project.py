"""The dbt project and its profile, read without dbt if possible, because importing dbt takes seconds."""

import contextlib
import difflib
import gc
import json
import math
import os
import shlex
from argparse import Namespace
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import yaml
from psycopg import sql

from ciris_scoring.basics import dbt_patches
from ciris_scoring.basics.errors import InputError, NoProfile, ProfileError, one_line, shown
from ciris_scoring.basics.paths import fault_of_path
from ciris_scoring.basics.profile import Credentials, NeedsDbt, dbt_variable, load_yaml, read_target
from ciris_scoring.basics.relations import PACKAGE
from ciris_scoring.basics.source_schema import DEFAULT_SCHEMA, SOURCE_TABLES
from ciris_scoring.basics.variables import PREFIX, SCHEMA, SET_BY_US, variable_fault

STATE_FOLDER = Path(".ciris")
"""Folder in the project for the embedded PostgreSQL and the profile for its sample."""
BATCHES_FOLDER = STATE_FOLDER / "batches"
"""Folder of the profile for raw batches."""
READ_BY_PYTHON = (
    *("source", "source_schema", "scoring_period", "scored_run_kinds", "lock_wait_seconds"),
    *(f"{name}_table" for name in SOURCE_TABLES),
)
"""Variables whose values commands use before the macros check all variables."""


@dataclass(frozen=True)
class Project:
    """A dbt project and a target, according to its files and the command line."""

    project_dir: Path
    profiles_dir: Path
    profile_name: str
    target_name: str
    credentials: Credentials
    cli_vars: Mapping[str, Any]
    """Variables given on the command line, by their full names."""
    variables: Mapping[str, Any]
    """Variables in force, as dbt resolves them, by their names without the prefix."""

    @property
    def schema(self) -> str:
        """Schema of the target; the lock of a run has its name. By default it is the schema of the marts."""
        return str(self.credentials.schema)

    @property
    def source_schema(self) -> str:
        """Schema of the source tables."""
        return str(self.variables.get("source_schema", DEFAULT_SCHEMA))

    @property
    def source_tables(self) -> dict[str, str]:
        """Name of each source table in the database, by its name in the project."""
        return {name: str(self.variables.get(f"{name}_table", name)) for name in SOURCE_TABLES}

    def source_table(self, name: str) -> sql.Identifier:
        """Return the quoted relation of a source table."""
        return sql.Identifier(self.source_schema, self.source_tables.get(name, name))


def parse_vars(text: str | None) -> dict[str, Any]:
    """Parse the argument of ``--vars``, which must be a YAML dictionary.

    :raises InputError: the argument is not a YAML dictionary.
    """
    hint = "Write a YAML dictionary, for example --vars '{ciris_scoring_period: hour}'."
    try:
        variables = yaml.safe_load(text or "{}")
    except RecursionError as error:
        raise InputError("--vars is nested too deeply.", hint) from error
    except (yaml.YAMLError, ValueError) as error:  # yaml raises ValueError for an impossible date
        raise InputError(f"--vars is not YAML: {text!r} ({one_line(error)})", hint) from error
    if not isinstance(variables, dict):
        raise InputError(f"--vars must be a dictionary, not {text!r}.", hint)
    return variables


def vars_text(variables: Mapping[str, Any]) -> str:
    """Return variables as YAML text for dbt's ``--vars``. JSON is not used, because a YAML parser would read 1e-09 as a
    text, and the escaped halves of an emoji as two characters.
    """
    plain = json.loads(json.dumps(variables, default=str))
    return str(yaml.safe_dump(plain, default_flow_style=True, allow_unicode=True, width=math.inf))


def find_project(project_dir: Path | None = None) -> Path:
    """Return the folder of dbt_project.yml: the given folder, or DBT_PROJECT_DIR, or the nearest folder with the file
    among the current folder and the folders above it.

    :raises ProfileError: no folder has the file.
    """
    here = Path.cwd()
    above = (folder for folder in (here, *here.parents) if (folder / "dbt_project.yml").exists())
    folder = Path(project_dir or dbt_variable("PROJECT_DIR") or next(above, here)).resolve()
    if not (folder / "dbt_project.yml").is_file():
        raise ProfileError(
            f"There is no dbt_project.yml in {folder}.",
            "Run the command in the project's folder, or name it with --project-dir.",
        )
    return folder


def project_option(project_dir: Path) -> str:
    """Return the option that names a project to a command, or nothing if the current folder is in the project."""
    if Path.cwd().is_relative_to(project_dir):
        return ""
    return f" --project-dir {shlex.quote(str(project_dir))}"


@contextlib.contextmanager
def without_garbage_collection() -> Iterator[None]:
    """Disable garbage collection in the block, because dbt creates a million objects there and frees none."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def load_project(
    project_dir: Path | None = None,
    profiles_dir: Path | None = None,
    target: str | None = None,
    cli_vars: Mapping[str, Any] | None = None,
    profile: str | None = None,
) -> Project:
    """Find the project and the profile as dbt does, and read both.

    :param project_dir: as in :func:`find_project`.
    :param profiles_dir: folder of profiles.yml. [default: DBT_PROFILES_DIR, this folder if it has a profiles.yml,
        ~/.dbt]
    :param target: name of a target. [default: DBT_TARGET, the profile's own]
    :param cli_vars: variables given on the command line, by their full names.
    :param profile: name of a profile. [default: DBT_PROFILE, the name in dbt_project.yml]
    :raises ProfileError: project or profile is missing, cannot be read, or is not for PostgreSQL.
    :raises InputError: a variable does not exist in the project, or a value is wrong.
    """
    cli_vars = dict(cli_vars or {})
    project_dir = find_project(project_dir)
    here = Path.cwd()
    default = here if (here / "profiles.yml").exists() else Path.home() / ".dbt"
    named = profiles_dir or dbt_variable("PROFILES_DIR")
    profiles_dir = Path(named or default)
    if fault := fault_of_path(profiles_dir / "profiles.yml"):
        raise ProfileError(
            f"The profile cannot be looked up: {fault}",
            "--profiles-dir and the environment variable DBT_PROFILES_DIR name the profile's folder.",
        )
    profiles_dir = profiles_dir.resolve()
    if not (profiles_dir / "profiles.yml").is_file():
        batches = shlex.quote(os.path.relpath(project_dir / BATCHES_FOLDER))
        raise (ProfileError if named else NoProfile)(
            f"There is no dbt profile: {profiles_dir / 'profiles.yml'} does not exist.",
            f"Copy {_example(project_dir)} to {profiles_dir / 'profiles.yml'} and fill in your PostgreSQL, or add "
            f"--embedded for the sample, or --profiles-dir {batches} after run --from-batches.",
        )
    names = (profile or dbt_variable("PROFILE"), target or dbt_variable("TARGET"))
    try:
        found = _read(project_dir, profiles_dir, *names)
    except NeedsDbt:
        found = _read_by_dbt(project_dir, profiles_dir, *names, cli_vars)
    own = {name: value for name, value in _scoped(found.own_vars).items() if name.startswith(PREFIX)}
    set_there = _scoped(found.vars)
    _check_names(cli_vars, own, set_there, is_root=found.is_root)
    in_force = {**own, **set_there, **cli_vars}
    variables = {name.removeprefix(PREFIX): in_force[name] for name in own}
    is_schema, allowed = SCHEMA
    faults = [variable_fault(name, variables[name]) for name in READ_BY_PYTHON if name in variables]
    if not is_schema(found.credentials.schema):
        faults.append(f"The schema of the profile is {shown(found.credentials.schema)}, but must be {allowed}.")
    for fault in filter(None, faults):
        raise InputError(fault, "Correct it in the profile, in dbt_project.yml or in --vars.")
    return Project(
        project_dir=project_dir,
        profiles_dir=profiles_dir,
        profile_name=found.profile_name,
        target_name=found.target_name,
        credentials=found.credentials,
        cli_vars=cli_vars,
        variables=variables,
    )


@dataclass(frozen=True)
class _Files:
    profile_name: str
    target_name: str
    credentials: Credentials
    vars: Mapping[str, Any]
    """Variables that the root project sets."""
    own_vars: Mapping[str, Any]
    """Variables that the package sets."""
    is_root: bool
    """Whether the root project is the package."""


def _read(project_dir: Path, profiles_dir: Path, profile: str | None, target: str | None) -> _Files:
    """Read project and profile without dbt, or raise NeedsDbt."""
    project = load_yaml(project_dir / "dbt_project.yml")
    variables = project.get("vars", {})
    if project.get("name") != PACKAGE or not isinstance(variables, dict):
        raise NeedsDbt("another project uses the package")
    names = read_target(profiles_dir / "profiles.yml", profile or project.get("profile"), target)
    return _Files(*names, variables, variables, is_root=True)


@without_garbage_collection()
def _read_by_dbt(
    project_dir: Path,
    profiles_dir: Path,
    profile_name: str | None,
    target: str | None,
    cli_vars: dict[str, Any],
) -> _Files:
    dbt_patches.before_import()
    from dbt.config.runtime import load_profile
    from dbt.config.runtime import load_project as load_dbt_project
    from dbt.flags import set_from_args
    from dbt_common.clients.system import get_env
    from dbt_common.context import set_invocation_context
    from dbt_common.exceptions import DbtBaseException

    try:
        set_invocation_context(get_env())
        set_from_args(Namespace(profiles_dir=str(profiles_dir), project_dir=str(project_dir)), None)
        profile = load_profile(str(project_dir), cli_vars, profile_name, target)
        project = load_dbt_project(str(project_dir), False, profile, cli_vars)
        package = project if project.project_name == PACKAGE else _dependency(project, profile)
    except DbtBaseException as error:
        reason = one_line(getattr(error, "msg", error))
        raise ProfileError(
            f"dbt cannot use the profile in {profiles_dir} or the project in {project_dir}: {reason}",
            f"{_example(project_dir)} is an example of a profile; `dbt debug` checks yours.",
        ) from error
    if profile.credentials.type != "postgres":
        raise ProfileError(
            f"Target {profile.target_name!r} of profile {profile.profile_name!r} is for "
            f"{profile.credentials.type}; the project needs PostgreSQL.",
            "Name another target with --target.",
        )
    settings: dict[str, Any] = {
        one.name: getattr(profile if one.name == "threads" else profile.credentials, one.name)
        for one in fields(Credentials)
    }
    return _Files(
        profile.profile_name,
        profile.target_name,
        Credentials(**settings),
        project.vars.to_dict(),
        package.vars.to_dict(),
        is_root=package is project,
    )


def _example(project_dir: Path) -> Path:
    own = project_dir / "profiles.yml.example"
    return own if own.is_file() else project_dir / "dbt_packages" / PACKAGE / own.name


def _scoped(variables: Mapping[str, Any]) -> dict[str, Any]:
    # Variables below the package's name override global ones.
    return {**variables, **(variables.get(PACKAGE) or {})}


def _dependency(project: Any, profile: Any) -> Any:
    from dbt.config.runtime import RuntimeConfig

    arguments = Namespace(vars={}, profile=None, target=None, project_dir=project.project_root)
    dependencies = RuntimeConfig.from_parts(project, profile, arguments).load_dependencies()
    if PACKAGE not in dependencies:
        raise ProfileError(
            f"The dbt project {project.project_name} in {project.project_root} has no package {PACKAGE}.",
            "Name it in packages.yml and run `dbt deps`, or name another project's folder with --project-dir.",
        )
    return dependencies[PACKAGE]


def _check_names(
    given: Mapping[str, Any], own: Mapping[str, Any], set_there: Mapping[str, Any], *, is_root: bool
) -> None:
    """Refuse misspelt variables, which dbt would ignore. A root project may have variables with other names, but a name
    of the package without its prefix is a mistake."""
    for name in given:
        is_like_ours = str(name).startswith(PREFIX) or f"{PREFIX}{name}" in own
        if name in own or name in set_there or not (is_root or is_like_ours):
            continue
        nearest = difflib.get_close_matches(str(name), own, n=1)
        meant = f"; did you mean {nearest[0]}?" if nearest else "."
        raise InputError(
            f"--vars names {shown(name)}, which is not a variable of the project{meant}",
            f"The variables are {', '.join(sorted(own.keys() - SET_BY_US))}.",
        )
