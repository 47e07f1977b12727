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
    Field(description="Whether both limits lie in the category; null with the score."),
]
Hash = Annotated[str, Field(description="Stable identity of the agent.")]
Name = Annotated[
    str, Field(description="Last name of the agent; its hash where it never sent one. Not unique.")
]
Note = Annotated[
    str | None,
    Field(
        description="Which other agents once had the text that was asked for as their name; null where there are none."
    ),
]
Share = Annotated[float, Field(ge=0, le=1)]
Since = Annotated[
    Moment | None,
    Field(
        description="First as-of at which it stood without a break; null for the oldest as-of, or 400 as-ofs and more."
    ),
]
Next = Annotated[
    str | None,
    Field(
        description="Address of the next page, relative to the one that was asked for; null on the last one."
    ),
]
AsOf = Annotated[Moment, Field(description="Period end (UTC) at which the score is pinned.")]
WindowDays = Annotated[int, Field(description="Length of the scoring window in days.")]
Timestamp = Annotated[Moment, Field(description="When this answer was made, UTC.")]


class Described(BaseModel):
    """Base class of all models. Unknown members are not allowed."""

    model_config = ConfigDict(extra="forbid", from_attributes=True)

    def body(self) -> bytes:
        """Serialize the model, without members that were not set."""
        return self.model_dump_json(by_alias=True, exclude_unset=True).encode()


class Cache(Described):
    """Whether the answer was made for this request."""

    cached: bool = Field(description="Whether it was made for an earlier request.")
    ttl_seconds: int = Field(description="Seconds after which the server looks for newer scores.")


class Answer(Described):
    """Base class of answers that are built once per publication and cached."""

    cache: Cache = Field(description="Whether the answer was made for this request.")


