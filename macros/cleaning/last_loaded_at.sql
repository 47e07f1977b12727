{#- Query for dbt's source freshness: the time of the newest row. Times in the future are ignored, and so are times
    before 2000, because Python cannot read years BC. For a table that the project does not read, the query returns the
    present time, so that dbt never reports the table as stale. -#}
{% macro last_loaded_at(name, column, condition='true') %}
  {%- set is_needed = tables_of_shape(source_shape()).get(name) -%}
  {%- if is_needed is none or not (is_needed or source_types(name)) -%} {{ return('select now()') }} {%- endif -%}
  {%- set time = adapter.quote(column) %}
  select max({{ time }})
  from {{ this }}
  where {{ time }} between '2000-01-01' and now() and {{ condition }}
{% endmacro %}
