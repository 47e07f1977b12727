{#- Grain: one row of the source. Clean row by row, no window functions and no CTE, so that PostgreSQL merges the view
    into the query that reads it: a filter on traced_at reaches the source's index, and a column that nobody needs is
    not computed. -#}
select
    {% for column in trace_text_columns() %}
    {{ blank_to_null(column) }}::text as {{ column }},
    {{ column }} is not null and {{ blank_to_null(column) }} is null as is_blank_{{ column }},
    {% endfor %}
    {{ clean_action('selected_action') }}::text as selected_action,
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
    num_nonnulls({{ repairable_columns() | join(', ') }}) as n_repairable_sent,
    idma_fragility_flag,
    conscience_passed,
    action_was_overridden,
    coherence_passed,
    action_success,
    {% for component in trace_components() %}
    {% if scoring_parameter('replay_enabled') %}{{ component }}{% else %}null::jsonb as {{ component }}{% endif %}
    {%- if not loop.last %},{% endif %}
    {% endfor %}
from {{ source('cirislens', 'covenant_traces') }}
