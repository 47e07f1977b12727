{#- The UTC period a moment lies in, as the period's start (section 1). -#}
{% macro period_start(moment) -%}
  date_trunc('{{ var("scoring_period") }}', {{ moment }}, 'UTC')
{%- endmacro %}

{#- Length of a period. In hours, because a day added to a timestamptz depends on the session's TimeZone. -#}
{% macro period_length() -%}
  interval '{{ period_hours() }} hours'
{%- endmacro %}

{#- A number of days as an interval of hours, for the same reason. -#}
{% macro days(n) -%}
  (({{ n }}) * interval '24 hours')
{%- endmacro %}

{#- A number of days as a number of periods. -#}
{% macro days_in_periods(n) -%}
  (({{ n }}) * {{ 24 // period_hours() }})
{%- endmacro %}
