"""Errors as problem documents (RFC 9457) with stable types."""

from collections.abc import Mapping
from typing import Any

from starlette.responses import Response

from ciris_scoring.marts.asking import TITLES as NOT_THERE
from ciris_scoring.marts.asking import NotThere
from ciris_scoring.show.formats import json_text

MEDIA_TYPE = "application/problem+json"
TYPE = "urn:ciris-scoring:problem:"
RETRY_SECONDS = 2
LONGEST_SHOWN = 80
MOST_NAMED, MOST_NEAR = 1_000, 10
"""Maximum numbers of agents and as-ofs that a problem lists."""

TITLES: Mapping[str, tuple[int, str]] = {
    "key-required": (401, "An API key is needed"),
    "not-found": (404, "There is nothing under this path"),
    "unknown-agent": (404, NOT_THERE["unknown-agent"]),
    "no-score": (404, NOT_THERE["no-score"]),
    "no-right": (403, "The server may not read this"),
    "method-not-allowed": (405, "The server is read-only"),
    "ambiguous-agent": (409, NOT_THERE["ambiguous-agent"]),
    "host-not-served": (421, "This server answers under local names only"),
    "bad-parameter": (422, NOT_THERE["bad-parameter"]),
    "internal": (500, "An error of the server"),
    "database-away": (503, "The database is away"),
    "database-busy": (503, "The database is busy"),
    "not-published": (503, "No scores are published"),
}
"""Status and title of each problem type."""


class Problem(Exception):
    """Error that becomes a problem document.

    :param kind: key of `TITLES`, which is the end of the document's `type`.
    :param detail: description of this occurrence.
    :param members: additional members of the document.
    """

    def __init__(self, kind: str, detail: str, headers: Mapping[str, str] | None = None, **members: Any) -> None:
        super().__init__(detail)
        self.kind = kind
        self.detail = detail
        self.members = members
        self.status, self.title = TITLES[kind]
        self.headers = dict(headers or {})
        if self.status == 503:
            self.headers["Retry-After"] = str(RETRY_SECONDS)

    def response(self) -> Response:
        """Return the problem document."""
        document = {
            "type": TYPE + self.kind,
            "title": self.title,
            "status": self.status,
            "detail": self.detail,
            **self.members,
        }
        headers = {"Cache-Control": "no-store", **self.headers}
        return Response(json_text(document, indent=None), self.status, headers, MEDIA_TYPE)


def not_there(missing: NotThere) -> Problem:
    """Return the problem for something that was asked for and does not exist."""
    detail = f"{missing.message} {missing.hint}"
    members: dict[str, Any] = {}
    if missing.parameter:
        of = {"parameter": missing.parameter, "message": detail}
        return Problem(missing.kind, f"{missing.parameter}: {detail}", errors=[of], allowed=list(missing.allowed))
    if missing.agents:
        members["agents"] = [
            {"agent_id_hash": one.agent_id_hash, "agent_name": one.agent_name} for one in missing.agents[:MOST_NAMED]
        ]
    if missing.as_ofs:
        members["as_ofs"] = sorted(missing.as_ofs[:MOST_NEAR])
    return Problem(missing.kind, detail, **members)


def bad_parameter(name: str, message: str, **members: Any) -> Problem:
    """Return the problem for an invalid parameter.

    :param message: rest of the sentence that begins with the parameter's name.
    """
    return Problem("bad-parameter", f"{name} {message}", errors=[{"parameter": name, "message": message}], **members)


def shown(value: object) -> str:
    """Format a value of a request for a message. Long values are truncated."""
    text = repr(value)
    return text if len(text) <= LONGEST_SHOWN else text[: LONGEST_SHOWN - 1] + "…"
