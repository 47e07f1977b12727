{#- scoring.md §7: sum of the weights of some signals. -#}
{% macro signal_weight(n_corroborated, n_uncorroborated) -%}
  ({{ n_corroborated }} * {{ scoring_parameter('w_corroborated') }}::numeric
    + {{ n_uncorroborated }} * {{ scoring_parameter('w_uncorroborated') }}::numeric)
{%- endmacro %}
