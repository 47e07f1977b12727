"""A dbt profile, read as dbt reads it but without importing dbt, which takes seconds of processor time.

:class:`NeedsDbt` says that a file has something that only dbt can read, or that is wrong. dbt then reads it and says
what is wrong.
"""

import os
from ast import literal_eval
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from functools import cache
from pathlib import Path
from typing import Any

import yaml

SECRET_PREFIX = "DBT_ENV_SECRET"
SECRET = ("$$$DBT_SECRET_START$$$", "$$$DBT_SECRET_END$$$")
"""Marks around the name of a secret variable while Jinja renders. So filters never see the secret, as in dbt."""
HIGHEST_PORT = 65_535


class NeedsDbt(Exception):
    """A file of the project or the profile has something that only dbt can read."""


@dataclass(frozen=True)
class Credentials:
    """Settings of a target of type postgres, with dbt's names and defaults. dbt has more that psycopg does not need."""

    host: str
    port: int
    user: str
    password: str = field(repr=False)
    database: str
    schema: str
    connect_timeout: int = 10
    role: str | None = None
    keepalives_idle: int = 0
    sslmode: str | None = None
    sslcert: str | None = None
    sslkey: str | None = None
    sslrootcert: str | None = None


def load_yaml(file: Path) -> dict[str, Any]:
    """Return the dictionary in a YAML file.

    :raises NeedsDbt: the file is not YAML, or is not a dictionary.
    """
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        found = yaml.load(file.read_bytes(), loader)
    except (OSError, ValueError, RecursionError, yaml.YAMLError) as error:
        raise NeedsDbt(f"{file} cannot be read") from error
    if not isinstance(found, dict):
        raise NeedsDbt(f"{file} is not a dictionary")
    return found


def read_target(
    file: Path, profile_name: Any, target: str | None, cli_vars: Mapping[str, Any]
) -> tuple[str, str, Credentials]:
    """Return the names of profile and target, and the credentials of the target.

    :param file: profiles.yml.
    :param profile_name: name of the profile as dbt_project.yml has it, so possibly with Jinja.
    :param target: name of the target, or None for the profile's own.
    :raises NeedsDbt: the profile is wrong, or only dbt can read it.
    """
    name = rendered(profile_name, cli_vars)
    profile = load_yaml(file).get(name)
    outputs = profile.get("outputs") if isinstance(profile, dict) else None
    if not isinstance(profile, dict) or not isinstance(outputs, dict):
        raise NeedsDbt(f"there is no profile {name} with outputs")
    target_name = rendered(profile.get("target", "default"), cli_vars) if target is None else target
    output = outputs.get(target_name)
    if not isinstance(output, dict):
        raise NeedsDbt(f"the profile has no target {target_name}")
    settings = {setting: rendered(value, cli_vars) for setting, value in output.items()}
    if settings.pop("type", None) != "postgres" or not _is_number(settings.pop("threads", 1)):
        raise NeedsDbt("the type is not postgres, or threads is not a number")
    for alias, setting in {"dbname": "database", "pass": "password"}.items():
        if alias in settings:
            if setting in settings:
                raise NeedsDbt(f"{alias} and {setting} are both set")
            settings[setting] = settings.pop(alias)
    return str(name), str(target_name), _credentials(settings)


def _credentials(settings: Mapping[str, Any]) -> Credentials:
    known = {one.name: one for one in fields(Credentials)}
    given = {name: value for name, value in settings.items() if name in known}
    for name, value in given.items():
        kind = known[name].type
        fits = _is_number(value) if kind is int else isinstance(value, str)
        if not fits and not (value is None and kind not in (int, str)):
            raise NeedsDbt(f"{name} has another type")
    try:
        credentials = Credentials(**given)
    except TypeError as error:
        raise NeedsDbt("a setting is missing") from error
    if not 0 <= credentials.port <= HIGHEST_PORT:
        raise NeedsDbt("the port is out of range")
    return credentials


def _is_number(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


# --- Jinja as in dbt -------------------------------------------------------------------------------------------------


class _Text(str):
    """Result of the filter as_text, which stays text."""


class _Native(str):
    """Result of the other filters of dbt: the value of a Python literal, if it is one."""


class _Bool(_Native):
    """Result of the filter as_bool."""


class _Number(_Native):
    """Result of the filter as_number."""


def rendered(value: Any, cli_vars: Mapping[str, Any]) -> Any:
    """Render Jinja in a value as dbt does in profiles. ``env_var``, ``var`` and dbt's filters are known.

    :raises NeedsDbt: the template fails, or uses something else.
    """
    if not isinstance(value, str) or not any(mark in value for mark in ("{{", "{%", "{#")):
        return value
    try:
        result = _environment().from_string(value).render(env_var=_env_var, var=_vars(cli_vars))
    except Exception as error:  # the functions that a template calls can raise anything
        raise NeedsDbt(f"{value} cannot be rendered") from error
    if SECRET_PREFIX not in str(result):
        return result
    begin, end = SECRET
    before, found, rest = str(result).partition(begin)
    name, _, after = rest.partition(end)
    if not found or name not in os.environ or SECRET_PREFIX in before + after:
        raise NeedsDbt("a secret is changed by a filter, or there are several")
    return before + os.environ[name] + after


def _env_var(name: str, default: Any = None) -> Any:
    if name not in os.environ:
        if default is None:
            raise NeedsDbt(f"the environment variable {name} is not set")
        return default
    return name.join(SECRET) if name.startswith(SECRET_PREFIX) else os.environ[name]


def _vars(cli_vars: Mapping[str, Any]) -> Any:
    def var(name: str, default: Any = None) -> Any:
        if name not in cli_vars and default is None:
            raise NeedsDbt(f"the variable {name} is not set")
        return cli_vars.get(name, default)

    return var


@cache
def _environment() -> Any:
    from jinja2 import StrictUndefined
    from jinja2.nativetypes import NativeEnvironment, NativeTemplate

    class Environment(NativeEnvironment):
        concat = staticmethod(_value)  # type: ignore[assignment]

    class Template(NativeTemplate):
        environment_class = Environment

    Environment.template_class = Template
    environment = Environment(undefined=StrictUndefined)
    environment.filters.update(as_text=_Text, as_native=_Native, as_bool=_Bool, as_number=_Number)
    return environment


def _value(nodes: Iterable[Any]) -> Any:
    """Return the value of a template from its nodes. A single node keeps its type, several become text."""
    found = list(nodes)
    if len(found) != 1:
        return "".join(map(str, found))
    [node] = found
    str(node)  # an unknown name fails here
    if isinstance(node, _Text):
        return str(node)
    if not isinstance(node, _Native):
        return node
    try:
        result = literal_eval(node)
    except (ValueError, SyntaxError, MemoryError):
        result = str(node)
    wrong_bool = isinstance(node, _Bool) and not isinstance(result, bool)
    if wrong_bool or (isinstance(node, _Number) and not _is_number(result)):
        raise NeedsDbt(f"{node} has another type than its filter says")
    return result
