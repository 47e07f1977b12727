{#- Cleaned traces. The view has neither window functions nor CTEs, so PostgreSQL merges it into the query that reads
    it. A filter on traced_at then reaches the source's index, and unused columns cost nothing. The cleaning of a column
    depends on its type in the source. Grain: source row, or trace assembled from events. -#}
{%- set whole = source_if_there('covenant_traces', source_shape()) -%}
{%- set put_together = ref('stg_cirislens__event_traces') if whole is none or not execute -%}
{%- set types = {} if whole is none else source_types('covenant_traces') -%}
{%- set signing_key = signing_key_column(types) -%}
{%- set json_components = [] -%}
{%- for component in trace_columns().components if types.get(component, {}).kind == 'json' -%}
  {%- do json_components.append(component) -%}
{%- endfor -%}
select
    {% for column in trace_columns().text %}
    {%- set read = signing_key if column == 'signature_key_id' else column -%}
    {%- set text = read ~ '::text' -%}
    {% if column in ['agent_id_hash', 'trace_id'] %}
    {{ clean_id(text) }} as {{ column }},
    {% elif column in ['agent_name', 'idma_phase'] %}
    {{ clean_name(text) }} as {{ column }},
    {% else %}
    {{ blank_to_null(text) }} as {{ column }},
    {% endif %}
    {% if column != 'agent_id_hash' %}{{ read }} is not null and {% endif -%}
    {{ blank_to_null(text) }} is null as is_blank_{{ column }},
    {% endfor %}
    {{ is_oversized_id('agent_id_hash::text') }} or {{ is_oversized_id('trace_id::text') }} as is_oversized_id,
    {{ clean_action('selected_action::text') }} as selected_action,
    selected_action is not null and {{ clean_action('selected_action::text') }} is null as is_blank_selected_action,
    agent_id_hash::text as agent_id_hash_as_sent,
    trace_id::text as trace_id_as_sent,
    "timestamp"::timestamptz as traced_at,
    signature_verified::boolean as signature_verified,
    {% set number = clean_whole_number('audit_sequence_number', types.get('audit_sequence_number', {})) -%}
    {{ number }} as audit_sequence_number,
    audit_sequence_number is not null and {{ number }} is null as is_out_of_range_audit_sequence_number,
    {% for column in trace_columns().scores %}
    {{ clean_unit_score(column, types.get(column, {})) }} as {{ column }},
    {{ column }} is not null and ({{ column }}::numeric between 0 and 1) is not true as is_out_of_range_{{ column }},
    {% endfor %}
    {{ clean_non_negative('idma_k_eff') }} as idma_k_eff,
    idma_k_eff is not null and {{ clean_non_negative('idma_k_eff') }} is null as is_out_of_range_idma_k_eff,
    num_nonnulls({{ repairable_columns() | join(', ') | replace('signature_key_id', signing_key) }})
    as n_repairable_sent,
    {{ 'row_version' if whole is none else row_version(whole) ~ ' as row_version' }},
    {{ 'n_events' if whole is none else 'null::integer as n_events' }},
    {{ 'event_issues' if whole is none else 'null::text[] as event_issues' }},
    idma_fragility_flag::boolean as idma_fragility_flag,
    conscience_passed::boolean as conscience_passed,
    action_was_overridden::boolean as action_was_overridden,
    coherence_passed::boolean as coherence_passed,
    action_success::boolean as action_success,
    {% for component in trace_columns().components %}
    {% if not scoring_parameter('replay_enabled') %}
    null::jsonb as {{ component }},
    false as is_unreadable_{{ component }}
    {%- elif component in json_components %}
    readable_{{ component }} as {{ component }},
    {{ component }} is not null and readable_{{ component }} is null as is_unreadable_{{ component }}
    {%- else %}
    {{ component }}::jsonb as {{ component }},
    false as is_unreadable_{{ component }}
    {%- endif %}
    {%- if not loop.last %},{% endif %}
    {% endfor %}
from {{ whole or put_together }}
{% if json_components and scoring_parameter('replay_enabled') %}
-- The optimization barrier makes PostgreSQL read each component once.
cross join lateral (
    select
        {% for component in json_components %}
        case when {{ is_readable_json(component ~ '::text') }} then {{ component }}::jsonb end
        as readable_{{ component }}{% if not loop.last %},{% endif %}
        {% endfor %}
    offset bigint '0' -- noqa: AM09
) as components
{% endif %}
