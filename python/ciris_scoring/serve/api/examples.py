"""Parts of the OpenAPI document: shapes of answers, examples from the sample, and problems."""

import json
from collections.abc import Mapping
from importlib import resources
from typing import Any

from pydantic import BaseModel

from ciris_scoring.marts.agent import NON_EXEMPT_ACTIONS
from ciris_scoring.marts.words import FACTOR_WORDS
from ciris_scoring.serve.api import models
from ciris_scoring.serve.api.problems import MEDIA_TYPE, RETRY_SECONDS, TITLES, TYPE

EXAMPLES: dict[str, Any] = json.loads(
    resources.files(__package__).joinpath("examples.json").read_text(encoding="utf-8")
)
"""Example answers from the sample by endpoint, with one item of each list.

Answers that contain the score of the same agent are completed from that of the fleet, and lists by the members that
describe the page of that answer.
"""
PAGE = ("cache", "as_of", "window_days", "offset", "limit", "next")
LISTED = (
    *("alerts", "red_flags", "agents", "runs", "data_quality", "permissions", "acknowledgements"),
    *("verdict_history", "deferrals"),
)
"""Endpoints whose answers have the members of `PAGE`."""
PROBLEM_SCHEMA = {"$ref": "#/components/schemas/ProblemDocument"}
PROBLEMS = {
    401: ("key-required", "No API key, or a wrong one."),
    403: ("no-right", "The role of the server may not read this mart."),
    404: ("unknown-agent", "No such agent, or it has no such score."),
    406: ("not-acceptable", "`Accept` names no media type of the answer."),
    409: ("ambiguous-agent", "Several agents may be meant; `agents` lists them."),
    422: ("bad-parameter", "A parameter is not acceptable; `errors` says which."),
    429: ("too-many-requests", "Too many requests of this client."),
    503: ("database-away", "The database is away or busy, or nothing is published."),
}
"""Type of the example problem and its description, by status."""
SECONDS = {"schema": {"type": "integer"}, "description": "Seconds to wait.", "example": RETRY_SECONDS}
HEADERS: Mapping[int, dict[str, Any]] = {
    401: {"WWW-Authenticate": {"schema": {"type": "string"}, "description": "How to send the key."}},
    429: {"Retry-After": SECONDS},
    503: {"Retry-After": SECONDS},
}
TAGGED = {
    "ETag": {
        "schema": {"type": "string"},
        "description": "Changes with each publication; for If-None-Match.",
    },
    "Cache-Control": {
        "schema": {"type": "string"},
        "description": "Whether the answer may be kept.",
    },
}


def _complete(examples: dict[str, Any]) -> None:
    """Add the answers about the agent of the fleet's example, and the members of pages."""
    for name in LISTED:
        examples[name] = {**{member: examples["fleet"][member] for member in PAGE}, **examples[name]}
    score = examples["fleet"]["agents"][0]
    metadata = score["metadata"]
    examples["capacity"] = {**score, "agent_note": None, "cache": examples["fleet"]["cache"]}
    examples["factors"] = explained({**examples["capacity"], "weighs_most": examples.pop("weighs_most")})
    of_alerts = {**score, "non_exempt_traces": metadata["non_exempt_traces"]}
    examples["alerts"]["agents"] = [_members(models.AlertedAgent, of_alerts)]
    factors = {name: factor["score"] for name, factor in score["factors"].items()}
    of_history = {**score, **metadata, "n_traces": metadata["total_traces"], "factors": factors}
    examples["history"]["history"] = [_members(models.Point, of_history)]
    examples["scoring_index"] = examples["index"]


def _members(model: type[BaseModel], values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: values[name] for name in model.model_fields}


def explained(score: dict[str, Any]) -> dict[str, Any]:
    """Return a score with name, formula and description of each factor, and with the list of non-exempt actions."""
    factors = {}
    for name, words in FACTOR_WORDS.items():
        said = {"name": words.name, "formula": words.formula, "description": words.description}
        factors[name] = {
            **score["factors"][name],
            **said,
            **({"notes": list(words.notes)} if words.notes else {}),
        }
    metadata = {**score["metadata"], "non_exempt_actions": list(NON_EXEMPT_ACTIONS)}
    return {**score, "factors": factors, "metadata": metadata}


_complete(EXAMPLES)


def problems(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Describe the problems that an endpoint can return, in addition to those of all endpoints."""
    return {
        304: {"description": "Nothing has changed since the answer with this ETag."},
        **{status: _problem(status) for status in sorted({*statuses, 401, 406, 422, 429, 503})},
    }


def _problem(status: int) -> dict[str, Any]:
    kind, meaning = PROBLEMS[status]
    example = {
        "type": TYPE + kind,
        "title": TITLES[kind][1],
        "status": status,
        "detail": meaning,
    }
    return {
        "description": meaning,
        "headers": HEADERS.get(status, {}),
        "content": {MEDIA_TYPE: {"schema": PROBLEM_SCHEMA, "example": example}},
    }


def described(
    name: str, model: type[BaseModel], responses: Mapping[int | str, dict[str, Any]], *, csv: bool = False
) -> dict[str, Any]:
    """Return FastAPI's description of an endpoint: shape and example of the answer, and problems."""
    content: dict[str, Any] = {"application/json": {"example": EXAMPLES.get(name)}}
    if csv:
        content["text/csv"] = {"schema": {"type": "string"}, "example": EXAMPLES.get(f"{name}.csv")}
    answer: dict[str, Any] = {"description": "The answer.", "content": content}
    if 304 in responses:
        answer["headers"] = TAGGED
    return {"response_model": model, "responses": {200: answer, **responses}, "operation_id": name}
