"""Find the traces that lowered a component of a score, and by how much. The rules are in
``seeds/components.csv``. The component q_deferral is computed from deferrals instead of traces."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from ciris_scoring.kinds.components import COMPONENT_ROWS, Component
from ciris_scoring.marts.marts import Marts
from ciris_scoring.names import UNKNOWN_MODE

DEFERRALS = "q_deferral"
"""Component that is lowered by deferrals instead of traces."""


# The mean of the amounts `lowered_by` over traces, episodes or recoveries is the component, or 1 minus the component if
# a higher value is better. For i_coverage the amounts are divided by 10. For i_replay and s_score the mean is weighted
# (scoring.md §4 and §7).
RULES: Mapping[str, Component] = {one.component: one for one in COMPONENT_ROWS if one.lowered_by}
"""Components that a single trace lowers, by name: all but delta_drift, ece, q_deferral and r_ceiling. A key is the
argument `loss_component` of the functions of this module."""
OF_EPISODES = ("mttr_hours", "rho_regression")
"""Components that fragile episodes lower. The evidence of an episode is the trace that began it."""
UNITS = {"i_coverage": "missing fields", "mttr_hours": "hours the episode lasted, up to now if still open"}
"""Unit of the amounts, if it is not traces."""

_TRACE = """
    trace_check_id, trace_id, traced_at, agent_name, previous_agent_name, selected_action, audit_sequence_number,
    previous_audit_sequence_number, is_chain_gap, is_chain_rewind, is_chain_duplicate, is_signature_verified,
    is_key_registered, is_link_valid, n_fields_present, missing_fields, failed_comparisons,
    entropy_level, action_success, is_override_without_judgement
