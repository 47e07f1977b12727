"""Relations of the models in the database, according to dbt's manifest."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from psycopg import sql

from ciris_scoring.basics.errors import ProfileError

PACKAGE = "ciris_scoring"
"""Name of this dbt project, also where another project uses it as a package."""


class Place(NamedTuple):
    """Schema and name of a relation in the database."""

    schema: str
    identifier: str

    def __str__(self) -> str:
        return f"{self.schema}.{self.identifier}"


class _Places(dict[str, Place]):
    """Schema and name of each relation, by the name of its model."""

    def __missing__(self, name: str) -> Place:
        raise ProfileError(
            f"The dbt project has no model {name} of {PACKAGE}: it is disabled, or the package is of another version.",
            f"Enable it: models, {PACKAGE}, +enabled: true in dbt_project.yml.",
        )


@dataclass(frozen=True)
class Relations:
    """Quoted relation of each model and seed, by name. A disabled one raises :class:`ProfileError`."""

    target_schema: str
    """Schema of the target. The lock of a run has its name, and messages use it."""
    places: Mapping[str, Place]

    def __getitem__(self, name: str) -> sql.Identifier:
        return sql.Identifier(*self.places[name])

    def keys(self) -> Iterable[str]:
        """Return the names, so that ``**relations`` passes all relations to a statement."""
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
    """Return the relations in dbt's manifest."""
    nodes = [
        node
        for node in manifest.nodes.values()
        if node.package_name == PACKAGE and node.resource_type in ("model", "seed")
    ]
    return Relations(target_schema, _Places({node.name: Place(node.schema, node.alias) for node in nodes}))
