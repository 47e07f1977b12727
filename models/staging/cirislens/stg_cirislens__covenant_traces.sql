{#- Cleaned traces with their repairs (scoring.md §2 and 8). The view has neither window functions nor CTEs, so
    PostgreSQL merges it into the query that reads it. A filter on traced_at then reaches the source's index, and unused
    columns cost nothing. The cleaning of a column depends on its type in the source. Grain: source row, or trace
    assembled from events. -#}
{%- set whole = source_if_there('covenant_traces', source_shape()) -%}
{%- set put_together = ref('stg_cirislens__event_traces') if whole is none or not execute -%}
{%- set types = {} if whole is none else source_types('covenant_traces') -%}
{%- set event_issues = 'event_issues' if whole is none else 'null::text[]' -%}
{%- set components = trace_columns().components if scoring_parameter('replay_enabled') else [] -%}
{#- The mark in action_result is read even if replays are not enabled. -#}
{%- set action_kind = types.get('action_result', {}).kind -%}
{%- set action_result = {'json': 'readable_action_result', 'jsonb': 'action_result'}.get(action_kind) -%}
{%- set json_components = [] -%}
{%- for component in components or ['action_result'] if types.get(component, {}).kind == 'json' -%}
  {%- do json_components.append(component) -%}
{%- endfor -%}
{#- cleaned: expression of each column that cleaning can set to null. sent: expressions of the same columns before
    cleaning. repaired: the condition of each repair, by its issue name. -#}
{%- set cleaned, sent, repaired = {}, [], {} -%}
{%- for column in trace_columns().text -%}
  {%- set read = signing_key_column(types) if column == 'signature_key_id' else column -%}
  {%- set text = read ~ '::text' -%}
  {%- do sent.append(read) -%}
  {%- if column in ['agent_id_hash', 'trace_id'] -%} {%- do cleaned.update({column: clean_id(text)}) -%}
  {%- elif column in ['agent_name', 'idma_phase'] -%} {%- do cleaned.update({column: clean_name(text)}) -%}
  {%- else -%} {%- do cleaned.update({column: blank_to_null(text)}) -%}
  {%- endif -%}
  {%- set is_sent = 'true' if column == 'agent_id_hash' else read ~ ' is not null' -%}
  {%- do repaired.update({'blank_' ~ column: is_sent ~ ' and ' ~ blank_to_null(text) ~ ' is null'}) -%}
{%- endfor -%}
{%- set action = clean_action('selected_action::text') -%}
{%- do cleaned.update({'selected_action': action}) -%}
{%- do repaired.update({'blank_selected_action': 'selected_action is not null and ' ~ action ~ ' is null'}) -%}
{%- for column in trace_columns().scores -%}
  {%- do cleaned.update({column: clean_unit_score(column, types.get(column, {}))}) -%}
{%- endfor -%}
{%- do cleaned.update({
  'idma_k_eff': clean_non_negative('idma_k_eff'),
  'audit_sequence_number': clean_whole_number('audit_sequence_number', types.get('audit_sequence_number', {})),
}) -%}
{%- for column in trace_columns().scores + ['idma_k_eff', 'audit_sequence_number'] -%}
  {%- do repaired.update({'out_of_range_' ~ column: column ~ ' is not null and ' ~ cleaned[column] ~ ' is null'}) -%}
{%- endfor -%}
{%- do repaired.update({
  'oversized_id': is_oversized_id('agent_id_hash::text') ~ ' or ' ~ is_oversized_id('trace_id::text'),
}) -%}
{%- for component in components -%}
  {%- set is_json = component in json_components -%}
  {%- do cleaned.update({component: 'readable_' ~ component if is_json else component ~ '::jsonb'}) -%}
  {%- if is_json -%}
    {%- do repaired.update({'unreadable_' ~ component: component ~ ' is not null and readable_' ~ component ~ ' is null'}) -%}
  {%- endif -%}
{%- endfor -%}
{%- do sent.extend(cleaned | reject('in', trace_columns().text)) -%}
select
    {% for column, expression in cleaned.items() %}
    {{ expression }} as {{ column }},
    {% endfor %}
    {% if not components %}
    {% for component in trace_columns().components %}
    null::jsonb as {{ component }},
    {% endfor %}
    {% endif %}
    agent_id_hash::text as agent_id_hash_as_sent,
    trace_id::text as trace_id_as_sent,
    "timestamp"::timestamptz as traced_at,
    signature_verified::boolean as signature_verified,
    idma_fragility_flag::boolean as idma_fragility_flag,
    conscience_passed::boolean as conscience_passed,
    action_was_overridden::boolean as action_was_overridden,
    coherence_passed::boolean as coherence_passed,
    action_success::boolean as action_success,
    {{ 'run_kind' if whole is none else run_kind_of_row(action_result) ~ ' as run_kind' }},
    {{ 'n_events' if whole is none else 'null::integer as n_events' }},
    -- Nothing was repaired if cleaning left as many values as were sent.
    case
        when num_nonnulls({{ cleaned.values() | join(', ') }}) < num_nonnulls({{ sent | join(', ') }})
            or {{ event_issues }} is not null
            then array_remove(array[
                {% for issue, condition in repaired.items() %}
                case when {{ condition }} then '{{ issue }}' end{% if not loop.last %},{% endif %}
                {% endfor %}
            ], null) || {{ event_issues }}
    end as repairs
from {{ whole or put_together }}
{% if json_components %}
-- The optimization barrier makes PostgreSQL read each JSON component once.
cross join lateral (
    select
        {% for component in json_components %}
        case when {{ is_readable_json(component ~ '::text') }} then {{ component }}::jsonb end
        as readable_{{ component }}{% if not loop.last %},{% endif %}
        {% endfor %}
    offset bigint '0' -- noqa: AM09
) as components
{% endif %}
