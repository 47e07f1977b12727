{#- Where an increment starts (section 9), as an SQL literal: every incremental model rewrites what lies at or after
    it, and reads further back only what its windows need. -infinity for a model that is built from nothing.
    A literal, not a subquery, so that the planner sees how little an increment reads. -#}
{% macro cutoff() %}
  {%- set scoring_run = ref('int_scoring_run') -%}
  {%- if not (execute and is_incremental()) -%} {{ return("timestamptz '-infinity'") }} {%- endif -%}
  {%- set rows = run_query("select to_char(cutoff at time zone 'UTC', 'YYYY-MM-DD HH24:MI:SS') from "
      ~ scoring_run ~ " where isfinite(cutoff)") -%}
  {%- if rows | length == 0 -%} {{ return("timestamptz '-infinity'") }} {%- endif -%}
  {{ return("timestamptz '" ~ rows[0][0] ~ "+00'") }}
{% endmacro %}

{#- The same, further back by the longest memory a score has: the scoring window plus its baseline or its
    coherence window. -#}
{% macro read_from() %}
  {{ return(cutoff() ~ " - (select longest_memory from " ~ ref('int_scoring_run') ~ ")") }}
{% endmacro %}
