"""The dbt project and its profile.

dbt reads both. Importing dbt takes a second, so a command that has used dbt notes in the target folder what it found,
without the password, and later commands read the note while the files and the environment are the same.
"""

import contextlib
import difflib
import json
import math
import os
import re
import shlex
from argparse import Namespace
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, fields
from hashlib import sha256
from pathlib import Path
from typing import Any

import jinja2
import yaml
from psycopg import sql

from ciris_scoring.database.relations import PACKAGE, Relations, relations_as_json, relations_of_json
from ciris_scoring.database.source_schema import DEFAULT_SCHEMA, SOURCE_TABLES
from ciris_scoring.database.variables import PREFIX, SCHEMA, SET_BY_US, variable_fault
from ciris_scoring.errors import InputError, NoProfile, ProfileError, one_line, shown

STATE_FOLDER = Path(".ciris")
"""Folder in the project for the embedded PostgreSQL and the profile for its sample."""
BATCHES_FOLDER = STATE_FOLDER / "batches"
"""Folder of the profile for raw batches."""
NODES_FOLDER = STATE_FOLDER / "nodes"
"""Folder of the profile for events that are copied from nodes."""
READ_BY_PYTHON = (
    *("source", "source_schema", "scoring_period", "scored_run_kinds", "lock_wait_seconds"),
    *(f"{name}_table" for name in SOURCE_TABLES),
)
"""Variables whose values commands use before the macros check all variables."""


@dataclass(frozen=True)
class Credentials:
    """Settings of a target of type postgres, with dbt's names. dbt has more settings, which this package does not
    need."""

    host: str
    port: int
    user: str
    password: str = field(repr=False)
    database: str
    schema: str
    connect_timeout: int
    role: str | None
    keepalives_idle: int
    sslmode: str | None
    sslcert: str | None
    sslkey: str | None
    sslrootcert: str | None
    threads: int


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
    note: "Note"
    """Note of what dbt found in the project and in the profile."""

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


def dbt_variable(name: str) -> str | None:
    """Return one of dbt's environment variables; None if it is not set or empty.

    :param name: name without the prefix. As in dbt, ``DBT_ENGINE_NAME`` takes precedence over ``DBT_NAME``.
    """
    return os.environ.get(f"DBT_ENGINE_{name}") or os.environ.get(f"DBT_{name}") or None


