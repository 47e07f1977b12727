{#- The run's as-of (section 1) as a Python datetime in UTC: the variable as_of, else the start of the run, cut
    down to a period end. -#}
{% macro as_of_datetime() %}
  {%- set given = var('as_of') -%}
  {%- if given is none -%}
    {%- set moment = run_started_at -%}
  {%- else -%}
    {%- set iso_8601 = '^[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])'
        ~ '([T ]([01][0-9]|2[0-3]):[0-5][0-9](:[0-5][0-9]([.][0-9]{1,6})?)?([+-][0-9]{2}:[0-9]{2})?)?$' -%}
    {%- set text = (given | string | trim).replace('Z', '+00:00') -%}
    {%- set is_time = modules.re.match(iso_8601, text) is not none -%}
    {%- if is_time -%}
      {%- set year, month = text[:4] | int, text[5:7] | int -%}
      {%- set february = 29 if year % 4 == 0 and (year % 100 != 0 or year % 400 == 0) else 28 -%}
      {%- set days_in_month = [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31][month - 1] -%}
    {%- endif -%}
    {%- if not is_time or year == 0 or text[8:10] | int > days_in_month -%}
      {{ exceptions.raise_compiler_error(
        "Variable as_of is '" ~ given ~ "', but must be an ISO 8601 time, such as 2026-06-15 or "
        ~ "2026-06-15T00:00:00Z (without an offset it is taken as UTC).") }}
    {%- endif -%}
    {%- set moment = modules.datetime.datetime.fromisoformat(text) -%}
  {%- endif -%}
  {%- set moment = moment.replace(tzinfo=modules.pytz.utc) if moment.tzinfo is none
      else moment.astimezone(modules.pytz.utc) -%}
  {{ return(moment.replace(hour=0 if period_hours() == 24 else moment.hour, minute=0, second=0, microsecond=0)) }}
{% endmacro %}

{#- The same as an SQL literal that does not depend on the session's TimeZone. -#}
{% macro as_of() %}
  {{ return("timestamptz '" ~ as_of_datetime().strftime('%Y-%m-%d %H:%M:%S') ~ "+00'") }}
{% endmacro %}
