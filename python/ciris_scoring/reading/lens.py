"""The marts in the shapes of the CIRIS lens API, as JSON that the database writes: numbers at full precision."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

import psycopg
from psycopg import sql

from ciris_scoring.reading.factors import FACTORS
from ciris_scoring.reading.iso_text import iso_text
from ciris_scoring.relations import Relations

LENS_NAMES = {
    "d_identity": "D_identity",
    "k_contradiction": "K_contradiction",
    "i_chain": "I_chain",
    "i_coverage": "I_coverage",
    "i_replay": "I_replay",
    "ece": "ECE",
    "q_deferral": "Q_deferral",
    "u_unsafe": "U_unsafe",
}
"""Components that the lens has too, under these names; the others keep their own."""
NON_EXEMPT_ACTIONS = ("SPEAK", "TOOL", "MEMORIZE", "FORGET")
EXEMPT_ACTIONS = ("OBSERVE", "PONDER", "DEFER", "REJECT", "RECALL", "TASK_COMPLETE")
SORTED_BY = {
    "composite_score": "capacity_score",
    "agent_name": 'agent_name collate "C"',
    "total_traces": "n_traces",
    **FACTORS,
}
"""What the fleet can be sorted by, and the expression for it."""
NO_TRACES = "no_traces"
"""Status, beside those of the marts, of an agent without a trace in the window."""


def _named(column: str) -> str:
    """SQL: the lens's name of a component."""
    cases = " ".join(f"when '{ours}' then '{theirs}'" for ours, theirs in LENS_NAMES.items())
    return f"case {column} {cases} else {column} end"


def _factors() -> str:
    """SQL: the five factors of a score as a JSON object."""
    members = ", ".join(
        f"""'{factor}', json_build_object(
            'score', scores.{column}, 'score_low', scores.{column}_low, 'score_high', scores.{column}_high,
            'components', coalesce(components.{column}_components, '{{{{}}}}'),
            'trace_count', scores.n_traces, 'confidence', scores.confidence
        )"""
        for factor, column in FACTORS.items()
    )
    return f"json_build_object({members})"


# Needs `wanted`, the keys of scores. An agent that never sent a name is called by its hash, for clients take names for
# text that is there.
SCORES = f"""
scores as (
    select
        scores.agent_id_hash, coalesce(scores.agent_name, scores.agent_id_hash) as agent_name, scores.as_of,
        scores.window_days, scores.window_start, scores.n_traces, scores.confidence, scores.capacity_score,
        scores.capacity_score_low, scores.capacity_score_high, scores.capacity_score_geometric,
        scores.fragility_index, scores.category, scores.category_certainty, scores.interval_driver,
        scores.score_status, scores.weakest_factor, scores.unmeasured_components, scores.parameter_set_id,
        scores.scored_at, {
    ", ".join(f"scores.{c}, scores.{c}_low, scores.{c}_high" for c in FACTORS.values())
}
    from {{fct_capacity_scores}} as scores
    where {{wanted}}
),
components as (
    select
        parts.agent_id_hash,
        {
    ", ".join(
        f"json_object_agg({_named('parts.component')}, parts.component_value order by parts.component) "
        f"filter (where parts.factor = '{factor}') as {column}_components"
        for factor, column in FACTORS.items()
    )
}
    from {{fct_factor_components}} as parts
    where {{wanted_parts}}
    group by parts.agent_id_hash
),
actions as (
    select verdicts.agent_id_hash, count(*) as n
    from {{fct_trace_verdicts}} as verdicts
    where
        {{wanted_verdicts}}
        and verdicts.is_counted
        and verdicts.selected_action = any(%(non_exempt_actions)s)
    group by verdicts.agent_id_hash
)
"""

