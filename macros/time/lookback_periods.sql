{#- Periods before the newest published as-of that a run scores again (scoring.md §9). -#}
{% macro lookback_periods() %}
  {%- set given = setting('lookback_periods') -%}
  {%- if given is none -%} {{ return(3 if period_hours() == 24 else 48) }} {%- endif -%}
  {%- if given is not integer or given is boolean or given < 0 -%}
    {{ exceptions.raise_compiler_error(
      "Variable ciris_lookback_periods is " ~ shown(given) ~ ", but must be a whole number of 0 or more periods.") }}
  {%- endif -%}
  {{ return(given) }}
{% endmacro %}
