"""Schema and name of each model in the database, from dbt's manifest or from the note of an earlier command."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from psycopg import sql

from ciris_scoring.errors import ProfileError

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
    """Names of the models and seeds that are tables."""

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


def relations_as_json(relations: Relations) -> dict[str, Any]:
    """Return relations as JSON values, for a note."""
    return {
        "target_schema": relations.target_schema,
        "places": relations.places,
        "permissions": relations.permissions,
        "tables": sorted(relations.tables),
    }


def relations_of_json(noted: Mapping[str, Any]) -> Relations:
    """Return the relations of a note."""
    return Relations(
        noted["target_schema"],
        _Places({name: Place(*place) for name, place in noted["places"].items()}),
        noted["permissions"] and Place(*noted["permissions"]),
        frozenset(noted["tables"]),
    )
