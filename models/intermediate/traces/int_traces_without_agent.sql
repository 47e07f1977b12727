{{ config(materialized='replace_range', meta={'range': 'traced_at'}) }}
{#- Source rows whose agent is missing, blank or oversized (scoring.md §2). No score counts them; fct_trace_checks shows
    them and fct_data_quality counts them. This table is separate from int_trace_checks, and its agent is empty, because
    the agent that was sent may be too long for an index. Grain: source row without an agent, dated in [traces_from,
    as-of). Key: traced_at, trace_check_id. -#}
with public_keys as (

    {{ registered_keys() }}

),

traces as (

    select *
    from {{ ref('stg_cirislens__covenant_traces') }}
    where
        {{ in_checked_range('traced_at') }}
        and traced_at >= {{ traces_from() }}
        and agent_id_hash is null

),

checked as (

    select
        traces.*,
        {{ is_key_registered('public_keys.registered_until', 'traces.traced_at') }} as is_key_registered,
        num_nonnulls({{ constant('required_fields') | join(', ') }}) as n_fields_present,
        {{ missing_fields() }} as missing_fields,
        {{ occurrence_id() }} as occurrence_id,
        {{ content_hash() }} as content_hash
    from traces
    left join public_keys on traces.signature_key_id = public_keys.key_id

),

deliveries as (

    select
        *,
        {{ copy_number('delivery') }} as copy_number
    from checked
    window delivery as (
        partition by trace_id collate "C", audit_sequence_number
        order by traced_at, content_hash
    )

)

select
    '' as agent_id_hash,
    {{ trace_check_id() }} as trace_check_id,
    trace_id,
    traced_at,
    {{ period_start('traced_at') }} as period_start,
    audit_sequence_number,
    agent_name,
    selected_action,
    coalesce(action_was_overridden, false) as is_overridden,
    conscience_passed is false as is_conscience_failed,
    signature_verified is true as is_signature_verified,
    is_key_registered,
    n_fields_present,
    missing_fields,
    csdma_plausibility_score,
    dsdma_domain_alignment,
    coherence_level,
    entropy_level,
    action_success,
    {{ is_unsafe('entropy_level', 'action_success') }} as is_unsafe,
    coherence_passed is not null as is_signal,
    coherence_passed is true and signature_verified is true as is_coherent_signal,
    idma_fragility_flag,
    idma_phase,
    run_kind,
    repairs
from deliveries
