{#- Refuses a run in which another role could run code as the scoring role, for example by a trigger, or in which a view
    is in the place of a table. Runs before any table of this project is read or written, so a refusal is not logged.
    python/ciris_scoring/database/ownership.py has the query. -#}
{% macro check_ownership() %}
  {%- set places = [] -%}
  {%- for node in graph.nodes.values() if node.resource_type in ['model', 'seed'] -%}
    {%- if node.package_name == 'ciris_scoring' -%}
      {%- do places.append([node.schema, node.alias, 'table' if node.config.materialized in ['replace_range', 'seed'] else 'view']) -%}
    {%- elif node.resource_type == 'seed' and node.name == 'permissions' -%}
      {%- do places.append([node.schema, node.alias, 'view']) -%}
    {%- endif -%}
  {%- endfor -%}
  {%- for row in run_query(adapter.ciris_scoring_ownership_query(places)) -%}
    {{ exceptions.raise_compiler_error(row['message'] ~ ' ' ~ row['remedy']) }}
  {%- endfor -%}
{% endmacro %}

{#- Refuses a standby, which can only be read. Also refuses schema names that PostgreSQL would shorten, because dbt would not find the tables in those schemas again.
    Runs before the log is written. -#}
{% macro check_server() %}
  {%- if run_query("select pg_catalog.pg_is_in_recovery()")[0][0] -%}
    {{ exceptions.raise_compiler_error(
      "Database " ~ target.dbname ~ " at " ~ target.host ~ " is a standby, which can only be read. Connect to the primary: "
      ~ "correct host and port of the target " ~ target.name ~ ".") }}
  {%- endif -%}
  {%- for node in graph.nodes.values() if node.package_name == 'ciris_scoring' and node.resource_type in ['model', 'seed']
      and node.schema.encode() | length > 63 -%}
    {{ exceptions.raise_compiler_error(
      "Schema " ~ node.schema ~ " has " ~ node.schema.encode() | length ~ " bytes, but PostgreSQL keeps 63 of a name. Name a "
      ~ "shorter schema in target " ~ target.name ~ " of the profile.") }}
  {%- endfor -%}
{% endmacro %}

{#- Whether this invocation reads or writes tables of this project. -#}
{% macro uses_our_tables() %}
  {%- if not execute or flags.WHICH not in ['run', 'build', 'seed', 'test'] or selected_resources is not defined -%}
    {{ return(false) }}
  {%- endif -%}
  {%- set ours = [] -%}
  {%- for unique_id in selected_resources if unique_id.split('.')[1] == 'ciris_scoring' -%}
    {%- do ours.append(unique_id) -%}
  {%- endfor -%}
  {{ return(ours | length > 0 or selected_resources | length == 0) }}
{% endmacro %}
