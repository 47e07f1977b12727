{{ config(materialized='ephemeral') }}
{#- Traces with the last value of name, audit number and fragility judgement in earlier traces of their agent, also of
    earlier runs. is_counted: whether the trace enters scores. Grain and key: as in int_trace_deliveries. -#}
{%- set earlier_checks = earlier_checks() -%}
{%- set checked_from = rechecked_from() -%}
{%- set known_events = relation_as_left('int_agent_events') if earlier_checks else none -%}
with identified as (

    select * from {{ ref('int_trace_deliveries') }}

),

-- Last known values of each agent before the traces that the run checks. Empty if the run checks everything.
previous_state as (

    {% if known_events %}
    select
        agents.agent_id_hash,
        agents.has_counted_trace,
        previous_rows.*
    from (
        select
            agent_id_hash,
            bool_or(kind = 'first_trace') as has_counted_trace
        from {{ known_events }}
        where
            kind in ('first_trace', 'first_unscored')
            and traced_at < {{ checked_from }}
        group by agent_id_hash
    ) as agents
    cross join lateral (
        select
            coalesce(case when earlier.is_counted then earlier.agent_name end, earlier.previous_agent_name)
            as agent_name,
            coalesce(earlier.audit_sequence_number, earlier.previous_audit_sequence_number) as audit_sequence_number,
            earlier.last_fragility_flag as idma_fragility_flag
        from {{ earlier_checks }} as earlier
        where
            earlier.agent_id_hash = agents.agent_id_hash
            and earlier.traced_at < {{ checked_from }}
            {% if not is_trace_one_row() %}
            and not earlier.is_duplicate
            {% endif %}
        order by {{ newest_first('trace_check_id', 'earlier') }}
        limit 1
    ) as previous_rows
    {% else %}
    select
        null::text as agent_id_hash,
        null::boolean as has_counted_trace,
        null::text as agent_name,
        null::bigint as audit_sequence_number,
        null::boolean as idma_fragility_flag
    where false
    {% endif %}

),

-- For each of these columns, the last value in earlier traces of the agent. Three steps need only one sort: `numbered`
-- numbers the traces of each agent, `located` finds the number of the last earlier trace with a value, and the last
-- one reads that value.
numbered as (

    select
        identified.*,
        not identified.is_duplicate
        and identified.agent_id_hash <> ''
        and {{ is_scored_kind('identified.run_kind') }} as is_counted,
        coalesce(previous_state.has_counted_trace, false) as has_earlier_trace,
        previous_state.agent_name as state_agent_name,
        previous_state.audit_sequence_number as state_audit_sequence_number,
        previous_state.idma_fragility_flag as state_idma_fragility_flag,
        row_number() over agent_order as agent_position
    from identified
    left join previous_state on identified.{{ sent_agent() }} = previous_state.agent_id_hash
    window agent_order as ({{ agent_order('identified') }})

),

located as (

    select
        *,
        max(case when is_counted and agent_name is not null then agent_position end) over before as agent_name_position,
        -- An audit number is used even if the run kind of its trace is not scored, or its outcome came too late,
        -- because the next trace continues the chain.
        max(
            case
                when
                    {{ 'true' if is_trace_one_row() else 'not is_duplicate' }}
                    and agent_id_hash <> ''
                    and audit_sequence_number is not null
                    then agent_position
            end
        ) over before as audit_sequence_number_position,
        max(case when is_counted and idma_fragility_flag is not null then agent_position end) over before
        as idma_fragility_flag_position,
        max(case when is_counted then agent_position end) over before as trace_position
    from numbered
    window before as ({{ agent_order() }} rows between unbounded preceding and 1 preceding)

)

select
    -- trace
    trace_check_id,
    delivery_hash,
    sampling_hash,
    agent_id_hash,
    trace_id,
    traced_at,
    {{ 'agent_id_hash_as_sent,' if is_distributed() }}
    period_start,
    is_duplicate,
    is_counted,
    n_events,
    run_kind,
    repairs,
    trace_position is not null or has_earlier_trace as has_earlier_trace,

    -- values, each with the last one before it
    agent_name,
    coalesce(nth_value(agent_name, agent_name_position::integer) over so_far, state_agent_name) as previous_agent_name,
    audit_sequence_number,
    coalesce(
        nth_value(audit_sequence_number, audit_sequence_number_position::integer) over so_far,
        state_audit_sequence_number
    ) as previous_audit_sequence_number,
    idma_fragility_flag,
    coalesce(
        nth_value(idma_fragility_flag, idma_fragility_flag_position::integer) over so_far, state_idma_fragility_flag
    ) as previous_idma_fragility_flag,

    {{ is_repeated_decision('so_far') }} as is_repeated_decision,

    -- values that are checked alone
    is_signed,
    is_signature_verified,
    is_key_registered,
    key_hash,
    has_entry_hash,
    n_fields_present,
    missing_fields,
    csdma_plausibility_score,
    dsdma_domain_alignment,
    coherence_level,
    entropy_level,
    idma_phase,
    conscience_passed,
    action_was_overridden,
    coherence_passed,
    is_override_without_judgement,
    selected_action,
    action_success,
    reporting
from located
window so_far as ({{ agent_order() }} rows between unbounded preceding and current row)
