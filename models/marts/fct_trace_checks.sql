{{ config(materialized='replace_view') }}
{#- Checks of each trace row of a published run, the evidence behind the scores (scoring.md §3 to 7). A view, because
    a copy would double the largest table. Grain and key: trace_check_id, a row of the source. Columns are null if the
    value was not sent, blank or out of range; the replay columns are also null if the trace was not sampled. -#}
with published as (

    select max(published_until) as published_until
    from {{ ref('int_runs') }}

),

replays as (

    select
        agent_id_hash,
        traced_at,
        trace_check_id,
        is_replayable,
        is_thought_start_recorded,
        replay_outcome
    from {{ ref('int_replays') }}

),

agents as (

    select
        agent_id_hash,
        agent_label
    from {{ ref('int_agents') }}

),

hours as (

    select
        agent_id_hash,
        hour_start,
        is_corroborated
    from {{ ref('int_agent_hours') }}

),

-- kept_with is the distribution column of the tables in both parts of the union, so a cluster computes both parts on
-- the workers.
traces as (

    select
        checks.agent_id_hash as kept_with,
        checks.trace_check_id,
        checks.agent_id_hash,
        checks.agent_name,
        checks.trace_id,
        checks.traced_at,
        checks.period_start,
        checks.audit_sequence_number,
        checks.selected_action,
        checks.is_counted,
        checks.is_duplicate,
        checks.is_identity_change,
        case when checks.is_counted then checks.previous_agent_name end as previous_agent_name,
        checks.is_overridden,
        checks.is_conscience_failed,
        checks.is_signature_verified,
        checks.is_key_registered,
        checks.is_link_valid,
        checks.is_chain_valid,
        checks.is_chain_gap,
        checks.is_chain_rewind,
        checks.is_chain_duplicate,
        case when checks.is_counted then checks.previous_audit_sequence_number end
        as previous_audit_sequence_number,
        checks.n_fields_present,
        checks.is_replay_sampled,
        replays.is_replayable,
        case
            when replays.is_replayable is not null then array_remove(array[
                case when not replays.is_thought_start_recorded then 'thought_start' end,
                {% for name in replay_comparisons() %}
                case when substr(replays.replay_outcome, {{ loop.index }}, 1) = 'f' then '{{ name }}' end
                {%- if not loop.last %},{% endif %}
                {% endfor %}
            ], null)
        end as failed_comparisons,
        checks.csdma_plausibility_score::double precision as csdma_plausibility_score,
        checks.dsdma_domain_alignment::double precision as dsdma_domain_alignment,
        checks.coherence_level::double precision as coherence_level,
        checks.entropy_level::double precision as entropy_level,
        checks.action_success,
        checks.is_unsafe,
        checks.is_signal,
        checks.is_coherent_signal,
        case
            when checks.is_counted and checks.is_signal then coalesce(hours.is_corroborated, false)
        end as is_corroborated,
        checks.idma_fragility_flag,
        checks.idma_phase,
        checks.is_fragility_detected,
        checks.is_fragility_recovered,
        checks.repairs,
        agents.agent_label,
        checks.missing_fields,
        checks.is_override_without_judgement,
        checks.run_kind
    from {{ ref('int_trace_checks') }} as checks
    left join replays
        on
            checks.agent_id_hash = replays.agent_id_hash
            and checks.traced_at = replays.traced_at
            and checks.trace_check_id = replays.trace_check_id
    left join agents on checks.agent_id_hash = agents.agent_id_hash
    left join hours
        on
            checks.agent_id_hash = hours.agent_id_hash
            and hours.hour_start = {{ hour_start('checks.traced_at') }}

    union all

    select
        agent_id_hash as kept_with,
        trace_check_id,
        null as agent_id_hash,
        agent_name,
        trace_id,
        traced_at,
        period_start,
        audit_sequence_number,
        selected_action,
        false as is_counted,
        false as is_duplicate,
        false as is_identity_change,
        null as previous_agent_name,
        is_overridden,
        is_conscience_failed,
        is_signature_verified,
        is_key_registered,
        false as is_link_valid,
        false as is_chain_valid,
        false as is_chain_gap,
        false as is_chain_rewind,
        false as is_chain_duplicate,
        null as previous_audit_sequence_number,
        n_fields_present,
        false as is_replay_sampled,
        null as is_replayable,
        null as failed_comparisons,
        csdma_plausibility_score::double precision as csdma_plausibility_score,
        dsdma_domain_alignment::double precision as dsdma_domain_alignment,
        coherence_level::double precision as coherence_level,
        entropy_level::double precision as entropy_level,
        action_success,
        is_unsafe,
        is_signal,
        is_coherent_signal,
        null as is_corroborated,
        idma_fragility_flag,
        idma_phase,
        false as is_fragility_detected,
        false as is_fragility_recovered,
        repairs,
        null as agent_label,
        missing_fields,
        false as is_override_without_judgement,
        run_kind
    from {{ ref('int_traces_without_agent') }}

)

select
    trace_check_id,
    agent_id_hash,
    agent_name,
    trace_id,
    traced_at,
    period_start,
    audit_sequence_number,
    selected_action,
    is_counted,
    is_duplicate,
    is_identity_change,
    previous_agent_name,
    is_overridden,
    is_conscience_failed,
    is_signature_verified,
    is_key_registered,
    is_link_valid,
    is_chain_valid,
    is_chain_gap,
    is_chain_rewind,
    is_chain_duplicate,
    previous_audit_sequence_number,
    n_fields_present,
    is_replay_sampled,
    is_replayable,
    failed_comparisons,
    csdma_plausibility_score,
    dsdma_domain_alignment,
    coherence_level,
    entropy_level,
    action_success,
    is_unsafe,
    is_signal,
    is_coherent_signal,
    is_corroborated,
    idma_fragility_flag,
    idma_phase,
    is_fragility_detected,
    is_fragility_recovered,
    repairs,
    agent_label,
    missing_fields,
    is_override_without_judgement,
    run_kind
from traces
where traced_at < (select published.published_until from published)
