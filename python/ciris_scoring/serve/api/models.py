"""Models of the answers, with their descriptions in the OpenAPI document.

Names and nesting are those of the CIRIS lens API.
"""

from datetime import UTC, datetime
from typing import Annotated, Generic, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, PlainSerializer, WithJsonSchema

from ciris_scoring.basics.kinds import ALERTS, FLAGS
from ciris_scoring.marts.verdict import VerdictName

Value = TypeVar("Value")
FactorName = Literal["C", "I_int", "R", "I_inc", "S"]
Category = Literal["high_fragility", "moderate", "healthy", "high_capacity"]
Status = Literal["final", "provisional", "insufficient_data"]
Confidence = Literal["insufficient", "low", "medium", "high"]

Moment = Annotated[
    datetime,
    PlainSerializer(lambda moment: moment.astimezone(UTC).isoformat(), return_type=str, when_used="json"),
    WithJsonSchema({"type": "string", "format": "date-time"}),
]
"""A time in UTC with the offset +00:00. Python before 3.11 cannot parse the suffix Z."""
Certainty = Annotated[
    Literal["certain", "uncertain"] | None,
    Field(
        description="certain if both confidence bounds are in the category, else uncertain; null if the score is null."
    ),
]
Hash = Annotated[str, Field(description="Identifier of the agent, which never changes.")]
Name = Annotated[
    str, Field(description="Last name that the agent sent, or its hash if it never sent one. Not unique.")
]
Note = Annotated[
    str | None,
    Field(description="Other agents that once had the requested name; null if there are none."),
]
Share = Annotated[float, Field(ge=0, le=1)]
Since = Annotated[
    Moment | None,
    Field(
        description="First as-of from which it was raised without a break; null if that is the oldest as-of, or 400 "
        "as-ofs ago or more."
    ),
]
Next = Annotated[
    str | None,
    Field(description="Address of the next page, relative to the requested one; null on the last page."),
]
AsOf = Annotated[
    Moment, Field(description="Period end (UTC) that the score belongs to; only traces before it count.")
]
WindowDays = Annotated[int, Field(description="Length of the scoring window in days.")]
Timestamp = Annotated[Moment, Field(description="Time when this answer was made (UTC).")]


class Described(BaseModel):
    """Base class of all models. Unknown members are not allowed."""

    model_config = ConfigDict(extra="forbid", from_attributes=True)

    def body(self) -> bytes:
        """Serialize the model, without members that were not set."""
        return self.model_dump_json(by_alias=True, exclude_unset=True).encode()


class Cache(Described):
    """Whether the answer was made for this request."""

    cached: bool = Field(description="Whether the answer was made for an earlier request.")
    ttl_seconds: int = Field(description="Seconds after which the server checks for newer scores.")


class Answer(Described):
    """Base class of answers that are built once per publication and cached."""

    cache: Cache = Field(description="Whether the answer was made for this request.")


class FactorScore(Described):
    """A factor of a score."""

    score: Share = Field(description="Value of the factor, higher is better.")
    score_low: Share | None = Field(
        description="Lower bound of its 95 % interval; null in rows published before intervals existed."
    )
    score_high: Share | None = Field(description="Upper bound; null if the lower bound is null.")
    components: dict[str, float | None] = Field(
        description="Components, inputs and counts of the factor by name; null if not measured."
    )
    trace_count: int = Field(description="Traces in the window.")
    confidence: Confidence = Field(
        description="Amount of data, by traces in the window: insufficient below 10, low below 30, medium below 100, "
        "else high."
    )


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
    notes: list[str] = Field(
        default_factory=list, description="Notes on how to read the factor; only for R and I_inc."
    )


class DetailedFactors(ByFactor[DetailedFactor]):
    """The five factors, explained."""


class Metadata(Described):
    """Data and parameters that the score was computed from."""

    as_of: AsOf
    window_days: WindowDays
    window_start: Moment = Field(description="First moment of the window.")
    window_end: Moment = Field(description="End of the window, which is the as-of.")
    total_traces: int = Field(description="Traces in the window, each counted once.")
    non_exempt_traces: int = Field(
        description="Traces in the window whose action is SPEAK, TOOL, MEMORIZE or FORGET."
    )
    parameter_set_id: str = Field(
        description="Short hash of all parameters that the score was computed with."
    )
    scored_at: Moment = Field(description="Time when the score was computed.")


class DetailedMetadata(Metadata):
    """Data and parameters that the score was computed from, and the non-exempt actions."""

    non_exempt_actions: list[str] = Field(description="Actions that affect others or the agent's memory.")