SCORE_MEMBERS = f"""
    'agent_id_hash', scores.agent_id_hash,
    'agent_name', scores.agent_name,
    'composite_score', scores.capacity_score,
    'composite_score_low', scores.capacity_score_low,
    'composite_score_high', scores.capacity_score_high,
    'composite_score_geometric', scores.capacity_score_geometric,
    'fragility_index', scores.fragility_index,
    'category', scores.category,
    'category_certainty', scores.category_certainty,
    'interval_driver', {_named("scores.interval_driver")},
    'score_status', scores.score_status,
    'confidence', scores.confidence,
    'traces_missing', greatest(0, %(min_traces)s - scores.n_traces),
    'weakest_factor', scores.weakest_factor,
    'unmeasured_components', (
        select coalesce(json_agg({_named("names.name")} order by names.position), '[]')
        from unnest(scores.unmeasured_components) with ordinality as names (name, position)
    ),
    'factors', {_factors()},
    'metadata', json_build_object(
        'as_of', {iso_text("scores.as_of")},
        'window_days', scores.window_days,
        'window_start', {iso_text("scores.window_start")},
        'window_end', {iso_text("scores.as_of")},
        'total_traces', scores.n_traces,
        'non_exempt_traces', coalesce(actions.n, 0),
        'parameter_set_id', scores.parameter_set_id,
        'scored_at', {iso_text("scores.scored_at")}
    )
"""

ONE_AGENT = f"""
with newest as materialized (
    select max(as_of) as as_of
    from {{fct_capacity_scores}}
    where agent_id_hash = %(agent_id_hash)s and window_days = %(window_days)s
),
{SCORES}
select json_build_object({SCORE_MEMBERS})::text
from scores
left join components on scores.agent_id_hash = components.agent_id_hash
left join actions on scores.agent_id_hash = actions.agent_id_hash
"""

# The summary is that of the whole fleet, whatever is filtered. Unscored are those with too few traces in the window
# or none.
FLEET = f"""
with {SCORES},
chosen as (
    select scores.agent_id_hash, row_number() over (order by {{order}}, scores.agent_id_hash) as position
    from scores
    where
        scores.capacity_score is not null
        and (%(category)s::text is null or scores.category = %(category)s)
        and (%(status)s::text is null or scores.score_status = %(status)s)
),
agents as (
    select json_agg(json_build_object({SCORE_MEMBERS}) order by chosen.position) as agents, count(*) as n
    from chosen
    join scores on chosen.agent_id_hash = scores.agent_id_hash
    left join components on scores.agent_id_hash = components.agent_id_hash
    left join actions on scores.agent_id_hash = actions.agent_id_hash
    where
        chosen.position > %(offset)s::bigint
        and (%(limit)s::bigint is null or chosen.position <= %(offset)s::bigint + %(limit)s::bigint)
),
lacking as (
    select
        dim_agents.agent_id_hash,
        coalesce(dim_agents.agent_name, dim_agents.agent_id_hash) as agent_name,
        coalesce(scores.score_status, '{NO_TRACES}') as score_status,
        coalesce(scores.n_traces, 0) as n_traces,
        dim_agents.last_traced_at
    from {{dim_agents}} as dim_agents
    left join scores on dim_agents.agent_id_hash = scores.agent_id_hash
    where scores.capacity_score is null
),
unscored as (
    select
        json_agg(
            json_build_object(
                'agent_id_hash', agent_id_hash,
                'agent_name', agent_name,
                'score_status', score_status,
                'trace_count', n_traces,
                'traces_missing', greatest(0, %(min_traces)s - n_traces),
                'last_traced_at', {iso_text("last_traced_at")}
            )
            order by n_traces desc, agent_id_hash
        ) as unscored
    from lacking
    where %(category)s::text is null and (%(status)s::text is null or score_status = %(status)s)
),
fleet as (
    select
        n_final, n_provisional, n_insufficient_data, n_high_fragility, n_moderate, n_healthy, n_high_capacity,
        mean_capacity_score, median_capacity_score, min_capacity_score
    from {{fct_fleet_capacity}}
    where as_of = %(as_of)s and window_days = %(window_days)s
)
select
    json_build_object(
        'timestamp', {iso_text("statement_timestamp()")},
        'as_of', {iso_text("%(as_of)s::timestamptz")},
        'window_days', %(window_days)s::integer,
        'agent_count', agents.n,
        'total_agent_count', (select count(*) from chosen),
        'offset', %(offset)s::bigint,
        'limit', %(limit)s::bigint,
        'agents', coalesce(agents.agents, '[]'),
        'unscored', coalesce(unscored.unscored, '[]'),
        'summary', json_build_object(
            'high_capacity', coalesce(fleet.n_high_capacity, 0),
            'healthy', coalesce(fleet.n_healthy, 0),
            'moderate', coalesce(fleet.n_moderate, 0),
            'high_fragility', coalesce(fleet.n_high_fragility, 0),
            'final', coalesce(fleet.n_final, 0),
            'provisional', coalesce(fleet.n_provisional, 0),
            'insufficient_data', coalesce(fleet.n_insufficient_data, 0),
            'mean_composite_score', fleet.mean_capacity_score,
            'median_composite_score', fleet.median_capacity_score,
            'min_composite_score', fleet.min_capacity_score
        )
    )::text
from agents
cross join unscored
left join fleet on true
"""

