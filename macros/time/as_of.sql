{#- The run's as-of (scoring.md §1) as a Python datetime in UTC: the variable ciris_as_of, else the start of the run,
    cut down to a period end. -#}
{% macro as_of_datetime() %}
  {%- set moment = run_started_at.astimezone(modules.pytz.utc) if setting('as_of') is none else time_variable('as_of') -%}
  {{ return(moment.replace(hour=0 if period_hours() == 24 else moment.hour, minute=0, second=0, microsecond=0)) }}
{% endmacro %}

{#- The same as an SQL literal. -#}
{% macro as_of() %}
  {{ return(utc_literal(as_of_datetime())) }}
{% endmacro %}
