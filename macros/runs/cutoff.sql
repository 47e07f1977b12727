{#- Where an increment starts (section 9), as an SQL literal: every model by as-of scores the as-ofs after it, and
    reads further back only what its windows need. -infinity for a model that is built from nothing.
    A literal, not a subquery, so that the planner sees how little an increment reads. -#}
{% macro cutoff() %}
  {{ return(bound_of_run('cutoff')) }}
{% endmacro %}

{#- From when on a run judges the traces again: the cutoff, but for a backfill, which judges more than it scores. -#}
{% macro rejudged_from() %}
  {{ return(bound_of_run('rejudged_from')) }}
{% endmacro %}

{% macro bound_of_run(column) %}
  {%- set scoring_run = ref('int_scoring_run') -%}
  {%- if not (execute and is_incremental()) -%} {{ return("timestamptz '-infinity'") }} {%- endif -%}
  {%- set rows = run_query("select to_char(" ~ column ~ " at time zone 'UTC', 'YYYY-MM-DD HH24:MI:SS') from "
      ~ scoring_run ~ " where isfinite(" ~ column ~ ")") -%}
  {%- if rows | length == 0 -%} {{ return("timestamptz '-infinity'") }} {%- endif -%}
  {{ return("timestamptz '" ~ rows[0][0] ~ "+00'") }}
{% endmacro %}

{#- Before the cutoff by the longest scoring window: no window that this run scores begins earlier. -#}
{% macro windows_from() %}
  {%- set longest_window = 'select max(' ~ days('windows.window_days') ~ ') from ' ~ ref('scoring_windows') ~ ' as windows' -%}
  {{ return(cutoff() ~ ' - (' ~ longest_window ~ ')') }}
{% endmacro %}

{#- Before the cutoff by the longest memory a score has: the scoring window plus its baseline or its coherence
    window. -#}
{% macro read_from() %}
  {{ return(cutoff() ~ " - (select longest_memory from " ~ ref('int_scoring_run') ~ ")") }}
{% endmacro %}
