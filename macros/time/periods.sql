{#- Length of a scoring period in hours (scoring.md §1): 24 or 1. -#}
{% macro period_hours() %}
  {%- set hours = constant('period_hours', {}) -%}
  {{ return(hours[valid_setting('scoring_period')] if hours else 24) }}
{% endmacro %}

{#- Restatement window: periods before the newest published as-of that a run scores again (scoring.md §9). -#}
{% macro lookback_periods() %}
  {%- set given = valid_setting('lookback_periods') -%}
  {{ return((3 if period_hours() == 24 else 24) if given is none else given) }}
{% endmacro %}

{#- Start of the UTC period that contains a time (scoring.md §1). date_bin takes a quarter of the time of
    date_trunc. -#}
{% macro period_start(moment) -%}
  date_bin({{ period_length() }}, {{ moment }}, timestamptz '2000-01-01 00:00:00+00')
{%- endmacro %}

{#- Start of the UTC hour that contains a time. -#}
{% macro hour_start(moment) -%}
  date_bin(interval '1 hour', {{ moment }}, timestamptz '2000-01-01 00:00:00+00')
{%- endmacro %}

{#- Length of a period in hours, because a day added to a timestamptz depends on the session's TimeZone. -#}
{% macro period_length() -%}
  interval '{{ period_hours() }} hours'
{%- endmacro %}

{#- Interval of a number of days. It is in hours, because a day added to a timestamptz depends on the session's
    TimeZone. -#}
{% macro days(n) -%}
  (({{ n }}) * interval '24 hours')
{%- endmacro %}

{#- Numbers of the periods from first to last, for nth_period. Periods are numbered, because generate_series over times
    depends on the session's TimeZone. -#}
{% macro each_period(first, last) -%}
  generate_series(0, (extract(epoch from ({{ last }} - {{ first }})) / {{ 3600 * period_hours() }})::integer)
{%- endmacro %}

{#- Start of the nth period after a period. -#}
{% macro nth_period(first, n) -%}
  {{ first }} + {{ n }} * {{ period_length() }}
{%- endmacro %}

{#- Start of the restatement window (scoring.md §9). -#}
{% macro lookback_start(newest_published_as_of, as_of) -%}
  least({{ newest_published_as_of }}, {{ as_of }}) - {{ lookback_periods() }} * {{ period_length() }}
{%- endmacro %}
