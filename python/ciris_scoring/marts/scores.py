"""Scores of agents at an as-of with their components and losses, and the capacity of the fleet over time."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from ciris_scoring.marts import verdict as verdicts
from ciris_scoring.marts.causes import causes
from ciris_scoring.marts.marts import Kind, Marts
from ciris_scoring.marts.score import Score, day
from ciris_scoring.names import NON_EXEMPT_ACTIONS

FALL = 0.3
"""Fall of a capacity score beyond which an agent comes early in the order by attention."""


def scores(
    marts: Marts,
    as_of: datetime,
    window_days: int,
    *,
    agent_id_hash: str | None = None,
    raised_at: datetime | None = None,
) -> list[Score]:
    """Read the scores at an as-of in a window, the lowest first. Agents without a score are last.

    :param agent_id_hash: read only the score of this agent.
    :param raised_at: as-of of the alerts and red flags; None for the as-of of the scores. It is later for an agent that
    has stopped sending traces.
    """
    found = marts.rows(
        Score,
        """
        with chosen as materialized (
            select *
            from {scored}
            where
                as_of = %(as_of)s
                and window_days = %(window_days)s
                and (%(agent_id_hash)s::text is null or agent_id_hash = %(agent_id_hash)s)
        ),

        parameters as (
            select
                max(parameter_value) filter (where parameter_name = 'min_traces')::numeric::integer as min_traces,
                max(parameter_value) filter (where parameter_name = 'warm_up_days')::numeric::integer as warm_up_days
            from {dim_scoring_parameters}
            where parameter_name in ('min_traces', 'warm_up_days')
        ),

        described as (
            select
                chosen.*,
                categories.label as category_label,
                categories.guidance,
                case
                    when chosen.score_status = 'insufficient_data'
                        then greatest(parameters.min_traces - chosen.n_traces, 0)
                end as missing_traces,
                case
                    when chosen.score_status = 'provisional'
                        then date_trunc('day', agents.first_traced_at, 'UTC')
                            + make_interval(hours => 24 * (1 + chosen.window_days + parameters.warm_up_days))
                end as final_from,
                compared.compared_as_of,
                compared.score_before,
                compared.change,
                compared.not_comparable_because,
                case
                    when agents.last_traced_at < chosen.as_of then agents.last_traced_at
                    else chosen.last_traced_at
                end as newest_trace_at,
                last_categories.label as last_category_label
            from chosen
            cross join parameters
            left join {dim_capacity_categories} as categories on chosen.category = categories.category
            left join {dim_capacity_categories} as last_categories
                on
                    chosen.last_capacity_score >= coalesce(last_categories.lower_bound, '-Infinity')
                    and chosen.last_capacity_score < coalesce(last_categories.upper_bound, 'Infinity')
            left join {dim_agents} as agents on chosen.agent_id_hash = agents.agent_id_hash
            left join {fct_score_comparisons} as compared
                on
                    chosen.agent_id_hash = compared.agent_id_hash
                    and compared.as_of = %(as_of)s
                    and compared.window_days = %(window_days)s
                    and compared.compared_with = 'window'
        )

        select {columns}
        from described
        order by capacity_score nulls last, agent_id_hash collate "C"
        """,
        as_of=as_of,
        window_days=window_days,
        agent_id_hash=agent_id_hash,
    )
    agents = [agent_id_hash] if agent_id_hash else None
    raised = verdicts.raised(marts, window_days, raised_at or as_of, agents=agents)
    silent = {agent for agent, of_agent in raised.items() if any(one.name == "silent" for one in of_agent)}
    caused = causes(marts, [score.agent_id_hash for score in found], as_of, window_days, silent)
    complete = []
    for score in found:
        of_agent = raised[score.agent_id_hash]
        if score.is_silent:
            since = f"no trace since {day(score.last_traced_at)}" if score.last_traced_at else ""
            complete.append(replace(score, raised=of_agent, cause=score.silence, shared_cause=since))
            continue
        why = caused[score.agent_id_hash]
        complete.append(
            replace(score, raised=of_agent, cause=why.sentence, shared_cause=why.shared, chain_cause=why.chain)
        )
    return complete


def attention(score: Score, threshold: float | None = None) -> tuple[object, ...]:
    """Return the sort key of a score, so that the agents that need attention most come first.

    The criteria are, in this order: the category high_fragility, the number of critical alerts, a fall of the capacity
    score by more than `FALL`, the verdict, the number of alerts and red flags, the lower bound of the steady score, and
    the hash.

    :param threshold: see `verdict`.
    """
    critical = sum(one.severity == "critical" for one in score.raised)
    low = score.capacity_score_steady_low
    return (
        score.category != verdicts.HIGH_FRAGILITY,
        -critical,
        score.change is None or score.change >= -FALL,
        verdicts.VERDICTS.index(verdicts.verdict(score, threshold).verdict),
        -len(score.raised),
        1.0 if low is None else low,
        score.agent_id_hash,
    )


@dataclass(frozen=True, slots=True)
class FleetCapacity:
    """A row of fct_fleet_capacity, with the same units and nulls."""

    as_of: datetime
    window_days: int
    n_agents: int
    n_final: int
    n_provisional: int
    n_insufficient_data: int
    n_no_traces: int
    n_high_fragility: int
    n_moderate: int
    n_healthy: int
    n_high_capacity: int
    mean_capacity_score: float | None
    median_capacity_score: float | None
    min_capacity_score: float | None
    median_capacity_score_steady: float | None
    latest_scored_at: datetime


def capacity_over_time(
    marts: Marts,
    window_days: int,
    *,
    first: datetime | None = None,
    last: datetime | None = None,
    daily: bool = False,
) -> list[FleetCapacity]:
    """Read the capacity of the fleet at each as-of from first to last, both inclusive. None means no limit.

    :param daily: read only as-ofs that are a whole number of days before `last`, which must be given.
    """
    return marts.rows(
        FleetCapacity,
        """
        select {columns}
        from {fct_fleet_capacity}
        where
            window_days = %(window_days)s
            and (%(first)s::timestamptz is null or as_of >= %(first)s)
            and (%(last)s::timestamptz is null or as_of <= %(last)s)
            and (not %(daily)s or mod(extract(epoch from %(last)s::timestamptz - as_of), 86400) = 0)
        order by as_of
        """,
        window_days=window_days,
        first=first,
        last=last,
        daily=daily,
    )


def newest(marts: Marts, window_days: int | None = None) -> datetime | None:
    """Find the newest published as-of, or None if nothing is published.

    :param window_days: consider only this window.
    """
    query = """
        select max(as_of)
        from {fct_fleet_capacity}
        where %(window_days)s::integer is null or window_days = %(window_days)s
        """
    found: datetime | None = marts.value(query, window_days=window_days)
    return found


def capacity(marts: Marts, as_of: datetime, window_days: int) -> FleetCapacity | None:
    """Read the capacity of the fleet at an as-of, or None if no agent has a row at this as-of."""
    found = capacity_over_time(marts, window_days, first=as_of, last=as_of)
    return found[0] if found else None


def as_of_before(marts: Marts, as_of: datetime, window_days: int) -> datetime | None:
    """Find the published as-of before an as-of, or None if it is the first."""
    query = "select max(as_of) from {fct_fleet_capacity} where as_of < %(as_of)s and window_days = %(window_days)s"
    found: datetime | None = marts.value(query, as_of=as_of, window_days=window_days)
    return found


@dataclass(frozen=True, slots=True)
class Component:
    """A row of fct_factor_components, with the same units and nulls."""

    agent_id_hash: str
    factor: str
    component: str
    component_value: float | None


@dataclass(frozen=True, slots=True)
class ComponentLoss:
    """A row of fct_score_attribution: the points that one loss component takes from a score of 1."""

    agent_id_hash: str
    factor: str
    loss_component: str
    loss: float | None
    points_lost: float
    rank: int
    score_left: float
    """1 minus the points of this loss component and of all components that lost more points (ranks 1 to ``rank``)."""


@dataclass(frozen=True, slots=True)
class ComponentChange:
    """A row of fct_score_changes: the points that a loss component gained or lost since an earlier as-of."""

    agent_id_hash: str
    compared_with: str
    compared_as_of: datetime
    factor: str
    loss_component: str
    loss_change: float | None
    points: float
    rank: int


@dataclass(frozen=True, slots=True)
class Comparison:
    """A row of fct_score_comparisons, with the same units and nulls."""

    agent_id_hash: str
    compared_with: str
    compared_as_of: datetime
    score_before: float | None
    score_now: float | None
    change: float | None
    not_comparable_because: str | None


def non_exempt_traces(marts: Marts, agents: Sequence[str], as_of: datetime, window_days: int) -> dict[str, int]:
    """Count the traces with a non-exempt action in a window, by agent hash. Agents without such a trace are not in the
    result.
    """
    found = marts.dicts(
        """
        select agent_id_hash, count(*) as n
        from {fct_trace_checks}
        where
            agent_id_hash = any(%(agents)s)
            and traced_at >= %(as_of)s::timestamptz - make_interval(hours => 24 * %(window_days)s)
            and traced_at < %(as_of)s
            and is_counted
            and selected_action = any(%(actions)s)
        group by agent_id_hash
        """,
        {
            "agents": list(agents),
            "as_of": as_of,
            "window_days": window_days,
            "actions": list(NON_EXEMPT_ACTIONS),
        },
    )
    return {row["agent_id_hash"]: row["n"] for row in found}


def _of_agents(
    marts: Marts, kind: type[Kind], mart: str, order: str, agents: Sequence[str], as_of: datetime, window_days: int
) -> list[Kind]:
    """Read the rows of a mart at an as-of, by agent and then in an order."""
    return marts.rows(
        kind,
        f"""
        select {{columns}}
        from {{{mart}}}
        where agent_id_hash = any(%(agents)s) and as_of = %(as_of)s and window_days = %(window_days)s
        order by agent_id_hash collate "C", {order}
        """,
        agents=list(agents),
        as_of=as_of,
        window_days=window_days,
    )


def components(marts: Marts, agents: Sequence[str], as_of: datetime, window_days: int) -> list[Component]:
    """Read the components of agents' scores at an as-of."""
    order = "array_position(array['C', 'I_int', 'R', 'I_inc', 'S'], factor), component collate \"C\""
    return _of_agents(marts, Component, "fct_factor_components", order, agents, as_of, window_days)


