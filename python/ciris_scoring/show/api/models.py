"""Models of the answers, with their descriptions in the OpenAPI document.

Names and nesting are those of the CIRIS lens API.
"""

from datetime import date
from typing import Annotated, Any, Generic, Literal, TypeVar

from pydantic import ConfigDict, Field, create_model

from ciris_scoring.kinds import ALERTS, FLAGS
from ciris_scoring.marts import agent, agents, alerts, evidence, history, run_state, score
from ciris_scoring.marts import parameters as marts_parameters
from ciris_scoring.marts.verdict import VerdictName
from ciris_scoring.names import FACTORS
from ciris_scoring.show.api.columns import Described, Moment, of_row

Value = TypeVar("Value")
FactorName = Literal["C", "I_int", "R", "I_inc", "S"]
Category = Literal["high_fragility", "moderate", "healthy", "high_capacity"]
Status = Literal["final", "provisional", "insufficient_data", "no_traces"]
Severity = Literal["critical", "warning", "red_flag"]
Confidence = Literal["insufficient", "low", "medium", "high"]

Hash = Annotated[str, Field(description="Id of the agent; changes with its key.", examples=["4107c26fee8baae4"])]
Name = Annotated[str, Field(description="Name, or the hash of an unnamed agent.", examples=["Link"])]
Note = Annotated[str | None, Field(description="Agents that once had the requested name; null if none.")]
Share = Annotated[float, Field(ge=0, le=1, examples=[0.538])]
Since = Annotated[
    Moment | None,
    Field(
        description="First as-of of the uninterrupted time in which it has been raised; null if it began at the "
        "oldest as-of, or 400 or more as-ofs ago."
    ),
]
Next = Annotated[str | None, Field(description="Relative address of the next page; null on the last.")]
AsOf = Annotated[Moment, Field(description="As-of (UTC) of the score: only traces before it count.")]
AsOfShown = Annotated[Moment | None, Field(description="As-of (UTC); null if no score is published.")]
WindowDays = Annotated[int, Field(description="Length of the scoring window in days.")]
Timestamp = Annotated[Moment, Field(description="Time when this answer was made (UTC).")]


class Cache(Described):
    """Whether the answer was made for this request or an earlier one."""

    cached: bool = Field(description="Whether the answer was made for an earlier request.")
    ttl_seconds: int = Field(description="Seconds after which the server checks for newer scores.")


class Answer(Described):
    """Base class of answers that are built once per publication and cached."""

    cache: Cache = Field(description="Whether the answer was made for this request or an earlier one.")


class Paged(Answer):
    """Base class of answers with lists."""

    as_of: AsOfShown
    window_days: WindowDays
    offset: int = Field(description="Number of items skipped at the start of each list.")
    limit: int | None = Field(description="Maximum length of each list; null for all.")
    next: Next


class FactorScore(Described):
    """A factor of a score."""

    score: Share | None = Field(description="Value of the factor, higher is better; null without a trace.")
    components: dict[str, float | None] = Field(
        description="Components of the factor, and the values that they are computed from; null if not measured."
    )
    trace_count: int = Field(description="Number of traces in the window.")
    confidence: Confidence = Field(description="Amount of data, by the number of traces in the window.")


class ByFactor(Described, Generic[Value]):
    """A value for each of the five factors."""

    C: Value = Field(description="Core identity.")
    I_int: Value = Field(description="Integrity.")
    R: Value = Field(description="Resilience.")
    I_inc: Value = Field(description="Incompleteness awareness.")
    S: Value = Field(description="Sustained coherence.")


class Factors(ByFactor[FactorScore]):
    """The five factors."""


class DetailedFactor(FactorScore):
    """A factor of a score, explained."""

    name: str = Field(description="Name of the factor for people.")
    formula: str = Field(description="Formula of the factor.")
    description: str = Field(description="Property of the agent that the factor measures.")
    notes: list[str] = Field(default=[], description="Notes on the factor's value; only for R and I_inc.")


class DetailedFactors(ByFactor[DetailedFactor]):
    """The five factors, explained."""


