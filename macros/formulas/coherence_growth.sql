{#- scoring.md §7: f^-n, what a signal of n periods' age has lost of its weight, upside down: 1 or more, so that no
    digit is lost. 40 decimals, because power() keeps as many as its base has. f = 1 - decay_per_day * period in
    days. -#}
{% macro coherence_growth(n) -%}
  power(round(24::numeric, 40) / (24 - {{ scoring_parameter('decay_per_day') }}::numeric * {{ period_hours() }}), {{ n }})
{%- endmacro %}

{#- Start of the stretch of one memory that a time lies in. Stretches are the same in every run. -#}
{% macro stretch_start(memory, moment) -%}
  date_bin({{ memory }}, {{ moment }}, timestamptz '2000-01-01 00:00:00+00')
{%- endmacro %}
