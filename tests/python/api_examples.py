"""The examples of the OpenAPI document: real answers on the sample, with long lists cut.

python tests/python/api_examples.py        # after ciris-scoring run --embedded: writes the file anew
"""

import json
from pathlib import Path
from typing import Any

from starlette.testclient import TestClient

REPOSITORY = Path(__file__).parents[2]
FILE = REPOSITORY / "python/ciris_scoring/show/api/examples.json"
SCORING = "/api/v1/scoring"
ENDPOINTS = {
    "fleet": f"{SCORING}/capacity/fleet",
    "capacity": f"{SCORING}/capacity/Link",
    "factors": f"{SCORING}/factors/Link",
    "history": f"{SCORING}/history/Link?days=2",
    "alerts": f"{SCORING}/alerts",
    "parameters": f"{SCORING}/parameters",
    "evidence": f"{SCORING}/evidence/Link?component=I_chain&limit=2",
    "healthz": "/healthz",
    "readyz": "/readyz",
}
PROBLEMS = {
    "unknown-agent": f"{SCORING}/capacity/nobody",
    "bad-parameter": f"{SCORING}/capacity/Link?window_days=5",
}
# What the sample on an open loopback server does not answer.
OTHER_PROBLEMS = {
    "key-required": {
        "detail": "Send the API key as `Authorization: Bearer KEY`, as `X-API-Key: KEY`, or as a password."
    },
    "ambiguous-agent": {
        "detail": "2 agents are called 'Link': give the agent_id_hash of one.",
        "agents": [
            {"agent_id_hash": "2bc8ef9f5ed4b6f3", "agent_name": "Link"},
            {"agent_id_hash": "4107c26fee8baae4", "agent_name": "Link"},
        ],
    },
    "too-many-requests": {
        "detail": "More than 600 requests in a minute; wait 1 s.",
        "limit": 600,
        "retry_after": 1,
    },
    "database-away": {"detail": "The database cannot be reached; ask again in a moment."},
}
MOST_ITEMS = 2
LONG_LISTS = ("agents", "alerts", "published", "parts", "history")


def examples(client: TestClient) -> dict[str, Any]:
    """All examples, as a server of the sample answers now."""
    found: dict[str, Any] = {
        name: _cut(client.get(path).json(), in_fleet=name == "fleet") for name, path in ENDPOINTS.items()
    }
    found["history.csv"] = client.get(ENDPOINTS["history"], headers={"Accept": "text/csv"}).text
    problems = {kind: client.get(path).json() for kind, path in PROBLEMS.items()}
    found["problems"] = OTHER_PROBLEMS | {
        kind: {name: value for name, value in document.items() if name not in ("type", "title", "status")}
        for kind, document in problems.items()
    }
    return found


def _cut(answer: Any, *, in_fleet: bool) -> Any:
    most = 1 if in_fleet else MOST_ITEMS
    return {
        name: value[:most]
        if name in LONG_LISTS and isinstance(value, list)
        else _cut(value, in_fleet=in_fleet)
        if isinstance(value, dict)
        else value
        for name, value in answer.items()
    }


def _main() -> None:
    from ciris_scoring.basics.project import load_project
    from ciris_scoring.show.api.app import create_app
    from ciris_scoring.show.api.database import Database
    from ciris_scoring.show.api.settings import Settings
    from ciris_scoring.trial import embedded

    project = load_project(REPOSITORY, REPOSITORY / embedded.STATE_FOLDER)
    database = Database(project, 2, 15)
    database.open()
    with TestClient(create_app(database, Settings()), base_url="http://localhost") as client:
        FILE.write_text(json.dumps(examples(client), indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    database.close()


if __name__ == "__main__":
    _main()
