{#- Intervals of the score (certainty.md §3): what SQL and Python agree on, and the columns they share. -#}

{#- Everything but data that decides drift, R or a limit, joined by |: the method's version, hours per period, and the
    parameters that Python reads (ciris_scoring.statistics.inputs.Parameters), in their published spelling. -#}
{% macro statistics_parameters() %}
  {%- set values = [constant('method_version'), period_hours()] -%}
  {%- for name in constant('statistics_parameters') -%}
    {%- do values.append(scoring_parameter_text(name)) -%}
  {%- endfor -%}
  {{ return(values | join('|')) }}
{% endmacro %}

{#- Columns of fct_capacity_scores that have limits, COLUMN_low and COLUMN_high: the score, its factors and the steady
    score. -#}
{% macro scores_with_limits() %}
  {{ return(constant('scores_with_limits')) }}
{% endmacro %}

{#- Logarithm of a duration in hours, of at least least_hours, as an exact decimal, so that sums are the same in any order. -#}
{% macro log_hours(duration) -%}
  round(ln(greatest(extract(epoch from {{ duration }})::double precision / 3600, {{ constant('least_hours') }}))::numeric, 12)
{%- endmacro %}

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

{#- 64-bit hash of the sums of a period that the statistics are made from. Hashes of several periods are added up: where the
    sum is another, they have to be computed again. -#}
{% macro sums_hash() -%}
  {%- set sums = ['hash_array_extended(score_triples, 0)'] -%}
  {%- for name in constant('statistics_sums') -%} {%- do sums.append(name ~ '::text') -%} {%- endfor -%}
  hashtextextended(concat_ws('|', {{ epoch('period_start') }}, {{ sums | join(', ') }}), 0)
{%- endmacro %}