class Metadata(Described):
    """Data and parameters that the score was computed from."""

    as_of: AsOf
    window_days: WindowDays
    window_start: Moment = Field(description="Start of the window (UTC).")
    window_end: Moment = Field(description="End of the window, which is the as-of.")
    total_traces: int = Field(description="Number of traces in the window.")
    non_exempt_traces: int = Field(description="Number of traces in the window with a non-exempt action.")
    parameter_set_id: str = Field(description="Short hash of all parameters of the score.")
    scored_at: Moment = Field(description="Time when the score was computed.")


class DetailedMetadata(Metadata):
    """Data and parameters that the score was computed from, and the non-exempt actions."""

    non_exempt_actions: list[str] = Field(description="Actions that affect others or the agent's memory.")


class Permission(Described):
    """A permission that verdicts are about."""

    name: str | None = Field(description="Name in permissions.csv; null without this file.")
    threshold: Share | None = Field(description="Required steady score; null if no score is published.")
    window_days: WindowDays


class Raised(Described):
    """An alert or red flag that is raised for an agent."""

    name: str = Field(description="Kind of the alert, or name of the red flag.")
    severity: Severity = Field(description="Severity of an alert; red_flag for a red flag.")
    since: Since
    reviews: bool = Field(description="Whether a person must review the agent before the score decides.")


SCORES = (
    *("fct_capacity_scores", "fct_score_certainty", "fct_verdicts", "fct_score_comparisons"),
    *("dim_agents", "dim_capacity_categories"),
)
OF_LENS = (
    "capacity_score",
    "n_traces",
    *("as_of", "window_days", "window_start", "parameter_set_id", "scored_at"),
)
"""Columns that have another name in the lens API, or are in `metadata` there."""
OF_FACTORS = tuple(column + end for column in FACTORS.values() for end in ("", "_steady"))
CompositeScore = Annotated[
    Share | None,
    Field(description="Capacity score, the product of the five factors; null with too few traces or none."),
]


@of_row(score.Score, *SCORES, without=("category_label", "last_category_label", "shared_cause", *OF_LENS, *OF_FACTORS))
class ScoreBase(Described):
    """Base class of a score of an agent at an as-of, with its verdict."""

    agent_name: Name
    composite_score: CompositeScore
    category: Category | None = Field(description="Category of the capacity score; null without one.")
    score_status: Status = Field(
        description="Whether there are enough traces and history for a final score. no_traces: the agent had a score "
        "before and has sent no trace in the window."
    )
    confidence: Confidence = Field(description="Amount of data, by the number of traces in the window.")
    weakest_factor: FactorName | None = Field(description="Factor with the smallest value; null without a trace.")
    verdict: VerdictName = Field(
        description="Advice about a permission with the threshold: withhold it, suspend it until somebody has looked, "
        "wait for a score, review the raised alerts and red flags first, grant it, or keep it as it is."
    )
    verdict_reason: str = Field(description="Reason for the verdict, in one sentence.")
    cause: str = Field(description="Main cause of the score, in one sentence.")
    chain_cause: str | None = Field(
        description="Largest cause of the loss component I_chain, in a few words; null if it lost nothing."
    )
    steady_difference: ByFactor[float] | None = Field(
        description="Points of each factor from the capacity score to the steady score, which they sum to; null if one "
        "of the two is null."
    )
    final_from: Moment | None = Field(description="As-of from which the score is final; null if not provisional.")
    verdict_threshold: Share = Field(
        description="Steady score that the permission requires: the requested threshold or, by default, the published."
    )
    probability_at_threshold: Share | None = Field(
        description="Probability that the steady score reaches the threshold; null without a steady score."
    )
    missing_traces: int = Field(description="Number of further traces that a score needs, or 0.")
    newest_trace_at: Moment | None = Field(description="Last trace; null if it is not before the as-of.")
    raised: list[Raised] = Field(description="Alerts and red flags; critical alerts first.")


class FleetScore(ScoreBase):
    """A score of an agent in the fleet. With `fields`, only the requested members."""

    model_config = ConfigDict(json_schema_extra=lambda schema: schema.pop("required", None))

    factors: Factors = Field(description="The five factors.")
    metadata: Metadata = Field(description="Data and parameters that the score was computed from.")


