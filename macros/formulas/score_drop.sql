{#- Whether a score fell by more than chance (certainty.md §4). Arguments are SQL expressions, doubles; the limits
    are those of 95 % intervals. -#}

{#- Lower limit of ln(earlier_score) - ln(score) at a level, given by its quantiles towards a worse and a better score:
    the drop less the square-and-add of both intervals' sides on the log scale, stretched in proportion to the
    quantiles. From a positive score to 0 both the drop and the side of the 0 are infinite; what is left is the way to
    the upper limit, that of a rate without a success, which grows with the square of the quantile. Null where one is
    null; -Infinity where the earlier score may have been 0. -#}
{% macro drop_limit(earlier_score, earlier_low, score, high, z_worse, z_better) -%}
  case
    when num_nulls({{ earlier_score }}, {{ earlier_low }}, {{ score }}, {{ high }}) > 0 then null
    when {{ earlier_low }} <= 0 then '-Infinity'::double precision
    when {{ score }} <= 0 and {{ high }} <= 0 then 'Infinity'::double precision
    when {{ score }} <= 0
      then ln({{ earlier_score }}) - ln({{ high }} * power({{ z_better }}::double precision / 1.96, 2))
    else
      ln({{ earlier_score }}) - ln({{ score }})
      - sqrt(
        power({{ z_worse }}::double precision / 1.645 * (ln({{ earlier_score }}) - ln({{ earlier_low }})), 2)
        + power({{ z_better }}::double precision / 1.96 * (ln({{ high }}) - ln({{ score }})), 2)
      )
  end
{%- endmacro %}

{#- The drop from which on falling is raised: a third of falling_threshold where chance is excluded at 99 %, all of it
    where at 95 %; null where it is not. -#}
{% macro least_fall(earlier_score, earlier_low, score, high) -%}
  case
    when {{ drop_limit(earlier_score, earlier_low, score, high, 2.326, 2.576) }} > 0
      then {{ scoring_parameter('falling_threshold') }}::numeric / 3
    when {{ drop_limit(earlier_score, earlier_low, score, high, 1.645, 1.96) }} > 0
      then {{ scoring_parameter('falling_threshold') }}::numeric
  end
{%- endmacro %}