"""
_MODE = f"case when is_fragility_detected then coalesce(idma_phase, '{UNKNOWN_MODE}') end as failure_mode"


def episodes(agents: str = "agent_id_hash = %(agent_id_hash)s") -> str:
    """Return the SQL of the CTE `episodes`: the fragile episodes that began before an as-of, each with its first trace.
    The hours are null if the episode ended before the window.

    :param agents: SQL condition that chooses the agents.
    """
    in_order = 'order by traced_at, audit_sequence_number, trace_id collate "C", trace_check_id'
    return f"""
        events as (
            select
                agent_id_hash, {_TRACE}, {_MODE}, is_fragility_detected,
                lead(traced_at) over (partition by agent_id_hash {in_order}) as recovered_at
            from {{fct_trace_checks}}
            where
                {agents}
                and traced_at < %(as_of)s
                and is_counted
                and (is_fragility_detected or is_fragility_recovered)
        ),

        episodes as (
            select
                agent_id_hash, {_TRACE}, failure_mode, recovered_at,
                coalesce(
                    lag(recovered_at) over (partition by agent_id_hash, failure_mode {in_order}) >= %(window_start)s,
                    false
                ) as is_relapse,
                case
                    when recovered_at is null or recovered_at >= %(window_start)s
                        then (extract(epoch from coalesce(recovered_at, %(as_of)s) - traced_at) / 3600)::float8
                end as hours
            from events
            where is_fragility_detected
        )
    """


def lowered(loss_components: Iterable[str] = RULES) -> str:
    """Return the SQL of the CTE `lowered`, with a row per component and trace that lowered it, and of the CTEs that
    it reads.

    The query needs the values agent_id_hash, as_of and window_start.
    """
    of_window, of_episodes = (
        ", ".join(
            f"('{loss_component}', ({RULES[loss_component].lowered_by})::double precision)"
            for loss_component in loss_components
            if (loss_component in OF_EPISODES) is is_of_episodes
        )
        for is_of_episodes in (False, True)
    )
    halves = []
    if of_window:
        halves.append(f"""
            select {_TRACE}, {_MODE}, lowered.loss_component, lowered.amount
            from {{fct_trace_checks}}
            cross join lateral (values {of_window}) as lowered (loss_component, amount)
            where
                agent_id_hash = %(agent_id_hash)s
                and traced_at >= %(window_start)s
                and traced_at < %(as_of)s
                and is_counted
                and lowered.amount > 0
        """)
    if of_episodes:
        halves.append(f"""
            select {_TRACE}, failure_mode, lowered.loss_component, lowered.amount
            from episodes
            cross join lateral (values {of_episodes}) as lowered (loss_component, amount)
            where lowered.amount > 0
        """)
    before = episodes() + "," if of_episodes else ""
    return f"{before} lowered as ({' union all '.join(halves)})"


_WRONG_IN_CHAIN = (
    ("is_chain_gap", True, "gap"),
    ("is_chain_rewind", True, "rewind"),
    ("is_chain_duplicate", True, "repeated"),
    ("is_signature_verified", False, "signature"),
    ("is_key_registered", False, "key"),
)


def described(trace: Mapping[str, Any], loss_component: str) -> str:
    """Describe in a few words how a trace lowered a component.

    :param trace: columns of fct_trace_checks.
    """
    words = RULES[loss_component].trace_words or ""
    if loss_component == "i_chain":
        found = [reason for column, wrong, reason in _WRONG_IN_CHAIN if trace[column] is wrong]
        return f"{words} ({', '.join(found)})" if found else words
    if loss_component == "i_coverage":
        n = 10 - trace["n_fields_present"]
        return f"{n} {words}" if n > 1 else "1 field missing"
    return words


@dataclass(frozen=True, slots=True)
class Trace:
    """A trace that lowered a component. The fields are columns of fct_trace_checks unless described otherwise."""

    trace_check_id: UUID
    trace_id: str | None
    traced_at: datetime
    loss_component: str
    lowered_by: float
    """Amount by which the trace lowered the component, in the unit of `UNITS`."""
    agent_name: str | None
    previous_agent_name: str | None
    selected_action: str | None
    audit_sequence_number: int | None
    previous_audit_sequence_number: int | None
    is_chain_gap: bool | None
    is_chain_rewind: bool | None
    is_chain_duplicate: bool | None
    is_signature_verified: bool | None
    is_key_registered: bool | None
    is_link_valid: bool | None
    n_fields_present: int | None
    missing_fields: list[str] | None
    failed_comparisons: list[str]
    entropy_level: float | None
    action_success: bool | None
    is_override_without_judgement: bool
    failure_mode: str | None
    """Failure mode of the fragile episode that the trace began, or None."""

    @property
    def recorded(self) -> str:
        """Values of the trace that the component is computed from."""
        verified = "verified" if self.is_signature_verified else "not verified"
        if self.loss_component == "d_identity":
            return f"{self.previous_agent_name} → {self.agent_name}"
        if self.loss_component == "k_contradiction":
            ran = "; a check of the conscience did not run" if self.is_override_without_judgement else ""
            return f"action_was_overridden: true{ran}"
        if self.loss_component == "i_chain":
            before = self.previous_audit_sequence_number
            number = "no number" if self.audit_sequence_number is None else f"{self.audit_sequence_number}"
            after = "" if before is None else f" after {before}"
            registered = "registered" if self.is_key_registered else "not registered"
            return f"{number}{after}; signature {verified}, key {registered}"
        if self.loss_component == "i_coverage":
            without = f", without {', '.join(self.missing_fields)}" if self.missing_fields else ""
            return f"{self.n_fields_present} of 10 fields{without}"
        if self.loss_component == "i_replay":
            return f"does not follow: {', '.join(self.failed_comparisons)}"
        if self.loss_component == "u_unsafe":
            return f"entropy {self.entropy_level}, action {'succeeded' if self.action_success else 'failed'}"
        if self.loss_component == "s_score":
            return f"signature {verified}"
        return f"failure mode {self.failure_mode}"


def count_evidence(
    marts: Marts, loss_component: str, agent_id_hash: str, as_of: datetime, window_start: datetime
) -> int:
    """Count the traces that lowered a component."""
    query = f"with {lowered([loss_component])} select count(*) from lowered"
    return int(marts.value(query, agent_id_hash=agent_id_hash, as_of=as_of, window_start=window_start))


def read_evidence(
    marts: Marts,
    loss_component: str,
    agent_id_hash: str,
    as_of: datetime,
    window_start: datetime,
    *,
    limit: int | None,
) -> list[Trace]:
    """Read the traces that lowered a component, the newest trace first.

    :param limit: maximum number of traces; None for all.
    """
    return marts.rows(
        Trace,
        f"""
        with {lowered([loss_component])}
        select {_TRACE}, failure_mode, loss_component, amount as lowered_by
        from lowered
        order by traced_at desc, trace_check_id desc
        limit %(limit)s
        """,
        agent_id_hash=agent_id_hash,
        as_of=as_of,
        window_start=window_start,
        limit=limit,
    )


def counts(marts: Marts, agent_id_hash: str, as_of: datetime, window_start: datetime) -> dict[str, int]:
    """Count the traces that lowered each component that has a rule."""
    query = f"with {lowered()} select loss_component, count(*) as n from lowered group by loss_component"
    key = {"agent_id_hash": agent_id_hash, "as_of": as_of, "window_start": window_start}
    found = {row["loss_component"]: row["n"] for row in marts.dicts(query, key)}
    return {component: found.get(component, 0) for component in RULES}


_COSTLY = """
    trace_check_id, trace_id, traced_at, selected_action, audit_sequence_number,
    previous_audit_sequence_number, is_chain_gap, is_chain_rewind, is_chain_duplicate, is_signature_verified,
    is_key_registered, is_link_valid, n_fields_present, failed_comparisons, is_override_without_judgement
