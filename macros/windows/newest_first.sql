{#- An agent's traces in order (scoring.md §2), for `order by`. key: the trace_verdict_id, under any name. alias: of the
    relation, if needed. -#}
{% macro oldest_first(key, alias=none) -%}
  {%- set prefix = '' if alias is none else alias ~ '.' -%}
  {{ prefix }}traced_at, {{ prefix }}audit_sequence_number, {{ prefix }}trace_id collate "C", {{ prefix }}{{ key }}
{%- endmacro %}

{#- The same, newest first. -#}
{% macro newest_first(key, alias=none) -%}
  {%- set prefix = '' if alias is none else alias ~ '.' -%}
  {% for column, direction in constant('newest_first') %}{{ prefix }}{{ column }} {{ direction }}, {% endfor %}
  {{- prefix }}{{ key }} desc
{%- endmacro %}
