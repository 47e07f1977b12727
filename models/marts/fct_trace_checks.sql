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

-- A row without an agent has an empty agent in int_trace_checks and null here. There are two queries, so that a filter
-- by agent reaches the index.
checks as (

    select
        *,
        agent_id_hash as shown_agent_id_hash
    from {{ ref('int_trace_checks') }}
    where agent_id_hash <> ''

    union all

    select
        *,
        {{ null_agent() }} as shown_agent_id_hash
    from {{ ref('int_trace_checks') }}
    where agent_id_hash = ''

)

select
    checks.trace_check_id,
    checks.shown_agent_id_hash as agent_id_hash,
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
from checks
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
where checks.traced_at < (select published.published_until from published)
