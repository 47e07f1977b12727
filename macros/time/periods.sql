{#- The UTC period a moment lies in, as the period's start (scoring.md §1). date_bin counts microseconds, in a quarter
    of the time that date_trunc takes to work out the date. -#}
{% macro period_start(moment) -%}
  date_bin({{ period_length() }}, {{ moment }}, timestamptz '2000-01-01 00:00:00+00')
{%- endmacro %}

{#- The UTC hour a moment lies in. -#}
{% macro hour_start(moment) -%}
  date_bin(interval '1 hour', {{ moment }}, timestamptz '2000-01-01 00:00:00+00')
{%- endmacro %}

{#- Length of a period. In hours, because a day added to a timestamptz depends on the session's TimeZone. -#}
{% macro period_length() -%}
  interval '{{ period_hours() }} hours'
{%- endmacro %}

{#- A number of days as an interval of hours, for the same reason. -#}
{% macro days(n) -%}
  (({{ n }}) * interval '24 hours')
{%- endmacro %}

{#- Number of periods in a duration that holds whole ones. -#}
{% macro periods_in(duration) -%}
  (extract(epoch from {{ duration }}) / {{ 3600 * period_hours() }})::integer
{%- endmacro %}

{#- Every period from a first to a last one of a relation, both ends of periods or both starts: a lateral of numbers, for
    nth_period. Over times generate_series depends on the session's TimeZone, and no worker of a cluster takes it. -#}
{% macro each_period(first, last) -%}
  generate_series(0, {{ periods_in('(' ~ last ~ ' - ' ~ first ~ ')') }})
{%- endmacro %}

{#- The period that is so many after another. -#}
{% macro nth_period(first, n) -%}
  {{ first }} + {{ n }} * {{ period_length() }}
{%- endmacro %}
