"""Create the examples of the OpenAPI document from real answers on the sample. Long lists are shortened."""

from dataclasses import replace
from typing import Any
from unittest.mock import patch

from ciris_scoring.marts import run_state
from ciris_scoring.marts.agents import Found, find
from ciris_scoring.marts.marts import Marts
from ciris_scoring.serve.api import endpoints
from ciris_scoring.serve.api.database import Database
from ciris_scoring.serve.api.examples import LISTED, PAGE
from ciris_scoring.serve.api.settings import Settings
from conftest import REPOSITORY
from serving import SCORING, asking

FILE = REPOSITORY / "python/ciris_scoring/serve/api/examples.json"
ENDPOINTS = {
    "index": "/api/v1",
    "fleet": f"{SCORING}/capacity/fleet?raised=broken_chain",
    "history": f"{SCORING}/history/Link?days=1",
    "alerts": f"{SCORING}/alerts?threshold=0.6",
    "red_flags": f"{SCORING}/red-flags?window_days=30",
    "parameters": f"{SCORING}/parameters",
    "evidence": f"{SCORING}/evidence/Link?component=i_chain&limit=1",
    "agents": f"{SCORING}/agents",
    "runs": f"{SCORING}/runs",
    "data_quality": f"{SCORING}/data-quality",
    "permissions": f"{SCORING}/permissions",
    "acknowledgements": f"{SCORING}/acknowledgements",
    "verdict_history": f"{SCORING}/verdicts/Link",
    "deferrals": f"{SCORING}/deferrals/Link",
    "healthz": "/healthz",
    "readyz": "/readyz",
}
PROBLEMS = {
    "unknown-agent": (f"{SCORING}/capacity/nobody", Settings()),
    "bad-parameter": (f"{SCORING}/capacity/Link?threshold=2", Settings()),
    "key-required": (f"{SCORING}/capacity/Link", Settings(key="0123456789abcdef")),
    "too-many-requests": (f"{SCORING}/capacity/Link", Settings(requests_per_minute=60)),
}
LONG_LISTS = (
    *("endpoints", "agents", "alerts", "red_flags", "published", "loss_components", "history", "windows"),
    *("category_bounds", "days", "of_days", "runs", "issues", "verdicts", "deferrals"),
)


def examples(database: Database) -> dict[str, Any]:
    """Return all examples, as a server of the sample answers now."""
    with asking(database) as client:
        found: dict[str, Any] = {name: cut(client.get(path).json()) for name, path in ENDPOINTS.items()}
        for name, path in ENDPOINTS.items():
            as_csv = client.get(path, headers={"Accept": "text/csv"})
            if as_csv.headers["content-type"].startswith("text/csv"):
                found[f"{name}.csv"] = "\r\n".join(as_csv.text.split("\r\n")[:2])
        found["weighs_most"] = cut(client.get(f"{SCORING}/factors/Link").json())["weighs_most"]
    for name in LISTED:
        found[name] = {
            member: value
            for member, value in found[name].items()
            if member not in PAGE or value != found["fleet"][member]
        }
    del found["alerts"]["agents"], found["history"]["history"]
    found["problems"] = {
        kind: _problem(database, path, settings) for kind, (path, settings) in PROBLEMS.items()
    }
    with patch.object(endpoints, "find", _both_called_link):  # no two agents of the sample share a name
        found["problems"]["ambiguous-agent"] = _problem(database, f"{SCORING}/capacity/Link", Settings())
    with (
        patch.object(Marts, "may_read", return_value=False),
        patch.object(run_state, "has_right", return_value=False),
    ):
        found["problems"]["no-right"] = _problem(database, f"{SCORING}/runs", Settings())
    found["problems"]["not-acceptable"] = _problem(
        database, f"{SCORING}/capacity/Link", Settings(), "text/csv"
    )
    with patch.object(Database, "is_away", True):
        found["problems"]["database-away"] = _problem(database, f"{SCORING}/capacity/Link", Settings())
    return found


def _both_called_link(marts: Marts, text: str) -> Found:
    found = [agent for name in ("Bravo", "Link") for agent in find(marts, name).agents]
    return Found([replace(agent, agent_name="Link") for agent in found], [])


def _problem(
    database: Database, path: str, settings: Settings, accept: str = "application/json"
) -> dict[str, Any]:
    """Return the members of a problem except its type: the answer to the first request that is refused."""
    with asking(database, settings) as client:
        answers = (client.get(path, headers={"Accept": accept}) for _ in range(2_000))
        response = next(answer for answer in answers if answer.status_code != 200)
    return {name: value for name, value in response.json().items() if name not in ("type", "title", "status")}


def cut(answer: Any) -> Any:
    """Return the answer with only one item of each long list."""
    if isinstance(answer, list):
        return [cut(one) for one in answer]
    if not isinstance(answer, dict):
        return answer
    return {
        name: cut(value[:1] if name in LONG_LISTS and isinstance(value, list) else value)
        for name, value in answer.items()
    }