BELOW = f"""
with scores as (
    select
        agent_id_hash, coalesce(agent_name, agent_id_hash) as agent_name, capacity_score, category, fragility_index,
        weakest_factor, score_status, capacity_score_low, capacity_score_high, category_certainty
    from {{fct_capacity_scores}}
    where
        as_of = %(as_of)s and window_days = %(window_days)s and capacity_score < %(threshold)s::double precision
),
actions as (
    select agent_id_hash, count(*) as n
    from {{fct_trace_verdicts}}
    where
        traced_at >= %(as_of)s::timestamptz - make_interval(hours => 24 * %(window_days)s)
        and traced_at < %(as_of)s
        and is_counted
        and selected_action = any(%(non_exempt_actions)s)
        and agent_id_hash = any(array(select scores.agent_id_hash from scores))
    group by agent_id_hash
),
agents as (
    select
        json_agg(
            json_build_object(
                'agent_id_hash', scores.agent_id_hash,
                'agent_name', scores.agent_name,
                'composite_score', scores.capacity_score,
                'composite_score_low', scores.capacity_score_low,
                'composite_score_high', scores.capacity_score_high,
                'category', scores.category,
                'category_certainty', scores.category_certainty,
                'fragility_index', scores.fragility_index,
                'weakest_factor', scores.weakest_factor,
                'score_status', scores.score_status,
                'non_exempt_traces', coalesce(actions.n, 0)
            )
            order by scores.capacity_score, scores.agent_id_hash
        ) as agents,
        count(*) as n
    from scores
    left join actions on scores.agent_id_hash = actions.agent_id_hash
)
select
    json_build_object(
        'timestamp', {iso_text("statement_timestamp()")},
        'as_of', {iso_text("%(as_of)s::timestamptz")},
        'threshold', %(threshold)s::double precision,
        'window_days', %(window_days)s::integer,
        'alert_count', agents.n,
        'agents', coalesce(agents.agents, '[]')
    )::text
from agents
"""

HISTORY_POINTS = f"""
    select
        agent_id_hash, coalesce(agent_name, agent_id_hash) as agent_name, as_of, window_days, n_traces,
        capacity_score as composite_score, capacity_score_low as composite_score_low,
        capacity_score_high as composite_score_high, fragility_index, category, score_status, confidence,
        {", ".join(f'{column} as "{factor}"' for factor, column in FACTORS.items())},
        weakest_factor, parameter_set_id, scored_at
    from {{fct_capacity_scores}}
    where
        agent_id_hash = %(agent_id_hash)s
        and window_days = %(window_days)s
        and as_of >= %(first)s
        and as_of <= %(last)s
        and (%(interval)s = 'hourly' or as_of = date_trunc('day', as_of))
    order by as_of
"""

