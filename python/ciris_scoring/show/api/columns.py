"""Models of rows of the marts. The names and types of their fields come from a class in `ciris_scoring.marts`, the
descriptions from models/marts/_marts__models.yml. So no name, type or description is written twice."""

import re
from collections.abc import Callable, Iterable
from dataclasses import fields as dataclass_fields
from datetime import UTC, datetime
from functools import cache
from typing import Annotated, Any, TypeVar, get_type_hints

from pydantic import BaseModel, ConfigDict, Field, PlainSerializer, WithJsonSchema, create_model

from ciris_scoring.marts.marts import described_marts
from ciris_scoring.paths import own_project

Moment = Annotated[
    datetime,
    PlainSerializer(lambda moment: moment.astimezone(UTC).isoformat(), return_type=str, when_used="json"),
    WithJsonSchema({"type": "string", "format": "date-time", "examples": ["2026-06-15T00:00:00+00:00"]}),
]
"""A time in UTC. It has the offset +00:00, because clients in Python before 3.11 cannot parse the suffix Z."""
TIMES = {datetime: Moment, datetime | None: Moment | None}
DOC = re.compile(r"\{% docs (\w+) %\}\s*(.*?)\s*\{% enddocs %\}", re.DOTALL)
REFERENCE = re.compile(r"\{\{ doc\('(\w+)'\) \}\}")


@cache
def descriptions() -> dict[str, dict[str, str]]:
    """Return the description of each column by mart and name."""
    models = own_project() / "models"
    docs = {name: text for file in models.glob("*.md") for name, text in DOC.findall(file.read_text("utf-8"))}
    return {
        mart["name"]: {
            column["name"]: " ".join(REFERENCE.sub(lambda found: docs[found[1]], column["description"]).split())
            for column in mart["columns"]
        }
        for mart in described_marts()
    }


def description(marts: Iterable[str], column: str) -> str:
    """Return the description of a column from the first of several marts that has the column.

    :raises LookupError: none of the marts has the column. The API model must then describe the field itself.
    """
    for mart in marts:
        if column in descriptions()[mart]:
            return descriptions()[mart][column]
    raise LookupError(f"none of the marts {', '.join(marts)} has a column {column}")


class Described(BaseModel):
    """Base class of all models of the API. Members that the model does not define are not allowed."""

    model_config = ConfigDict(extra="forbid", from_attributes=True)

    def body(self) -> bytes:
        """Return the JSON text of the model, without members that were not set."""
        return self.model_dump_json(by_alias=True, exclude_unset=True).encode()


Model = TypeVar("Model", bound=Described)


def of_row(row: type, *marts: str, without: Iterable[str] = ()) -> Callable[[type[Model]], type[Model]]:
    """Return a decorator that adds the fields of a row's class to a model, except fields that the model defines.

    :param marts: marts that describe the fields, in order of precedence.
    """

    def add(model: type[Model]) -> type[Model]:
        hints = get_type_hints(row)
        columns = [one.name for one in dataclass_fields(row) if one.name not in {*model.model_fields, *without}]
        added: dict[str, Any] = {
            column: (TIMES.get(hints[column], hints[column]), Field(description=description(marts, column)))
            for column in columns
        }
        return create_model(model.__name__, __base__=model, __doc__=model.__doc__, __module__=model.__module__, **added)

    return add
