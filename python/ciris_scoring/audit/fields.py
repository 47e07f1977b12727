"""Paths of the columns of covenant_traces in agents' batches, from the column metadata that dbt reads, too."""

from collections.abc import Mapping
from functools import cache
from typing import NamedTuple

import yaml

from ciris_scoring.basics.project import own_project

_SOURCES = "models/staging/cirislens/_cirislens__sources.yml"


class Field(NamedTuple):
    """Paths of a column in a trace. A path begins with `trace` or with the event type of a component."""

    places: tuple[tuple[str, ...], ...]
    """Paths in the order in which they are tried. The first one that exists is used."""
    zero_needs: tuple[str, ...] | None
    """Path that must exist for the value 0 to be a measurement. Without it, 0 is loaded as null."""


@cache
def trace_fields() -> Mapping[str, Field]:
    """Return the paths of each column of covenant_traces."""
    [source] = yaml.safe_load((own_project() / _SOURCES).read_text("utf-8"))["sources"]
    [table] = (table for table in source["tables"] if table["name"] == "covenant_traces")
    fields = {}
    for column in table["columns"]:
        meta = column["config"]["meta"]
        needed = meta.get("zero_needs")
        fields[column["name"]] = Field(
            tuple(tuple(place.split(".")) for place in meta.get("places", ())),
            tuple(needed.split(".")) if needed else None,
        )
    return fields
