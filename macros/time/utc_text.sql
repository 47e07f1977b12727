{#- A time as text in UTC, to the microsecond, whatever the session's settings: for times that go from one query to the
    next. -#}
{% macro utc_text(moment) -%}
  to_char({{ moment }} at time zone 'UTC', 'YYYY-MM-DD HH24:MI:SS.US')
{%- endmacro %}

{#- The literal of such a text, or of a Python datetime in UTC; null for none. -#}
{% macro utc_literal(moment) %}
  {%- if moment is none -%} {{ return('null::timestamptz') }} {%- endif -%}
  {%- set text = moment if moment is string else moment.replace(tzinfo=none).isoformat(' ') -%}
  {{ return("timestamptz '" ~ text ~ "+00'") }}
{% endmacro %}

{#- A text of utc_text in ISO 8601. -#}
{% macro shown_time(text) %}
  {{ return(none if text is none else text[:10] ~ 'T' ~ text[11:19] ~ 'Z') }}
{% endmacro %}
