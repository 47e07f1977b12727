{#- A time variable as a Python datetime. Its value is text in ISO 8601, or a date or time that YAML has parsed. Without
    an offset it is UTC. A regular expression checks it, because Jinja cannot catch errors. -#}
{% macro time_variable(name) %}
  {%- set given = setting(name) -%}
  {%- set iso_8601 = '^[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])'
      ~ '([T ]([01][0-9]|2[0-3]):[0-5][0-9](:[0-5][0-9]([.][0-9]{1,6})?)?([+-]([01][0-9]|2[0-3]):[0-5][0-9])?)?$' -%}
  {%- set text = (given | string | trim).replace('Z', '+00:00') -%}
  {%- set is_time = modules.re.match(iso_8601, text) is not none and text[:4] != '0000' -%}
  {%- if is_time -%}
    {%- set year, month = text[:4] | int, text[5:7] | int -%}
    {%- set february = 29 if year % 4 == 0 and (year % 100 != 0 or year % 400 == 0) else 28 -%}
    {%- set days_in_month = [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31][month - 1] -%}
  {%- endif -%}
  {%- if not is_time or text[8:10] | int > days_in_month -%}
    {{ exceptions.raise_compiler_error(
      "Variable ciris_" ~ name ~ " is " ~ shown(given) ~ ", but must be an ISO 8601 time, such as 2026-06-15 or "
      ~ "2026-06-15T00:00:00Z (without an offset it is taken as UTC).") }}
  {%- endif -%}
  {%- set datetime = modules.datetime.datetime -%}
  {%- set moment = datetime.fromisoformat(text) -%}
  {%- if moment.tzinfo is none -%} {{ return(moment.replace(tzinfo=modules.pytz.utc)) }} {%- endif -%}
  {%- set clock = moment.replace(tzinfo=none) -%}
  {%- if clock - datetime.min < moment.utcoffset() or clock - datetime.max > moment.utcoffset() -%}
    {{ exceptions.raise_compiler_error(
      "Variable ciris_" ~ name ~ " is " ~ shown(given) ~ ", which in UTC lies outside the years 0001 to 9999.") }}
  {%- endif -%}
  {{ return(moment.astimezone(modules.pytz.utc)) }}
{% endmacro %}

{#- The as-of of the run (scoring.md §1) in UTC: ciris_as_of, or the start of the run, cut to a period. -#}
{% macro as_of_datetime() %}
  {%- set shared = graph.get('as_of_of_shared_run') if execute else none -%}
  {%- if setting('as_of') is not none -%}
    {%- set moment = time_variable('as_of') -%}
  {%- elif shared -%}
    {%- set moment = modules.pytz.utc.localize(modules.datetime.datetime.fromisoformat(shared)) -%}
  {%- else -%}
    {%- set moment = run_started_at.astimezone(modules.pytz.utc) -%}
  {%- endif -%}
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
