{#- Length of a scoring period in hours (scoring.md §1): 24, or 1. -#}
{% macro period_hours() %}
  {%- set period = setting('scoring_period') -%}
  {%- if period not in ['day', 'hour'] -%}
    {{ exceptions.raise_compiler_error(
      "Variable ciris_scoring_period is " ~ shown(period) ~ ", but must be day or hour.") }}
  {%- endif -%}
  {{ return(24 if period == 'day' else 1) }}
{% endmacro %}
