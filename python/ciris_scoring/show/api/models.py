"""Models of the answers, which describe them in the OpenAPI document of the API.

Types come from the rows in `ciris_scoring.marts`, descriptions from models/marts/_marts__models.yml, `view.MEMBERS` and
`DESCRIPTIONS`. The answers of the specification's five endpoints also have the names of the CIRIS lens API.
"""

import re
from collections.abc import Mapping
from dataclasses import fields as dataclass_fields
from datetime import datetime
from functools import cache
from typing import Annotated, Any, Literal, get_type_hints

from pydantic import BaseModel, ConfigDict, Field, WithJsonSchema, create_model

from ciris_scoring.marts import alerts, evidence, history, reference, score, scores
from ciris_scoring.marts.marts import described_marts
from ciris_scoring.marts.verdict import VerdictName
from ciris_scoring.names import FACTORS
from ciris_scoring.paths import own_project
from ciris_scoring.show.api.database import CSV, JSON
from ciris_scoring.show.api.problems import MEDIA_TYPE, TITLES
from ciris_scoring.show.view import MEMBERS, NOT_SHOWN

Category = Literal["high_fragility", "moderate", "healthy", "high_capacity"]
Status = Literal["final", "provisional", "insufficient_data", "no_traces"]
Moment = Annotated[
    datetime,
    WithJsonSchema({"type": "string", "format": "date-time", "examples": ["2026-06-15T00:00:00Z"]}),
]
Share = Annotated[float, Field(ge=0, le=1, examples=[0.538])]
TYPES: Mapping[Any, Any] = {datetime: Moment, datetime | None: Moment | None}
OF_COLUMNS: Mapping[str, Any] = {
    "category": Category | None,
    "score_status": Status,
    "confidence": Literal["insufficient", "low", "medium", "high"],
    "weakest_factor": Literal[tuple(FACTORS)] | None,
}
DOC = re.compile(r"\{% docs (\w+) %\}\s*(.*?)\s*\{% enddocs %\}", re.DOTALL)
REFERENCE = re.compile(r"\{\{ doc\('(\w+)'\) \}\}")
SCORES = (
    *("fct_capacity_scores", "fct_score_certainty", "fct_verdicts", "fct_score_comparisons"),
    *("dim_agents", "dim_capacity_categories"),
)
DESCRIPTIONS: Mapping[str, str] = {
    "category_label": "Label of the category; null without one.",
    "C": "Core identity.",
    "I_int": "Integrity.",
    "R": "Resilience.",
    "I_inc": "Incompleteness awareness.",
    "S": "Sustained coherence.",
    "agent_count": "Length of `agents`.",
    "agent_id_hash": "Id of the agent; changes with its key.",
    "agent_name": "Name of the agent.",
    "alert_count": "Length of `agents`. The name is that of the lens API.",
    "allowed": "With 406 and 422: allowed values.",
    "as_of": "As-of (UTC): only traces before it count; null if no score is published.",
    "as_of_age_seconds": "Seconds since the newest as-of; null if none.",
    "as_ofs": "With 404: the nearest as-ofs that exist.",
    "category_bounds": "Categories, the lowest first.",
    "component": "Name of the component.",
    "composite_score": "Capacity score; null with too few traces or none.",
    "confidence": "Amount of data, by the number of traces in the window.",
    "current_category": "Category of the newest capacity score.",
    "current_score": "Newest capacity score of the agent; null with too few traces.",
    "deferrals": "Deferrals, the lowest value first; empty for other components than q_deferral.",
    "description": "Property of the agent that the factor measures.",
    "detail": "Description; for an event old and new name or parameter set, null for other kinds of events.",
    "errors": "With 422: the refused parameters.",
    "exempt_actions": "Actions that are not in `non_exempt_actions`.",
    "factors": "The five factors.",
    "failure_mode": "Failure mode of the episode that the trace began, or null.",
    "first_at": "First time.",
    "formula": "Formula of the factor.",
    "kind": "renamed, key_not_registered, chain_broken or parameters_changed.",
    "last_at": "Last time.",
    "lowered_by_unit": "Unit of `lowered_by`.",
    "message": "Reason why the parameter was refused.",
    "metadata": "Data that the score was computed from, as in the lens API.",
    "n": "Number of traces, or of changes of parameters.",
    "non_exempt_actions": "Actions that affect others or the agent's memory.",
    "non_exempt_traces": "Number of traces in the window with a non-exempt action.",
    "parameter": "Name of the parameter.",
    "parameter_set_id": "Short hash of all parameters in force.",
    "period_days": "Length of the history in days.",
    "probability_at_threshold": "Probability that the steady score reaches the threshold; null without a steady score.",
    "published": "All parameters.",
    "recorded": "Values of the trace that the component is computed from, in words.",
    "score": "Value of the factor, higher is better; null without a trace.",
    "scored_at": "Time when the newest score was computed; null if none.",
    "status": "ok, ready, or the HTTP status of a problem.",
    "summary": "Number of agents by category; filters do not apply.",
    "threshold": "Agents with a score below this are listed in `agents`.",
    "timestamp": "Time when this answer was made (UTC).",
    "title": "Kind of problem in words.",
    "total_traces": "Number of traces in the window.",
    "trace_count": "Number of traces in the window.",
    "type": "Stable identifier of the kind of problem: urn:ciris-scoring:problem:...",
    "verdict": "Advice about the permission (docs/deciding.md).",
    "window_days": "Length of the scoring window in days.",
    "window_end": "End of the window, which is the as-of.",
    "window_start": "Start of the window (UTC). Episodes may begin earlier.",
    **{name: f"Agents in category {name}." for name in Category.__args__},  # type: ignore[attr-defined]
    **{name: f"{name}, as in the lens API." for name in ("lambda_C", "mu_C", "decay_rate", "signal_weight")},
    "min_traces": "Minimum number of traces in the window for a score.",
    "default_window_days": "Length in days of the shortest window.",
    "baseline_window_days": "Length in days of the baseline of the shortest window.",
    "coherence_window_days": "Lookback horizon of the coherence state in days.",
    **MEMBERS,
}
"""Descriptions of members that are not columns of marts."""


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


