{#- A period's share of the stratified replay estimate (scoring.md §4): its success share weighted by its number of
    traces, as an exact decimal, so that windows can be summed in any order. Null where nothing was sampled. -#}
{% macro replay_stratum(n_traces, n_succeeded, n_sampled) -%}
  round(round({{ n_traces }}::numeric * {{ n_succeeded }}, 30) / nullif({{ n_sampled }}, 0), 20)
{%- endmacro %}
