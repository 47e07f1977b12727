{#- Run kind of a trace (scoring.md §2): mock, test or production. A trace is not of production only if it says so
    itself, in one of its marks. -#}

{#- Columns of a source table that mark traces. Installations may lack them. The definition is the meta of the YAML. -#}
{% macro mark_columns(table) %}
  {%- set found = [] -%}
  {%- if not execute -%} {{ return(found) }} {%- endif -%}
  {%- for name in graph.sources['source.ciris_scoring.cirislens.' ~ table].columns.values()
      | selectattr('config.meta.is_mark', 'defined') | map(attribute='name') if name in source_types(table) -%}
    {%- do found.append(name) -%}
  {%- endfor -%}
  {{ return(found) }}
{% endmacro %}

{#- Condition that a row is marked as mock or as test. columns: names of its mark columns. models: SQL expressions of
    jsonb values that contain names of models. row: prefix of the columns. -#}
{% macro is_marked(kind, columns, models, row='') -%}
  (
    false
    {%- for column in columns %}
    {%- set word = upper_case('btrim(left(' ~ row ~ column ~ '::text, 1000000), ' ~ white_space() ~ ')') %}
    {%- if column in ['models_used', 'model'] and kind == 'mock' %}
    or coalesce((left({{ row }}{{ column }}::text, 1000000) collate "C") ~ '[mM][oO][cC][kK]', false)
    {%- elif column == 'deployment_type' %}
    or coalesce({{ word }} in ('{{ constant('deployment_types', {}).get(kind, []) | join("', '") | upper }}'), false)
    {%- elif column == 'run_kind' %}
    or coalesce({{ word ~ " = 'MOCK'" if kind == 'mock' else word ~ " not in ('', 'PRODUCTION')" }}, false)
    {%- endif %}
    {%- endfor %}
    {%- for model in models if kind == 'mock' %}
    or coalesce(jsonb_path_exists({{ model }}, '$.**{0 to 3} ? (@ like_regex "[mM][oO][cC][kK]")'), false)
    {%- endfor %}
  )
{%- endmacro %}

{#- Run kind by the two conditions. -#}
{% macro run_kind(is_mock, is_test) -%}
  case when {{ is_mock }} then 'mock' when {{ is_test }} then 'test' else 'production' end
{%- endmacro %}

{#- Run kind of a row of covenant_traces. action_result: SQL expression of the JSON component as jsonb; none if there is
    none. -#}
{% macro run_kind_of_row(action_result) -%}
  {%- set marks = mark_columns('covenant_traces') -%}
  {%- set models = [] if action_result is none else [action_result ~ " -> 'models_used'"] -%}
  {{ run_kind(is_marked('mock', marks, models), is_marked('test', marks, models)) }}
{%- endmacro %}

{#- Subquery with the marks of a trace in all its events, and their number. head: an event of the trace. -#}
{% macro marks_of_events(events, head) -%}
  {%- set marks = mark_columns('trace_events') -%}
  {%- set models = [
    "case part.event_type when " ~ outcome_event() ~ " then part.payload -> 'models_used'
    when 'LLM_CALL' then part.payload -> 'model' end",
  ] -%}
  select
      bool_or({{ is_marked('mock', marks, models, 'part.') }}) as is_mock,
      bool_or({{ is_marked('test', marks, models, 'part.') }}) as is_test,
      count(*) as n_events
  from {{ events }} as part
  where
      part.trace_id = {{ head }}.trace_id
      and part.agent_id_hash is not distinct from {{ head }}.agent_id_hash
      and {{ is_event_of_trace('part') }}
{%- endmacro %}

{#- Query of time and run kind of the traces in the source, for `ciris-scoring check`. The few traces of events without
    an outcome are skipped. -#}
{% macro run_kinds_query() -%}
  {%- set events = source_if_there('trace_events', source_shape()) -%}
  {%- if events is none -%}
  {%- set kind = source_types('covenant_traces').get('action_result', {}).kind -%}
  {%- set readable = {
    'jsonb': 'action_result', 'json': '(case when ' ~ is_readable_json('action_result::text') ~ ' then action_result::jsonb end)',
  } %}
  select "timestamp"::timestamptz as traced_at, {{ run_kind_of_row(readable.get(kind)) }} as run_kind
  from {{ source('cirislens', 'covenant_traces') }}
  {%- else %}
  select head.ts as traced_at, {{ run_kind('marks.is_mock', 'marks.is_test') }} as run_kind
  from {{ events }} as head
  cross join lateral ({{ marks_of_events(events, 'head') }}) as marks
  where head.event_type = {{ outcome_event() }}
  {%- endif -%}
{%- endmacro %}

{#- Whether the variable ciris_scored_run_kinds has traces of a run kind scored. -#}
{% macro is_scored_kind(run_kind) -%}
  {{ run_kind }} in ('{{ valid_setting('scored_run_kinds') | unique | sort | join("', '") }}')
{%- endmacro %}

{#- Issues of traces that are set aside after their check: copies, and traces whose run kind is not scored. -#}
{% macro issues_of_uncounted() -%}
  'duplicate_trace'
  {%- for kind in constant('run_kinds') if kind not in valid_setting('scored_run_kinds') %}, '{{ kind }}_trace'{% endfor %}
{%- endmacro %}
