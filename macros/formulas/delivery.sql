{#- Which rows are one trace (scoring.md §2): those of one agent, trace_id and audit number; of events those of one agent
    and trace_id, because a later outcome has a number of its own. -#}

{#- Whether the source has a trace only once, put together from events. -#}
{% macro is_trace_one_row() %}
  {{ return(source_shape() == 'events') }}
{% endmacro %}

{#- Hash of a trace, to find its rows by index; null without a trace_id. -#}
{% macro delivery_hash(trace_id, audit_sequence_number) -%}
  hashtextextended({{ trace_id }}, {{ -1 if is_trace_one_row() else 'coalesce(' ~ audit_sequence_number ~ ', -1)' }})
{%- endmacro %}

{#- An agent's deliveries of one trace, for `partition by`. -#}
{% macro of_delivery() -%}
  {{ of_agent() }}, delivery_hash, trace_id collate "C"
  {%- if not is_trace_one_row() %}, audit_sequence_number{% endif -%}
{%- endmacro %}
