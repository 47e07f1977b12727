{#- Grain: one row of the source. Clean row by row, no window functions, so that a filter on traced_at reaches the
    source's index. Columns that nobody selects cost nothing. -#}
with source as (

    select
        trace_id,
        thought_id,
        agent_id_hash,
        agent_name,
        "timestamp",
        signature,
        signature_verified,
        signature_key_id,
        audit_entry_hash,
        audit_sequence_number,
        csdma_plausibility_score,
        dsdma_domain_alignment,
        idma_k_eff,
        idma_fragility_flag,
        idma_phase,
        conscience_passed,
        action_was_overridden,
        entropy_level,
        coherence_level,
        coherence_passed,
        selected_action,
        action_success,
        {% for component in trace_components() %}
        {% if scoring_parameter('replay_enabled') %}{{ component }}{% else %}null::jsonb as {{ component }}{% endif %}
        {%- if not loop.last %},{% endif %}
        {% endfor %}
    from {{ source('cirislens', 'covenant_traces') }}

),

cleaned as (

    select
        {% for column in trace_text_columns() %}
        {{ blank_to_null(column) }}::text as {{ column }},
        {{ column }} is not null and {{ blank_to_null(column) }} is null as is_blank_{{ column }},
        {% endfor %}
        {{ clean_action('selected_action') }} as selected_action,
        selected_action is not null and {{ clean_action('selected_action') }} is null as is_blank_selected_action,
        "timestamp" as traced_at,
        signature_verified,
        audit_sequence_number,
        {% for column in trace_score_columns() %}
        {{ clean_unit_score(column) }} as {{ column }},
        {{ column }} is not null and {{ clean_unit_score(column) }} is null as is_out_of_range_{{ column }},
        {% endfor %}
        {{ clean_non_negative('idma_k_eff') }} as idma_k_eff,
        idma_k_eff is not null and {{ clean_non_negative('idma_k_eff') }} is null as is_out_of_range_idma_k_eff,
        idma_fragility_flag,
        conscience_passed,
        action_was_overridden,
        coherence_passed,
        action_success,
        {% for component in trace_components() %}
        {{ component }}{% if not loop.last %},{% endif %}
        {% endfor %}
    from source

)

select * from cleaned