class Score(ScoreBase, Answer):
    """A score of an agent in a window."""

    agent_note: Note
    factors: Factors = Field(description="The five factors.")
    metadata: Metadata = Field(description="Data and parameters that the score was computed from.")


@of_row(agents.Unscored, "dim_agents", "fct_capacity_scores")
class Unscored(Described):
    """An agent that has no score at the as-of and is not silent."""

    agent_name: Name
    score_status: Literal["insufficient_data", "no_traces"] = Field(
        description="Too few traces; or none, without a score before or for too long."
    )
    newest_trace_at: Moment | None = Field(description="Last trace.")
    missing_traces: int = Field(description="Number of further traces that the agent needs for a score.")


class Summary(Described):
    """The whole fleet at the as-of; filters do not apply."""

    verdicts: dict[VerdictName, int] = Field(description="Number of agents by verdict, silent agents included.")
    high_capacity: int = Field(description="Number of agents in category high_capacity.")
    healthy: int = Field(description="Number of agents in category healthy.")
    moderate: int = Field(description="Number of agents in category moderate.")
    high_fragility: int = Field(description="Number of agents in category high_fragility.")
    final: int = Field(description="Number of agents with status final.")
    provisional: int = Field(description="Number of agents with status provisional.")
    insufficient_data: int = Field(description="Number of agents with too few traces for a score.")
    no_traces: int = Field(description="Number of silent agents, which had a score before.")
    mean_capacity_score: Share | None = Field(description="Mean capacity score; null if there is none.")
    median_capacity_score: Share | None = Field(description="Median capacity score; null if there is none.")
    min_capacity_score: Share | None = Field(description="Lowest capacity score; null if no agent has one.")


class Fleet(Paged):
    """Scores of all agents at an as-of."""

    timestamp: Timestamp
    agent_count: int = Field(description="Length of `agents`.")
    total_agent_count: int = Field(description="Number of scored agents that match the filters.")
    agents: list[FleetScore] = Field(description="Agents with a score, and silent agents, which had one before.")
    total_unscored_count: int = Field(description="Number of unscored agents that match the filters.")
    unscored: list[Unscored] = Field(description="Agents without a score; empty if a category is requested.")
    summary: Summary = Field(description="Numbers of the whole fleet.")


@of_row(agent.ComponentLoss, "fct_score_attribution", without=("agent_id_hash", "score_left"))
class ComponentLoss(Described):
    """Loss of a score by one loss component."""


class WeighsMost(Described):
    """Loss components of a score."""

    words: str = Field(description="The largest losses in one sentence.")
    loss_components: list[ComponentLoss] = Field(description="Loss components, the largest loss first.")


class FactorsAnswer(ScoreBase, Answer):
    """The five factors behind a score of an agent in a window."""

    agent_note: Note
    factors: DetailedFactors = Field(description="The five factors, explained.")
    weighs_most: WeighsMost = Field(description="Loss components of the score.")
    metadata: DetailedMetadata = Field(description="Data and parameters that the score was computed from.")


class PointFactors(ByFactor[Share | None]):
    """The five factors at an as-of."""


@of_row(history.Point, *SCORES, without=("agent_id_hash", "capacity_score", *FACTORS.values()))
class Point(Described):
    """A score of the agent at an as-of, with its name at the time."""

    agent_name: Name
    composite_score: CompositeScore
    factors: PointFactors = Field(description="The five factors.")


class History(Answer):
    """Scores of an agent over time."""

    agent_id_hash: Hash
    agent_name: Name
    agent_note: Note
    window_days: WindowDays
    period_days: int = Field(description="Length of the history in days.")
    from_: Moment = Field(serialization_alias="from", description="First as-of of the history, included.")
    to: Moment = Field(description="Last as-of of the history, included.")
    interval: Literal["daily", "hourly"] = Field(
        description="daily: as-ofs at midnight UTC; hourly: all published as-ofs, even if they are daily."
    )
    current_as_of: AsOf
    current_score: Share | None = Field(description="Newest capacity score of the agent; null with too few traces.")
    current_category: Category | None = Field(description="Category of the newest capacity score.")
    history: list[Point] = Field(description="Scores, the oldest first.")
    note: str = Field(description="Note about as-ofs without a score.")
    next: Next


