{#- Run kind of a trace (scoring.md §2): mock, test or production. A trace is not of production only if it says so
    itself, in one of its marks. -#}

{#- Whether a jsonb value contains the name of a mock model. -#}
{% macro names_mock(models) -%}
  jsonb_path_exists({{ models }}, '$.**{0 to 3} ? (@ like_regex "[mM][oO][cC][kK]")')
{%- endmacro %}

{#- Path of the texts, numbers and booleans at a path of a jsonb value. -#}
{% macro words_of_path(path) -%}
  {{ path }} ? (@.type() != "array" && @.type() != "object" && @.type() != "null")
{%- endmacro %}

{#- Words at a path of a jsonb value: its texts, numbers and booleans, trimmed and in upper case. -#}
{% macro words_at(value, path) -%}
  array(
    select {{ clean_word("(found.word #>> '{}')") }}
    from jsonb_path_query({{ value }}, '{{ words_of_path(path) }}') as found (word)
  )
{%- endmacro %}

{#- Run kind by marks that may say that the trace is not of production: a column with a jsonb object that has an array of
    values by name of the mark, or with an array of such objects. From trace format 2.8.0 on, deployment_type does not say
    that a trace is of a mock model or of a test. No subquery contains another one, because Citus would not run it on the
    workers. -#}
{% macro run_kind_by(marks) -%}
  {%- set run_kinds = words_at(marks, '$[*].run_kind[*].**{0 to 3}') -%}
  {%- set deployment_types -%}
    case
      when not exists (
        select 1
        from jsonb_path_query({{ marks }}, '{{ words_of_path('$[*].trace_format_version[*].**{0 to 3}') }}') as found (word)
        where
          (regexp_match({{ clean_word("(found.word #>> '{}')") }}, '^([0-9]{1,6})[.]([0-9]{1,6})'))::integer[] >= '{2,8}'
      ) then {{ words_at(marks, '$[*].deployment_type[*].**{0 to 3}') }}
    end
  {%- endset -%}
  case
    when 'MOCK' = any({{ run_kinds }} || {{ deployment_types }}) then 'mock'
    when 'PRODUCTION' <> any({{ run_kinds }})
      or {{ deployment_types }} && array['{{ constant('deployment_types', {}).get('test', []) | join("', '") | upper }}']
      then 'test'
    else 'production'
  end
{%- endmacro %}

{#- Names of marks that state a run kind. The last one is an object that contains the others. -#}
{% macro stating_marks() %}
  {{ return(['run_kind', 'deployment_type', 'trace_format_version', 'deployment_profile']) }}
{% endmacro %}

{#- Columns of a source table that state a run kind, as far as it has them. -#}
{% macro stated_marks(table) %}
  {{ return(stating_marks() | select('in', source_types(table)) | list) }}
{% endmacro %}

{#- Marks of a row as a jsonb object with an array of values by name. payload: SQL expression of an event's payload. -#}
{% macro marks_in(columns, payload=none) -%}
  jsonb_build_object(
    {%- for name in stating_marks() if name != 'deployment_profile' %}
    {%- set places = (['to_jsonb(' ~ name ~ ')'] if name in columns else [])
        + (["deployment_profile -> '" ~ name ~ "'"] if 'deployment_profile' in columns else [])
        + ([payload ~ " -> '" ~ name ~ "'", payload ~ " #> '{deployment_profile," ~ name ~ "}'"] if payload else []) %}
    '{{ name }}', jsonb_build_array({{ places | join(', ') }}){{ ',' if not loop.last }}
    {%- endfor %}
  )
{%- endmacro %}

{#- Whether a mark says more than that the trace is of production. -#}
{% macro says_more(columns) -%}
  coalesce('production' collate "C" <> any(array[{{ (columns + ['null']) | reject('equalto', 'trace_format_version') | join('::text, ') }}::text]), false)
{%- endmacro %}

{#- The rows of covenant_traces with their marks (ciris_marks). The marks are a column, because Citus runs only immutable
    functions in FROM, and the functions that make jsonb are not immutable. -#}
{% macro with_marks(table) -%}
  (select *, {{ marks_in(stated_marks('covenant_traces')) }} as ciris_marks from {{ table }}) as traces
{%- endmacro %}

{#- Run kind of a row of covenant_traces (with_marks). -#}
{% macro run_kind_of_row() -%}
  {%- set columns = stated_marks('covenant_traces') -%}
  case
    when {{ names_mock(column_if_there('covenant_traces', 'action_result', 'jsonb') ~ " -> 'models_used'") }} then 'mock'
    {%- for column in ['models_used', 'model'] if column in source_types('covenant_traces') %}
    when {{ names_mock('to_jsonb(' ~ column ~ ')') }} then 'mock'
    {%- endfor %}
    when {{ says_more(columns) }} then {{ run_kind_by('ciris_marks') }}
    else 'production'
  end
{%- endmacro %}

{#- Names of models in an event, as jsonb. -#}
{% macro models_of_event() -%}
  case event_type when 'ACTION_RESULT' then payload -> 'models_used' when 'LLM_CALL' then payload -> 'model' end
{%- endmacro %}

{#- Whether the payload of an event states a run kind. -#}
{% macro is_stated_in_payload() -%} payload ?| array['{{ stating_marks() | join("', '") }}'] {%- endmacro %}

{#- Marks of an event that may say that the trace is not of production, as jsonb; null if there are none. -#}
{% macro marks_of_event() -%}
  {%- set columns = stated_marks('trace_events') -%}
  case when {{ is_stated_in_payload() }} or {{ says_more(columns) }} then {{ marks_in(columns, 'payload') }} end
{%- endmacro %}

{#- Query of time and run kind of the traces in the source, for `ciris-scoring check`. The few traces of events without
    an outcome are skipped. -#}
{% macro run_kinds_query() -%}
  {%- set events = source_if_there('trace_events', source_shape()) -%}
  {%- if events is none %}
  select "timestamp"::timestamptz as traced_at, {{ run_kind_of_row() }} as run_kind
  from {{ with_marks(source('cirislens', 'covenant_traces')) }}
  {%- else %}
  select traced_at, case when is_mock then 'mock' when marks is null then 'production' else {{ run_kind_by('marks') }} end as run_kind
  from (
    select
      max(ts) filter (where event_type = 'ACTION_RESULT') as traced_at,
      bool_or({{ names_mock(models_of_event()) }}) as is_mock,
      jsonb_agg({{ marks_of_event() }}) filter (where {{ marks_of_event() }} is not null) as marks
    from {{ events }}
    group by trace_id, agent_id_hash
    having bool_or(event_type = 'ACTION_RESULT')
  ) as traces
  {%- endif -%}
{%- endmacro %}

{#- Query of the number of events, and of those without a mark that can be read; none if the source has whole traces. -#}
{% macro unmarked_events_query() -%}
  {%- set events = source_if_there('trace_events', source_shape()) -%}
  {%- if events is none -%} {{ return(none) }} {%- endif -%}
  select count(*), count(*) filter (
    where {{ models_of_event() }} is null and not {{ is_stated_in_payload() }}
      and num_nonnulls({{ (stated_marks('trace_events') + ['null']) | join(', ') }}) = 0
  )
  from {{ events }}
{%- endmacro %}

{#- Whether the variable ciris_scored_run_kinds has traces of a run kind scored. -#}
{% macro is_scored_kind(run_kind) -%}
  {{ run_kind }} in ('{{ valid_setting('scored_run_kinds') | unique | sort | join("', '") }}')
{%- endmacro %}

{#- Issues of traces that are set aside after their check: copies, and traces whose run kind is not scored. -#}
{% macro issues_of_uncounted() -%}
  '{{ (['duplicate'] + (constant('run_kinds') | reject('in', valid_setting('scored_run_kinds')) | list)) | join("_trace', '") }}_trace'
{%- endmacro %}