HISTORY = f"""
with points as ({HISTORY_POINTS}),
current as (
    select coalesce(agent_name, agent_id_hash) as agent_name, as_of, capacity_score, category
    from {{fct_capacity_scores}}
    where agent_id_hash = %(agent_id_hash)s and window_days = %(window_days)s
    order by as_of desc
    limit 1
),
history as (
    select
        json_agg(
            json_build_object(
                'as_of', {iso_text("as_of")},
                'agent_name', agent_name,
                'composite_score', composite_score,
                'composite_score_low', composite_score_low,
                'composite_score_high', composite_score_high,
                'fragility_index', fragility_index,
                'category', category,
                'score_status', score_status,
                'confidence', confidence,
                'trace_count', n_traces,
                'weakest_factor', weakest_factor,
                'factors', json_build_object({", ".join(f"'{f}', " + f'"{f}"' for f in FACTORS)}),
                'parameter_set_id', parameter_set_id,
                'scored_at', {iso_text("scored_at")}
            )
            order by as_of
        ) as history
    from points
)
select
    json_build_object(
        'agent_id_hash', %(agent_id_hash)s::text,
        'agent_name', current.agent_name,
        'window_days', %(window_days)s::integer,
        'period_days', %(period_days)s::integer,
        'from', {iso_text("%(first)s::timestamptz")},
        'to', {iso_text("%(last)s::timestamptz")},
        'interval', %(interval)s::text,
        'current_as_of', {iso_text("current.as_of")},
        'current_score', current.capacity_score,
        'current_category', current.category,
        'history', coalesce(history.history, '[]')
    )::text
from current
cross join history
"""

ATTRIBUTION = f"""
select factor, {_named("part")} as part, loss, points_lost, rank
from {{fct_score_attribution}}
where agent_id_hash = %(agent_id_hash)s and as_of = %(as_of)s and window_days = %(window_days)s
order by rank
"""

WINDOW = """
select as_of, window_start
from {fct_capacity_scores}
where
    agent_id_hash = %(agent_id_hash)s
    and window_days = %(window_days)s
    and (%(as_of)s::timestamptz is null or as_of = %(as_of)s)
order by as_of desc
limit 1
"""

NAMED = """
select agent_id_hash, agent_name, agent_id_hash = %(agent)s as is_hash
from {dim_agents}
where agent_id_hash = %(agent)s or agent_name = %(agent)s
order by agent_id_hash
"""


