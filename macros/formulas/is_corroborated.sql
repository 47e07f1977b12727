{#- Whether others agree with an agent in an hour (scoring.md §7). Rounded to 12 decimals so that a difference of
    exactly the tolerance counts as within. -#}
{% macro is_corroborated(own_mean, mean_of_others) -%}
  coalesce(
    round(abs({{ own_mean }} - {{ mean_of_others }}), 12) <= {{ scoring_parameter('corroboration_tolerance') }}, false
  )
{%- endmacro %}
