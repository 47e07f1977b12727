{#- The variable ciris_traces_from: earlier traces take no part in anything (scoring.md §2). -#}
{% macro traces_from() %}
  {{ return(utc_literal(time_variable('traces_from'))) }}
{% endmacro %}
