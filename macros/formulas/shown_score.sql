{#- A score as messages write it: score_decimals decimals, cut and not rounded, so that none seems to have reached a threshold. Of its
    text, because a cast to numeric rounds to 15 digits. -#}
{% macro shown_score(score) -%}
  trunc(({{ score }})::text::numeric, {{ constant('score_decimals') }})
{%- endmacro %}
