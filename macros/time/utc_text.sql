{#- SQL for a time as text in UTC, to the microsecond, whatever the session's settings: for times that travel from one
    query to the next. -#}
{% macro utc_text(moment) -%}
  to_char({{ moment }} at time zone 'UTC', 'YYYY-MM-DD HH24:MI:SS.US')
{%- endmacro %}

{#- The SQL literal of such a text, or of a Python datetime in UTC; null for none. -#}
{% macro utc_literal(moment) %}
  {%- if moment is none -%} {{ return('null::timestamptz') }} {%- endif -%}
  {%- set text = moment if moment is string else moment.replace(tzinfo=none).isoformat(' ') -%}
  {{ return("timestamptz '" ~ text ~ "+00'") }}
{% endmacro %}

{#- SQL for a time as people read it, in ISO 8601. -#}
{% macro iso_text(moment) -%}
  to_char({{ moment }} at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"')
{%- endmacro %}

{#- A text made by utc_text as people read it. -#}
{% macro shown_time(text) %}
  {{ return(none if text is none else text[:10] ~ 'T' ~ text[11:19] ~ 'Z') }}
{% endmacro %}