class AlertedAgent(ScoreBase):
    """An agent below the threshold."""

    non_exempt_traces: int = Field(description="Number of traces in the window with a non-exempt action.")


@of_row(alerts.Alert, "fct_capacity_alerts")
class Alert(Described):
    """An alert at the as-of."""

    agent_name: Name
    kind: str = Field(description=f"One of {', '.join(ALERTS)}.")
    since: Since


class Alerts(Paged):
    """Agents and alerts that need attention."""

    timestamp: Timestamp
    threshold: Share = Field(description="Agents with a score below this are listed in `agents`.")
    alert_count: int = Field(description="Length of `agents`. The name is that of the lens API.")
    total_agent_count: int = Field(description="Number of agents below the threshold, on all pages.")
    agents: list[AlertedAgent] = Field(description="Agents below the threshold, the lowest first.")
    total_alert_count: int = Field(description="Number of alerts that match the filters, on all pages.")
    alerts: list[Alert] = Field(description="Alerts of the window at the as-of, critical ones first.")


@of_row(alerts.RedFlag, "fct_red_flags")
class RedFlag(Described):
    """A red flag of selective reporting."""

    agent_name: Name
    red_flag: str = Field(description=f"One of {', '.join(FLAGS)}.")
    since: Since


@of_row(marts_parameters.Parameter, "dim_scoring_parameters")
class Published(Described):
    """A scoring parameter with its value in force."""


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


@of_row(marts_parameters.Category, "dim_capacity_categories", without=("colour",))
class CategoryBounds(Described):
    """A category of scores."""


@of_row(marts_parameters.Window, "dim_scoring_windows")
class Window(Described):
    """A published window."""


class RateLimit(Described):
    """Limit of requests per client."""

    requests_per_minute: int = Field(description="Requests per client and minute; 0 for no limit.")
    cache_ttl_seconds: int = Field(description="Seconds after which the server checks for newer scores.")


class Parameters(Answer):
    """Parameters, categories and windows that scores are computed with."""

    parameters: LensParameters = Field(description="Parameters that the lens API has too, with its names.")
    parameter_set_id: str = Field(description="Short hash of all parameters.")
    published: list[Published] = Field(description="All parameters.")
    non_exempt_actions: list[str] = Field(description="Actions that affect others or the agent's memory.")
    exempt_actions: list[str] = Field(description="Actions that are not in `non_exempt_actions`.")
    categories: dict[Category, str] = Field(description="Guidance by category.")
    category_bounds: list[CategoryBounds] = Field(description="Categories, the lowest first.")
    windows: list[Window] = Field(description="Windows, the shortest first.")
    rate_limit: RateLimit = Field(description="Limit of requests.")


@of_row(evidence.Trace, "fct_trace_checks", without=("trace_check_id", "loss_component"))
class EvidenceTrace(Described):
    """A trace that lowered a component."""

    key: str = Field(description="Key of the trace. As the parameter `after`, it selects the next traces.")
    lowered_by: float = Field(description="Loss of the component by the trace, in `lowered_by_unit`.")
    failure_mode: str | None = Field(description="Failure mode of the episode that the trace began, or null.")


class Evidence(Answer):
    """The traces that lowered a component of a score, the newest first."""

    agent_id_hash: Hash
    agent_name: Name
    agent_note: Note
    as_of: AsOf
    window_days: WindowDays
    window_start: Moment = Field(description="Start of the window (UTC). Episodes may begin earlier.")
    component: str = Field(description="Name of the component.")
    lowered_by_unit: str = Field(description="Unit of `lowered_by`.")
    traces: list[EvidenceTrace] = Field(description="A page of traces, the newest first.")
    next: Next


LISTS: dict[type[Answer], tuple[str, str]] = {}
"""For each model of an answer with one list: names of the list and of the number of items on all pages."""


