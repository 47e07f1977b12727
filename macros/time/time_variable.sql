{#- A time variable as a Python datetime: ISO 8601, or what YAML made of it; UTC without an offset. A regular expression
    decides, because Jinja catches no errors. -#}
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
