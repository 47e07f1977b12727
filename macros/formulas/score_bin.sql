{#- Number of bins of a score (scoring.md §5 and 6): equal ones on [0, 1]. -#}
{% macro score_bins() %}
  {{ return(constant('score_bins') or 0) }}
{% endmacro %}

{#- Bin of a score, from 0 on, 1.0 in the last, in exact decimal arithmetic. Null for null, which least() alone would put
    into the last bin. -#}
{% macro score_bin(score) -%}
  case when {{ score }} is not null then least(floor({{ score }} * {{ score_bins() }}), {{ score_bins() - 1 }})::integer end
{%- endmacro %}
