{#- scoring.md §6: correctness of the outcome times the quality of its resolution, an exact decimal. -#}
{% macro deferral_value(correctness, has_resolution_summary) -%}
  ({{ correctness }}::numeric * case when {{ has_resolution_summary }} then 1 else 0.5 end)
{%- endmacro %}