"""


def costliest(
    marts: Marts, agent_id_hash: str, as_of: datetime, window_start: datetime, window_days: int, *, most: int
) -> dict[str, Any]:
    """Read the traces that cost most, and the number of costly traces.

    The points of a loss component are divided among the traces that lowered it. A trace has no points if the score is
    null, because a null score is not attributed.
    """
    rows = marts.dicts(
        f"""
        with {lowered()},

        attribution as (
            select loss_component, points_lost
            from {{fct_score_attribution}}
            where agent_id_hash = %(agent_id_hash)s and as_of = %(as_of)s and window_days = %(window_days)s
        ),

        shares as (
            select
                lowered.*,
                attribution.points_lost * lowered.amount / sum(lowered.amount) over component as points
            from lowered
            left join attribution on lowered.loss_component = attribution.loss_component
            -- The order is fixed, because a sum of doubles depends on it.
            window component as (
                partition by lowered.loss_component
                order by lowered.trace_check_id rows between unbounded preceding and unbounded following
            )
        ),

        costs as (
            select
                sum(points order by loss_component collate "C") as points,
                array_agg(loss_component order by points desc nulls last, loss_component collate "C")
                    as loss_components,
                {_COSTLY}
            from shares
            where points is null or points > 0
            group by {_COSTLY}
        )

        select costs.*, count(*) over () as n_costly_traces
        from costs
        order by points desc nulls last, cardinality(loss_components) desc, traced_at desc, trace_check_id
        limit %(most)s
        """,
        {
            "agent_id_hash": agent_id_hash,
            "as_of": as_of,
            "window_start": window_start,
            "window_days": window_days,
            "most": most,
        },
    )
    n = rows[0]["n_costly_traces"] if rows else 0
    return {"traces": [{k: v for k, v in row.items() if k != "n_costly_traces"} for row in rows], "n_costly_traces": n}


def window_events(marts: Marts, agent_id_hash: str, as_of: datetime, window_start: datetime) -> dict[str, Any]:
    """Read renames and fragile episodes of a window, and count overrides, unregistered keys and broken links."""
    key = {"agent_id_hash": agent_id_hash, "as_of": as_of, "window_start": window_start}
    window = """
        from {fct_trace_checks}
        where
            agent_id_hash = %(agent_id_hash)s and is_counted
            and traced_at >= %(window_start)s and traced_at < %(as_of)s
    """
    [found] = marts.dicts(
        f"""
        select
            count(*) filter (where is_overridden) as n_overrides,
            count(*) filter (where is_overridden and is_override_without_judgement) as n_without_judgement,
            count(*) filter (where not is_key_registered) as n_keys,
            min(traced_at) filter (where not is_key_registered) as first_key_at,
            max(traced_at) filter (where not is_key_registered) as last_key_at,
            count(*) filter (where not is_link_valid) as n_links,
            count(*) filter (where not is_link_valid and is_chain_gap) as n_gaps,
            count(*) filter (where not is_link_valid and is_chain_rewind) as n_rewinds,
            count(*) filter (where not is_link_valid and is_chain_duplicate) as n_duplicates,
            count(*) filter (
                where not is_link_valid and not (is_chain_gap or is_chain_rewind or is_chain_duplicate)
            ) as n_incomplete,
            min(traced_at) filter (where not is_link_valid) as first_link_at,
            max(traced_at) filter (where not is_link_valid) as last_link_at
        {window}
        """,
        key,
    )
    return {
        "renames": marts.dicts(
            f"""
            select traced_at, trace_id, previous_agent_name, agent_name
            {window} and is_identity_change
            order by traced_at, audit_sequence_number, trace_check_id
            """,
            key,
        ),
        "overrides": {"n": found["n_overrides"], "n_without_judgement": found["n_without_judgement"]},
        "unregistered_keys": {
            "n": found["n_keys"],
            "first_at": found["first_key_at"],
            "last_at": found["last_key_at"],
        },
        "broken_links": {
            "n": found["n_links"],
            **{name: found[name] for name in ("n_gaps", "n_rewinds", "n_duplicates", "n_incomplete")},
            "first_at": found["first_link_at"],
            "last_at": found["last_link_at"],
        },
        "episodes": marts.dicts(
            f"with {episodes()} select failure_mode, traced_at as detected_at, recovered_at, hours from episodes "
            "where hours is not null order by detected_at, recovered_at",
            key,
        ),
    }


@dataclass(frozen=True, slots=True)
class Deferral:
    """A row of fct_deferral_values, with the same units and nulls. The time of the resolution is omitted, because
    Python cannot represent every time of PostgreSQL."""

    deferral_id: str | None
    created_at: datetime
    status: str | None
    judged_from: datetime
    deferral_value: float


def judged_deferrals(marts: Marts, agent_id_hash: str, as_of: datetime, window_start: datetime) -> list[Deferral]:
    """Read the deferrals of a window whose value was known by the end of the window, the lowest value first."""
    return marts.rows(
        Deferral,
        """
        select {columns}
        from {fct_deferral_values}
        where
            agent_id_hash = %(agent_id_hash)s
            and is_judged
            and created_at >= %(window_start)s
            and created_at < %(as_of)s
            and judged_from < %(as_of)s
        order by deferral_value, created_at desc
        """,
        agent_id_hash=agent_id_hash,
        as_of=as_of,
        window_start=window_start,
    )