class Described(BaseModel):
    """Base class of all models of the API. Members that the model does not define are not allowed."""

    model_config = ConfigDict(extra="forbid")


def model(
    name: str,
    doc: str,
    base: Any = Described,
    /,
    *,
    row: Any = None,
    marts: Any = (),
    without: Any = (),
    **members: Any,
) -> Any:
    """Return a model of an answer or of a part of it.

    :param row: class whose fields the model has, except `without`. The first of `marts` that has a column of the name
    of a field describes it, else `DESCRIPTIONS`.
    :param members: types of further members.
    """
    hints = {} if row is None else get_type_hints(row)
    of_row = [] if row is None else [one.name for one in dataclass_fields(row) if one.name not in without]
    types = {one: OF_COLUMNS.get(one, TYPES.get(hints[one], hints[one])) for one in of_row} | members
    fields: dict[str, Any] = {}
    for one, kind in types.items():
        told = (descriptions()[mart].get(one) for mart in marts if one not in members)
        said = next(filter(None, told), DESCRIPTIONS.get(one))
        assert said, f"{one} of {name} needs a description"
        fields[one] = (kind, Field(description=said))
    return create_model(name, __base__=base, __doc__=doc, **fields)


def many(item: Any) -> Any:
    """Return the type of a list of items."""
    return list[item]


def by_factor(name: str, doc: str, kind: Any) -> Any:
    """Return the model of a value for each of the five factors."""
    return model(name, doc, **dict.fromkeys(FACTORS, kind))


def optional(name: str, doc: str, /, **members: Any) -> Any:
    """Return a model whose members may be missing."""
    fields: dict[str, Any] = {
        one: (kind | None, Field(None, description=DESCRIPTIONS[one])) for one, kind in members.items()
    }
    return create_model(name, __base__=Described, __doc__=doc, **fields)


# --- documents of agents ---------------------------------------------------------------------------------------------

