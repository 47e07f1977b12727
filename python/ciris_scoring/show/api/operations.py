"""Descriptions of the endpoints in the OpenAPI document: model of the answer, headers, and possible problems."""

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel

from ciris_scoring.show.api.answers import CSV, JSON
from ciris_scoring.show.api.problems import MEDIA_TYPE, RETRY_SECONDS, TITLES

PROBLEM_SCHEMA = {"$ref": "#/components/schemas/ProblemDocument"}
SECONDS = {"schema": {"type": "integer"}, "description": "Seconds to wait.", "example": RETRY_SECONDS}
HEADERS: Mapping[int, dict[str, Any]] = {
    401: {"WWW-Authenticate": {"schema": {"type": "string"}, "description": "How to send the key."}},
    429: {"Retry-After": SECONDS},
    503: {"Retry-After": SECONDS},
}
TAGGED = {
    "ETag": {
        "schema": {"type": "string"},
        "description": "Version of the answer, for If-None-Match. It changes with each publication.",
    },
    "Cache-Control": {"schema": {"type": "string"}, "description": "Whether caches may store the answer."},
}


def problems(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Describe the problems that an endpoint can return, in addition to the problems of all endpoints."""
    return {
        304: {"description": "Nothing has changed since the answer with this ETag."},
        **{status: _problem(status) for status in sorted({*statuses, 401, 403, 406, 422, 429, 503})},
    }


def _problem(status: int) -> dict[str, Any]:
    titles = {kind: title for kind, (of_kind, title) in TITLES.items() if of_kind == status}
    return {
        "description": " ".join(f"`{kind}`: {title}." for kind, title in titles.items()),
        "headers": HEADERS.get(status, {}),
        "content": {MEDIA_TYPE: {"schema": PROBLEM_SCHEMA}},
    }


def described(
    name: str, model: type[BaseModel], responses: Mapping[int | str, dict[str, Any]], *, csv: bool = False
) -> dict[str, Any]:
    """Return FastAPI's description of an endpoint: model of the answer, and problems."""
    content: dict[str, Any] = {JSON: {}}
    if csv:
        content[CSV] = {"schema": {"type": "string"}}
    answer: dict[str, Any] = {"description": "The answer.", "content": content}
    if 304 in responses:
        answer["headers"] = TAGGED
    return {"response_model": model, "responses": {200: answer, **responses}, "operation_id": name}
