{#- For tests: the rows that this run wrote, so that no test scans years of history. They lie in the range of the column
    meta.range of the model, or have a null there; all rows, if the model has no range or the run scored everything.
    Literals show the planner how few they are. -#}
{% macro in_increment(relation, alias=none) %}
  {%- set scoring_run = ref('int_scoring_run') -%}
  {%- if not execute or load_cached_relation(scoring_run) is none -%} {{ return('true') }} {%- endif -%}
  {%- set model = graph.nodes.values() | selectattr('resource_type', 'equalto', 'model')
      | selectattr('package_name', 'equalto', 'ciris_scoring')
      | selectattr('alias', 'equalto', relation.identifier) | first -%}
  {%- set column = model['config']['meta'].get('range') -%}
  {%- set is_scored = column == 'as_of' -%}
  {%- if column in [none, 'last_event_at', 'run_id'] -%} {{ return('true') }} {%- endif -%}
  {%- set rows = run_query(
      "select " ~ utc_text('cutoff' if is_scored else 'rejudged_from') ~ " as since, " ~ utc_text('as_of') ~ " as until from " ~ scoring_run
      ~ " where isfinite(rejudged_from)") -%}
  {%- if rows | length == 0 -%} {{ return('true') }} {%- endif -%}
  {%- set since, until = utc_literal(rows[0]['since']), utc_literal(rows[0]['until']) -%}
  {%- set column = column if alias is none else alias ~ '.' ~ column -%}
  {%- set in_range = column ~ ' > ' ~ since ~ ' and ' ~ column ~ ' <= ' ~ until if is_scored
      else column ~ ' >= ' ~ since ~ ' and ' ~ column ~ ' < ' ~ until -%}
  {{ return('((' ~ in_range ~ ') or ' ~ column ~ ' is null)') }}
{% endmacro %}
