{{
  config(
    materialized='replace_range',
    meta={'range': 'all'},
    pre_hook="{{ set_for_heavy_work() }}",
  )
}}
{#- Traces of the trace store that the run reads, assembled from their events in the columns of covenant_traces: traces
    with an event in the checked range, and late ones. Earlier traces are not kept, so nothing lives on here that the lens
    erases or deletes. Of each event type the last event counts, but an override in any event counts. A trace without an
    outcome counts too, because otherwise decisions that failed before their outcome would be missing. Scores are rounded
    as the columns of covenant_traces round them. Grain and key: agent and trace_id. Empty if the source holds whole
    traces. -#}
-- depends_on: {{ ref('int_scoring_run') }}
{%- set events = source_if_there('trace_events', source_shape()) -%}
{%- set known_events = ref('stg_cirislens__trace_events') -%}
{%- set checks = relation_as_left('int_trace_checks') if is_incremental() else none %}
{% if events is none %}
select
    {% for name, column in model.columns.items() %}
    null::{{ column.data_type }} as {{ adapter.quote(name) }}{% if not loop.last %},{% endif %}
    {% endfor %}
where false
{%- else -%}
with {% if is_incremental() %}changed as (

    select trace_id
    from {{ known_events }}
    where ts >= {{ rechecked_from() }}

    union

    -- events that arrived since the last published run
    select trace_id
    from {{ known_events }}
    where event_id > {{ this_run()['known_event_id'] or this_run()['earlier_event_id'] or 0 }}

    union

    -- late traces, as long as they are reported, and traces that are dated too early to be used
    select trace_id
    from {{ this }}
    where
        (is_late and last_event_at >= {{ late_from() }})
        or "timestamp" < {{ traces_from() }}

),

{% endif -%}
events as (

    select
        event_id,
        trace_id,
        agent_id_hash,
        thought_id,
        event_type,
        attempt_index,
        ts,
        agent_name,
        signature,
        signing_key_id,
        signature_verified,
        audit_entry_hash,
        audit_sequence_number,
        payload,
        {{ is_part_of_trace('event_type') }} as is_part,
        {{ marks_of_event() }} as marks
    from {{ events }}
    {% if is_incremental() %}
    where trace_id in (select changed.trace_id from changed)
    {% endif %}

),

-- One row per trace, with the payload of its last event of each type.
traces as (

    select
        trace_id,
        agent_id_hash,

        -- events
        count(*) as n_events,
        count(*) filter (where event_type = 'ACTION_RESULT') as n_outcomes,
        bool_and(signature_verified) filter (where is_part) as signature_verified,
        max(ts) as last_event_at,

        -- marks of the run kind, in all events
        bool_or({{ names_mock(models_of_event()) }}) as is_of_mock_model,
        jsonb_agg(marks) filter (where marks is not null) as marks,

        -- time: of the outcome or, without an outcome, of the latest step
        coalesce({{ last_event('ts', "event_type = 'ACTION_RESULT'") }}, max(ts) filter (where is_part)) as "timestamp",

        -- columns that the lens repeats in each event of a trace
        {{ last_event('thought_id', 'is_part') }} as thought_id,
        {{ last_event('agent_name', 'is_part') }} as agent_name,
        {{ last_event('signature', 'is_part') }} as signature,
        {{ last_event('signing_key_id', 'is_part') }} as signature_key_id,
        {{ last_event('audit_entry_hash', 'is_part') }} as audit_entry_hash,
        {{ last_event('audit_sequence_number', 'is_part') }} as audit_sequence_number,

        -- payloads
        {{ last_event('payload', "event_type = 'THOUGHT_START'") }} as thought_start,
        {{ last_event('payload', "event_type = 'SNAPSHOT_AND_CONTEXT'") }} as context,
        {{ last_event('payload', "event_type = 'DMA_RESULTS'") }} as dma,
        {{ last_event('payload', "event_type = 'IDMA_RESULT'") }} as idma,
        {{ last_event('payload', "event_type = 'ASPDMA_RESULT'") }} as aspdma,
        {{ last_event('payload', "event_type = 'CONSCIENCE_RESULT'") }} as last_conscience,
        {{ last_event('payload', "event_type = 'ACTION_RESULT'") }} as action,
        bool_or(event_type = 'CONSCIENCE_RESULT' and payload -> 'action_was_overridden' = 'true') as was_overridden
    from events
    group by
        trace_id,
        agent_id_hash
    having bool_or(is_part)

),

-- An override in any attempt counts, so it is written into the last one.
overridden as (

    select
        *,
        case
            when was_overridden
                then case when jsonb_typeof(last_conscience) = 'object' then last_conscience else '{}' end || '{"action_was_overridden": true}'
            else last_conscience
        end as conscience,
        count(*) over (partition by trace_id) > 1 as is_shared
    from traces

),

-- Values as they were sent, as jsonb. Agents of different versions send a value in different places. The CTE is
-- materialized, so that each value is looked up once.
sent as materialized (

    select
        *,
        {{ first_sent(['context.agent_name', 'context.system_snapshot.agent_identity.agent_name',
                       'context.system_snapshot.agent_identity.agent_id']) }} as sent_name,
        {{ first_sent(['action.audit_entry_hash']) }} as sent_hash,
        {{ first_sent(['action.audit_sequence_number']) }} as sent_number,
        {{ first_sent(['dma.csdma.plausibility_score', 'dma.csdma_plausibility_score']) }} as sent_csdma,
        {{ first_sent(['dma.dsdma.domain_alignment', 'dma.dsdma_domain_alignment']) }} as sent_dsdma,
        {{ first_sent(['idma.k_eff', 'idma.idma_k_eff', 'dma.idma.k_eff']) }} as sent_k_eff,
        {{ first_sent(['idma.fragility_flag', 'idma.idma_fragility_flag', 'dma.idma.fragility_flag']) }} as sent_fragility,
        {{ first_sent(['idma.phase', 'idma.idma_phase', 'dma.idma.phase']) }} as sent_phase,
        {{ first_sent(['conscience.conscience_passed']) }} as sent_conscience_passed,
        {{ first_sent(['conscience.action_was_overridden']) }} as sent_overridden,
        {{ first_sent(['conscience.entropy_level', 'conscience.epistemic_data.entropy_level']) }} as sent_entropy,
        {{ first_sent(['conscience.coherence_level', 'conscience.epistemic_data.coherence_level']) }} as sent_coherence,
        {{ first_sent(['conscience.coherence_passed']) }} as sent_coherence_passed,
        {{ first_sent(['aspdma.selected_action', 'action.action_executed']) }} as sent_action,
        {{ first_sent(['action.execution_success', 'action.success']) }} as sent_success
    from overridden

)

select
    -- ids
    trace_id,
    thought_id,
    agent_id_hash,
    coalesce(nullif(agent_name, ''), {{ as_value('sent_name', 'string', 'text') }}) as agent_name,

    -- time
    "timestamp",

    -- signature and audit log
    signature,
    signature_verified,
    signature_key_id,
    coalesce(nullif(audit_entry_hash, ''), {{ as_value('sent_hash', 'string', 'text') }}) as audit_entry_hash,
    coalesce(audit_sequence_number, {{ as_value('sent_number', 'number', 'numeric') }}) as audit_sequence_number,

    -- judgements
    round({{ as_value('sent_csdma', 'number', 'numeric') }}, 2) as csdma_plausibility_score,
    round({{ as_value('sent_dsdma', 'number', 'numeric') }}, 2) as dsdma_domain_alignment,
    {{ as_value('sent_k_eff', 'number', 'numeric') }} as idma_k_eff,
    {{ as_value('sent_fragility', 'boolean', 'boolean') }} as idma_fragility_flag,
    {{ as_value('sent_phase', 'string', 'text') }} as idma_phase,

    -- conscience; an entropy of 0 without an entropy_score was not measured
    {{ as_value('sent_conscience_passed', 'boolean', 'boolean') }} as conscience_passed,
    {{ as_value('sent_overridden', 'boolean', 'boolean') }} as action_was_overridden,
    case
        when {{ first_sent(['conscience.entropy_score']) }} is not null then round({{ as_value('sent_entropy', 'number', 'numeric') }}, 4)
        else nullif(round({{ as_value('sent_entropy', 'number', 'numeric') }}, 4), 0)
    end as entropy_level,
    round({{ as_value('sent_coherence', 'number', 'numeric') }}, 4) as coherence_level,
    {{ as_value('sent_coherence_passed', 'boolean', 'boolean') }} as coherence_passed,

    -- action
    {{ as_value('sent_action', 'string', 'text') }} as selected_action,
    {{ as_value('sent_success', 'boolean', 'boolean') }} as action_success,

    -- JSON components: only the values that replays compare
    case when jsonb_typeof(thought_start) = 'object' then jsonb '{}' end as thought_start,
    case
        when jsonb_typeof(dma) = 'object'
            then jsonb_build_object('csdma_plausibility_score', sent_csdma, 'dsdma_domain_alignment', sent_dsdma)
    end as dma_results,
    {{ values_of('conscience', [
        'conscience_passed', 'action_was_overridden', 'entropy_level', 'entropy_score', 'entropy_threshold',
        'entropy_passed', 'coherence_level', 'coherence_score', 'coherence_threshold', 'coherence_passed',
        'optimization_veto_passed', 'epistemic_humility_passed', 'thought_depth_triggered', 'updated_status_detected',
        'ethical_faculties_skipped']) }}
    || case
        when conscience ->> 'conscience_override_reason' like '%DID NOT RUN%'
            then jsonb '{"conscience_override_reason": "DID NOT RUN"}'
        else '{}'
    end as conscience_result,
    {{ values_of('action', ['execution_success', 'success', 'audit_sequence_number', 'audit_entry_hash']) }} as action_result,

    -- about the row
    case
        when is_of_mock_model then 'mock'
        when marks is null then 'production'
        else {{ run_kind_by('marks') }}
    end as run_kind,
    n_events,
    last_event_at,
    "timestamp" < {{ rechecked_from() }}
    {%- if checks %}
    -- This is a scalar subquery, because PostgreSQL would hash all older rows for `exists`.
    or coalesce((
        select true
        from {{ checks }} as final
        where
            final.delivery_hash = {{ delivery_hash('sent.trace_id', 'null') }}
            and coalesce(final.trace_id, sent.trace_id) = sent.trace_id
            and final.agent_id_hash <> ''
            and final.traced_at < {{ rechecked_from() }}
        limit 1
    ), false)
    {%- endif %} as is_late,
    nullif(array_remove(array[
        case when n_outcomes = 0 then 'no_action_result' end,
        case when n_outcomes > 1 then 'several_action_results' end,
        case when is_shared then 'trace_id_of_two_agents' end,
        {{ unreadable('aspdma_result', 'aspdma', 'object') }},
        {{ unreadable('idma_result', 'idma', 'object') }},
        {{ unreadable('snapshot_and_context', 'context', 'object') }},
        {{ unreadable('agent_name', 'sent_name', 'string') }},
        {{ unreadable('audit_entry_hash', 'sent_hash', 'string') }},
        {{ unreadable('audit_sequence_number', 'sent_number', 'number') }},
        {{ unreadable('csdma_plausibility_score', 'sent_csdma', 'number') }},
        {{ unreadable('dsdma_domain_alignment', 'sent_dsdma', 'number') }},
        {{ unreadable('idma_k_eff', 'sent_k_eff', 'number') }},
        {{ unreadable('idma_fragility_flag', 'sent_fragility', 'boolean') }},
        {{ unreadable('idma_phase', 'sent_phase', 'string') }},
        {{ unreadable('conscience_passed', 'sent_conscience_passed', 'boolean') }},
        {{ unreadable('action_was_overridden', 'sent_overridden', 'boolean') }},
        {{ unreadable('entropy_level', 'sent_entropy', 'number') }},
        {{ unreadable('coherence_level', 'sent_coherence', 'number') }},
        {{ unreadable('coherence_passed', 'sent_coherence_passed', 'boolean') }},
        {{ unreadable('selected_action', 'sent_action', 'string') }},
        {{ unreadable('action_success', 'sent_success', 'boolean') }},
        {{ unreadable('thought_start', 'thought_start', 'object') }},
        {{ unreadable('dma_results', 'dma', 'object') }},
        {{ unreadable('conscience_result', 'conscience', 'object') }},
        {{ unreadable('action_result', 'action', 'object') }}
    ], null), '{}') as event_issues
from sent
{%- endif %}
