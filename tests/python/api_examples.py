"""Create the examples of the OpenAPI document from answers of a server of the sample."""

from typing import Any

from ciris_scoring.serve.api.database import Database
from ciris_scoring.serve.api.examples import LISTED, PAGE
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


def examples(database: Database) -> dict[str, Any]:
    """Return the example of each endpoint, with one item of each list."""
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
    return found


def cut(answer: Any) -> Any:
    """Return the answer with only the first item of each list."""
    if isinstance(answer, list):
        return [cut(one) for one in answer[:1]]
    if isinstance(answer, dict):
        return {name: cut(value) for name, value in answer.items()}
    return answer
