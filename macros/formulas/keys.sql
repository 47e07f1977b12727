{#- Key of one column for a row with a natural key of several columns: an MD5, with times as seconds since 1970. The
    given columns are never null. In those of `nullable`, '-' stands for null, and a text that begins with '-' gets
    another '-'. -#}
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

{#- Whether each trace is one row, because the run assembles it from events. Rows of one agent and trace_id are then one
    trace; otherwise the audit number must also be the same (scoring.md §2). -#}
{% macro is_trace_one_row() %}
  {{ return(source_shape() == 'events') }}
{% endmacro %}

{#- Hash of a trace, to find its rows by index; null without a trace_id. -#}
{% macro delivery_hash(trace_id, audit_sequence_number) -%}
  hashtextextended({{ trace_id }}, {{ -1 if is_trace_one_row() else 'coalesce(' ~ audit_sequence_number ~ ', -1)' }})
{%- endmacro %}

{#- Hash of production's key (trace_id, timestamp), agent and audit number. -#}
{% macro occurrence_id() -%}
  md5(
    encode(timestamptz_send(traced_at), 'hex')
    || '|' || coalesce(audit_sequence_number::text, '')
    || '|' || coalesce(length(agent_id_hash)::text, '')
    || '|' || coalesce(agent_id_hash, '')
    || '|' || coalesce(trace_id, '')
  )::uuid
{%- endmacro %}

{#- Hash of the columns that order complete ties. Production's key excludes such ties. -#}
{% macro content_hash() -%}
  hashtextextended(coalesce(agent_name, ''), hashtextextended(coalesce(signature, ''), 0))
{%- endmacro %}

{#- Number of the copy; null unless two rows of one delivery have the same time. -#}
{% macro copy_number(window) -%}
  case
    when lag(traced_at) over {{ window }} = traced_at then row_number() over {{ window }} - rank() over {{ window }}
  end
{%- endmacro %}

{#- Key of a source row, because the source has none. Reads the columns occurrence_id, content_hash and copy_number. -#}
{% macro trace_check_id() -%}
  case
    when copy_number is null then occurrence_id
    else md5(concat_ws('|', occurrence_id, content_hash, copy_number))::uuid
  end
{%- endmacro %}