class FactorScore(Described):
    """A factor of a score."""

    score: Share = Field(description="The factor, higher is better.")
    score_low: Share | None = Field(
        description="Lower limit of its 95 % interval; null before intervals were published."
    )
    score_high: Share | None = Field(description="Upper limit; null likewise.")
    components: dict[str, float | None] = Field(
        description="Its components, inputs and counts by name; null where one is not measured."
    )
    trace_count: int = Field(description="Traces in the window.")
    confidence: Confidence = Field(
        description="By traces in the window: insufficient below 10, low below 30, medium below 100, else high."
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

    name: str = Field(description="Name for people.")
    formula: str = Field(description="How it follows from its components.")
    description: str = Field(description="What it says about the agent.")
    notes: list[str] = Field(
        default_factory=list, description="What to know when reading it; R and I_inc only."
    )


class DetailedFactors(ByFactor[DetailedFactor]):
    """The five factors, explained."""


class Metadata(Described):
    """What the score was made from."""

    as_of: AsOf
    window_days: WindowDays
    window_start: Moment = Field(description="First moment of the window.")
    window_end: Moment = Field(description="End of the window, which is the as-of.")
    total_traces: int = Field(description="Traces in the window, each counted once.")
    non_exempt_traces: int = Field(
        description="Of them, traces whose action is SPEAK, TOOL, MEMORIZE or FORGET."
    )
    parameter_set_id: str = Field(description="Short hash of all parameters that the score was made with.")
    scored_at: Moment = Field(description="When the score was computed.")


class DetailedMetadata(Metadata):
    """What the score was made from, and which actions count as non-exempt."""

    non_exempt_actions: list[str] = Field(description="Actions of non-exempt traces.")


class Outline(Described):
    """Base class of all models of a score, which can be null."""

    agent_name: Name
    composite_score: Share | None = Field(
        description="capacity_score, by its name in the lens: product of the five factors; null below the least traces."
    )
    capacity_score_low: Share | None = Field(
        description="Lower limit of its 95 % interval; null with the score."
    )
    capacity_score_high: Share | None = Field(description="Upper limit; null with the score.")
    capacity_score_steady: Share | None = Field(
        description="The score to decide by: deferrals and episodes are averaged over 90 days (steady_days)."
    )
    capacity_score_steady_low: Share | None = Field(
        description="Lower limit of its 95 % interval; null with it."
    )
    capacity_score_steady_high: Share | None = Field(description="Upper limit; null with it.")
    fragility_index: float | None = Field(
        description="1/(epsilon + composite_score), lower is better; null with the score."
    )
    category: Category | None = Field(description="Category of the score; null with the score.")
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
    """An alert or a red flag that stands against an agent."""

    name: str = Field(description="Kind of the alert, or the red flag.")
    severity: Literal["critical", "warning", "red_flag"] = Field(
        description="Of an alert; red_flag for a red flag."
    )
    since: Since
    reviews: bool = Field(description="Whether somebody has to look before the score decides.")


class Judged(Outline):
    """Base class of models of a score with its verdict."""

    agent_id_hash: Hash
    verdict: VerdictName = Field(
        description="What to do about a permission that asks for the threshold: grant it, keep it as it is, withhold "
        "it, review first what is raised, or wait for a score."
    )
    verdict_reason: str = Field(description="Why, in a sentence.")
    verdict_threshold: Share = Field(
        description="Steady score that the permission asks for: the threshold asked for, else the published one."
    )
    probability_at_threshold: Share | None = Field(
        description="How likely it is that the long-run score reaches the threshold; null without a steady score."
    )
    raised: list[Raised] = Field(
        description="Alerts, the critical ones first, and red flags of selective reporting."
    )


class ScoreBase(Judged):
    """Base class of a score of an agent at an as-of."""

    category_steady: Category | None = Field(description="Category of capacity_score_steady; null with it.")
    category_steady_certainty: Certainty
    steady_missing_because: str | None = Field(description="Why it is null: too_few_traces.")
    capacity_score_geometric: Share | None = Field(description="Weighted geometric mean of the factors.")
    category_certainty: Certainty
    interval_driver: str | None = Field(
        description="Component that widens the interval most; null where none does."
    )
    confidence: Confidence = Field(description="By traces in the window.")
    missing_traces: int = Field(description="Traces that a score still needs; 0 where there is one.")
    unmeasured_components: list[str] = Field(
        description="Components with too little data, which stand at their neutral value."
    )


class FleetScore(Scored, ScoreBase):
    """A score of an agent in the fleet, which always is a number."""

    factors: Factors = Field(description="The five factors.")
    metadata: Metadata = Field(description="What the score was made from.")


class Score(ScoreBase, Answer):
    """A score of an agent in a window."""

    agent_note: Note
    factors: Factors = Field(description="The five factors.")
    metadata: Metadata = Field(description="What the score was made from.")


class Unscored(Described):
    """An agent without a score at the as-of."""

    agent_id_hash: Hash
    agent_name: Name
    score_status: Literal["insufficient_data", "no_traces"] = Field(
        description="insufficient_data: too few traces in the window; no_traces: none."
    )
    n_traces: int = Field(description="Traces in the window.")
    missing_traces: int = Field(description="Traces that a score still needs.")
    last_traced_at: Moment | None = Field(description="Time of its last trace.")


class Summary(Described):
    """The whole fleet at the as-of, whatever is filtered."""

    verdicts: dict[VerdictName, int] = Field(description="Agents by verdict, those without a score too.")
    high_capacity: int = Field(description="Agents in category high_capacity.")
    healthy: int = Field(description="Agents in category healthy.")
    moderate: int = Field(description="Agents in category moderate.")
    high_fragility: int = Field(description="Agents in category high_fragility.")
    final: int = Field(description="Agents with status final.")
    provisional: int = Field(description="Agents with status provisional.")
    insufficient_data: int = Field(description="Agents with traces, but too few for a score.")
    mean_capacity_score: Share | None = Field(
        description="Mean over agents with a score; null when none has."
    )
    median_capacity_score: Share | None = Field(description="Median; null likewise.")
    min_capacity_score: Share | None = Field(description="Smallest; null likewise.")


class Fleet(Answer):
    """Every agent's score at an as-of."""

    timestamp: Timestamp
    as_of: Moment | None = Field(description="As-of of the scores (UTC); null while none is published.")
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
    unscored: list[Unscored] = Field(
        description="Agents without a score; empty when a category is asked for."
    )
    summary: Summary = Field(description="The whole fleet in numbers.")


class ComponentLoss(Described):
    """What a loss component took from a score."""

    loss_component: str = Field(description="Component, or r_ceiling, the fixed cost.")
    factor: FactorName = Field(description="Factor that it belongs to.")
    points_lost: float = Field(description="Its share of what is missing from 1.")
    loss: float | None = Field(description="Its part of -ln(composite_score); null where infinite.")
    rank: int = Field(description="1 for the loss component that took most.")


class WeighsMost(Described):
    """What took most from the score."""

    words: str = Field(description="In a sentence.")
    loss_components: list[ComponentLoss] = Field(
        description="All loss components, the largest loss first; empty without a score."
    )


class FactorsAnswer(ScoreBase, Answer):
    """The five factors behind a score of an agent in a window."""

    agent_note: Note
    factors: DetailedFactors = Field(description="The five factors, explained.")
    weighs_most: WeighsMost = Field(description="What took most from the score.")
    metadata: DetailedMetadata = Field(description="What the score was made from.")


class PointFactors(ByFactor[Share]):
    """The five factors at an as-of."""


class Point(Outline):
    """A score of the agent at an as-of, with its name at the time."""

    as_of: AsOf
    confidence: Confidence = Field(description="By traces in the window.")
    n_traces: int = Field(description="Traces in the window.")
    factors: PointFactors = Field(description="The five factors.")
    parameter_set_id: str = Field(description="Short hash of all parameters of the score.")
    scored_at: Moment = Field(description="When the score was computed.")


class History(Answer):
    """Scores of an agent over time."""

    agent_id_hash: Hash
    agent_name: Name
    agent_note: Note
    window_days: WindowDays
    period_days: int = Field(description="Days that the history spans.")
    from_: Moment = Field(serialization_alias="from", description="First as-of of the history, included.")
    to: Moment = Field(description="Last as-of, included.")
    interval: Literal["daily", "hourly"] = Field(
        description="daily: as-ofs at midnight UTC; hourly: all published ones, which may be daily too."
    )
    current_as_of: AsOf
    current_score: Share | None = Field(description="Newest score of the agent; null below the least traces.")
    current_category: Category | None = Field(description="Its category; null with it.")
    history: list[Point] = Field(
        description="Scores, the oldest first; none where the window holds no trace."
    )
    note: str = Field(description="How the history was made.")
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
    value: float | None = Field(description="What was measured.")
    threshold: float | None = Field(description="What it was compared with.")
    message: str = Field(description="The alert in a sentence.")


class Alerts(Answer):
    """Who needs attention."""

    timestamp: Timestamp
    as_of: Moment | None = Field(description="As-of of the scores (UTC); null while none is published.")
    threshold: Share = Field(description="Scores below this are listed in `agents`.")
    window_days: WindowDays
    alert_count: int = Field(description="Length of `agents`; the lens calls it so.")
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
    field: str | None = Field(description="Field that it is about; null where it is about the whole record.")
    z: float | None = Field(
        description="Standard errors above what it is compared with; null where there is nothing."
    )
    message: str = Field(description="The red flag in a sentence.")


class RedFlags(Answer):
    """The red flags of selective reporting at an as-of: reasons to look, part of no score."""

    as_of: Moment | None = Field(description="As-of of the scores (UTC); null while none is published.")
    window_days: WindowDays
    total_red_flag_count: int = Field(description="Red flags that match the filters, on all pages.")
    offset: int = Field(description="Red flags left out before the first one.")
    limit: int | None = Field(description="Most red flags asked for; null for all.")
    next: Next
    red_flags: list[RedFlag] = Field(description="Red flags, by agent.")


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
        validation_alias="default_value", description="Value when nobody overrides it."
    )
    allowed_range: str = Field(description="What it may be.")
    meaning: str = Field(description="What it does.")
    section: str = Field(
        validation_alias="specification_section", description="Section of the scoring semantics."
    )


