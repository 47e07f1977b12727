"""Scores over time, and the events that can explain a sudden change of a score. Agents are given by their hashes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from ciris_scoring.marts.marts import Marts, grouped


@dataclass(frozen=True, slots=True)
class Point:
    """Columns of fct_capacity_scores that a history shows, with the same units and nulls."""

    agent_id_hash: str
    agent_name: str | None
    agent_label: str
    as_of: datetime
    window_days: int
    n_traces: int
    capacity_score: float | None
    capacity_score_low: float | None
    capacity_score_high: float | None
    capacity_score_steady: float | None
    capacity_score_steady_low: float | None
    capacity_score_steady_high: float | None
    fragility_index: float | None
    category: str | None
    verdict: str | None
    score_status: str
    confidence: str
    c_score: float | None
    i_int_score: float | None
    r_score: float | None
    i_inc_score: float | None
    s_score: float | None
    weakest_factor: str | None
    parameter_set_id: str
    scored_at: datetime


def histories(
    marts: Marts,
    agents: Sequence[str],
    window_days: int,
    *,
    first: datetime | None = None,
    last: datetime | None = None,
    daily_at: datetime | None = None,
) -> Mapping[str, list[Point]]:
    """Read the scores of agents at the as-ofs from first to last, both inclusive. None means no limit.

    :param daily_at: read only the as-ofs at this time of the day (UTC).
    :returns: scores by agent hash, in the order of time.
    """
    found = marts.rows(
        Point,
        """
        select {columns}
        from {scored}
        where
            agent_id_hash = any(%(agents)s)
            and window_days = %(window_days)s
            and (%(first)s::timestamptz is null or as_of >= %(first)s)
            and (%(last)s::timestamptz is null or as_of <= %(last)s)
            and (
                %(daily_at)s::timestamptz is null
                or mod(extract(epoch from %(daily_at)s::timestamptz - as_of), 86400) = 0
            )
        order by agent_id_hash collate "C", as_of
        """,
        agents=list(agents),
        window_days=window_days,
        first=first,
        last=last,
        daily_at=daily_at,
    )
    return grouped(found)


def factors_over_time(marts: Marts, window_days: int, first: datetime, last: datetime) -> list[dict[str, Any]]:
    """Read the factors of all agents at the as-ofs from first to last, both inclusive: a row per agent, as-of and
    factor."""
    return marts.dicts(
        """
        select
            scores.agent_id_hash, scores.agent_label, scores.agent_name, scores.as_of, scores.window_days,
            factors.factor, factors.factor_score, scores.capacity_score, scores.category, scores.score_status,
            scores.n_traces
        from {fct_capacity_scores} as scores
        cross join lateral (
            values
                ('C', c_score), ('I_int', i_int_score), ('R', r_score), ('I_inc', i_inc_score), ('S', s_score)
        ) as factors (factor, factor_score)
        where
            scores.window_days = %(window_days)s and scores.as_of >= %(first)s and scores.as_of <= %(last)s
        order by
            scores.agent_id_hash collate "C", scores.as_of,
            array_position(array['C', 'I_int', 'R', 'I_inc', 'S'], factors.factor)
        """,
        {"window_days": window_days, "first": first, "last": last},
    )


def capacities(
    marts: Marts, agents: Sequence[str], window_days: int, first: datetime, last: datetime
) -> dict[str, list[tuple[datetime, float | None]]]:
    """Read the capacity scores of agents at the as-ofs from first to last that are a whole number of days before last.

    The query returns an array for each agent instead of rows, because a fleet has hundreds of agents.

    :returns: as-ofs and scores by agent hash. Agents without a row are not in the result.
    """
    found = marts.dicts(
        """
        select
            agent_id_hash,
            array_agg(as_of order by as_of) as as_ofs,
            array_agg(capacity_score order by as_of) as capacities
        from {scored}
        where
            agent_id_hash = any(%(agents)s)
            and window_days = %(window_days)s
            and as_of >= %(first)s
            and as_of <= %(last)s
            and mod(extract(epoch from %(last)s::timestamptz - as_of), 86400) = 0
        group by agent_id_hash
        """,
        {"agents": list(agents), "window_days": window_days, "first": first, "last": last},
    )
    return {row["agent_id_hash"]: list(zip(row["as_ofs"], row["capacities"], strict=True)) for row in found}


@dataclass(frozen=True, slots=True)
class Event:
    """Entry of an agent's history (not an event of the lens): all traces with a key that is not registered, or with a
    broken chain, or all renames from one name to another."""

    agent_id_hash: str
    kind: str
    """One of renamed, key_not_registered, chain_broken, parameters_changed."""
    first_at: datetime
    last_at: datetime
    n: int
    """Number of traces of the entry, or of changes of parameters."""
    detail: list[str] | None
    """Old and new name, or old and new parameter set; null for other kinds of events."""


def events(
    marts: Marts, agents: Sequence[str], window_days: int, first: datetime, last: datetime
) -> Mapping[str, list[Event]]:
    """Read the events of agents from first (inclusive) to last (exclusive; inclusive for changes of parameters).

    :param window_days: window of the scores whose parameter sets are compared.
    :returns: events by agent hash, in the order of time.
    """
    found = marts.rows(
        Event,
        """
        with parameter_sets as (
            select
                agent_id_hash, as_of, parameter_set_id,
                lag(parameter_set_id) over (partition by agent_id_hash order by as_of) as previous_parameter_set_id
            from {fct_capacity_scores}
            where
                agent_id_hash = any(%(agents)s) and window_days = %(window_days)s
                and as_of >= %(first)s and as_of <= %(last)s
        ),

        moments as (
            select agent_id_hash, found.kind, traced_at as at, found.detail
            from {fct_trace_checks}
            cross join lateral (
                values
                    ('renamed', is_identity_change, array[previous_agent_name, agent_name]),
                    ('key_not_registered', not is_key_registered, null),
                    ('chain_broken', is_chain_gap or is_chain_rewind or is_chain_duplicate, null)
            ) as found (kind, is_found, detail)
            where
                agent_id_hash = any(%(agents)s)
                and traced_at >= %(first)s
                and traced_at < %(last)s
                and is_counted
                and (  -- skips most traces before the join
                    is_identity_change or not is_key_registered
                    or is_chain_gap or is_chain_rewind or is_chain_duplicate
                )
                and found.is_found

            union all

            select
                agent_id_hash, 'parameters_changed', as_of,
                array[previous_parameter_set_id, parameter_set_id]
            from parameter_sets
            where previous_parameter_set_id <> parameter_set_id
        )

        select
            agent_id_hash, kind, min(at) as first_at, max(at) as last_at, count(*)::integer as n, detail
        from moments
        group by agent_id_hash, kind, detail
        order by agent_id_hash collate "C", first_at, kind collate "C"
        """,
        agents=list(agents),
        window_days=window_days,
        first=first,
        last=last,
    )
    return grouped(found)
