{#- The descriptions as comments on a table and its columns. dbt's own first asks the database which columns there are,
    which for most models takes longer than an increment of them; a described column that is not there is an error. -#}
{% macro postgres__persist_docs(relation, model, for_relation, for_columns) %}
  {%- set kind = 'view' if relation.type == 'view' else 'table' -%}
  {%- call statement('persist_docs') %}
  comment on {{ kind }} {{ relation }} is {{ postgres_escape_comment(model.description) }};
  {%- for column in model.columns.values() %}
  comment on column {{ relation }}.{{ adapter.quote(column.name) }} is {{ postgres_escape_comment(column.description) }};
  {%- endfor %}
  {%- endcall -%}
{% endmacro %}
