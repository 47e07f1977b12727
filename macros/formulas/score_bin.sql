{#- Bin of a score (scoring.md §5 and 6): ten equal bins on [0, 1], 1.0 in the last, in exact decimal arithmetic. Null
    for null, which least() alone would put into the last bin. -#}
{% macro score_bin(score) -%}
  case when {{ score }} is not null then least(floor({{ score }} * 10), 9)::integer end
{%- endmacro %}
