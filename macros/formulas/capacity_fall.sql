{#- By how much a capacity score fell (scoring.md §8, alert falling), as an exact decimal. Doubles are cast to their 15
    digits and the difference is rounded to 12 decimals, so that a fall of exactly the threshold counts: 0.95 to 0.80
    is 0.15. -#}
{% macro capacity_fall(earlier_score, score) -%}
  round({{ earlier_score }}::numeric - {{ score }}::numeric, 12)
{%- endmacro %}
