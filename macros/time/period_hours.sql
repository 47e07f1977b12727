{#- Length of a scoring period in hours (scoring.md §1): 24, or 1. -#}
{% macro period_hours() %}
  {{ return(24 if valid_setting('scoring_period') == 'day' else 1) }}
{% endmacro %}
