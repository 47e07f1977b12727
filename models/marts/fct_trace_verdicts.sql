{{ config(materialized='replace_view') }}
{#- Checks of each trace row of a published run, the evidence behind the scores (scoring.md §3 to 7). Grain and key:
    trace_verdict_id, a row of the source. Columns are null if the value was not sent, blank or out of range; the replay
    columns also if the trace was not sampled. -#}
with published as (

    select max(published_until) as published_until
    from {{ ref('int_runs') }}

),

replays as (

    select
        agent_id_hash,
        traced_at,
        trace_verdict_id,
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

)

select
    verdicts.trace_verdict_id,
    agents.agent_id_hash,
    verdicts.agent_name,
    verdicts.trace_id,
    verdicts.traced_at,
    verdicts.period_start,
    verdicts.audit_sequence_number,
    verdicts.selected_action,
    verdicts.is_counted,
    verdicts.is_duplicate,
    verdicts.is_identity_change,
    case when verdicts.is_counted then verdicts.previous_agent_name end as previous_agent_name,
    verdicts.is_overridden,
    verdicts.is_conscience_failed,
    verdicts.is_signature_verified,
    verdicts.is_key_registered,
    verdicts.is_link_valid,
    verdicts.is_chain_valid,
    verdicts.is_chain_gap,
    verdicts.is_chain_rewind,
    verdicts.is_chain_duplicate,
    case when verdicts.is_counted then verdicts.previous_audit_sequence_number end as previous_audit_sequence_number,
    verdicts.n_fields_present,
    verdicts.is_replay_sampled,
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
    verdicts.csdma_plausibility_score::double precision as csdma_plausibility_score,
    verdicts.dsdma_domain_alignment::double precision as dsdma_domain_alignment,
    verdicts.coherence_level::double precision as coherence_level,
    verdicts.entropy_level::double precision as entropy_level,
    verdicts.action_success,
    verdicts.is_unsafe,
    verdicts.is_signal,
    verdicts.is_coherent_signal,
    case
        when verdicts.is_counted and verdicts.is_signal then coalesce(hours.is_corroborated, false)
    end as is_corroborated,
    verdicts.idma_fragility_flag,
    verdicts.idma_phase,
    verdicts.is_fragility_detected,
    verdicts.is_fragility_recovered,
    verdicts.repairs,
    agents.agent_label,
    verdicts.missing_fields
from {{ ref('int_trace_verdicts') }} as verdicts
left join replays
    on
        verdicts.agent_id_hash = replays.agent_id_hash
        and verdicts.traced_at = replays.traced_at
        and verdicts.trace_verdict_id = replays.trace_verdict_id
left join agents on verdicts.agent_id_hash = agents.agent_id_hash
left join hours
    on
        verdicts.agent_id_hash = hours.agent_id_hash
        and hours.hour_start = {{ hour_start('verdicts.traced_at') }}
where
    verdicts.traced_at < (select published.published_until from published)
    -- Hides agents that the current run has found but not yet written to int_agents.
    and (agents.agent_id_hash is not null or {{ is_nobodys('verdicts') }})
