{#- Bin of a score on [0, 1], from 0 on; 1.0 is in the last bin (scoring.md §5 and 6). The arithmetic is exact. Null
    stays null; least() alone would put it into the last bin. -#}
{% macro score_bin(score) -%}
  {%- set bins = constant('score_bins', 0) -%}
  case when {{ score }} is not null then least(floor({{ score }} * {{ bins }}), {{ bins - 1 }})::integer end
{%- endmacro %}

{#- Text of a score for messages, cut to score_decimals decimals and not rounded, so that no score seems to reach a
    threshold. It is cut as text, because a cast to numeric rounds to 15 digits. -#}
{% macro shown_score(score) -%}
  trunc(({{ score }})::text::numeric, {{ constant('score_decimals') }})
{%- endmacro %}

{#- Lower confidence bound from Python, but at most SQL's value, whose last digit may differ. -#}
{% macro low_limit(limit, value) -%}
  case when {{ limit }} > {{ value }} then {{ value }} else {{ limit }} end
{%- endmacro %}

{#- Upper confidence bound, at least the value. -#}
{% macro high_limit(limit, value) -%}
  case when {{ limit }} < {{ value }} then {{ value }} else {{ limit }} end
{%- endmacro %}

{#- Whether a score is in a category. categories: the alias of capacity_categories. -#}
{% macro is_in_category(score, categories) -%}
  ({{ score }} is not null)
  and ({{ categories }}.lower_bound is null or {{ score }} >= {{ categories }}.lower_bound)
  and ({{ categories }}.upper_bound is null or {{ score }} < {{ categories }}.upper_bound)
{%- endmacro %}

{#- Certainty of a category: 'certain' if both confidence bounds are in it. Null if there is no category. -#}
{% macro category_certainty(category, category_low, category_high) -%}
  case
    when {{ category }} is null then null
    when {{ category_low }} = {{ category }} and {{ category_high }} = {{ category }} then 'certain'
    else 'uncertain'
  end
{%- endmacro %}

{#- Verdict about a permission (certainty.md §4b), as in ciris_scoring.marts.verdict. low, high: confidence bounds of
    the steady score. is_reviewed: whether an alert or red flag needs a review first. -#}
{% macro verdict(threshold, low, high, score_status, is_reviewed) -%}
  case
    when {{ score_status }} in ('insufficient_data', 'provisional') or {{ low }} is null or {{ high }} is null then 'wait'
    when {{ high }} < {{ threshold }} then 'withhold'
    when {{ is_reviewed }} then 'review'
    when {{ low }} >= {{ threshold }} then 'grant'
    else 'keep'
  end
{%- endmacro %}

{#- Message of an alert (kinds/alerts). values: SQL expressions by name; other names are columns. -#}
{% macro alert_sentence(kind, values={}, case='raised') %}
  {{ return(constant('alerts')[kind].sql_sentence(values, case) if execute else 'null') }}
{% endmacro %}
