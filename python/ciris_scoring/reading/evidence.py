"""The traces that lowered a component of a score, from the marts alone, the newest first, page by page."""

from collections.abc import Mapping
from typing import Any

import psycopg
from psycopg import sql

from ciris_scoring.reading.iso_text import iso_text
from ciris_scoring.relations import Relations

# What a trace must be, beside counted and in the window, to have lowered a component, and by how much it did. The
# component is the mean of these over traces (i_coverage: of a tenth of them), or, s_score, a weighted one.
LOWERED_BY: Mapping[str, tuple[str, str, str]] = {
    "d_identity": ("is_identity_change", "1", "traces"),
    "k_contradiction": ("is_overridden", "1", "traces"),
    "i_chain": ("not is_chain_valid", "1", "traces"),
    "i_coverage": ("n_fields_present < 10", "10 - n_fields_present", "missing fields"),
    "i_replay": ("is_replay_sampled and is_replayable is false", "1", "traces"),
    "u_unsafe": ("is_unsafe", "1", "traces"),
    "s_score": ("is_signal and not is_coherent_signal", "1", "traces"),
}
# Fragile episodes, of which the trace that began one is the evidence.
OF_EPISODES: Mapping[str, tuple[str, str, str]] = {
    # Those that ended in the window, and the one that is open at the as-of, be it begun before the window.
    "mttr_hours": (
        "recovered_at is null or recovered_at >= %(window_start)s",
        "(extract(epoch from coalesce(recovered_at, %(as_of)s) - traced_at) / 3600)::double precision",
        "hours until recovery, or until the as-of",
    ),
    # Those that followed upon a recovery in the window from the same failure mode.
    "rho_regression": ("mode_recovered_before >= %(window_start)s", "1", "traces"),
}
COMPONENTS = {
    "c": ("d_identity", "k_contradiction"),
    "i_int": ("i_chain", "i_coverage", "i_replay"),
    "r": ("mttr_hours", "rho_regression"),
    "i_inc": ("u_unsafe",),
    "s": ("s_score",),
}
"""Components with traces behind them, by factor. delta_drift, ece and q_deferral belong to no single trace."""

MEMBERS = f"""
    'key', concat_ws('.', (extract(epoch from traced_at) * 1000000)::bigint, trace_verdict_id),
    'trace_id', trace_id,
    'traced_at', {iso_text("traced_at")},
    'lowered_by', amount,
    'agent_name', agent_name,
    'previous_agent_name', previous_agent_name,
    'selected_action', selected_action,
    'audit_sequence_number', audit_sequence_number,
    'previous_audit_sequence_number', previous_audit_sequence_number,
    'is_chain_gap', is_chain_gap,
    'is_chain_rewind', is_chain_rewind,
    'is_chain_duplicate', is_chain_duplicate,
    'is_signature_verified', is_signature_verified,
    'is_key_registered', is_key_registered,
    'is_link_valid', is_link_valid,
    'n_fields_present', n_fields_present,
    'failed_comparisons', failed_comparisons,
    'entropy_level', entropy_level,
    'action_success', action_success,
    'failure_mode', case when is_fragility_detected then coalesce(idma_phase, 'unknown') end
"""
COLUMNS = """
    trace_verdict_id, trace_id, traced_at, agent_name, previous_agent_name, selected_action, audit_sequence_number,
    previous_audit_sequence_number, is_chain_gap, is_chain_rewind, is_chain_duplicate, is_signature_verified,
    is_key_registered, is_link_valid, n_fields_present, failed_comparisons, entropy_level, action_success,
    is_fragility_detected, idma_phase
"""
OF_WINDOW = f"""
evidence as (
    select {COLUMNS}, {{amount}} as amount
    from {{fct_trace_verdicts}}
    where
        agent_id_hash = %(agent_id_hash)s
        and traced_at >= %(window_start)s
        and traced_at < %(as_of)s
        and is_counted
        and ({{condition}})
)
"""
OF_EPISODE = f"""
events as (
    select
        {COLUMNS},
        lead(traced_at) over in_order as recovered_at
    from {{fct_trace_verdicts}}
    where
        agent_id_hash = %(agent_id_hash)s
        and traced_at < %(as_of)s
        and is_counted
        and (is_fragility_detected or is_fragility_recovered)
    window in_order as (order by traced_at, audit_sequence_number, trace_id collate "C", trace_verdict_id)
),
episodes as (
    select
        {COLUMNS}, recovered_at,
        lag(recovered_at) over (
            partition by coalesce(idma_phase, 'unknown')
            order by traced_at, audit_sequence_number, trace_id collate "C", trace_verdict_id
        ) as mode_recovered_before
    from events
    where is_fragility_detected
),
evidence as (
    select {COLUMNS}, {{amount}} as amount
    from episodes
    where {{condition}}
)
"""
PAGE = f"""
page as (
    select {COLUMNS}, amount
    from evidence
    where
        %(after_id)s::uuid is null
        or (traced_at, trace_verdict_id) < (
            timestamptz 'epoch' + %(after_microseconds)s::bigint * interval '1 microsecond', %(after_id)s::uuid
        )
    order by traced_at desc, trace_verdict_id desc
    limit %(limit)s
)
select coalesce(json_agg(json_build_object({MEMBERS}) order by traced_at desc, trace_verdict_id desc), '[]')::text
from page
"""


def read_evidence(
    connection: psycopg.Connection, relations: Relations, component: str, values: Mapping[str, Any]
) -> str:
    """Read a page of the traces that lowered a component, as a JSON array.

    :param connection: a session that may read the marts.
    :param relations: where the marts are.
    :param component: one of COMPONENTS.
    :param values: agent_id_hash, as_of, window_start, limit; and after_microseconds and after_id, the parts of the key
        of the last trace before the page, or None.
    """
    of_window = component in LOWERED_BY
    condition, amount, _ = (LOWERED_BY if of_window else OF_EPISODES)[component]
    query = sql.SQL("with" + (OF_WINDOW if of_window else OF_EPISODE) + "," + PAGE).format(
        **relations, condition=sql.SQL(condition), amount=sql.SQL(amount)
    )
    row = connection.execute(query, values).fetchone()
    assert row is not None  # an aggregate without groups
    return str(row[0])


def unit_of(component: str) -> str:
    """What `lowered_by` counts."""
    return (LOWERED_BY.get(component) or OF_EPISODES[component])[2]
