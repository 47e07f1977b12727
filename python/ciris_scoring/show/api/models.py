"""Models of the answers, which describe them in the OpenAPI document of the API.

Types come from the rows in `ciris_scoring.marts`, descriptions from models/marts/_marts__models.yml and from
`view.MEMBERS`. The answers of the specification's five endpoints also have the names of the CIRIS lens API.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields as dataclass_fields
from datetime import datetime
from functools import cache
from typing import Annotated, Any, Generic, Literal, TypeVar, get_type_hints

from pydantic import BaseModel, ConfigDict, Field, WithJsonSchema, create_model

from ciris_scoring.marts import agent, agents, alerts, evidence, fleet, history, score
from ciris_scoring.marts import parameters as marts_parameters
from ciris_scoring.marts.marts import described_marts
from ciris_scoring.marts.verdict import VerdictName
from ciris_scoring.paths import own_project
from ciris_scoring.show.api.answers import CSV, JSON
from ciris_scoring.show.api.problems import MEDIA_TYPE, RETRY_SECONDS, TITLES
from ciris_scoring.show.view import MEMBERS, NOT_SHOWN

Value = TypeVar("Value")
FactorName = Literal["C", "I_int", "R", "I_inc", "S"]
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
    "weakest_factor": FactorName | None,
}
DOC = re.compile(r"\{% docs (\w+) %\}\s*(.*?)\s*\{% enddocs %\}", re.DOTALL)
REFERENCE = re.compile(r"\{\{ doc\('(\w+)'\) \}\}")


# --- descriptions ----------------------------------------------------------------------------------------------------


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


def description(marts: Iterable[str], member: str) -> str:
    """Return the description of a member: of a column of the first mart that has it, or else of a document."""
    return (
        next((descriptions()[mart][member] for mart in marts if member in descriptions()[mart]), MEMBERS.get(member))
        or ""
    )


class Described(BaseModel):
    """Base class of all models of the API. Members that the model does not define are not allowed."""

    model_config = ConfigDict(extra="forbid")


Model = TypeVar("Model", bound=Described)


def of_row(row: type, *marts: str, without: Iterable[str] = ()) -> Callable[[type[Model]], type[Model]]:
    """Return a decorator that adds the fields of a row's class to a model, except fields that the model defines.

    :param marts: marts that describe the fields, in order of precedence.
    """

    def add(model: type[Model]) -> type[Model]:
        hints = get_type_hints(row)
        names = [one.name for one in dataclass_fields(row) if one.name not in {*model.model_fields, *without}]
        added: dict[str, Any] = {
            name: (
                OF_COLUMNS.get(name, TYPES.get(hints[name], hints[name])),
                Field(description=description(marts, name)),
            )
            for name in names
        }
        return create_model(model.__name__, __base__=model, __doc__=model.__doc__, __module__=model.__module__, **added)

    return add


def member(name: str) -> Any:
    """Return the field of a member that `view.MEMBERS` describes."""
    return Field(description=MEMBERS[name])


# --- documents of agents ---------------------------------------------------------------------------------------------

SCORES = (
    *("fct_capacity_scores", "fct_score_certainty", "fct_verdicts", "fct_score_comparisons"),
    *("dim_agents", "dim_capacity_categories"),
)
Next = Annotated[str | None, Field(description="Relative address of the next page; null on the last.")]
WindowDays = Annotated[int, Field(description="Length of the scoring window in days.")]
AsOf = Annotated[Moment | None, Field(description="As-of (UTC): only traces before it count; null if no score exists.")]
Timestamp = Annotated[Moment, Field(description="Time when this answer was made (UTC).")]


class ByFactor(Described, Generic[Value]):
    """A value for each of the five factors."""

    C: Value = Field(description="Core identity.")
    I_int: Value = Field(description="Integrity.")
    R: Value = Field(description="Resilience.")
    I_inc: Value = Field(description="Incompleteness awareness.")
    S: Value = Field(description="Sustained coherence.")


class FactorPoints(ByFactor[float]):
    """Points of the five factors."""


class FactorValues(ByFactor[Share | None]):
    """The five factors at an as-of."""


class Raised(Described):
    """An alert or red flag that is raised for an agent."""

    name: str = member("name")
    severity: Literal["critical", "warning", "red_flag"] = member("severity")
    since: Moment | None = member("since")
    until: Moment = member("until")
    reviews: bool = member("reviews")


class RaisedElsewhere(Raised):
    """An alert or red flag that is raised only in another window."""

    window_days: WindowDays


class Verdict(Described):
    """The verdict about a permission."""

    permission: str | None = member("permission")
    window_days: WindowDays
    verdict: VerdictName = Field(description="Advice about the permission (docs/deciding.md).")
    verdict_reason: str = member("verdict_reason")
    look_for: str = member("look_for")
    verdict_threshold: Share = member("verdict_threshold")
    probability_at_threshold: Share | None = Field(
        description="Probability that the steady score reaches the threshold; null without a steady score."
    )


@of_row(score.Score, *SCORES, without=NOT_SHOWN)
class Score(Verdict):
    """A score of an agent at an as-of, with its verdict."""

    words: str = member("words")
    silence: str | None = member("silence")
    steady_difference: FactorPoints | None = member("steady_difference")
    raised: list[Raised] = member("raised")


class FactorScore(Described):
    """A factor of a score, as in the lens API."""

    score: Share | None = Field(description="Value of the factor, higher is better; null without a trace.")
    components: dict[str, float | None] = Field(
        description="Components of the factor, and the values that they are computed from; null if not measured."
    )
    trace_count: int = Field(description="Number of traces in the window.")
    confidence: str = Field(description="Amount of data, by the number of traces in the window.")


class DetailedFactor(FactorScore):
    """A factor of a score, explained."""

    name: str = Field(description="Name of the factor for people.")
    formula: str = Field(description="Formula of the factor.")
    description: str = Field(description="Property of the agent that the factor measures.")
    notes: list[str] = Field(default=[], description="Notes on the factor's value; only for R and I_inc.")


class FactorScores(ByFactor[FactorScore]):
    """The five factors."""


class DetailedFactors(ByFactor[DetailedFactor]):
    """The five factors, explained."""


class Metadata(Described):
    """Data that the score was computed from, as in the lens API."""

    window_start: Moment = Field(description="Start of the window (UTC).")
    window_end: Moment = Field(description="End of the window, which is the as-of.")
    total_traces: int = Field(description="Number of traces in the window.")
    non_exempt_traces: int = Field(description="Number of traces in the window with a non-exempt action.")


class DetailedMetadata(Metadata):
    """Data that the score was computed from, and the non-exempt actions."""

    non_exempt_actions: list[str] = Field(description="Actions that affect others or the agent's memory.")


class LensScore(Score):
    """A score with the names of the lens API. `agent_name` is the hash of an unnamed agent."""

    agent_name: str = Field(description="Name, or the hash of an unnamed agent.", examples=["Link"])
    composite_score: Share | None = Field(description="Capacity score; null with too few traces or none.")


class AgentScore(LensScore):
    """A score of an agent in a window."""

    factors: FactorScores = Field(description="The five factors.")
    metadata: Metadata = Field(description="Data that the score was computed from.")


class FleetScore(AgentScore):
    """A score of an agent in the fleet."""

    other_windows: list[RaisedElsewhere] = member("other_windows")


class Capacity(AgentScore):
    """The score of an agent."""

    agent_note: str | None = member("agent_note")


@of_row(agent.Component, "fct_factor_components", without=("agent_id_hash",))
class Component(Described):
    """A component of a factor."""


@of_row(agent.ComponentLoss, "fct_score_attribution", without=("agent_id_hash",))
class ComponentLoss(Described):
    """Loss of a score by one loss component."""


@of_row(agent.ComponentChange, "fct_score_changes", without=("agent_id_hash", "compared_with", "compared_as_of"))
class ComponentChange(Described):
    """Change of a score by one loss component."""


@of_row(agent.Comparison, "fct_score_comparisons", without=("agent_id_hash",))
class Comparison(Described):
    """Change of the score since an earlier as-of."""

    loss_components: list[ComponentChange] = member("loss_components")


@of_row(history.Point, *SCORES, without=("agent_id_hash",))
class Point(Described):
    """A score of the agent at an as-of, with its name at the time."""


class Event(Described):
    """An event in the history of an agent."""

    kind: str = Field(description="renamed, key_not_registered, chain_broken or parameters_changed.")
    first_at: Moment = Field(description="First time.")
    last_at: Moment = Field(description="Last time.")
    n: int = Field(description="Number of traces; 1 for parameters_changed.")
    detail: list[str | None] | None = Field(description="Old and new name or parameter set; null for other kinds.")


class RaisedBefore(Raised):
    """An alert or red flag that was raised in the time of the history."""


@of_row(alerts.Alert, "fct_capacity_alerts", without=("agent_id_hash",))
class AlertOfAgent(Described):
    """An alert of the agent."""

    since: Moment | None = member("since")


@of_row(alerts.RedFlag, "fct_red_flags", without=("agent_id_hash",))
class RedFlagOfAgent(Described):
    """A red flag of the agent."""

    since: Moment | None = member("since")


class Factors(FleetScore):
    """The document of an agent, with the names of the lens API."""

    agent_note: str | None = member("agent_note")
    factors: DetailedFactors = Field(description="The five factors, explained.")  # type: ignore[assignment]
    metadata: DetailedMetadata = Field(description="Data that the score was computed from.")
    last_score: Score | None = member("last_score")
    explained_as_of: Moment = member("explained_as_of")
    permissions: list[Verdict] = member("permissions")
    components: list[Component] = member("components")
    loss_components: list[ComponentLoss] = member("loss_components")
    comparisons: list[Comparison] = member("comparisons")
    history: list[Point] = member("history")
    events: list[Event] = member("events")
    alerts: list[AlertOfAgent] = member("alerts")
    red_flags: list[RedFlagOfAgent] = member("red_flags")
    raised_before: list[RaisedBefore] = member("raised_before")


# --- the fleet -------------------------------------------------------------------------------------------------------


@of_row(agents.Unscored, "dim_agents", "fct_capacity_scores")
class Unscored(Described):
    """An agent that has no score at the as-of and is not silent."""


@of_row(alerts.Alert, "fct_capacity_alerts")
class Alert(Described):
    """An alert at the as-of."""

    since: Moment | None = member("since")


@of_row(alerts.RedFlag, "fct_red_flags")
class RedFlag(Described):
    """A red flag at the as-of."""

    since: Moment | None = member("since")


@of_row(fleet.FleetCapacity, "fct_fleet_capacity")
class FleetCapacity(Described):
    """The fleet at an as-of."""


class VerdictCounts(Described):
    """Number of agents by verdict about another permission."""

    permission: str | None = member("permission")
    verdict_threshold: Share = member("verdict_threshold")
    verdicts: dict[VerdictName, int] = member("verdicts")


class Summary(Described):
    """Number of agents by category, as in the lens API."""

    high_capacity: int = Field(description="Agents in category high_capacity.")
    healthy: int = Field(description="Agents in category healthy.")
    moderate: int = Field(description="Agents in category moderate.")
    high_fragility: int = Field(description="Agents in category high_fragility.")


class Paged(Described):
    """Base class of answers with lists."""

    timestamp: Timestamp
    as_of: AsOf
    window_days: WindowDays
    permission: str | None = member("permission")
    offset: int = Field(description="Number of items skipped at the start of each list.")
    limit: int | None = Field(description="Maximum length of each list; null for all.")
    next: Next
    alerts: list[Alert] = member("alerts")


class Fleet(Paged):
    """The document of the fleet, with the names of the lens API."""

    verdict_threshold: Share | None = member("verdict_threshold")
    agent_count: int = Field(description="Length of `agents`.")
    total_agent_count: int = Field(description="Number of agents that match the filters.")
    agents: list[FleetScore] = Field(description="Agents with a score, and silent agents, which had one before.")
    agents_not_shown: int = member("agents_not_shown")
    total_unscored_count: int = Field(description="Number of unscored agents that match the filters.")
    unscored: list[Unscored] = Field(description="Agents without a score; empty if a category is requested.")
    summary: Summary = Field(description="Number of agents by category; filters do not apply.")
    fleet: FleetCapacity | None = member("fleet")
    verdicts: dict[VerdictName, int] = member("verdicts")
    permissions: list[VerdictCounts] = Field(description="Verdicts for other permissions with this window.")
    news: list[str] = member("news")
    red_flags: list[RedFlag] = member("red_flags")
    history: list[FleetCapacity] = Field(description="The fleet at earlier as-ofs, the oldest first.")


class AlertedAgent(LensScore):
    """An agent below the threshold."""

    non_exempt_traces: int = Field(description="Number of traces in the window with a non-exempt action.")


class Alerts(Paged):
    """Agents, alerts and red flags that need attention."""

    threshold: Share = Field(description="Agents with a score below this are listed in `agents`.")
    alert_count: int = Field(description="Length of `agents`. The name is that of the lens API.")
    total_agent_count: int = Field(description="Number of agents below the threshold, on all pages.")
    agents: list[AlertedAgent] = Field(description="Agents below the threshold, the lowest first.")
    total_alert_count: int = Field(description="Number of alerts that match the filters, on all pages.")
    red_flags: list[RedFlag] = member("red_flags")


# --- history, evidence, parameters -----------------------------------------------------------------------------------


class LensPoint(Point):
    """A score of the agent at an as-of, with the names of the lens API."""

    agent_id_hash: str = Field(description="Id of the agent.")
    agent_name: str = Field(description="Name at the time, or the hash of an unnamed agent.")
    composite_score: Share | None = Field(description="Capacity score; null with too few traces or none.")
    factors: FactorValues = Field(description="The five factors.")


class OfAgent(Described):
    """Base class of answers about one agent."""

    agent_id_hash: str = Field(description="Id of the agent; changes with its key.", examples=["4107c26fee8baae4"])
    agent_name: str = Field(description="Name, or the hash of an unnamed agent.", examples=["Link"])
    agent_note: str | None = member("agent_note")
    window_days: WindowDays
    next: Next


class History(OfAgent):
    """Scores of an agent over time."""

    period_days: int = Field(description="Length of the history in days.")
    from_: Moment = Field(alias="from", description="First as-of of the history, included.")
    to: Moment = Field(description="Last as-of of the history, included.")
    interval: Literal["daily", "hourly"] = Field(
        description="daily: as-ofs at midnight UTC; hourly: all published as-ofs, even if they are daily."
    )
    current_as_of: Moment = Field(description="Newest as-of of the agent.")
    current_score: Share | None = Field(description="Newest capacity score of the agent; null with too few traces.")
    current_category: Category | None = Field(description="Category of the newest capacity score.")
    history: list[LensPoint] = Field(description="Scores, the oldest first.")
    note: str = Field(description="Note about as-ofs without a score.")


@of_row(evidence.Trace, "fct_trace_checks", without=("trace_check_id", "loss_component"))
class EvidenceTrace(Described):
    """A trace that lowered a component."""

    key: str = Field(description="Key of the trace. As the parameter `after`, it selects the next traces.")
    recorded: str = Field(description="Values of the trace that the component is computed from, in words.")
    because: str = Field(description="How the trace lowered the component, in a few words.")
    failure_mode: str | None = Field(description="Failure mode of the episode that the trace began, or null.")


@of_row(evidence.Deferral, "fct_deferral_values")
class Deferral(Described):
    """A deferral that the component q_deferral is computed from."""


class Evidence(OfAgent):
    """The traces that lowered a component of a score, the newest first, or the deferrals behind q_deferral."""

    as_of: AsOf
    window_start: Moment = Field(description="Start of the window (UTC). Episodes may begin earlier.")
    component: str = Field(description="Name of the component.")
    lowered_by_unit: str = Field(description="Unit of `lowered_by`.")
    traces: list[EvidenceTrace] = Field(description="A page of traces, the newest first; empty for q_deferral.")
    deferrals: list[Deferral] = Field(description="Deferrals, the lowest value first; empty for other components.")


@of_row(marts_parameters.Parameter, "dim_scoring_parameters")
class Published(Described):
    """A scoring parameter with its value in force."""


@of_row(marts_parameters.Category, "dim_capacity_categories")
class CategoryBounds(Described):
    """A category of scores."""


@of_row(marts_parameters.Window, "dim_scoring_windows")
class Window(Described):
    """A published window."""


class LensParameters(Described):
    """Parameters that the lens API has too, with its names."""

    lambda_C: float = Field(description="Sensitivity of C to changes of the name.")
    mu_C: float = Field(description="Sensitivity of C to overridden actions.")
    decay_rate: float = Field(description="Share of the coherence state that decays per day.")
    signal_weight: float = Field(description="Weight of a corroborated coherence signal.")
    min_traces: int = Field(description="Minimum number of traces in the window for a score.")
    default_window_days: int = Field(description="Length in days of the default window, the shortest one.")
    baseline_window_days: int = Field(description="Length in days of the default window's baseline.")
    coherence_window_days: int = Field(description="Lookback horizon of the coherence state in days.")


class Parameters(Described):
    """Parameters, categories and windows that scores are computed with."""

    parameters: LensParameters = Field(description="Parameters that the lens API has too, with its names.")
    parameter_set_id: str = Field(description="Short hash of all parameters.")
    published: list[Published] = member("parameters")
    non_exempt_actions: list[str] = Field(description="Actions that affect others or the agent's memory.")
    exempt_actions: list[str] = Field(description="Actions that are not in `non_exempt_actions`.")
    categories: dict[Category, str] = Field(description="Guidance by category.")
    category_bounds: list[CategoryBounds] = member("categories")
    windows: list[Window] = member("windows")


# --- the server itself -----------------------------------------------------------------------------------------------


class Health(Described):
    """State of the process."""

    status: Literal["ok"] = Field(description="Always ok.")


class Ready(Described):
    """State of the scores."""

    status: Literal["ready"] = Field(description="Always ready. Otherwise the answer is 503.")
    as_of: AsOf
    as_of_age_seconds: float | None = Field(description="Seconds since the newest as-of; null if none.")
    scored_at: Moment | None = Field(description="Time when the newest score was computed; null if none.")
    parameter_set_id: str = Field(description="Short hash of the parameters in force.")


class ParameterError(Described):
    """A parameter of the request that was refused."""

    parameter: str = Field(description="Name of the parameter.")
    message: str = Field(description="Reason why the parameter was refused.")


class MeantAgent(Described):
    """An agent that the request may mean."""

    agent_id_hash: str = Field(description="Id of the agent.")
    agent_name: str | None = Field(description="Name of the agent.")


class ProblemDocument(Described):
    """Description of an error (RFC 9457)."""

    type: str = Field(description="Stable identifier of the kind of problem: urn:ciris-scoring:problem:...")
    title: str = Field(description="Kind of problem in words.")
    status: int = Field(description="HTTP status of the answer.")
    detail: str = Field(description="Description of this error.")
    errors: list[ParameterError] | None = Field(default=None, description="With 422: the refused parameters.")
    allowed: list[str | int] | None = Field(default=None, description="With 406 and 422: allowed values.")
    as_ofs: list[Moment] | None = Field(default=None, description="With 404: the nearest as-ofs that exist.")
    agents: list[MeantAgent] | None = Field(
        default=None, description="With 404: agents with a similar name. With 409: agents that match."
    )
    agents_not_shown: int | None = Field(default=None, description="With 409: number of agents that are not listed.")


# --- descriptions of endpoints ---------------------------------------------------------------------------------------

HEADERS: Mapping[int, dict[str, Any]] = {
    401: {"WWW-Authenticate": {"schema": {"type": "string"}, "description": "How to send the key."}},
    503: {"Retry-After": {"schema": {"type": "integer"}, "description": "Seconds to wait.", "example": RETRY_SECONDS}},
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
        **{status: _problem(status) for status in sorted({*statuses, 401, 403, 406, 422, 503})},
    }


def _problem(status: int) -> dict[str, Any]:
    titles = {kind: title for kind, (of_kind, title) in TITLES.items() if of_kind == status}
    return {
        "description": " ".join(f"`{kind}`: {title}." for kind, title in titles.items()),
        "headers": HEADERS.get(status, {}),
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
    if 304 in responses:
        answer["headers"] = TAGGED
    return {"response_model": model, "responses": {200: answer, **responses}, "operation_id": name}
