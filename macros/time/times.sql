{#- A time variable as a Python datetime in UTC. If the package is not installed, the result is the time when dbt
    started, and check_package refuses the run. -#}
{% macro time_variable(name) %}
  {{ return(adapter.ciris_scoring_time(name, setting(name)) if adapter.ciris_scoring_time is defined else run_started_at) }}
{% endmacro %}

{#- The as-of of a run that begins (scoring.md §1) in UTC: ciris_as_of, or else the start of the run, rounded down to the end
    of a period. -#}
{% macro as_of_datetime() %}
  {%- if setting('as_of') is not none -%}
    {%- set moment = time_variable('as_of') -%}
  {%- else -%}
    {%- set moment = run_started_at.astimezone(modules.pytz.utc) -%}
  {%- endif -%}
  {{ return(period_end(moment)) }}
{% endmacro %}

{#- A datetime in UTC, rounded down to the end of a period. -#}
{% macro period_end(moment) %}
  {{ return(moment.replace(hour=0 if period_hours() == 24 else moment.hour, minute=0, second=0, microsecond=0)) }}
{% endmacro %}

{#- The as-of as an SQL literal. -#}
{% macro as_of() %}
  {{ return(utc_literal(as_of_datetime())) }}
{% endmacro %}

{#- The variable ciris_traces_from as an SQL literal. Earlier traces are ignored (scoring.md §2). -#}
{% macro traces_from() %}
  {{ return(utc_literal(time_variable('traces_from'))) }}
{% endmacro %}

{#- A time as text in UTC, to the microsecond, to pass from one query to the next. -#}
{% macro utc_text(moment) -%}
  to_char({{ moment }} at time zone 'UTC', 'YYYY-MM-DD HH24:MI:SS.US')
{%- endmacro %}

{#- Day of a time in UTC as text, such as 2026-06-15. -#}
{% macro utc_day(moment) -%}
  to_char({{ moment }} at time zone 'UTC', 'YYYY-MM-DD')
{%- endmacro %}

{#- SQL literal of a time, which is a text from utc_text or a Python datetime in UTC; null for none. -#}
{% macro utc_literal(moment) %}
  {%- if moment is none -%} {{ return('null::timestamptz') }} {%- endif -%}
  {%- set text = moment if moment is string else moment.replace(tzinfo=none).isoformat(' ') -%}
  {{ return("timestamptz '" ~ text ~ "+00'") }}
{% endmacro %}

{#- Time in ISO 8601 for messages, from a text by utc_text. -#}
{% macro shown_time(text) %}
  {{ return(none if text is none else text[:10] ~ 'T' ~ text[11:19] ~ 'Z') }}
{% endmacro %}