class Lens:
    """Readings of one relations, in the lens's shapes.

    :param connection: a session at UTC that may read the marts, in a transaction.
    :param relations: where the marts are.
    """

    def __init__(self, connection: psycopg.Connection, relations: Relations):
        self.connection = connection
        self.relations = relations

    def agents_called(self, agent: str) -> list[tuple[str, str | None]]:
        """Hash and name of the agents that are meant: the one with this hash, else all that bear this name now."""
        rows = self._execute(NAMED, {"agent": agent}).fetchall()
        by_hash = [(agent_id_hash, name) for agent_id_hash, name, is_hash in rows if is_hash]
        return by_hash or [(agent_id_hash, name) for agent_id_hash, name, _ in rows]

    def score(self, agent_id_hash: str, window_days: int, min_traces: int) -> str | None:
        """Newest score of an agent, as JSON; None where it has none in this window."""
        return self._text(
            ONE_AGENT,
            {
                "agent_id_hash": agent_id_hash,
                "window_days": window_days,
                "min_traces": min_traces,
                "non_exempt_actions": list(NON_EXEMPT_ACTIONS),
            },
            wanted=_of_one_agent("scores"),
            wanted_parts=_of_one_agent("parts"),
            wanted_verdicts=sql.SQL(
                """
                verdicts.agent_id_hash = %(agent_id_hash)s
                and verdicts.traced_at >= (
                    select newest.as_of - make_interval(hours => 24 * %(window_days)s) from newest
                )
                and verdicts.traced_at < (select newest.as_of from newest)
                """
            ),
        )

    def fleet(self, values: Mapping[str, Any], order: str) -> str:
        """Scores of all agents at an as-of, as JSON.

        :param values: as_of, window_days, min_traces, and category, status, limit, which may be None, and offset.
        :param order: a member of SORTED_BY, with a minus in front for falling.
        """
        by = SORTED_BY[order.removeprefix("-")]
        direction = "desc nulls last" if order.startswith("-") else "asc nulls last"
        return self._one_text(
            FLEET,
            {**values, "non_exempt_actions": list(NON_EXEMPT_ACTIONS)},
            order=sql.SQL(f"scores.{by} {direction}"),
            wanted=sql.SQL("scores.as_of = %(as_of)s and scores.window_days = %(window_days)s"),
            wanted_parts=sql.SQL("parts.as_of = %(as_of)s and parts.window_days = %(window_days)s"),
            wanted_verdicts=sql.SQL(
                """
                verdicts.traced_at >= %(as_of)s::timestamptz - make_interval(hours => 24 * %(window_days)s)
                and verdicts.traced_at < %(as_of)s
                """
            ),
        )

    def window_of(
        self, agent_id_hash: str, window_days: int, as_of: datetime | None
    ) -> tuple[datetime, datetime] | None:
        """As-of and first moment of the window of an agent's score, at an as-of or the newest; None without one."""
        found: list[tuple[datetime, datetime]] = self._execute(
            WINDOW, {"agent_id_hash": agent_id_hash, "window_days": window_days, "as_of": as_of}
        ).fetchall()
        return found[0] if found else None

    def below(self, values: Mapping[str, Any]) -> str:
        """Agents below a threshold, as JSON; values: as_of, window_days, threshold."""
        return self._one_text(BELOW, {**values, "non_exempt_actions": list(NON_EXEMPT_ACTIONS)})

    def history(self, values: Mapping[str, Any]) -> str | None:
        """Scores of an agent over time, as JSON; None where it has no score in this window.

        :param values: agent_id_hash, window_days, first, last (as-ofs, both included), period_days and interval,
            hourly or daily: the as-ofs at midnight alone.
        """
        return self._text(HISTORY, values)

    def history_rows(self, values: Mapping[str, Any]) -> tuple[list[str], list[tuple[Any, ...]]]:
        """Columns and rows of the same history, as text."""
        cursor = self._execute(HISTORY_POINTS, values)
        names = [column.name for column in cursor.description or ()]
        return names, cursor.fetchall()

    def attribution(self, agent_id_hash: str, window_days: int, as_of: str) -> list[dict[str, Any]]:
        """What each part took from a score, the largest first; empty without a score."""
        cursor = self._execute(
            ATTRIBUTION, {"agent_id_hash": agent_id_hash, "window_days": window_days, "as_of": as_of}
        )
        names = [column.name for column in cursor.description or ()]
        return [dict(zip(names, row, strict=True)) for row in cursor]

    def _execute(self, query: str, values: Mapping[str, Any], **parts: sql.Composable) -> psycopg.Cursor:
        return self.connection.execute(sql.SQL(query).format(**self.relations, **parts), values)

    def _text(self, query: str, values: Mapping[str, Any], **parts: sql.Composable) -> str | None:
        row = self._execute(query, values, **parts).fetchone()
        return None if row is None else str(row[0])

    def _one_text(self, query: str, values: Mapping[str, Any], **parts: sql.Composable) -> str:
        text = self._text(query, values, **parts)
        assert text is not None  # aggregates without groups give a row
        return text


def _of_one_agent(relation: str) -> sql.Composable:
    return sql.SQL(
        "{r}.agent_id_hash = %(agent_id_hash)s and {r}.window_days = %(window_days)s"
        " and {r}.as_of = (select newest.as_of from newest)"
    ).format(r=sql.Identifier(relation))
