{#- What the lens stores: traces, one row each in covenant_traces, or events, several rows per trace in trace_events. If
    both tables exist, traces are read unless the variable ciris_source says otherwise. -#}
{% macro source_shape() %}
  {%- set wanted = setting('source') -%}
  {%- if wanted is not none -%} {{ return(wanted) }} {%- endif -%}
  {%- if not execute -%} {{ return('traces') }} {%- endif -%}
  {%- if graph.get('source_shape', {}).get('invocation_id') != invocation_id -%}
    {%- set has_traces = source_types('covenant_traces') | length > 0 -%}
    {%- set shape = 'events' if not has_traces and source_types('trace_events') | length > 0 else 'traces' -%}
    {%- do graph.update({'source_shape': {'invocation_id': invocation_id, 'shape': shape}}) -%}
  {%- endif -%}
  {{ return(graph['source_shape'].shape) }}
{% endmacro %}

{#- Name of a source table in the database. The tables of the engine that stores events have fixed names. -#}
{% macro source_table(name) %}
  {{ return(name if name in engine_tables() else setting(name ~ '_table')) }}
{% endmacro %}

{#- Source tables of the engine that stores events. -#}
{% macro engine_tables() %}
  {{ return(constant('engine_tables')) }}
{% endmacro %}

{#- The source tables of a shape, and whether a run needs each. -#}
{% macro tables_of_shape(shape) %}
  {{ return(constant('tables_of_shape', {}).get(shape, {})) }}
{% endmacro %}

{#- A source table, or none if the lens has none. While parsing it is always named, so that dbt knows the dependency. -#}
{% macro source_if_there(name, shape) %}
  {%- if not execute -%} {{ return(source('cirislens', name)) }} {%- endif -%}
  {%- if tables_of_shape(shape).get(name) or (name in tables_of_shape(shape) and source_types(name) | length > 0) -%}
    {{ return(source('cirislens', name)) }}
  {%- endif -%}
  {{ return(none) }}
{% endmacro %}

{#- Where each column of a trace is found in events and batches, from the meta of covenant_traces' columns.
    audit/fields.py reads the same. -#}
{% macro trace_fields() %}
  {%- set fields = {} -%}
  {%- if not execute -%} {{ return(fields) }} {%- endif -%}
  {%- for node in graph.sources.values() if node.unique_id == 'source.ciris_scoring.cirislens.covenant_traces' -%}
    {%- for column in node.columns.values() -%}
      {%- set meta = column.config.meta -%}
      {%- set places = [] -%}
      {%- for place in meta.get('places', []) if not place.startswith('trace.') -%}
        {%- do places.append(place.split('.')) -%}
      {%- endfor -%}
      {%- do fields.update({column.name: {
          'type': column.data_type, 'places': places, 'event_column': meta.get('event_column'),
          'decimals': meta.get('decimals'), 'zero_needs': (meta.get('zero_needs') or '').split('.'),
      }}) -%}
    {%- endfor -%}
  {%- endfor -%}
  {{ return(fields) }}
{% endmacro %}

{#- The event types that make up a trace. Others, such as LLM_CALL, do not. -#}
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

{#- The event that ends a trace and dates it. -#}
{% macro outcome_event() -%} 'ACTION_RESULT' {%- endmacro %}

{#- Order of a trace's events that puts its head first, the event that dates it: the last ACTION_RESULT, by
    attempt_index, then time; without one the latest event. event: the name of the row. -#}
{% macro head_first(event) -%}
  {{ event }}.event_type = {{ outcome_event() }} desc,
  case when {{ event }}.event_type = {{ outcome_event() }} then {{ event }}.attempt_index end desc,
  {{ event }}.ts desc,
  {{ event }}.event_id desc
{%- endmacro %}