Raised = model(
    "Raised",
    "An alert or red flag that is or was raised for an agent.",
    **{"name": str, "severity": Literal["critical", "warning", "red_flag"], "since": Moment | None, "until": Moment},
    reviews=bool,
)
RaisedElsewhere = model("RaisedElsewhere", "An alert or red flag of another window only.", Raised, window_days=int)
Verdict = model(
    "Verdict",
    "The verdict about a permission.",
    **{"permission": str | None, "window_days": int, "verdict": VerdictName, "verdict_reason": str, "look_for": str},
    **{"verdict_threshold": Share, "probability_at_threshold": Share | None},
)
FactorPoints = by_factor("FactorPoints", "Points of the five factors.", float)
FactorValues = by_factor("FactorValues", "The five factors at an as-of.", Share | None)
OF_SCORE: Mapping[str, Any] = {"row": score.Score, "marts": SCORES, "without": {*NOT_SHOWN, *Verdict.model_fields}}
Score = model(
    "Score",
    "A score of an agent at an as-of, with its verdict.",
    Verdict,
    **OF_SCORE,
    **{"words": str, "silence": str | None, "steady_difference": FactorPoints | None, "raised": many(Raised)},
)
FactorScore = model(
    "FactorScore",
    "A factor of a score, as in the lens API.",
    **{"score": Share | None, "components": dict[str, float | None], "trace_count": int, "confidence": str},
)
DetailedFactor = model(
    "DetailedFactor",
    "A factor of a score, explained.",
    FactorScore,
    **{"name": str, "formula": str, "description": str},
)
Metadata = model(
    "Metadata",
    "Data that the score was computed from, as in the lens API.",
    **{"window_start": Moment, "window_end": Moment, "total_traces": int, "non_exempt_traces": int},
)
DetailedMetadata = model(
    "DetailedMetadata", "Data that the score was computed from.", Metadata, non_exempt_actions=list[str]
)
LensScore = model(
    "LensScore", "A score with the names of the lens API.", Score, agent_name=str, composite_score=Share | None
)
AgentScore = model(
    "AgentScore",
    "A score with its factors.",
    LensScore,
    factors=by_factor("FactorScores", "The five factors.", FactorScore),
    metadata=Metadata,
)
FleetScore = model("FleetScore", "A score of an agent in the fleet.", AgentScore, other_windows=many(RaisedElsewhere))
Capacity = model("Capacity", "The score of an agent.", AgentScore)
OF_ALERT: Mapping[str, Any] = {"row": alerts.Alert, "marts": ("fct_capacity_alerts",)}
OF_RED_FLAG: Mapping[str, Any] = {"row": alerts.RedFlag, "marts": ("fct_red_flags",)}
OF_AGENT = ("agent_id_hash",)
ComponentChange = model(
    "ComponentChange",
    "Change of a score by one loss component.",
    row=scores.ComponentChange,
    marts=("fct_score_changes",),
    without=("agent_id_hash", "compared_with", "compared_as_of"),
)
Point = model("Point", "A score of the agent at an as-of.", row=history.Point, marts=SCORES, without=OF_AGENT)
Factors = model(
    "Factors",
    "The document of an agent, with the names of the lens API.",
    FleetScore,
    factors=by_factor("DetailedFactors", "The five factors, explained.", DetailedFactor),
    metadata=DetailedMetadata,
    last_score=Score | None,
    explained_as_of=Moment,
    permissions=many(Verdict),
    components=many(model("Component", "", row=scores.Component, marts=("fct_factor_components",), without=OF_AGENT)),
    loss_components=many(
        model("ComponentLoss", "", row=scores.ComponentLoss, marts=("fct_score_attribution",), without=OF_AGENT)
    ),
    comparisons=many(
        model(
            "Comparison",
            "Change of the score since an earlier as-of.",
            row=scores.Comparison,
            marts=("fct_score_comparisons",),
            without=OF_AGENT,
            loss_components=many(ComponentChange),
        )
    ),
    history=many(Point),
    events=many(
        model(
            "Event",
            "An event in the history of an agent.",
            **{"kind": str, "first_at": Moment, "last_at": Moment, "n": int, "detail": list[str | None] | None},
        )
    ),
    alerts=many(model("AlertOfAgent", "An alert of the agent.", **OF_ALERT, without=OF_AGENT)),
    red_flags=many(model("RedFlagOfAgent", "A red flag of the agent.", **OF_RED_FLAG, without=OF_AGENT)),
    raised_before=many(Raised),
)

# --- the fleet -------------------------------------------------------------------------------------------------------

RedFlag = model("RedFlag", "A red flag at the as-of.", **OF_RED_FLAG)
FleetCapacity = model(
    "FleetCapacity", "The fleet at an as-of.", row=scores.FleetCapacity, marts=("fct_fleet_capacity",)
)
Summary = model("Summary", "Number of agents by category, as in the lens API.", **dict.fromkeys(Category.__args__, int))  # type: ignore[attr-defined]
OfFleet = model(
    "OfFleet",
    "",
    **{"timestamp": Moment, "as_of": Moment | None, "window_days": int, "permission": str | None},
    alerts=many(model("Alert", "An alert at the as-of.", **OF_ALERT)),
    red_flags=many(RedFlag),
)
VERDICTS = {"verdict_threshold": Share | None, "verdicts": dict[VerdictName, int]}
Fleet = model(
    "Fleet",
    "The document of the fleet, with the names of the lens API.",
    OfFleet,
    **VERDICTS,
    **{"agent_count": int, "agents": many(FleetScore), "agents_not_shown": int},
    summary=Summary,
    fleet=FleetCapacity | None,
    permissions=many(
        model("VerdictCounts", "Number of agents by verdict about a permission.", permission=str | None, **VERDICTS)
    ),
    news=list[str],
    history=many(FleetCapacity),
)
Alerts = model(
    "Alerts",
    "Agents, alerts and red flags that need attention.",
    OfFleet,
    **{"threshold": Share, "alert_count": int},
    agents=many(model("AlertedAgent", "An agent below the threshold.", LensScore, non_exempt_traces=int)),
)

