{#- Start of the restatement window (scoring.md §9). -#}
{% macro lookback_start(newest_published_as_of, as_of) -%}
  least({{ newest_published_as_of }}, {{ as_of }}) - {{ lookback_periods() }} * {{ period_length() }}
{%- endmacro %}

{#- A number that changes with every edit of a source row, computed from the row's position (ctid) and transaction
    (xmin). Null for views and foreign tables, which always count as changed. row: alias of the row. -#}
{% macro row_version(relation, row=none) %}
  {%- set name = "to_regclass(" ~ literal(relation) ~ ")" -%}
  {%- set rows = run_query("
    select bool_and(c.relkind in ('r', 'p')) as is_stored
    from pg_class as c
    where c.oid = " ~ name ~ " or c.oid in (select t.relid from pg_partition_tree(" ~ name ~ ") as t)
    having count(*) > 0") if execute else [] -%}
  {%- if rows | length > 0 and rows[0]['is_stored'] -%}
    {%- set row = row or adapter.quote(relation.identifier) -%}
    {{ return("hashtidextended(" ~ row ~ ".ctid, (" ~ row ~ ".tableoid::bigint << 32) # " ~ row ~ ".xmin::text::bigint)") }}
  {%- endif -%}
  {{ return('null::bigint') }}
{% endmacro %}

{#- Digest of everything, except the sources, that decides how a trace is checked. If it changes, traces in the
    restatement window are checked again. The digest covers all code: an irrelevant change of code only costs one more
    check, but an ignored change could leave wrong checks. -#}
{% macro checking_code() %}
  {%- if not execute -%} {{ return('') }} {%- endif -%}
  {%- set codes = [] -%}
  {%- for node in graph.nodes.values() if node.package_name == 'ciris_scoring' and node.resource_type in ['model', 'seed'] -%}
    {%- if node.resource_type == 'seed' or 'staging' in node.fqn or node.config.meta.get('range', 'as_of') not in ['as_of', 'run_id'] -%}
      {%- do codes.append(node.unique_id ~ ' ' ~ node.checksum.checksum ~ ' ' ~ node.config.meta.get('package_version')) -%}
    {%- endif -%}
  {%- endfor -%}
  {%- for name, macro in context['ciris_scoring'].items() -%}
    {%- do codes.append(name ~ ' ' ~ macro.macro.macro_sql) -%}
  {%- endfor -%}
  {%- do codes.append('constants ' ~ adapter.ciris_scoring_constants()) -%}
  {%- for name in scoring_parameter_definitions() -%}
    {%- do codes.append(name ~ ' ' ~ scoring_parameter_text(name)) -%}
  {%- endfor -%}
  {%- for name in ['scoring_period', 'traces_from', 'scored_run_kinds'] -%}
    {%- do codes.append(name ~ ' ' ~ setting(name)) -%}
  {%- endfor -%}
  {%- do codes.append('source ' ~ source_shape() ~ ' ' ~ trace_fields()) -%}
  {%- do codes.append('marks ' ~ mark_columns('covenant_traces') ~ mark_columns('trace_events')) -%}
  {{ return(local_md5(codes | sort | join('\n'))) }}
{% endmacro %}