class Outline(Described):
    """Base class of all models of a score, which can be null."""

    agent_name: Name
    composite_score: Share | None = Field(
        description="Product of the five factors, capacity_score in the marts; null with too few traces."
    )
    capacity_score_low: Share | None = Field(
        description="Lower bound of its 95 % interval; null if the score is null."
    )
    capacity_score_high: Share | None = Field(
        description="Upper bound of its 95 % interval; null if the score is null."
    )
    capacity_score_steady: Share | None = Field(
        description="Long-run score, to decide by: the expected score of a window under the agent's present behaviour."
    )
    capacity_score_steady_low: Share | None = Field(
        description="Lower bound of its 95 % interval; null if the steady score is null."
    )
    capacity_score_steady_high: Share | None = Field(
        description="Upper bound of its 95 % interval; null if the steady score is null."
    )
    fragility_index: float | None = Field(
        description="1/(epsilon + composite_score), lower is better; null if the score is null."
    )
    category: Category | None = Field(description="Category of the score; null if the score is null.")
    score_status: Status = Field(
        description="insufficient_data: too few traces; provisional: too little history; final."
    )
    weakest_factor: FactorName = Field(description="Factor with the smallest value.")


class Scored(Outline):
    """Base class of models of a score that is not null."""

    composite_score: Share = Field(description="Product of the five factors.")
    fragility_index: float = Field(description="1/(epsilon + composite_score), lower is better.")
    category: Category = Field(description="Category of the score.")


class Raised(Described):
    """An alert or red flag that is raised for an agent."""

    name: str = Field(description="Kind of the alert, or name of the red flag.")
    severity: Literal["critical", "warning", "red_flag"] = Field(
        description="Severity of an alert; red_flag for a red flag."
    )
    since: Since
    reviews: bool = Field(description="Whether a person must review the agent before the score decides.")


class Judged(Outline):
    """Base class of models of a score with its verdict."""

    agent_id_hash: Hash
    verdict: VerdictName = Field(
        description="Advice about a permission with the threshold: grant it, withhold it, keep it as it is, review the "
        "raised alerts and red flags first, or wait for a score."
    )
    verdict_reason: str = Field(description="Reason for the verdict, in one sentence.")
    verdict_threshold: Share = Field(
        description="Steady score that the permission requires: the requested threshold, else the published one."
    )
    probability_at_threshold: Share | None = Field(
        description="Probability that the long-run score reaches the threshold; null without a steady score."
    )
    raised: list[Raised] = Field(description="Alerts, the critical ones first, and red flags.")


class ScoreBase(Judged):
    """Base class of a score of an agent at an as-of."""

    category_steady: Category | None = Field(
        description="Category of capacity_score_steady; null if that is null."
    )
    category_steady_certainty: Certainty
    steady_missing_because: str | None = Field(
        description="Reason why capacity_score_steady is null: too_few_traces; null if it is not null."
    )
    capacity_score_geometric: Share | None = Field(description="Weighted geometric mean of the factors.")
    category_certainty: Certainty
    interval_driver: str | None = Field(
        description="Component that widens the interval most; null if there is none."
    )
    confidence: Confidence = Field(description="Amount of data, by traces in the window.")
    missing_traces: int = Field(
        description="Number of traces that are missing for a score; 0 if there is one."
    )
    unmeasured_components: list[str] = Field(
        description="Components with too little data, which have their neutral value."
    )


class FleetScore(Scored, ScoreBase):
    """A score of an agent in the fleet; it is never null."""

    factors: Factors = Field(description="The five factors.")
    metadata: Metadata = Field(description="Data and parameters that the score was computed from.")


class Score(ScoreBase, Answer):
    """A score of an agent in a window."""

    agent_note: Note
    factors: Factors = Field(description="The five factors.")
    metadata: Metadata = Field(description="Data and parameters that the score was computed from.")


class Unscored(Described):
    """An agent without a score at the as-of."""

    agent_id_hash: Hash
    agent_name: Name
    score_status: Literal["insufficient_data", "no_traces"] = Field(
        description="insufficient_data: too few traces in the window; no_traces: none."
    )
    n_traces: int = Field(description="Traces in the window.")
    missing_traces: int = Field(description="Number of traces that are missing for a score.")
    last_traced_at: Moment | None = Field(description="Time of the agent's last trace.")


