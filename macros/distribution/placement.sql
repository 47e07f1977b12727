{#- Distribution of each table on a Citus cluster: agent, by agent, beside the traces; reference, complete on every
    machine; local, on the coordinator. On plain PostgreSQL all tables are local. -#}
{% macro placement(name) %}
  {%- if not is_distributed() -%} {{ return('local') }} {%- endif -%}
  {%- set by_agent = [
      'int_trace_checks', 'int_traces_without_agent', 'int_replays', 'int_agents', 'int_agent_events',
      'int_agent_hours', 'int_agent_periods',
      'int_windows',
      'fct_capacity_scores', 'fct_capacity_alerts', 'fct_record_signs',
  ] -%}
  {%- set whole = [
      'int_scoring_run', 'int_scoring_parameters', 'int_source_periods', 'int_deferral_verdicts',
      'dim_agents', 'dim_capacity_categories', 'dim_scoring_parameters', 'dim_scoring_windows',
      'scoring_windows', 'capacity_categories', 'deferral_outcomes', 'components',
  ] -%}
  {{ return('agent' if name in by_agent else 'reference' if name in whole else 'local') }}
{% endmacro %}

{#- Whether the tables are on a Citus cluster. -#}
{% macro is_distributed() %}
  {{ return(setting('distribution') == 'citus') }}
{% endmacro %}

{#- Whether the database has the extension Citus. -#}
{% macro has_citus() %}
  {{ return(run_query("select to_regclass('pg_dist_partition')")[0][0] is not none) }}
{% endmacro %}

{#- Post-hook of seeds and of tables that a full refresh keeps: moves a table to its distribution. -#}
{% macro move_to_its_place(relation) %}
  {%- set place = placement(model.name) -%}
  {%- if not execute or place == 'local' -%} {{ return('') }} {%- endif -%}
  {%- set found = places_found().get((relation.schema, relation.identifier)) -%}
  {%- if found == 'apart' %}
  select alter_distributed_table({{ literal(relation) }}, colocate_with => {{ literal(source('cirislens', 'covenant_traces')) }});
  {%- elif found == 'local' %}
    {%- if place == 'agent' %}
  {{ distribute_by_agent(relation) }}
    {%- else %}
  select create_reference_table({{ literal(relation) }});
    {%- endif %}
  select truncate_local_data_after_distributing_table({{ literal(relation) }});
  {%- endif -%}
{% endmacro %}

{#- Distribute the table of a model by agent, beside the traces. -#}
{% macro distribute_by_agent(relation) -%}
  select create_distributed_table(
    {{ literal(relation) }},
    'agent_id_hash',
    colocate_with => {{ literal(source('cirislens', 'covenant_traces')) }}
  );
{%- endmacro %}

{#- Distribution of each table in the database, by schema and name, in the words of placement; apart: distributed
    otherwise than the traces. Empty without Citus. -#}
{% macro places_found() %}
  {%- set places = {} -%}
  {%- if has_citus() -%}
    {%- for row in run_query("
        select
          n.nspname,
          c.relname,
          case
            when d.partmethod = 'h' then case when d.colocationid = traces.colocationid then 'agent' else 'apart' end
            when d.repmodel = 't' then 'reference'
            else 'local'
          end as place
        from pg_class as c
        inner join pg_namespace as n on c.relnamespace = n.oid
        left join pg_dist_partition as d on c.oid = d.logicalrelid
        left join pg_dist_partition as traces
          on traces.logicalrelid = to_regclass(" ~ literal(source('cirislens', 'covenant_traces')) ~ ")
        where c.relkind = 'r'") -%}
      {%- do places.update({(row[0], row[1]): row[2]}) -%}
    {%- endfor -%}
  {%- endif -%}
  {{ return(places) }}
{% endmacro %}