def _listing(name: str, members: str, item: type[Described], doc: str) -> type[Answer]:
    """Return the model of an answer with one list.

    :param members: name of the list, a plural.
    """
    total = f"total_{members.removesuffix('s')}_count"
    fields: dict[str, Any] = {
        total: (int, Field(description="Number of items that match the filters, on all pages.")),
        members: (list[item], Field(description="A page of items.")),  # type: ignore[valid-type]
    }
    model: type[Answer] = create_model(name, __base__=Paged, __doc__=doc, **fields)
    LISTS[model] = members, total
    return model


@of_row(agents.Agent, "dim_agents")
class Agent(Described):
    """An agent that has sent traces."""


@of_row(run_state.RunRecord, "fct_scoring_runs", without=("is_at_work",))
class Run(Described):
    """A run and its outcome."""


class Issue(Described):
    """Data that was repaired, set aside or refused, by issue."""

    issue: str = Field(description="Name of the issue, as in fct_data_quality.")
    n: int = Field(description="Number of occurrences.")
    n_agents: int = Field(description="Agents with the issue.")
    newest: str | None = Field(description="Newest day (UTC) with the issue; null if the rows have no time.")
    days: list[date] = Field(description="Recent days (UTC) with the issue.")
    of_days: list[int] = Field(description="Number of occurrences on each of the days.")


@of_row(history.VerdictPeriod, "fct_score_certainty", "fct_verdicts")
class VerdictPeriod(Described):
    """Consecutive as-ofs with the same published verdict, and the steady score at the last as-of."""

    first_as_of: Moment = Field(description="First as-of with the verdict.")
    last_as_of: Moment = Field(description="Last as-of with the verdict.")
    n_as_ofs: int = Field(description="Number of as-ofs.")


@of_row(evidence.Deferral, "fct_deferral_values")
class Deferral(Described):
    """A deferral that the component q_deferral is computed from."""


RedFlags = _listing("RedFlags", "red_flags", RedFlag, "Red flags of selective reporting at an as-of.")
Agents = _listing("Agents", "agents", Agent, "All agents that have sent traces.")
Runs = _listing("Runs", "runs", Run, "The log of runs, the newest first.")
DataQuality = _listing("DataQuality", "issues", Issue, "Data that was repaired, set aside or refused.")
VerdictHistory = _listing(
    "VerdictHistory",
    "verdicts",
    VerdictPeriod,
    "Verdicts with the time ranges in which each was published, the newest first.",
)
Deferrals = _listing("Deferrals", "deferrals", Deferral, "Deferrals behind the component q_deferral.")
Permissions = _listing("Permissions", "permissions", Permission, "The permissions that verdicts are about.")


class Endpoint(Described):
    """An endpoint of the API."""

    path: str = Field(description="Path, with parameters in braces.")
    summary: str = Field(description="Content of the answer in a few words.")
    description: str = Field(description="Content of the answer in sentences.")
    media_types: list[str] = Field(description="Media types of the answer, for the header Accept.")


class Index(Described):
    """Endpoints of the API and the address of its document."""

    documentation: str = Field(description="Path of the OpenAPI document.")
    endpoints: list[Endpoint] = Field(description="Endpoints.")


class Health(Described):
    """State of the process."""

    status: Literal["ok"] = Field(description="Always ok.")


class Ready(Described):
    """State of the scores."""

    status: Literal["ready"] = Field(description="Always ready. Otherwise the answer is 503.")
    as_of: Moment | None = Field(description="Newest as-of; null if no score is published.")
    as_of_age_seconds: float | None = Field(description="Seconds since the newest as-of; null if none.")
    scored_at: Moment | None = Field(description="Time when the newest score was computed; null if none.")
    parameter_set_id: str = Field(description="Short hash of the parameters in force.")


class ParameterError(Described):
    """A parameter of the request that was refused."""

    parameter: str = Field(description="Name of the parameter.")
    message: str = Field(description="Reason why the parameter was refused.")


class MeantAgent(Described):
    """An agent that the request may mean."""

    agent_id_hash: Hash
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
    limit: int | None = Field(default=None, description="With 429: requests per minute.")
    retry_after: int | None = Field(default=None, description="With 429: seconds to wait.")
