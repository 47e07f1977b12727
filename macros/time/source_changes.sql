{#- Where the lookback begins (section 9), which an ordinary run judges and scores again. -#}
{% macro lookback_start(newest_published_as_of, as_of) -%}
  least({{ newest_published_as_of }}, {{ as_of }}) - {{ lookback_periods() }} * {{ period_length() }}
{%- endmacro %}

{#- Number that no edit leaves as it was, for a row of a source table: PostgreSQL writes a changed row to another place
    (ctid) under another transaction (xmin). Null where the rows of a relation are not the stored ones (views, foreign
    tables), so that nothing is taken to be unchanged. -#}
{% macro row_version(relation) %}
  {%- set name = "to_regclass('" ~ relation | string | replace("'", "''") ~ "')" -%}
  {%- set rows = run_query("
    select bool_and(c.relkind in ('r', 'p')) as is_stored
    from pg_class as c
    where c.oid = " ~ name ~ " or c.oid in (select t.relid from pg_partition_tree(" ~ name ~ ") as t)
    having count(*) > 0") if execute else [] -%}
  {%- if rows | length > 0 and rows[0]['is_stored'] -%}
    {%- set row = adapter.quote(relation.identifier) -%}
    {{ return("hashtidextended(" ~ row ~ ".ctid, (" ~ row ~ ".tableoid::bigint << 32) # " ~ row ~ ".xmin::text::bigint)") }}
  {%- endif -%}
  {{ return('null::bigint') }}
{% endmacro %}

{#- Digest of the models that judge traces and sum what they judged, as they are written: after an upgrade that changes one,
    the lookback is judged anew. -#}
{% macro judging_code() %}
  {%- set codes = [] -%}
  {%- for node in (graph.nodes.values() if execute else [])
      if node.package_name == 'ciris_scoring' and 'judged_range' in node.config.get('meta', {}) -%}
    {%- do codes.append(node.unique_id ~ node.raw_code) -%}
  {%- endfor -%}
  {{ return(local_md5(codes | sort | join('\n'))) }}
{% endmacro %}

{#- Pre-hook of int_trace_verdicts: what another invocation has read of the source says nothing about verdicts that this
    one makes without reading it first (as dbt's --select can). -#}
{% macro forget_other_readings(source_periods) -%}
  delete from {{ source_periods }} where invocation_id <> '{{ invocation_id }}'
{%- endmacro %}
