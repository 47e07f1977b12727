{#- The key of a source row, which the source has not. Each renders to SQL over the columns of a cleaned row. -#}

{#- What tells rows apart that production's key tells apart, and an agent's numbers. -#}
{% macro occurrence_id() -%}
  md5(
    encode(timestamptz_send(traced_at), 'hex')
    || '|' || coalesce(audit_sequence_number::text, '')
    || '|' || coalesce(length(agent_id_hash)::text, '')
    || '|' || coalesce(agent_id_hash, '')
    || '|' || coalesce(trace_id, '')
  )::uuid
{%- endmacro %}

{#- What settles complete ties, which production's key excludes. -#}
{% macro content_hash() -%}
  hashtextextended(coalesce(agent_name, ''), hashtextextended(coalesce(signature, ''), 0))
{%- endmacro %}

{#- Null but for rows that tie with another of their delivery in time: then it tells them apart. window: of the rows of
    a delivery, by traced_at and content_hash. -#}
{% macro copy_number(window) -%}
  case
    when lag(traced_at) over {{ window }} = traced_at then row_number() over {{ window }} - rank() over {{ window }}
  end
{%- endmacro %}

{#- The key. It needs the columns occurrence_id, content_hash and copy_number. -#}
{% macro trace_verdict_id() -%}
  case
    when copy_number is null then occurrence_id
    else md5(concat_ws('|', occurrence_id, content_hash, copy_number))::uuid
  end
{%- endmacro %}
