"""Where agents' batches have the columns of a trace: the meta of the source's columns, which dbt reads too."""

from collections.abc import Mapping
from functools import cache
from typing import NamedTuple

import yaml

from ciris_scoring.basics.project import own_project

_SOURCES = "models/staging/cirislens/_cirislens__sources.yml"


class Field(NamedTuple):
    """A column of covenant_traces in a trace. A place begins with `trace` or a component's event type."""

    places: tuple[tuple[str, ...], ...]
    """The first that exists counts."""
    zero_needs: tuple[str, ...] | None
    """The place without which 0 says that nothing was measured."""


@cache
def trace_fields() -> Mapping[str, Field]:
    """Return the fields of a trace by column."""
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
