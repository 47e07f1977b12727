{{
  config(
    materialized='replace_range',
    meta={'range': 'traced_at'},
    indexes=[{'columns': ['agent_id_hash', 'traced_at']}, {'columns': ['delivery_hash', 'traced_at']}],
    pre_hook="{{ set_for_heavy_work(costly_rows=true) }}",
  )
}}
{#- Checks of source rows, from which scores are computed; int_replays has the replay checks. Rows that do not count are
    included, with is_counted false. Grain: source row, dated in [traces_from, as-of). Key: traced_at, trace_check_id.
    Columns are null if the value was not sent. -#}
{%- set is_linked = is_link_valid('has_entry_hash', 'audit_sequence_number', 'previous_audit_sequence_number') -%}
{%- set is_key_valid = 'is_key_registered' if scoring_parameter('require_registered_keys') else 'true' -%}
-- depends_on: {{ ref('int_scoring_run') }}
with in_context as (

    select * from {{ ref('int_trace_context') }}

),

-- Ranks come last, because their order differs. Windows before them share the order of an agent's traces.
ranked as (

    select
        *,
        row_number() over (
            partition by {{ of_agent(column=sent_agent()) }}, period_start, is_counted
            order by sampling_hash, audit_sequence_number, traced_at, trace_check_id
        ) as sample_rank
    from in_context

)

select
    -- trace
    trace_check_id,
    delivery_hash,
    agent_id_hash,
    trace_id,
    traced_at,
    period_start,
    audit_sequence_number,
    agent_name,
    selected_action,
    is_duplicate,
    is_counted,
    n_events,
    run_kind,
    repairs,

    -- identity (C)
    is_counted and not has_earlier_trace as is_first_trace,
    is_counted and agent_name is not null and previous_agent_name is null as is_first_name,
    is_counted and coalesce(agent_name <> previous_agent_name, false) as is_identity_change,
    previous_agent_name,
    coalesce(action_was_overridden, false) as is_overridden,
    is_override_without_judgement,
    conscience_passed is false as is_conscience_failed,

    -- chain, coverage and replay (I_int)
    is_signature_verified,
    is_key_registered,
    is_counted and {{ is_linked }} as is_link_valid,
    is_counted and is_signed and is_signature_verified and {{ is_key_valid }} and {{ is_linked }} as is_chain_valid,
    is_counted
    and {{ is_chain_gap('audit_sequence_number', 'previous_audit_sequence_number') }} as is_chain_gap,
    is_counted and coalesce(audit_sequence_number < previous_audit_sequence_number, false) as is_chain_rewind,
    is_counted and coalesce(audit_sequence_number = previous_audit_sequence_number, false) as is_chain_duplicate,
    previous_audit_sequence_number,
    n_fields_present,
    missing_fields,
    is_counted
    and {{ scoring_parameter('replay_enabled') | string | lower }}
    and sample_rank <= {{ scoring_parameter('replay_sample_per_period') }} as is_replay_sampled,

    -- red flags of selective reporting
    reporting,
    key_hash,
    is_repeated_decision,

    -- scores and fragile episodes (R)
    csdma_plausibility_score,
    dsdma_domain_alignment,
    coherence_level,
    idma_fragility_flag,
    idma_phase,
    is_counted and idma_fragility_flag is true and previous_idma_fragility_flag is not true as is_fragility_detected,
    is_counted and idma_fragility_flag is false and previous_idma_fragility_flag is true as is_fragility_recovered,
    coalesce(case when is_counted then idma_fragility_flag end, previous_idma_fragility_flag) as last_fragility_flag,

    -- outcome (I_inc) and coherence signals (S)
    entropy_level,
    action_success,
    {{ is_unsafe('entropy_level', 'action_success') }} as is_unsafe,
    coherence_passed is not null as is_signal,
    coherence_passed is true and is_signature_verified as is_coherent_signal
from ranked
