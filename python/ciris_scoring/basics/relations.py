"""Schema and name of each model in the database, from the project's files or from dbt's manifest."""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

from psycopg import sql

from ciris_scoring.basics.errors import ProfileError
from ciris_scoring.basics.profile import NeedsDbt, load_yaml

PACKAGE = "ciris_scoring"
"""Name of this dbt project, also where another project uses it as a package."""


TABLES = ("replace_range", "seed")
"""Materializations of tables (macros/checks/check_ownership.sql)."""


class Place(NamedTuple):
    """Schema and name of a relation in the database."""

    schema: str
    identifier: str

    def __str__(self) -> str:
        return f"{self.schema}.{self.identifier}"


class _Places(dict[str, Place]):
    def __missing__(self, name: str) -> Place:
        raise ProfileError(
            f"The dbt project has no model {name} of {PACKAGE}: it is disabled, or the package is of another version.",
            f"Set +enabled: true under models: {PACKAGE}: in dbt_project.yml, or install the package in the version of "
            "the project.",
        )


@dataclass(frozen=True)
class Relations:
    """Quoted relation of each model and seed, by name. The name of a disabled model raises :class:`ProfileError`."""

    target_schema: str
    """Schema of the target, by whose name a run is locked."""
    places: Mapping[str, Place]
    permissions: Place | None = None
    """Relation of the seed permissions.csv, or None if the project has disabled the seed."""
    tables: frozenset[str] = frozenset()
    """Names of the models and seeds that are tables. Empty if the relations were read without dbt."""

    def __getitem__(self, name: str) -> sql.Identifier:
        return sql.Identifier(*self.places[name])

    def keys(self) -> Iterable[str]:
        """Return the names of the relations, so that ``**relations`` passes all relations to a statement."""
        return self.places.keys()

    @property
    def marts_schema(self) -> str:
        """Schema of the marts."""
        return self.places["fct_capacity_scores"].schema

    @property
    def schemas(self) -> tuple[str, ...]:
        """All schemas that a run writes to."""
        return tuple(sorted({place.schema for place in self.places.values()}))


def relations_of(manifest: Any, target_schema: str) -> Relations:
    """Return the relations in dbt's manifest.

    :param target_schema: schema of the target in the profile.
    """
    nodes = [
        node
        for node in manifest.nodes.values()
        if node.package_name == PACKAGE and node.resource_type in ("model", "seed")
    ]
    seeds = [node for node in manifest.nodes.values() if node.resource_type == "seed"]
    seeds.sort(key=lambda node: bool(node.package_name == PACKAGE))  # a root project may replace the seed
    return Relations(
        target_schema,
        _Places({node.name: Place(node.schema, node.alias) for node in nodes}),
        next((Place(node.schema, node.alias) for node in seeds if node.name == "permissions"), None),
        frozenset(node.name for node in nodes if node.config.materialized in TABLES),
    )


OWN_NAMES = re.compile(r"macro\s+\w*generate_(schema|alias|database)_name")
"""Pattern of the definition of a macro with which a project replaces dbt's rule for names of relations."""
PACKAGE_FILES = ("packages.yml", "dependencies.yml")
"""Files that name the packages of a project. A package may change dbt's rule for names of relations."""
NAMING = ("schema", "alias")
"""Settings of dbt_project.yml that name relations. No model of the package sets them in its SQL file."""


def relations_of_files(project_dir: Path, target_schema: str) -> Relations:
    """Return the relations, also of disabled models, by dbt's own rule: the setting `schema` is a suffix of the
    target's schema.

    :raises NeedsDbt: another project uses the package, or the project changes dbt's rule for names of relations.
    """
    project = load_yaml(project_dir / "dbt_project.yml")
    has_packages = any((project_dir / name).exists() for name in PACKAGE_FILES)
    macros = _files(project_dir, project.get("macro-paths", ["macros"]), {".sql"})
    try:
        has_own_names = any(OWN_NAMES.search(file.read_text("utf-8")) for _, file in macros)
    except (OSError, ValueError) as error:
        raise NeedsDbt("a macro cannot be read") from error
    if project.get("name") != PACKAGE or has_packages or has_own_names:
        raise NeedsDbt("relations may have other names than dbt's own")
    places = _Places()
    for section, folders, suffixes in (
        ("models", "model-paths", {".sql", ".py"}),
        ("seeds", "seed-paths", {".csv"}),
    ):
        for folder, file in _files(project_dir, project.get(folders, [section]), suffixes):
            path = (PACKAGE, *file.relative_to(folder).parent.parts, file.stem)
            settings = _settings(project.get(section, {}), path)
            schema = f"{target_schema}_{settings['schema'].strip()}" if settings["schema"] else target_schema
            places[file.stem] = Place(schema, settings["alias"] or file.stem)
    return Relations(target_schema, places, places.get("permissions"))


def _files(project_dir: Path, folders: Any, suffixes: set[str]) -> Iterator[tuple[Path, Path]]:
    """Yield each file with one of the suffixes, together with its folder in ``folders``."""
    if not isinstance(folders, list) or not all(isinstance(folder, str) for folder in folders):
        raise NeedsDbt("the folders of the project are not a list")
    for folder in folders:
        for file in sorted((project_dir / folder).rglob("*")):
            if file.suffix in suffixes:
                yield project_dir / folder, file


def _settings(level: Any, path: Iterable[str]) -> dict[str, Any]:
    """Return the settings of `NAMING` for a node. A deeper level of the path overrides the levels above it."""
    found: dict[str, Any] = dict.fromkeys(NAMING)
    for name in (None, *path):
        level = level if name is None else level.get(name)
        if not isinstance(level, dict):
            break
        for setting, key in product(NAMING, ("", "+")):
            value = level.get(f"{key}{setting}", {})  # a dictionary has the settings of a folder of this name
            if isinstance(value, str) and "{" in value:
                raise NeedsDbt(f"{setting} is a template")
            if not isinstance(value, dict):
                found[setting] = value
    return found
