{#- Length of a scoring period in hours (scoring.md §1): 24, or 1. -#}
{% macro period_hours() %}
  {%- set hours = constant('period_hours', {}) -%}
  {{ return(hours[valid_setting('scoring_period')] if hours else 24) }}
{% endmacro %}