class LensParameters(Described):
    """Parameters under the lens's names, where there is a counterpart."""

    lambda_C: float = Field(description="Sensitivity of C to changes of the name.")
    mu_C: float = Field(description="Sensitivity of C to overridden actions.")
    decay_rate: float = Field(description="Share of the coherence state that decays per day.")
    signal_weight: float = Field(description="Weight of a corroborated coherence signal.")
    min_traces: int = Field(description="Traces in the window that a score needs.")
    default_window_days: int = Field(description="The reference window, in days.")
    baseline_window_days: int = Field(description="Its baseline, in days.")
    coherence_window_days: int = Field(description="Its memory of coherence, in days.")


class CategoryBounds(Described):
    """A category."""

    category: Category = Field(description="Its name.")
    label: str = Field(description="Its name for people.")
    guidance: str = Field(description="What to do with an agent in it.")
    lower_bound: float | None = Field(description="Least score in it; null for none.")
    upper_bound: float | None = Field(description="Least score above it; null for none.")


class Window(Described):
    """A published window."""

    window_days: WindowDays
    baseline_days: int = Field(description="Days of the baseline before it.")
    coherence_days: int = Field(description="Memory of the coherence state, in days.")


class RateLimit(Described):
    """How much may be asked."""

    requests_per_minute: int = Field(description="Requests per client and minute; 0 for no limit.")
    cache_ttl_seconds: int = Field(description="Seconds after which the server looks for newer scores.")


