{#- The verdict about a permission (certainty.md §4b). Readers that ask for another threshold apply the same rule
    (ciris_scoring.reading.verdict). -#}

{#- The threshold of the verdicts that this run publishes. A comparison with NaN is false, so NaN is refused too. -#}
{% macro verdict_threshold() %}
  {%- set threshold = setting('verdict_threshold') -%}
  {%- if threshold is not number or threshold is boolean or not (0 <= threshold and threshold <= 1) -%}
    {{ refuse(
      "Variable ciris_verdict_threshold is " ~ shown(threshold) ~ ", but must be a number in [0, 1], such as 0.6. Correct it "
      ~ "in dbt_project.yml or in --vars.") }}
  {%- endif -%}
  {{ return(threshold) }}
{% endmacro %}

{#- SQL for the verdict. low, high: limits of the steady score. is_reviewed: whether an alert or a sign asks for a look
    first. -#}
{% macro verdict(threshold, low, high, score_status, is_reviewed) -%}
  case
    when {{ score_status }} in ('insufficient_data', 'provisional') or {{ low }} is null or {{ high }} is null then 'wait'
    when {{ high }} < {{ threshold }} then 'withhold'
    when {{ is_reviewed }} then 'review'
    when {{ low }} >= {{ threshold }} then 'grant'
    else 'keep'
  end
{%- endmacro %}

{#- SQL for the kinds of alerts that ask for a look before the score decides. -#}
{% macro reviewing_alerts() -%}
  '{{ constant('alerts', {}).values() | selectattr('review', 'equalto', 'always') | map(attribute='id') | join("', '") }}'
{%- endmacro %}

{#- SQL for a message of an alert, from its file in kinds/alerts. values: SQL expressions by the names in the sentence; a
    name without one is a column. -#}
{% macro alert_sentence(kind, values={}, case='raised') %}
  {{ return(constant('alerts')[kind].sql_sentence(values, case) if execute else 'null') }}
{% endmacro %}