@dataclass(frozen=True)
class Note:
    """Note of what dbt found in a project and in a profile: target without password, variables, and relations.

    It holds while size and time of the files, and the environment variables that they name, are the same.
    """

    project_dir: Path
    profiles_dir: Path
    names: tuple[str | None, str | None]
    """Profile and target, as given by options and environment."""
    cli_vars: Mapping[str, Any]

    @property
    def file(self) -> Path:
        """File of the note, one for each combination of folders, profile, target and variables."""
        key = repr((str(self.profiles_dir), self.names, vars_text(self.cli_vars)))
        return self._target_folder / f"ciris_scoring_{sha256(key.encode()).hexdigest()[:16]}.json"

    def read(self) -> tuple[Project, Relations] | None:
        """Return project and relations of the note; None if there is no note, or if it no longer holds."""
        try:
            noted = json.loads(self.file.read_text("utf-8"))
            if noted["files"] != self._files() or noted["environment"] != _environment(noted["environment"]):
                return None
            password = _RENDERING.from_string(self._password(noted["profile_name"], noted["target_name"])).render()
            project = Project(
                project_dir=self.project_dir,
                profiles_dir=self.profiles_dir,
                profile_name=noted["profile_name"],
                target_name=noted["target_name"],
                credentials=Credentials(**noted["credentials"], password=password),
                cli_vars=self.cli_vars,
                variables=noted["variables"],
                note=self,
            )
            return project, relations_of_json(noted["relations"])
        except (OSError, ValueError, KeyError, TypeError, StopIteration, yaml.YAMLError, jinja2.TemplateError):
            return None

    def write(self, project: Project, relations: Relations) -> None:
        """Write the note. It is not written if a template names an environment variable that dbt keeps secret, except
        that of the password."""
        profile = _yaml(self.profiles_dir / "profiles.yml")[project.profile_name]
        output = profile["outputs"][project.target_name]
        shown = {name: value for name, value in output.items() if name not in _PASSWORDS}
        names = set(_named_variables([_yaml(self.project_dir / "dbt_project.yml"), profile.get("target"), shown]))
        if any(name.startswith("DBT_ENV_SECRET_") for name in names):
            return
        credentials = asdict(project.credentials)
        del credentials["password"]
        noted = {
            "files": self._files(),
            "environment": _environment(names),
            "profile_name": project.profile_name,
            "target_name": project.target_name,
            "credentials": credentials,
            "variables": dict(project.variables),
            "relations": relations_as_json(relations),
        }
        # The new file replaces the old one at once, because another command may read it.
        with contextlib.suppress(OSError):
            self.file.parent.mkdir(parents=True, exist_ok=True)
            temporary = self.file.with_suffix(f".{os.getpid()}")
            temporary.write_text(json.dumps(noted, default=str), "utf-8")
            temporary.replace(self.file)

    @property
    def _target_folder(self) -> Path:
        return self.project_dir / (dbt_variable("TARGET_PATH") or "target")

    def _paths(self) -> list[Path]:
        of_package = self.project_dir / "dbt_packages" / PACKAGE / "dbt_project.yml"
        of_dbt = self._target_folder / "partial_parse.msgpack"  # dbt writes it when it has parsed changed files
        return [self.project_dir / "dbt_project.yml", self.profiles_dir / "profiles.yml", of_package, of_dbt]

    def _files(self) -> dict[str, list[int]]:
        return {str(file): [file.stat().st_mtime_ns, file.stat().st_size] for file in self._paths() if file.is_file()}

    def _password(self, profile_name: str, target_name: str) -> str:
        """Return the password of a target as it stands in the profile: text or template."""
        output = _yaml(self.profiles_dir / "profiles.yml")[profile_name]["outputs"][target_name]
        return str(next(output[name] for name in _PASSWORDS if name in output))


_PASSWORDS = ("password", "pass")
"""Names of the setting of a target that has the password."""
_ENVIRONMENT_VARIABLE = re.compile(r"""env_var\(\s*['"](\w+)""")
_RENDERING = jinja2.Environment(undefined=jinja2.StrictUndefined)
_RENDERING.globals["env_var"] = lambda name, *default: (
    os.environ[name] if not default else os.environ.get(name, *default)
)


def _yaml(file: Path) -> Any:
    return yaml.load(file.read_bytes(), getattr(yaml, "CSafeLoader", yaml.SafeLoader))


def _named_variables(value: Any) -> Iterator[str]:
    """Yield the environment variables that templates in a value of YAML name."""
    if isinstance(value, str):
        yield from _ENVIRONMENT_VARIABLE.findall(value)
    elif isinstance(value, Mapping | list):
        for one in value.values() if isinstance(value, Mapping) else value:
            yield from _named_variables(one)


def _environment(names: Iterable[str]) -> dict[str, str | None]:
    return {name: os.environ.get(name) for name in sorted(names)}


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
    folder = Path(os.path.realpath(project_dir or dbt_variable("PROJECT_DIR") or next(above, here)))
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
    profiles_dir = Path(os.path.realpath(profiles_dir))
    if not (profiles_dir / "profiles.yml").is_file():
        batches = shlex.quote(os.path.relpath(project_dir / BATCHES_FOLDER))
        raise (ProfileError if named else NoProfile)(
            f"There is no dbt profile: {profiles_dir / 'profiles.yml'} does not exist.",
            f"Copy {_example(project_dir)} to {profiles_dir / 'profiles.yml'} and fill in your PostgreSQL, or add "
            f"--embedded for the sample, or --profiles-dir {batches} after run --from-batches.",
        )
    names = (profile or dbt_variable("PROFILE"), target or dbt_variable("TARGET"))
    note = Note(project_dir, profiles_dir, names, cli_vars)
    if noted := note.read():
        return noted[0]
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
        note=note,
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


def _read_by_dbt(
    project_dir: Path,
    profiles_dir: Path,
    profile_name: str | None,
    target: str | None,
    cli_vars: dict[str, Any],
) -> _Files:
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
