{#- The start of the UTC period that contains a moment (scoring.md §1). date_bin takes a quarter of date_trunc's time. -#}
{% macro period_start(moment) -%}
  date_bin({{ period_length() }}, {{ moment }}, timestamptz '2000-01-01 00:00:00+00')
{%- endmacro %}

{#- The start of the UTC hour that contains a moment. -#}
{% macro hour_start(moment) -%}
  date_bin(interval '1 hour', {{ moment }}, timestamptz '2000-01-01 00:00:00+00')
{%- endmacro %}

{#- In hours: a day added to a timestamptz depends on the session's TimeZone. -#}
{% macro period_length() -%}
  interval '{{ period_hours() }} hours'
{%- endmacro %}

{#- In hours, for the same reason. -#}
{% macro days(n) -%}
  (({{ n }}) * interval '24 hours')
{%- endmacro %}

{#- Number of periods in a duration of whole periods. -#}
{% macro periods_in(duration) -%}
  (extract(epoch from {{ duration }}) / {{ 3600 * period_hours() }})::integer
{%- endmacro %}

{#- Numbers of the periods from first to last, for nth_period. generate_series over times depends on the session's
    TimeZone, and workers of a cluster refuse it. -#}
{% macro each_period(first, last) -%}
  generate_series(0, {{ periods_in('(' ~ last ~ ' - ' ~ first ~ ')') }})
{%- endmacro %}

{#- The nth period after another. -#}
{% macro nth_period(first, n) -%}
  {{ first }} + {{ n }} * {{ period_length() }}
{%- endmacro %}
