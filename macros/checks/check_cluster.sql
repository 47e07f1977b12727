{#- The cluster must have the extension Citus, and sources beside which our tables can be distributed. -#}
{% macro check_cluster() %}
  {%- if not has_citus() -%}
    {{ refuse(
      "Variable ciris_distribution is citus, but database " ~ target.dbname ~ " has no extension citus. On the coordinator and "
      ~ "every worker: create extension citus; or leave the variable out.") }}
  {%- endif -%}
  {%- for node in graph.sources.values() if node.unique_id.startswith('source.ciris_scoring.')
      and node.name in tables_of_shape(source_shape()) -%}
    {%- set table = node.schema ~ "." ~ node.identifier -%}
    {%- set relation = literal(adapter.quote(node.schema) ~ "." ~ adapter.quote(node.identifier)) -%}
    {%- set is_traces = node.name == 'covenant_traces' -%}
    {%- set rows = run_query("
      select d.partmethod, d.repmodel, a.attname, format_type(a.atttypid, null) as column_type
      from pg_dist_partition as d
      left join pg_attribute as a
        on d.logicalrelid = a.attrelid and a.attnum = nullif(substring(d.partkey from 'varattno ([0-9]+)'), '')::integer
      where d.logicalrelid = to_regclass(" ~ relation ~ ")") -%}
    {%- set found = rows[0] if rows | length > 0 else none -%}
    {%- set keys = run_query("
      select x.indexrelid::regclass::text as name, string_agg(a.attname, ', ' order by array_position(x.indkey::smallint[], a.attnum))
        as columns
      from pg_index as x
      inner join pg_attribute as a on x.indrelid = a.attrelid and a.attnum = any(x.indkey)
      where x.indisunique and x.indrelid = to_regclass(" ~ relation ~ ")
      group by x.indexrelid
      having not bool_or(a.attname = 'agent_id_hash')") if is_traces and found is none else [] -%}
    {%- set fault = none -%}
    {%- if keys | length > 0 -%}
      {%- set fault = "Variable ciris_distribution is citus, but the key (" ~ keys[0]['columns'] ~ ") of " ~ table ~ " does not "
        ~ "hold agent_id_hash, as a key of a distributed table must. Drop " ~ keys[0]['name'] ~ " and add: primary key "
        ~ "(agent_id_hash, " ~ keys[0]['columns'] ~ "); docs/scaling.md has every step." -%}
    {%- elif is_traces and (found is none or found['partmethod'] != 'h' or found['attname'] != 'agent_id_hash') -%}
      {%- set fault = "Variable ciris_distribution is citus, but source table " ~ table ~ " is not distributed by agent_id_hash. "
        ~ "Give it a key that has the column, such as (agent_id_hash, trace_id, timestamp), then: select "
        ~ "create_distributed_table('" ~ table ~ "', 'agent_id_hash');" -%}
    {%- elif is_traces and found['column_type'] != 'text' -%}
      {%- set fault = "Column agent_id_hash of " ~ table ~ " is " ~ found['column_type'] ~ ", but on Citus it must be text, or no "
        ~ "table of ours stands beside it: undistribute the table, alter table " ~ table ~ " alter column agent_id_hash type "
        ~ "text; and distribute it again." -%}
    {%- elif not is_traces and (found is none or found['repmodel'] != 't') -%}
      {%- set fault = "Variable ciris_distribution is citus, but source table " ~ table ~ " is not a reference table: select "
        ~ "create_reference_table('" ~ table ~ "');" -%}
    {%- endif -%}
    {%- if fault is not none -%} {{ refuse(fault) }} {%- endif -%}
  {%- endfor -%}
{% endmacro %}

{#- Tables of earlier runs must have the distribution that this run expects. A full refresh moves them to a cluster, but
    not back: Citus cannot turn a view of a distributed table into a view of a local table. -#}
{% macro check_places() %}
  {%- set places = {} if is_full_refresh() and is_distributed() else places_found() -%}
  {%- set words = {
      'agent': 'on the workers', 'reference': 'on every machine', 'local': 'on the coordinator',
      'apart': 'on the workers, cut up otherwise than the traces',
  } -%}
  {%- for node in graph.nodes.values() if node.package_name == 'ciris_scoring' and node.resource_type in ['model', 'seed'] -%}
    {%- set found = places.get((node.schema, node.alias)) -%}
    {%- if found is not none and found != placement(node.name)
        and not (is_distributed() and node.config.full_refresh == false) -%}
      {{ refuse(
        "Table " ~ node.schema ~ "." ~ node.alias ~ " stands " ~ words[found] ~ ", where variable ciris_distribution "
        ~ shown(setting('distribution')) ~ " does not put it. Set the variable to what it was, or "
        ~ ("have every table rebuilt: ciris-scoring run --full-refresh --allow-rescoring." if is_distributed() else
           "choose another target schema, where the first run builds every table from scratch.")) }}
    {%- endif -%}
  {%- endfor -%}
{% endmacro %}
