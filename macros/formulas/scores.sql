{#- Bin of a score on [0, 1], from 0 on; 1.0 is in the last bin (scoring.md §5 and 6). The arithmetic is exact. Null
    stays null; least() alone would put it into the last bin. -#}
{% macro score_bin(score) -%}
  {%- set bins = constant('score_bins', 0) -%}
  case when {{ score }} is not null then least(floor({{ score }} * {{ bins }}), {{ bins - 1 }})::integer end
{%- endmacro %}

{#- Text of a score for messages, cut to score_decimals decimals and not rounded, so that a score below a threshold
    does not seem to reach it. It is cut as text, because a cast to numeric rounds to 15 digits. -#}
{% macro shown_score(score) -%}
  trunc(({{ score }})::text::numeric, {{ constant('score_decimals') }})
{%- endmacro %}

{#- Whether a score is in a category. categories: alias of the table capacity_categories. -#}
{% macro is_in_category(score, categories) -%}
  ({{ score }} is not null)
  and ({{ categories }}.lower_bound is null or {{ score }} >= {{ categories }}.lower_bound)
  and ({{ categories }}.upper_bound is null or {{ score }} < {{ categories }}.upper_bound)
{%- endmacro %}

{#- Certainty of a score's category: 'certain' if both confidence bounds of the score are in the category, otherwise
    'uncertain'. Null if the score has no category. -#}
{% macro category_certainty(category, category_low, category_high) -%}
  case
    when {{ category }} is null then null
    when {{ category_low }} = {{ category }} and {{ category_high }} = {{ category }} then 'certain'
    else 'uncertain'
  end
{%- endmacro %}

{#- SQL that formats the message of an alert (kinds/alerts). values: SQL expressions for the names in the message. A
    name that is not in values is a column. -#}
{% macro alert_sentence(kind, values={}, case='raised') %}
  {{ return(constant('alerts')[kind].sql_sentence(values, case) if execute else 'null') }}
{% endmacro %}

{#- Variables of the project that the verdict depends on, for the Python model fct_score_certainty. -#}
{% macro verdict_settings() %}
  {{ return({
    'verdict_threshold': valid_setting('verdict_threshold'),
    'grant_probability': valid_setting('grant_probability'),
    'withhold_probability': valid_setting('withhold_probability'),
  }) }}
{% endmacro %}