class Summary(Described):
    """The whole fleet at the as-of; filters do not apply."""

    verdicts: dict[VerdictName, int] = Field(
        description="Agents by verdict, including those without a score."
    )
    high_capacity: int = Field(description="Agents in category high_capacity.")
    healthy: int = Field(description="Agents in category healthy.")
    moderate: int = Field(description="Agents in category moderate.")
    high_fragility: int = Field(description="Agents in category high_fragility.")
    final: int = Field(description="Agents with status final.")
    provisional: int = Field(description="Agents with status provisional.")
    insufficient_data: int = Field(description="Agents with traces, but too few for a score.")
    mean_capacity_score: Share | None = Field(
        description="Mean over agents with a score; null if no agent has one."
    )
    median_capacity_score: Share | None = Field(
        description="Median over agents with a score; null if no agent has one."
    )
    min_capacity_score: Share | None = Field(description="Lowest score; null if no agent has one.")


class Fleet(Answer):
    """Scores of all agents at an as-of."""

    timestamp: Timestamp
    as_of: Moment | None = Field(description="As-of of the scores (UTC); null if no score is published.")
    window_days: WindowDays
    agent_count: int = Field(description="Length of `agents`.")
    total_agent_count: int = Field(description="Scored agents that match the filters, on all pages.")
    offset: int = Field(description="Number of items skipped at the start of each list.")
    limit: int | None = Field(description="Maximum length of each list; null for all.")
    next: Next
    agents: list[FleetScore] = Field(description="Agents with a score.")
    total_unscored_count: int = Field(
        description="Agents without a score that match the filters, on all pages."
    )
    unscored: list[Unscored] = Field(description="Agents without a score; empty if a category is requested.")
    summary: Summary = Field(description="Numbers of the whole fleet.")


class ComponentLoss(Described):
    """Loss of a score by one loss component."""

    loss_component: str = Field(description="Loss component: a component, or r_ceiling, the fixed cost.")
    factor: FactorName = Field(description="Factor that the loss component belongs to.")
    points_lost: float = Field(description="Points that it takes from a score of 1.")
    loss: float | None = Field(description="Its share of -ln(composite_score); null if infinite.")
    rank: int = Field(description="Rank by points, from 1 for the largest loss.")


class WeighsMost(Described):
    """Loss components of a score."""

    words: str = Field(description="The largest losses in one sentence.")
    loss_components: list[ComponentLoss] = Field(
        description="All loss components, the largest loss first; empty without a score."
    )


class FactorsAnswer(ScoreBase, Answer):
    """The five factors behind a score of an agent in a window."""

    agent_note: Note
    factors: DetailedFactors = Field(description="The five factors, explained.")
    weighs_most: WeighsMost = Field(description="Loss components of the score.")
    metadata: DetailedMetadata = Field(description="Data and parameters that the score was computed from.")


class PointFactors(ByFactor[Share]):
    """The five factors at an as-of."""


class Point(Outline):
    """A score of the agent at an as-of, with its name at the time."""

    as_of: AsOf
    confidence: Confidence = Field(description="Amount of data, by traces in the window.")
    n_traces: int = Field(description="Traces in the window.")
    factors: PointFactors = Field(description="The five factors.")
    parameter_set_id: str = Field(
        description="Short hash of all parameters that the score was computed with."
    )
    scored_at: Moment = Field(description="Time when the score was computed.")


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
        description="daily: as-ofs at midnight UTC; hourly: all published ones, which may be daily too."
    )
    current_as_of: AsOf
    current_score: Share | None = Field(description="Newest score of the agent; null with too few traces.")
    current_category: Category | None = Field(
        description="Category of the newest score; null if that is null."
    )
    history: list[Point] = Field(
        description="Scores, the oldest first. An as-of without a trace in its window has none."
    )
    note: str = Field(description="Note on how the as-ofs of the history were chosen.")
    next: Next


class AlertedAgent(Scored, Judged):
    """An agent below the threshold."""

    category_certainty: Certainty
    non_exempt_traces: int = Field(description="Traces in the window whose action is non-exempt.")


class Alert(Described):
    """An alert at the as-of."""

    agent_id_hash: Hash
    agent_name: Name
    as_of: AsOf
    window_days: WindowDays
    kind: str = Field(description=f"One of {', '.join(ALERTS)}.")
    severity: str = Field(description="critical or warning.")
    since: Since
    value: float | None = Field(description="Measured value.")
    threshold: float | None = Field(description="Value that it was compared with.")
    message: str = Field(description="The alert in one sentence.")


