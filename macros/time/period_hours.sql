{#- Length of a scoring period in hours (scoring.md §1): 24, or 1. -#}
{% macro period_hours() %}
  {%- set period, hours = setting('scoring_period'), constant('period_hours', {}) -%}
  {%- if hours and period not in hours | list -%}
    {{ exceptions.raise_compiler_error(
      "Variable ciris_scoring_period is " ~ shown(period) ~ ", but must be " ~ hours | join(' or ') ~ ".") }}
  {%- endif -%}
  {{ return(hours[period] if hours else 24) }}
{% endmacro %}
