{#- Periods before the newest published as-of that a run scores again (scoring.md §9). -#}
{% macro lookback_periods() %}
  {%- set given = valid_setting('lookback_periods') -%}
  {{ return((3 if period_hours() == 24 else 48) if given is none else given) }}
{% endmacro %}
