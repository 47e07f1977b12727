{#- Condition of the rows that this run wrote, so that no test reads years of history. The column that meta.range of the
    model names is in the run's range in these rows, or null. All rows if the model has no range. -#}
{% macro in_increment(relation, alias=none) %}
  {%- set scoring_run = ref('int_scoring_run') -%}
  {%- if not execute -%} {{ return('true') }} {%- endif -%}
  {%- set model = graph.nodes.values() | selectattr('resource_type', 'equalto', 'model')
      | selectattr('package_name', 'equalto', 'ciris_scoring')
      | selectattr('alias', 'equalto', relation.identifier) | first -%}
  {%- set range = model['config']['meta'].get('range') -%}
  {%- if range in [none, 'last_event_at', 'run_id'] -%} {{ return('true') }} {%- endif -%}
  {%- set column = range if alias is none else alias ~ '.' ~ range -%}
  {{ return('(' ~ (in_scored_range(column) if range == 'as_of' else in_checked_range(column)) ~ ' or ' ~ column ~ ' is null)') }}
{% endmacro %}
