{#- scoring.md §5: MTTR in hours, over so many episodes that lasted so long together. Null when there is no episode. -#}
{% macro mean_time_to_recovery(microseconds, n) -%}
  (({{ microseconds }})::numeric / nullif({{ n }}, 0) / 3600000000)::double precision
{%- endmacro %}
