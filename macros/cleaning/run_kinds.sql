{#- Run kind of a trace (scoring.md §2): mock, test or production. A trace is not of production only if it says so
    itself, in one of its marks. -#}

{#- Whether a row says that a mock model was used. models: jsonb with names of models. names: names of models as text. -#}
{% macro is_mock(run_kind, deployment_type, models, names=[]) -%}
  (
    {{ clean_word(run_kind) }} = 'MOCK'
    or {{ clean_word(deployment_type) }} = 'MOCK'
    or jsonb_path_exists({{ models }}, '$.**{0 to 3} ? (@ like_regex "[mM][oO][cC][kK]")')
    {%- for name in names %}
    or left({{ name }}, 1000000) collate "C" ~ '[mM][oO][cC][kK]'
    {%- endfor %}
  )
{%- endmacro %}

{#- Whether a row says that it is of a test. -#}
{% macro is_test(run_kind, deployment_type) -%}
  (
    {{ clean_word(run_kind) }} <> 'PRODUCTION'
    or {{ clean_word(deployment_type) }} in ('{{ constant('deployment_types', {}).get('test', []) | join("', '") | upper }}')
  )
{%- endmacro %}

{#- Run kind by the two conditions, which are null if there are no marks. -#}
{% macro run_kind(is_mock, is_test) -%}
  case when {{ is_mock }} then 'mock' when {{ is_test }} then 'test' else 'production' end
{%- endmacro %}

{#- Run kind of a row of covenant_traces. -#}
{% macro run_kind_of_row() -%}
  {%- set marks = {} -%}
  {%- for column in ['run_kind', 'deployment_type', 'model', 'models_used'] -%}
    {%- do marks.update({column: column_if_there('covenant_traces', column, 'text')}) -%}
  {%- endfor -%}
  {%- set models_of_result = column_if_there('covenant_traces', 'action_result', 'jsonb') ~ " -> 'models_used'" -%}
  {{ run_kind(
    is_mock(marks.run_kind, marks.deployment_type, models_of_result, [marks.model, marks.models_used]),
    is_test(marks.run_kind, marks.deployment_type)
  ) }}
{%- endmacro %}

{#- Run kind of the events of a trace, as an aggregate. -#}
{% macro run_kind_of_events() -%}
  {%- set run_kind_sent = column_if_there('trace_events', 'run_kind', 'text') -%}
  {%- set deployment_type = column_if_there('trace_events', 'deployment_type', 'text') -%}
  {%- set models = "case event_type when 'ACTION_RESULT' then payload -> 'models_used' when 'LLM_CALL' then payload -> 'model' end" -%}
  {{ run_kind(
    'bool_or(' ~ is_mock(run_kind_sent, deployment_type, models) ~ ')',
    'bool_or(' ~ is_test(run_kind_sent, deployment_type) ~ ')'
  ) }}
{%- endmacro %}

{#- Query of time and run kind of the traces in the source, for `ciris-scoring check`. The few traces of events without
    an outcome are skipped. -#}
{% macro run_kinds_query() -%}
  {%- set events = source_if_there('trace_events', source_shape()) -%}
  {%- if events is none %}
  select "timestamp"::timestamptz as traced_at, {{ run_kind_of_row() }} as run_kind
  from {{ source('cirislens', 'covenant_traces') }}
  {%- else %}
  select max(ts) filter (where event_type = 'ACTION_RESULT') as traced_at, {{ run_kind_of_events() }} as run_kind
  from {{ events }}
  group by trace_id, agent_id_hash
  having bool_or(event_type = 'ACTION_RESULT')
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