def attribution(marts: Marts, agents: Sequence[str], as_of: datetime, window_days: int) -> list[ComponentLoss]:
    """Read the loss components of agents' scores at an as-of, for each agent the largest loss first."""
    return marts.rows(
        ComponentLoss,
        """
        select
            agent_id_hash, factor, loss_component, loss, points_lost, rank::integer as rank,
            greatest(1 - sum(points_lost) over (partition by agent_id_hash order by rank), 0) as score_left
        from {fct_score_attribution}
        where agent_id_hash = any(%(agents)s) and as_of = %(as_of)s and window_days = %(window_days)s
        order by agent_id_hash collate "C", rank
        """,
        agents=list(agents),
        as_of=as_of,
        window_days=window_days,
    )


def comparisons(marts: Marts, agents: Sequence[str], as_of: datetime, window_days: int) -> list[Comparison]:
    """Read the comparisons of agents' scores with earlier ones, for each agent the earliest first."""
    order = "compared_as_of, compared_with desc"
    return _of_agents(marts, Comparison, "fct_score_comparisons", order, agents, as_of, window_days)


def changes(marts: Marts, agents: Sequence[str], as_of: datetime, window_days: int) -> list[ComponentChange]:
    """Read by how many points each loss component changed agents' scores, for each agent and comparison the greatest
    fall first."""
    return _of_agents(marts, ComponentChange, "fct_score_changes", "rank", agents, as_of, window_days)
