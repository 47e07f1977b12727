{#- For tests: the rows of a model that this run has written, so that no test scans years of history. They are the
    range that the strategy replace_range rewrites (the model's meta.range_column and meta.range_opens), rows outside
    any range and, where meta.written_at_column names one, older rows that came in since the last publication. All
    rows of a model without a range, or when the run scored everything. Literals, so that the planner sees how few
    they are. -#}
{% macro in_increment(relation, alias=none) %}
  {%- set scoring_run = ref('int_scoring_run') -%}
  {%- set publications = relation_as_left('int_score_publications', 'intermediate') -%}
  {%- if publications is none or load_cached_relation(scoring_run) is none -%} {{ return('true') }} {%- endif -%}
  {%- set model = graph.nodes.values() | selectattr('resource_type', 'equalto', 'model')
      | selectattr('alias', 'equalto', relation.identifier) | first -%}
  {%- set meta = model['config']['meta'] -%}
  {%- if 'range_column' not in meta -%} {{ return('true') }} {%- endif -%}
  {%- set as_text = "at time zone 'UTC', 'YYYY-MM-DD HH24:MI:SS.US'" -%}
  {%- set rows = run_query(
      "select to_char(cutoff " ~ as_text ~ "), to_char(rejudged_from " ~ as_text ~ "), to_char(as_of " ~ as_text
      ~ "), (select to_char(max(published_at) " ~ as_text ~ ") from " ~ publications ~ ") from " ~ scoring_run
      ~ " where isfinite(rejudged_from)") -%}
  {%- if rows | length == 0 -%} {{ return('true') }} {%- endif -%}
  {%- set prefix = '' if alias is none else alias ~ '.' -%}
  {%- set range_column = prefix ~ meta['range_column'] -%}
  {%- set is_by_as_of = meta.get('range_opens') == '>' -%}
  {%- set written = [
    '(' ~ range_column ~ (' > ' if is_by_as_of else ' >= ') ~ "timestamptz '" ~ rows[0][0 if is_by_as_of else 1]
      ~ "+00' and " ~ range_column ~ (' <= ' if is_by_as_of else ' < ') ~ "timestamptz '" ~ rows[0][2] ~ "+00')",
    range_column ~ ' is null',
  ] -%}
  {%- if 'written_at_column' in meta -%}
    {%- do written.append(prefix ~ meta['written_at_column'] ~ " > timestamptz '" ~ rows[0][3] ~ "+00'") -%}
  {%- endif -%}
  {{ return('(' ~ written | join(' or ') ~ ')') }}
{% endmacro %}