class Alerts(Answer):
    """Agents and alerts that need attention."""

    timestamp: Timestamp
    as_of: Moment | None = Field(description="As-of of the scores (UTC); null if no score is published.")
    threshold: Share = Field(description="Agents with a score below this are listed in `agents`.")
    window_days: WindowDays
    alert_count: int = Field(description="Length of `agents`. The name is that of the lens API.")
    total_agent_count: int = Field(description="Agents below the threshold, on all pages.")
    agents: list[AlertedAgent] = Field(description="Agents below the threshold, the lowest first.")
    total_alert_count: int = Field(description="Alerts that match the filters, on all pages.")
    offset: int = Field(description="Number of items skipped at the start of each list.")
    limit: int | None = Field(description="Maximum length of each list; null for all.")
    next: Next
    alerts: list[Alert] = Field(description="Alerts of the window at the as-of, critical ones first.")


class RedFlag(Described):
    """A red flag of selective reporting."""

    agent_id_hash: Hash
    agent_name: Name
    red_flag: str = Field(description=f"One of {', '.join(FLAGS)}.")
    field: str | None = Field(
        description="Trace field that it refers to; null if it refers to the whole record."
    )
    z: float | None = Field(
        description="Standard errors above the value that it is compared with; null if there is none."
    )
    message: str = Field(description="The red flag in one sentence.")


class RedFlags(Answer):
    """Red flags of selective reporting at an as-of. They are reasons to look and do not change a score."""

    as_of: Moment | None = Field(description="As-of of the scores (UTC); null if no score is published.")
    window_days: WindowDays
    total_red_flag_count: int = Field(description="Red flags that match the filters, on all pages.")
    offset: int = Field(description="Number of red flags skipped at the start of the list.")
    limit: int | None = Field(description="Maximum length of the list; null for all.")
    next: Next
    red_flags: list[RedFlag] = Field(description="Red flags, ordered by agent.")


class Published(Described):
    """A parameter in force."""

    name: str = Field(
        validation_alias="parameter_name", description="Name, as in the variable ciris_scoring_parameters."
    )
    value: str | None = Field(
        validation_alias="parameter_value",
        description="Value in force; null for the sampling salt, which is not published.",
    )
    default: str | None = Field(
        validation_alias="default_value", description="Value if it is not overridden."
    )
    allowed_range: str = Field(description="Values that are accepted, in words.")
    meaning: str = Field(description="Effect of the parameter, in one sentence.")
    section: str = Field(
        validation_alias="specification_section",
        description="Section of docs/scoring.md that defines the parameter.",
    )


class LensParameters(Described):
    """Parameters that the lens API has too, with its names."""

    lambda_C: float = Field(description="Sensitivity of C to changes of the name.")
    mu_C: float = Field(description="Sensitivity of C to overridden actions.")
    decay_rate: float = Field(description="Share of the coherence state that decays per day.")
    signal_weight: float = Field(description="Weight of a corroborated coherence signal.")
    min_traces: int = Field(description="Traces in the window that a score needs.")
    default_window_days: int = Field(description="Length of the reference window in days.")
    baseline_window_days: int = Field(description="Length of its baseline in days.")
    coherence_window_days: int = Field(description="Lookback horizon of its coherence state in days.")


class CategoryBounds(Described):
    """A category of scores."""

    category: Category = Field(description="Name of the category in the marts.")
    label: str = Field(description="Name of the category for people.")
    guidance: str = Field(description="Action that the specification advises for agents in the category.")
    lower_bound: float | None = Field(description="Lowest score of the category; null if there is no limit.")
    upper_bound: float | None = Field(
        description="Scores of the category are below this; null if there is no limit."
    )


class Window(Described):
    """A published window."""

    window_days: WindowDays
    baseline_days: int = Field(description="Length of the baseline before the window in days.")
    coherence_days: int = Field(description="Lookback horizon of the coherence state in days.")


class RateLimit(Described):
    """Limit of requests."""

    requests_per_minute: int = Field(description="Requests per client and minute; 0 for no limit.")
    cache_ttl_seconds: int = Field(description="Seconds after which the server checks for newer scores.")


class Parameters(Answer):
    """Parameters, categories and windows that scores are computed with."""

    parameters: LensParameters = Field(description="Parameters that the lens API has too, with its names.")
    parameter_set_id: str = Field(description="Short hash of all parameters.")
    published: list[Published] = Field(description="All parameters.")
    non_exempt_actions: list[str] = Field(description="Actions that affect others or the agent's memory.")
    exempt_actions: list[str] = Field(description="The other actions.")
    categories: dict[Category, str] = Field(description="Guidance by category.")
    category_bounds: list[CategoryBounds] = Field(
        description="Categories with their bounds, the lowest first."
    )
    windows: list[Window] = Field(description="Windows, the reference window first.")
    rate_limit: RateLimit = Field(description="Limit of requests.")


