{#- Type of each column of a trace, and the paths of its value in events. Types and paths are defined in the YAML of the
    source covenant_traces, which audit/traces.py reads too. -#}
{% macro trace_fields() %}
  {%- set fields = {} -%}
  {%- if not execute -%} {{ return(fields) }} {%- endif -%}
  {%- for node in graph.sources.values() if node.unique_id == 'source.ciris_scoring.cirislens.covenant_traces' -%}
    {%- for column in node.columns.values() if not column.config.meta.get('is_mark') -%}
      {%- set meta = column.config.meta -%}
      {%- set places = [] -%}
      {%- for place in meta.get('places', []) if not place.startswith('trace.') -%}
        {%- do places.append(place.split('.')) -%}
      {%- endfor -%}
      {%- do fields.update({column.name: {
          'type': column.data_type, 'places': places, 'event_column': meta.get('event_column'),
          'decimals': meta.get('decimals'), 'zero_needs': (meta.get('zero_needs') or '').split('.'),
          'any_attempt': meta.get('any_attempt', false),
      }}) -%}
    {%- endfor -%}
  {%- endfor -%}
  {{ return(fields) }}
{% endmacro %}

{#- Event types that are part of a trace. Of other event types only the marks of LLM_CALL are read. -#}
{% macro trace_event_types() %}
  {%- set types = [] -%}
  {%- for field in trace_fields().values() -%}
    {%- for place in field.places if place[0] not in types -%} {%- do types.append(place[0]) -%} {%- endfor -%}
  {%- endfor -%}
  {{ return(types | sort) }}
{% endmacro %}

{#- Whether an event is part of a trace. -#}
{% macro is_part_of_trace(event) -%}
  {{ event }}.event_type in ('{{ trace_event_types() | join("', '") }}')
{%- endmacro %}

{#- Whether an event belongs to a trace: it is part of the trace, or may mark its run kind. -#}
{% macro is_event_of_trace(event) -%}
  {{ event }}.event_type in ('{{ trace_event_types() | join("', '") }}', 'LLM_CALL')
{%- endmacro %}

{#- Type of the event that ends a trace. The time of this event is the time of the trace. -#}
{% macro outcome_event() -%} 'ACTION_RESULT' {%- endmacro %}

{#- Order of a trace's events. The first event in this order gives the time of the trace. It is the last ACTION_RESULT
    by attempt_index and then by time or, if there is none, the latest event. event: alias of the relation. -#}
{% macro head_first(event) -%}
  {{ event }}.event_type = {{ outcome_event() }} desc,
  case when {{ event }}.event_type = {{ outcome_event() }} then {{ event }}.attempt_index end desc,
  {{ event }}.ts desc,
  {{ event }}.event_id desc
{%- endmacro %}
