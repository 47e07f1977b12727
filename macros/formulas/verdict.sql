{#- What to do about a permission (certainty.md §4b); ciris_scoring.reading.verdict says the same. -#}

{#- The bound of the permission that is asked for, in fct_capacity_scores. -#}
{% macro verdict_bound() %}
  {%- set bound = setting('verdict_bound') -%}
  {%- if bound is not number or bound is boolean or bound < 0 or bound > 1 -%}
    {{ refuse("Variable ciris_verdict_bound is " ~ shown(bound) ~ ", but must be a number in [0, 1].") }}
  {%- endif -%}
  {{ return(bound) }}
{% endmacro %}

{#- SQL for the verdict. low, high: limits of the steady score. is_reviewed: whether an alert or a sign asks for a look
    first. -#}
{% macro verdict(bound, low, high, score_status, is_reviewed) -%}
  case
    when {{ score_status }} in ('insufficient_data', 'provisional') or {{ low }} is null or {{ high }} is null then 'wait'
    when {{ high }} < {{ bound }} then 'withhold'
    when {{ is_reviewed }} then 'review'
    when {{ low }} >= {{ bound }} then 'grant'
    else 'keep'
  end
{%- endmacro %}

{#- Kinds of alerts that ask for a look before the score decides; a critical low_capacity does so too. -#}
{% macro reviewing_alerts() %}
  'broken_chain', 'falling', 'episode', 'silent'
{% endmacro %}
