{#- More memory for the sorts and hashes of one model, until the end of its own transaction. -#}
{% macro set_work_mem() -%}
  set local work_mem = '{{ var("scoring_work_mem") }}'
{%- endmacro %}
