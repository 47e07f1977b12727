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

{#- Lower confidence bound of a value, limited to at most the value. Python computes the bound and SQL the value, so a
    rounding error could put the bound above the value. -#}
{% macro low_bound(bound, value) -%}
  case when {{ bound }} > {{ value }} then {{ value }} else {{ bound }} end
{%- endmacro %}

{#- Upper confidence bound of a value, limited to at least the value (see low_bound). -#}
{% macro high_bound(bound, value) -%}
  case when {{ bound }} < {{ value }} then {{ value }} else {{ bound }} end
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

{#- certainty.md §4b: -ln of a steady score, minus the fixed cost of R. Null if the score is 0, or not below the
    highest possible R. -#}
{% macro loss_beyond(score, fixed_loss) -%}
  (case
    when {{ score }} > 0 and {{ score }} < exp(-{{ fixed_loss }}) then -ln({{ score }}) - {{ fixed_loss }}
  end)
{%- endmacro %}

{#- Standard deviation of ln(loss_beyond) of a steady score, from `high`, the upper bound of its 95 % interval. -#}
{% macro log_sd(score, high, fixed_loss) -%}
  ((ln({{ loss_beyond(score, fixed_loss) }}) - ln({{ loss_beyond(high, fixed_loss) }})) / {{ constant('normal_to_95', 1) }})
{%- endmacro %}

{#- Highest threshold that the steady score reaches with a given probability. -#}
{% macro score_reached(score, high, fixed_loss, probability) -%}
  (case
    when {{ score }} < {{ high }} then exp(-least(700, {{ fixed_loss }} + {{ loss_beyond(score, fixed_loss) }} * exp(
      {{ constant('normal_quantile')(probability) if execute else 0 }}::double precision
      * {{ log_sd(score, high, fixed_loss) }}
    )))
    when {{ high }} is not null then {{ score }}
  end)
{%- endmacro %}

{#- Probability that the steady score reaches a threshold, by the same formula as in ciris_scoring.marts.verdict. -#}
{% macro probability_reached(score, high, fixed_loss, threshold) -%}
  (case
    when {{ score }} is null or {{ high }} is null then null
    when {{ threshold }} <= 0 then 1
    when {{ threshold }} >= exp(-{{ fixed_loss }}) then 0
    when {{ score }} < {{ high }} then {{ normal_share(
      '((ln(' ~ loss_beyond(threshold ~ '::double precision', fixed_loss) ~ ') - ln('
      ~ loss_beyond(score, fixed_loss) ~ ')) / ' ~ log_sd(score, high, fixed_loss) ~ ')'
    ) }}
    else ({{ score }} >= {{ threshold }})::integer
  end)
{%- endmacro %}

{#- Share of a standard normal distribution below z, to 15 decimals: a rational function, and a continued fraction beyond 7
    standard deviations (Hart 1968, Computer Approximations, 5666; West 2005, Wilmott Magazine, May, 70-76). PostgreSQL
    has erfc only from version 16 on. Beyond 37 standard deviations exp would underflow. -#}
{% macro normal_share(z) -%}
  (
    select case when of_z.z > 0 then 1 - beyond.share else beyond.share end
    from (select {{ z }} as z from (values (1)) as one_row (n) {{ optimization_barrier() }}) as of_z
    cross join lateral (select least(abs(of_z.z), 37) as x) as of_x
    cross join lateral (
      select
        exp(-of_x.x * of_x.x / 2) * case
          when of_x.x < 7.07106781186547::double precision then
            {{ polynomial([
              '3.52624965998911e-02', '0.700383064443688', '6.37396220353165', '33.912866078383', '112.079291497871',
              '221.213596169931', '220.206867912376',
            ], 'of_x.x') }}
            / {{ polynomial([
              '8.83883476483184e-02', '1.75566716318264', '16.064177579207', '86.7807322029461', '296.564248779674',
              '637.333633378831', '793.826512519948', '440.413735824752',
            ], 'of_x.x') }}
          else
            1 / (of_x.x + 1 / (of_x.x + 2 / (of_x.x + 3 / (of_x.x + 4 / (of_x.x + 0.65::double precision)))))
            / sqrt(2 * pi())
        end as share
    ) as beyond
  )
{%- endmacro %}

{#- A polynomial by Horner's rule. coefficients: the coefficient of the highest power first. -#}
{% macro polynomial(coefficients, x) -%}
  {{ '(' * (coefficients | length) }}
  {%- for coefficient in coefficients -%}
    {{ ' * ' ~ x ~ ' + ' if not loop.first }}{{ coefficient }}::double precision)
  {%- endfor %}
{%- endmacro %}

{#- Verdict about a permission (certainty.md §4b), by the same rule as in ciris_scoring.marts.verdict. granted_to:
    highest threshold that the steady score reaches with the probability ciris_grant_probability. withheld_above:
    highest threshold that it reaches with the probability ciris_withhold_probability. is_reviewed: whether an alert,
    red flag or category needs a review first. -#}
{% macro verdict(threshold, granted_to, withheld_above, score_status, is_reviewed) -%}
  case
    when {{ score_status }} in ('insufficient_data', 'provisional') or {{ granted_to }} is null then 'wait'
    when {{ withheld_above }} < {{ threshold }} then 'withhold'
    when {{ is_reviewed }} then 'review'
    when {{ granted_to }} >= {{ threshold }} then 'grant'
    else 'keep'
  end
{%- endmacro %}

{#- SQL that formats the message of an alert (kinds/alerts). values: SQL expressions for the names in the message. A
    name that is not in values is a column. -#}
{% macro alert_sentence(kind, values={}, case='raised') %}
  {{ return(constant('alerts')[kind].sql_sentence(values, case) if execute else 'null') }}
{% endmacro %}
