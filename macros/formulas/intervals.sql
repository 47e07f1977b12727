{#- Intervals of the score (certainty.md §3): what SQL and Python agree on, and the columns they share. -#}

{#- Columns of fct_capacity_scores that have limits, COLUMN_low and COLUMN_high: the score, its factors and the steady
    score. -#}
{% macro scores_with_limits() %}
  {{ return(constant('scores_with_limits')) }}
{% endmacro %}

{#- A limit that holds what SQL makes of the same sums: Python's last digit may be another. Null where the limit is. -#}
{% macro low_limit(limit, value) -%}
  case when {{ limit }} > {{ value }} then {{ value }} else {{ limit }} end
{%- endmacro %}

{#- The same for an upper limit. -#}
{% macro high_limit(limit, value) -%}
  case when {{ limit }} < {{ value }} then {{ value }} else {{ limit }} end
{%- endmacro %}

{#- Whether a category's bounds hold a score; `categories` is the alias of capacity_categories. -#}
{% macro is_in_category(score, categories) -%}
  ({{ score }} is not null)
  and ({{ categories }}.lower_bound is null or {{ score }} >= {{ categories }}.lower_bound)
  and ({{ categories }}.upper_bound is null or {{ score }} < {{ categories }}.upper_bound)
{%- endmacro %}

{#- Whether a score lies in its category whatever chance did: where both limits lie in it. Null with the category. -#}
{% macro category_certainty(category, category_low, category_high) -%}
  case
    when {{ category }} is null then null
    when {{ category_low }} = {{ category }} and {{ category_high }} = {{ category }} then 'certain'
    else 'uncertain'
  end
{%- endmacro %}