class Parameters(Answer):
    """With which values scores are made."""

    parameters: LensParameters = Field(description="Under the lens's names.")
    parameter_set_id: str = Field(description="Short hash of all values.")
    published: list[Published] = Field(description="Every parameter.")
    non_exempt_actions: list[str] = Field(description="Actions that affect others or the agent's memory.")
    exempt_actions: list[str] = Field(description="The other actions.")
    categories: dict[Category, str] = Field(description="Guidance by category.")
    category_bounds: list[CategoryBounds] = Field(
        description="Categories with their bounds, the lowest first."
    )
    windows: list[Window] = Field(description="Windows, the reference first.")
    rate_limit: RateLimit = Field(description="How much may be asked.")


class EvidenceTrace(Described):
    """A trace that lowered a component."""

    key: str = Field(description="What to give as `after` to go on behind it.")
    trace_id: str | None = Field(description="Its id; null where it has none.")
    traced_at: Moment = Field(description="Its time, UTC.")
    lowered_by: float = Field(description="By how much it lowered the component, in `lowered_by_unit`.")
    agent_name: str | None = Field(description="Name on the trace.")
    previous_agent_name: str | None = Field(description="The agent's name before it.")
    selected_action: str | None = Field(description="Its action.")
    audit_sequence_number: int | None = Field(description="Its number in the audit chain.")
    previous_audit_sequence_number: int | None = Field(description="The number before it.")
    is_chain_gap: bool | None = Field(description="Whether the number jumped forward.")
    is_chain_rewind: bool | None = Field(description="Whether it went back.")
    is_chain_duplicate: bool | None = Field(description="Whether it was repeated.")
    is_signature_verified: bool | None = Field(description="Whether it is signed and the signature verified.")
    is_key_registered: bool | None = Field(
        description="Whether its key was registered and valid at the time."
    )
    is_link_valid: bool | None = Field(description="Whether it follows upon the trace before it.")
    n_fields_present: int | None = Field(description="Required fields that are filled, of ten.")
    missing_fields: list[str] | None = Field(description="Those that are not; null where none is missing.")
    failed_comparisons: list[str] | None = Field(
        description="Comparisons of the replay that failed; null for a trace that was not sampled."
    )
    entropy_level: float | None = Field(description="Its uncertainty.")
    action_success: bool | None = Field(description="Whether its action succeeded.")
    failure_mode: str | None = Field(
        description="Mode of the fragile episode that it began; null where it began none."
    )


class Evidence(Answer):
    """The traces that lowered a component of a score, the newest first."""

    agent_id_hash: Hash
    agent_name: Name
    agent_note: Note
    as_of: AsOf
    window_days: WindowDays
    window_start: Moment = Field(
        description="First moment of the window; fragile episodes may have begun before."
    )
    component: str = Field(description="The component.")
    lowered_by_unit: str = Field(description="What `lowered_by` counts.")
    traces: list[EvidenceTrace] = Field(description="A page of traces, the newest first.")
    next: Next


class Health(Described):
    """The process is up."""

    status: Literal["ok"] = Field(description="Always ok.")


class Ready(Described):
    """Scores can be served."""

    status: Literal["ready"] = Field(description="Always ready; else the answer is 503.")
    as_of: Moment | None = Field(description="Newest as-of; null while no score is published.")
    as_of_age_seconds: float | None = Field(description="Seconds since then; null likewise.")
    scored_at: Moment | None = Field(description="When the newest score was computed; null likewise.")
    parameter_set_id: str = Field(description="Short hash of the parameters in force.")


class ParameterError(Described):
    """A parameter that is not acceptable."""

    parameter: str = Field(description="Its name.")
    message: str = Field(description="What is wrong with it.")


class MeantAgent(Described):
    """An agent that may be meant."""

    agent_id_hash: Hash
    agent_name: str | None = Field(description="Its name.")


class ProblemDocument(Described):
    """What went wrong (RFC 9457)."""

    type: str = Field(description="Stable identifier of the kind of problem: urn:ciris-scoring:problem:...")
    title: str = Field(description="The kind of problem in words.")
    status: int = Field(description="The status of the answer.")
    detail: str = Field(description="What is wrong this time.")
    errors: list[ParameterError] | None = Field(default=None, description="With 422: each parameter.")
    allowed: list[str | int] | None = Field(default=None, description="With 422: what may be given.")
    as_ofs: list[Moment] | None = Field(
        default=None, description="With 404 of an as-of: the nearest ones that there are, the oldest first."
    )
    agents: list[MeantAgent] | None = Field(
        default=None, description="With 409: who bears the name; with 404: whose name is near."
    )
    agents_not_shown: int | None = Field(
        default=None, description="With 409: how many more bear the name than are listed."
    )
    limit: int | None = Field(default=None, description="With 429: requests per minute.")
    retry_after: int | None = Field(default=None, description="With 429: seconds to wait.")
