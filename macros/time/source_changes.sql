{#- Where the lookback begins (scoring.md §9), which an ordinary run judges and scores again. -#}
{% macro lookback_start(newest_published_as_of, as_of) -%}
  least({{ newest_published_as_of }}, {{ as_of }}) - {{ lookback_periods() }} * {{ period_length() }}
{%- endmacro %}

{#- Number that no edit leaves as it was, for a row of a source table: PostgreSQL writes a changed row to another place
    (ctid) under another transaction (xmin). Null where the rows of a relation are not the stored ones (views, foreign
    tables), so that nothing is taken to be unchanged. row: its name in the query, where that is not the table's. -#}
{% macro row_version(relation, row=none) %}
  {%- set name = "to_regclass('" ~ relation | string | replace("'", "''") ~ "')" -%}
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

{#- Digest of all that decides a verdict, but for the sources: the models that clean, judge and sum what they judged, every
    macro, the seeds, the parameters and the package's version. After a change the lookback is judged anew. -#}
{% macro judging_code() %}
  {%- if not execute -%} {{ return('') }} {%- endif -%}
  {%- set codes = [] -%}
  {%- for node in graph.nodes.values() if node.package_name == 'ciris_scoring' and node.resource_type in ['model', 'seed'] -%}
    {%- if node.resource_type == 'seed' or 'staging' in node.fqn or 'judged_range' in node.config.meta -%}
      {%- do codes.append(node.unique_id ~ ' ' ~ node.checksum.checksum ~ ' ' ~ node.config.meta.get('package_version')) -%}
    {%- endif -%}
  {%- endfor -%}
  {%- for name, macro in context['ciris_scoring'].items() -%}
    {%- do codes.append(name ~ ' ' ~ macro.macro.macro_sql) -%}
  {%- endfor -%}
  {%- for name in scoring_parameter_definitions() -%}
    {%- do codes.append(name ~ ' ' ~ scoring_parameter_text(name)) -%}
  {%- endfor -%}
  {%- for name in ['scoring_period', 'traces_from'] -%}
    {%- do codes.append(name ~ ' ' ~ setting(name)) -%}
  {%- endfor -%}
  {%- do codes.append('source ' ~ source_shape() ~ ' ' ~ trace_fields()) -%}
  {{ return(local_md5(codes | sort | join('\n'))) }}
{% endmacro %}

{#- Pre-hook of int_trace_verdicts: what another invocation has read of the source says nothing about verdicts that this
    one makes without reading it first (as dbt's --select can). -#}
{% macro forget_other_readings(source_periods) -%}
  delete from {{ source_periods }} where invocation_id <> '{{ invocation_id }}'
{%- endmacro %}