# --- history, evidence, parameters -----------------------------------------------------------------------------------

OfAgent = model(
    "OfAgent",
    "",
    **{"agent_id_hash": str, "agent_name": str, "as_of": Moment, "window_days": int},
)
LensPoint = model(
    "LensPoint",
    "A score of the agent at an as-of, with the names of the lens API.",
    Point,
    **{"agent_id_hash": str, "agent_name": str, "composite_score": Share | None, "factors": FactorValues},
)
History = model(
    "History",
    "Scores of an agent over time.",
    OfAgent,
    **{"period_days": int, "current_score": Share | None, "current_category": Category | None},
    history=many(LensPoint),
)
EvidenceTrace = model(
    "EvidenceTrace",
    "A trace that lowered a component.",
    row=evidence.Trace,
    marts=("fct_trace_checks",),
    without=("trace_check_id", "loss_component", "failure_mode"),
    **{"recorded": str, "failure_mode": str | None},
)
Evidence = model(
    "Evidence",
    "The newest traces that lowered a component of a score, or the deferrals behind q_deferral.",
    OfAgent,
    **{"window_start": Moment, "component": str, "lowered_by_unit": str},
    traces=many(EvidenceTrace),
    deferrals=many(model("Deferral", "A judged deferral.", row=evidence.Deferral, marts=("fct_deferral_values",))),
)
Parameters = model(
    "Parameters",
    "Parameters, categories and windows that scores are computed with.",
    parameters=model(
        "LensParameters",
        "Parameters that the lens API has too, with its names.",
        **dict.fromkeys(("lambda_C", "mu_C", "decay_rate", "signal_weight"), float),
        **dict.fromkeys(("min_traces", "default_window_days", "baseline_window_days", "coherence_window_days"), int),
    ),
    parameter_set_id=str,
    published=many(
        model("Parameter", "A scoring parameter.", row=reference.Parameter, marts=("dim_scoring_parameters",))
    ),
    non_exempt_actions=list[str],
    exempt_actions=list[str],
    categories=dict[Category, str],
    category_bounds=many(
        model("Category", "A category of scores.", row=reference.Category, marts=("dim_capacity_categories",))
    ),
    windows=many(model("Window", "A published window.", row=reference.Window, marts=("dim_scoring_windows",))),
)

# --- the server itself, and problems ---------------------------------------------------------------------------------

Health = model("Health", "State of the process.", status=Literal["ok"])
Ready = model(
    "Ready",
    "State of the scores. If they cannot be served, the answer is 503.",
    **{"status": Literal["ready"], "as_of": Moment | None, "as_of_age_seconds": float | None},
    **{"scored_at": Moment | None, "parameter_set_id": str},
)
ProblemDocument = create_model(
    "ProblemDocument",
    __base__=(
        model("Problem", "", **{"type": str, "title": str, "status": int, "detail": str}),
        optional(
            "MoreOfProblem",
            "",
            errors=many(model("ParameterError", "A refused parameter.", parameter=str, message=str)),
            allowed=list[str | int],
            as_ofs=many(Moment),
            agents=many(model("MeantAgent", "An agent that may be meant.", agent_id_hash=str, agent_name=str | None)),
        ),
    ),
    __doc__="Description of an error (RFC 9457).",
)

# --- descriptions of endpoints ---------------------------------------------------------------------------------------


def problems(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Describe the problems that an endpoint can return, in addition to the problems of all endpoints."""
    return {
        304: {"description": "Nothing has changed since the answer with this ETag."},
        **{status: _problem(status) for status in sorted({*statuses, 401, 403, 422, 503})},
    }


def _problem(status: int) -> dict[str, Any]:
    titles = {kind: title for kind, (of_kind, title) in TITLES.items() if of_kind == status}
    return {
        "description": " ".join(f"`{kind}`: {title}." for kind, title in titles.items()),
        "content": {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/ProblemDocument"}}},
    }


def described(
    name: str, model: type[BaseModel], responses: Mapping[int | str, dict[str, Any]], *, csv: bool = False
) -> dict[str, Any]:
    """Return FastAPI's description of an endpoint: model of the answer, and problems."""
    content: dict[str, Any] = {JSON: {}}
    if csv:
        content[CSV] = {"schema": {"type": "string"}}
    answer: dict[str, Any] = {"description": "The answer.", "content": content}
    return {"response_model": model, "responses": {200: answer, **responses}, "operation_id": name}
