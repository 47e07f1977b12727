"""The dbt project and its profile, as dbt itself reads them.

dbt is imported inside the functions: it takes a second, which `--help` should not cost.
"""

import contextlib
import difflib
import gc
import os
from argparse import Namespace
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from ciris_scoring.basics.errors import InputError, ProfileError, one_line, shown
from ciris_scoring.basics.relations import PACKAGE
from ciris_scoring.basics.source_schema import SOURCE_TABLES
from ciris_scoring.basics.terminal import say

PREFIX = "ciris_"
"""What the names of the project's variables begin with, so that no other project's are taken for them."""
PARSED_VARIABLES = frozenset(
    f"{PREFIX}{name}"
    for name in ("source_schema", "time_spine", *(f"{name}_table" for name in SOURCE_TABLES))
)
"""Those of our variables that decide how dbt parses the project: what is in it, and where the sources are. The others
decide what its SQL says."""

SET_BY_US = frozenset({f"{PREFIX}backfill", f"{PREFIX}unchanged_nodes", f"{PREFIX}lock_holder_pid"})
"""Variables that the command line sets, and nobody else."""
NEVER_OLD = frozenset(
    f"{PREFIX}{name}"
    for name in (
        "backfill",
        "distribution",
        "lock_holder_pid",
        "time_spine",
        "traces_from",
        "unchanged_nodes",
    )
)
"""Variables that nobody has set by a name without the prefix."""


@dataclass(frozen=True)
class Project:
    """A dbt project with a target to build it in, as its files and the command line name them."""

    project_dir: Path
    profiles_dir: Path
    profile_name: str
    target_name: str
    credentials: Any = field(repr=False)
    """dbt's PostgresCredentials."""
    cli_vars: Mapping[str, Any]
    """Variables given on the command line, by their names there."""
    variables: Mapping[str, Any]
    """The variables in force, as dbt resolves them, by their names without the prefix."""

    @property
    def schema(self) -> str:
        """Schema of the target, which names the lock of a run; by default that of the marts."""
        return str(self.credentials.schema)

    @property
    def source_schema(self) -> str:
        """Schema of the source tables."""
        return str(self.variables.get("source_schema", "cirislens"))

    @property
    def is_distributed(self) -> bool:
        """Whether sources and tables are spread over a Citus cluster."""
        return bool(self.variables.get("distribution") == "citus")

    @property
    def source_tables(self) -> dict[str, str]:
        """Name of each source table in the database, by its own name."""
        return {name: str(self.variables.get(f"{name}_table", name)) for name in SOURCE_TABLES}


def parse_vars(text: str | None) -> dict[str, Any]:
    """Read the argument of ``--vars``: a YAML dictionary, as dbt takes it.

    :raises InputError: it is something else.
    """
    hint = "Write a YAML dictionary, for example --vars '{ciris_scoring_period: hour}'."
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


@contextlib.contextmanager
def without_garbage_collection() -> Iterator[None]:
    """Leave garbage where it is: importing dbt and parsing make a million objects, nearly all of which stay."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


@without_garbage_collection()
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
            f"Copy {_example(project_dir)} to {profiles_dir / 'profiles.yml'} and fill in your "
            "PostgreSQL, or try the sample without one: ciris-scoring run --embedded",
        )
    try:
        set_invocation_context(get_env())
        set_from_args(Namespace(profiles_dir=str(profiles_dir), project_dir=str(project_dir)), None)
        profile = load_profile(str(project_dir), cli_vars, target_override=target)
        project = load_dbt_project(str(project_dir), False, profile, cli_vars)
        package = project if project.project_name == PACKAGE else _dependency(project, profile)
    except DbtBaseException as error:
        reason = one_line(getattr(error, "msg", error))
        raise ProfileError(
            f"dbt cannot use the profile in {profiles_dir} or the project in {project_dir}: {reason}",
            f"{_example(project_dir)} shows what a profile holds; `dbt debug` checks it.",
        ) from error
    if profile.credentials.type != "postgres":
        raise ProfileError(
            f"Target {profile.target_name!r} of profile {profile.profile_name!r} is for "
            f"{profile.credentials.type}; the project needs PostgreSQL.",
            "Name another target with --target.",
        )
    own = {name: value for name, value in _scoped(package).items() if name.startswith(PREFIX)}
    set_there = _scoped(project)
    if package is project:
        cli_vars, set_there = _by_new_names(own, cli_vars, set_there)
    _check_names(cli_vars, own, set_there, is_root=package is project)
    in_force = {**own, **set_there, **cli_vars}
    return Project(
        project_dir=project_dir,
        profiles_dir=profiles_dir,
        profile_name=profile.profile_name,
        target_name=profile.target_name,
        credentials=profile.credentials,
        cli_vars=cli_vars,
        variables={name.removeprefix(PREFIX): in_force[name] for name in own},
    )


def _example(project_dir: Path) -> Path:
    """Name the example of a profile, which another project has where dbt has put the package."""
    own = project_dir / "profiles.yml.example"
    return own if own.is_file() else project_dir / "dbt_packages" / PACKAGE / own.name


def _scoped(project: Any) -> dict[str, Any]:
    """Variables that a dbt project sets for the package: global ones, overridden by those under the package's name."""
    variables = project.vars.to_dict()
    return {**variables, **(variables.get(PACKAGE) or {})}


