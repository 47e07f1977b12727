{#- The variable ciris_traces_from as an SQL literal: traces dated before it take no part in anything (scoring.md
    §2). -#}
{% macro traces_from() %}
  {{ return(utc_literal(time_variable('traces_from'))) }}
{% endmacro %}
