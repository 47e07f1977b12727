"""A dbt profile, read as dbt reads it but without importing dbt, which takes seconds of processor time.

If a file is wrong or only dbt can read it, this module raises :class:`NeedsDbt`. dbt then reads it and explains faults.
"""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

import yaml

ENVIRONMENT_VARIABLE = re.compile(
    r"""\{\{\s*env_var\(\s*['"](?P<name>\w+)['"]\s*(,\s*['"](?P<default>[^'"\\]*)['"]\s*)?\)"""
    r"""\s*(\|\s*(?P<filter>as_number|int)\s*)?\}\}"""
)
"""Pattern of the only Jinja that is rendered without dbt; see :func:`rendered`."""


def dbt_variable(name: str) -> str | None:
    """Return one of dbt's environment variables; None if it is not set or empty.

    :param name: name without the prefix. As in dbt, ``DBT_ENGINE_NAME`` takes precedence over ``DBT_NAME``.
    """
    return os.environ.get(f"DBT_ENGINE_{name}") or os.environ.get(f"DBT_{name}") or None


class NeedsDbt(Exception):
    """A file of the project or the profile is wrong, or only dbt can read it."""


@dataclass(frozen=True)
class Credentials:
    """Settings of a target of type postgres, with dbt's names and defaults. dbt has more settings, which this package
    does not need."""

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
    threads: int = 1


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


def read_target(file: Path, profile_name: Any, target: str | None) -> tuple[str, str, Credentials]:
    """Return the names of profile and target, and the credentials of the target.

    :param profile_name: name in dbt_project.yml, which may be a template.
    :param target: None for the profile's own target.
    :raises NeedsDbt: the profile or the target does not exist, is wrong, or has settings that only dbt can read.
    """
    name = rendered(profile_name)
    profile = load_yaml(file).get(name)
    outputs = profile.get("outputs") if isinstance(profile, dict) else None
    if not isinstance(profile, dict) or not isinstance(outputs, dict):
        raise NeedsDbt(f"there is no profile {name} with outputs")
    target_name = rendered(profile.get("target", "default")) if target is None else target
    output = outputs.get(target_name)
    if not isinstance(output, dict):
        raise NeedsDbt(f"the profile has no target {target_name}")
    settings = {setting: rendered(value) for setting, value in output.items()}
    if settings.pop("type", None) != "postgres":
        raise NeedsDbt("the type is not postgres")
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
    if not 0 <= credentials.port <= 65_535:
        raise NeedsDbt("the port is out of range")
    return credentials


def _is_number(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def rendered(value: Any) -> Any:
    """Render a value that is an environment variable, as dbt does: ``{{ env_var('NAME', 'default') | as_number }}``.

    :raises NeedsDbt: the value has other Jinja, or the variable is not set or is not a number.
    """
    if not isinstance(value, str) or not any(mark in value for mark in ("{{", "{%", "{#")):
        return value
    found = ENVIRONMENT_VARIABLE.fullmatch(value)
    text = os.environ.get(found["name"], found["default"]) if found else None
    if found is None or text is None:
        raise NeedsDbt(f"{value} cannot be rendered")
    if not found["filter"]:
        return text
    if not re.fullmatch("0|[1-9][0-9]*", text):
        raise NeedsDbt(f"{value} is not a number")
    return int(text)
