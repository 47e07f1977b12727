{#- Surrogate key for a row whose natural key has several columns: an MD5, with times as seconds since 1970. `columns`
    are never null. In the columns `nullable`, '-' stands for null, and a text that begins with '-' gets another '-' in
    front. -#}
{% macro surrogate_key(columns, nullable=[]) -%}
  md5(concat_ws(
    '|'
    {%- for column in nullable -%}
    , coalesce(regexp_replace(({{ column }})::text, '^-', '--'), '-')
    {%- endfor -%}
    {%- for column in columns -%}
    , {{ column }}
    {%- endfor -%}
  ))
{%- endmacro %}

{#- A time in a surrogate key. -#}
{% macro epoch(moment) -%}
  extract(epoch from {{ moment }})
{%- endmacro %}

{#- Hash of a signing key, as int_trace_checks and later models store it. -#}
{% macro key_hash(key_id) -%}
  hashtextextended({{ key_id }}, 0)
{%- endmacro %}

{#- Whether each trace is exactly one row. True if the run assembles traces from events by agent and trace_id. Otherwise
    rows with the same agent, trace_id and audit number are deliveries of one trace (scoring.md §2). -#}
{% macro is_trace_one_row() %}
  {{ return(source_shape() == 'events') }}
{% endmacro %}

{#- Hash of trace_id and audit number, or of trace_id alone if a trace is one row. An index on this hash finds the rows
    of a trace. Null without a trace_id. -#}
{% macro delivery_hash(trace_id, audit_sequence_number) -%}
  hashtextextended({{ trace_id }}, {{ -1 if is_trace_one_row() else 'coalesce(' ~ audit_sequence_number ~ ', -1)' }})
{%- endmacro %}

{#- Hash of production's key (trace_id, timestamp), agent and audit number. agent: SQL expression of the agent. -#}
{% macro occurrence_id(agent) -%}
  md5(
    encode(timestamptz_send(traced_at), 'hex')
    || '|' || coalesce(audit_sequence_number::text, '')
    || '|' || coalesce(length({{ agent }})::text, '')
    || '|' || coalesce({{ agent }}, '')
    || '|' || coalesce(trace_id, '')
  )::uuid
{%- endmacro %}

{#- Hash of agent_name and signature, which orders deliveries of one trace with the same time. Such deliveries exist
    only if the source lacks production's key. -#}
{% macro content_hash() -%}
  hashtextextended(coalesce(agent_name, ''), hashtextextended(coalesce(signature, ''), 0))
{%- endmacro %}

{#- Number of a copy, from 0, among deliveries of a trace with equal times and contents. Null unless the previous
    delivery of the trace has the same time. -#}
{% macro copy_number(window) -%}
  case
    when lag(traced_at) over {{ window }} = traced_at then row_number() over {{ window }} - rank() over {{ window }}
  end
{%- endmacro %}

{#- Key of a source row, computed because a source may be without a key. Reads the columns occurrence_id, content_hash
    and copy_number. -#}
{% macro trace_check_id() -%}
  case
    when copy_number is null then occurrence_id
    else md5(concat_ws('|', occurrence_id, content_hash, copy_number))::uuid
  end
{%- endmacro %}
