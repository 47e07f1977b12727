{#- How the lens stores what it records: traces, one row each in covenant_traces, or events, several rows a trace in
    trace_events. Where both stand, older traces go on being read until the variable ciris_source says otherwise. -#}
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

{#- Name of a source table in the database. Tables of the engine that stores events have always the same. -#}
{% macro source_table(name) %}
  {{ return(name if name in engine_tables() else setting(name ~ '_table')) }}
{% endmacro %}

{#- Source tables that only a lens has that stores events. -#}
{% macro engine_tables() %}
  {{ return(['trace_events', 'federation_keys', 'federation_revocations', 'accord_public_keys']) }}
{% endmacro %}

{#- The source tables that are read of a shape, and whether a run needs them. -#}
{% macro tables_of_shape(shape) %}
  {%- if shape == 'traces' -%}
    {{ return({'covenant_traces': true, 'wbd_deferrals': true, 'covenant_public_keys': true, 'covenant_trace_batches': true}) }}
  {%- endif -%}
  {{ return({'trace_events': true, 'federation_keys': false, 'federation_revocations': false, 'accord_public_keys': false,
             'wbd_deferrals': false, 'covenant_trace_batches': false}) }}
{% endmacro %}

{#- A source table that a lens of this shape may lack; none where it does. At parsing, when no database is asked, dbt
    learns here that the model reads it. -#}
{% macro source_if_there(name, shape) %}
  {%- if not execute -%} {{ return(source('cirislens', name)) }} {%- endif -%}
  {%- if tables_of_shape(shape).get(name) or (name in tables_of_shape(shape) and source_types(name) | length > 0) -%}
    {{ return(source('cirislens', name)) }}
  {%- endif -%}
  {{ return(none) }}
{% endmacro %}

{#- Where the columns of a trace stand in events and batches: the meta of covenant_traces' columns, by column, with its
    data_type. audit/fields.py reads the same. -#}
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

{#- The types of events that columns stand in; events of other types, such as LLM_CALL, take no part in a trace. -#}
{% macro trace_event_types() %}
  {%- set types = [] -%}
  {%- for field in trace_fields().values() -%}
    {%- for place in field.places if place[0] not in types -%} {%- do types.append(place[0]) -%} {%- endfor -%}
  {%- endfor -%}
  {{ return(types | sort) }}
{% endmacro %}

{#- Whether an event takes part in a trace. -#}
{% macro is_part_of_trace(event) -%}
  {{ event }}.event_type in ('{{ trace_event_types() | join("', '") }}')
{%- endmacro %}

{#- The event that ends a trace, and by whose time it is dated. -#}
{% macro outcome_event() -%} 'ACTION_RESULT' {%- endmacro %}