def _dependency(project: Any, profile: Any) -> Any:
    """Return the package as the root project has installed it.

    :raises ProfileError: it has not.
    """
    from dbt.config.runtime import RuntimeConfig

    arguments = Namespace(vars={}, profile=None, target=None, project_dir=project.project_root)
    dependencies = RuntimeConfig.from_parts(project, profile, arguments).load_dependencies()
    if PACKAGE not in dependencies:
        raise ProfileError(
            f"The dbt project {project.project_name} in {project.project_root} has no package {PACKAGE}.",
            "Name it in packages.yml and run `dbt deps`, or name another project's folder with --project-dir.",
        )
    return dependencies[PACKAGE]


def _by_new_names(
    own: Mapping[str, Any], given: Mapping[str, Any], set_there: Mapping[str, Any]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Take variables that are set by the names they had before 0.2.0, as the macro ``setting`` does, and say so.

    :param own: the project's variables.
    :param given: those of the command line.
    :param set_there: those of dbt_project.yml.
    :returns: both, by the names that variables have now.
    :raises InputError: one has a value by each name.
    """
    old_names = {name.removeprefix(PREFIX): name for name in own if name not in NEVER_OLD}
    lasting = {old: set_there[old] for old in old_names if set_there.get(old) is not None}
    passing = {old: given[old] for old in old_names if old in given}
    for old in sorted({*lasting, *passing}):
        say(f"The variable {old} is called {PREFIX}{old} now; 0.3.0 will not know the old name any more.")
    for old, value in lasting.items():
        if old in passing or old_names[old] in given:
            raise InputError(
                f"The variable {old} is set to {shown(value)} in dbt_project.yml, by the name that it had before "
                f"0.2.0, and to another value by --vars.",
                f"Rename the first to {PREFIX}{old}, or leave it out.",
            )
    renamed = {old_names[old]: value for old, value in passing.items()}
    kept = {name: value for name, value in given.items() if name not in passing}
    return {**kept, **renamed}, {**set_there, **{old_names[old]: value for old, value in lasting.items()}}


def _check_names(
    given: Mapping[str, Any], own: Mapping[str, Any], set_there: Mapping[str, Any], *, is_root: bool
) -> None:
    """Refuse what dbt ignores: a variable that no model reads, because its name is misspelt.

    Another project's variables are its own affair, but for names that look as if ours were meant.
    """
    known = {*own, *set_there}
    for name in given:
        ours = str(name).startswith(PREFIX) or f"{PREFIX}{name}" in own
        if name in known or not (is_root or ours):
            continue
        nearest = difflib.get_close_matches(str(name), own, n=1)
        meant = f"; did you mean {nearest[0]}?" if nearest else "."
        raise InputError(
            f"--vars names {shown(name)}, which is no variable of the project{meant}",
            f"The variables are {', '.join(sorted(own.keys() - SET_BY_US))}.",
        )


def project_folder() -> Path:
    """Folder of the dbt project: in the package, or the checkout that the package was installed from."""
    package = Path(__file__).parents[1]
    inside = package / "dbt_project"
    return inside if inside.is_dir() else package.parents[1]