class EvidenceTrace(Described):
    """A trace that lowered a component."""

    key: str = Field(description="Key of the trace. As `after` it selects the traces after this one.")
    trace_id: str | None = Field(description="Identifier of the trace; null if it has none.")
    traced_at: Moment = Field(description="Time of the trace (UTC).")
    lowered_by: float = Field(
        description="Amount by which the trace lowered the component, in `lowered_by_unit`."
    )
    agent_name: str | None = Field(description="Name of the agent in the trace.")
    previous_agent_name: str | None = Field(description="Name of the agent before the trace.")
    selected_action: str | None = Field(description="Action of the trace.")
    audit_sequence_number: int | None = Field(description="Audit number of the trace.")
    previous_audit_sequence_number: int | None = Field(description="Audit number of the previous trace.")
    is_chain_gap: bool | None = Field(description="Whether the audit number jumped forward.")
    is_chain_rewind: bool | None = Field(description="Whether the audit number went back.")
    is_chain_duplicate: bool | None = Field(description="Whether the audit number repeats the previous one.")
    is_signature_verified: bool | None = Field(description="Whether the trace has a verified signature.")
    is_key_registered: bool | None = Field(
        description="Whether the signing key was registered and valid at the time."
    )
    is_link_valid: bool | None = Field(description="Whether the audit number follows the previous one.")
    n_fields_present: int | None = Field(description="Number of the ten required fields that are not null.")
    missing_fields: list[str] | None = Field(
        description="Required fields that are null; null if none is missing."
    )
    failed_comparisons: list[str] | None = Field(
        description="Replay comparisons that failed; null if the trace was not sampled."
    )
    entropy_level: float | None = Field(description="Uncertainty of the decision, in [0, 1].")
    action_success: bool | None = Field(description="Whether the action succeeded.")
    failure_mode: str | None = Field(
        description="Failure mode of the fragile episode that the trace began; null if it began none."
    )


class Evidence(Answer):
    """The traces that lowered a component of a score, the newest first."""

    agent_id_hash: Hash
    agent_name: Name
    agent_note: Note
    as_of: AsOf
    window_days: WindowDays
    window_start: Moment = Field(
        description="First moment of the window. Fragile episodes may have begun before it."
    )
    component: str = Field(description="Name of the component.")
    lowered_by_unit: str = Field(description="Unit of `lowered_by`.")
    traces: list[EvidenceTrace] = Field(description="A page of traces, the newest first.")
    next: Next


class Health(Described):
    """State of the process."""

    status: Literal["ok"] = Field(description="Always ok.")


class Ready(Described):
    """State of the scores."""

    status: Literal["ready"] = Field(description="Always ready. Otherwise the answer is 503.")
    as_of: Moment | None = Field(description="Newest as-of; null if no score is published.")
    as_of_age_seconds: float | None = Field(
        description="Seconds since the newest as-of; null if no score is published."
    )
    scored_at: Moment | None = Field(
        description="Time when the newest score was computed; null if no score is published."
    )
    parameter_set_id: str = Field(description="Short hash of the parameters in force.")


class ParameterError(Described):
    """A parameter of the request that was refused."""

    parameter: str = Field(description="Name of the parameter.")
    message: str = Field(description="Reason why it was refused.")


class MeantAgent(Described):
    """An agent that the request may mean."""

    agent_id_hash: Hash
    agent_name: str | None = Field(description="Name of the agent.")


class ProblemDocument(Described):
    """Description of an error (RFC 9457)."""

    type: str = Field(description="Stable identifier of the kind of problem: urn:ciris-scoring:problem:...")
    title: str = Field(description="Kind of problem in words.")
    status: int = Field(description="HTTP status of the answer.")
    detail: str = Field(description="Description of this occurrence.")
    errors: list[ParameterError] | None = Field(default=None, description="With 422: the refused parameters.")
    allowed: list[str | int] | None = Field(
        default=None, description="With 404 and 422: the values that are allowed."
    )
    as_ofs: list[Moment] | None = Field(
        default=None, description="With 404 for an as-of: the nearest as-ofs that exist, the oldest first."
    )
    agents: list[MeantAgent] | None = Field(
        default=None,
        description="With 409: agents that the text matches; with 404: agents with a similar name.",
    )
    agents_not_shown: int | None = Field(
        default=None, description="With 409: number of matching agents that are not listed."
    )
    limit: int | None = Field(default=None, description="With 429: requests per minute.")
    retry_after: int | None = Field(default=None, description="With 429: seconds to wait.")
