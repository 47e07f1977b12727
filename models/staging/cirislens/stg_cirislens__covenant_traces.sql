{#- Traces, cleaned by the rules in macros/cleaning (scoring.md §2). No row is dropped: a value that cannot be used
    becomes null, and `repairs` lists it. Grain: source row, or trace assembled from events. -#}
{%- set table = source_if_there('covenant_traces', source_shape()) -%}
{%- set is_table = table is not none and execute -%}
{%- set components_are_read = scoring_parameter('replay_enabled') -%}
select
    -- ids
    {{ clean_id('trace_id') }} as trace_id,
    {{ clean_text('thought_id') }} as thought_id,
    {{ clean_id('agent_id_hash') }} as agent_id_hash,
    {{ clean_name('agent_name') }} as agent_name,
    agent_id_hash::text as agent_id_hash_as_sent,
    trace_id::text as trace_id_as_sent,

    -- time
    "timestamp"::timestamptz as traced_at,

    -- signature and audit log
    {{ clean_text('signature') }} as signature,
    signature_verified::boolean as signature_verified,
    {{ clean_text(signing_key_column()) }} as signature_key_id,
    {{ clean_text('audit_entry_hash') }} as audit_entry_hash,
    {{ clean_whole_number('audit_sequence_number') }} as audit_sequence_number,

    -- judgements
    {{ clean_unit_score('csdma_plausibility_score') }} as csdma_plausibility_score,
    {{ clean_unit_score('dsdma_domain_alignment') }} as dsdma_domain_alignment,
    {{ clean_non_negative('idma_k_eff') }} as idma_k_eff,
    idma_fragility_flag::boolean as idma_fragility_flag,
    {{ clean_name('idma_phase') }} as idma_phase,

    -- conscience
    conscience_passed::boolean as conscience_passed,
    action_was_overridden::boolean as action_was_overridden,
    {{ clean_unit_score('entropy_level') }} as entropy_level,
    {{ clean_unit_score('coherence_level') }} as coherence_level,
    coherence_passed::boolean as coherence_passed,

    -- action
    {{ clean_action('selected_action') }} as selected_action,
    action_success::boolean as action_success,

    -- JSON components; only replays need them
    {{ 'thought_start' if components_are_read else 'null::jsonb' }} as thought_start,
    {{ 'dma_results' if components_are_read else 'null::jsonb' }} as dma_results,
    {{ 'conscience_result' if components_are_read else 'null::jsonb' }} as conscience_result,
    {{ 'action_result' if components_are_read else 'null::jsonb' }} as action_result,

    -- about the row
    {{ run_kind_of_row() if is_table else 'run_kind' }} as run_kind,
    {{ 'null::integer' if is_table else 'n_events' }} as n_events,
    nullif(array_remove(array[
        {{ lost('blank_trace_id', 'trace_id', clean_text('trace_id')) }},
        {{ lost('blank_thought_id', 'thought_id', clean_text('thought_id')) }},
        case when {{ clean_text('agent_id_hash') }} is null then 'blank_agent_id_hash' end,
        {{ lost('blank_agent_name', 'agent_name', clean_text('agent_name')) }},
        {{ lost('blank_signature', 'signature', clean_text('signature')) }},
        {{ lost('blank_signature_key_id', signing_key_column(), clean_text(signing_key_column())) }},
        {{ lost('blank_audit_entry_hash', 'audit_entry_hash', clean_text('audit_entry_hash')) }},
        {{ lost('blank_idma_phase', 'idma_phase', clean_text('idma_phase')) }},
        {{ lost('blank_selected_action', 'selected_action', clean_action('selected_action')) }},
        {{ lost('out_of_range_csdma_plausibility_score', 'csdma_plausibility_score',
                clean_unit_score('csdma_plausibility_score')) }},
        {{ lost('out_of_range_dsdma_domain_alignment', 'dsdma_domain_alignment',
                clean_unit_score('dsdma_domain_alignment')) }},
        {{ lost('out_of_range_coherence_level', 'coherence_level', clean_unit_score('coherence_level')) }},
        {{ lost('out_of_range_entropy_level', 'entropy_level', clean_unit_score('entropy_level')) }},
        {{ lost('out_of_range_idma_k_eff', 'idma_k_eff', clean_non_negative('idma_k_eff')) }},
        {{ lost('out_of_range_audit_sequence_number', 'audit_sequence_number',
                clean_whole_number('audit_sequence_number')) }},
        case when {{ is_oversized_id('agent_id_hash') }} or {{ is_oversized_id('trace_id') }} then 'oversized_id' end
    ], null) || {{ 'null::text[]' if is_table else 'event_issues' }}, '{}') as repairs
from {{ with_marks(table) if is_table else ref('stg_cirislens__event_traces') }}
