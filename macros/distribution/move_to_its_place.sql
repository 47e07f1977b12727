{#- Hook of seeds and of tables that a full refresh keeps: SQL that moves one, with its rows, to its place on a cluster. -#}
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

{#- SQL that distributes the table of a model, each agent beside its traces. -#}
{% macro distribute_by_agent(relation) -%}
  select create_distributed_table(
    {{ literal(relation) }},
    'agent_id_hash',
    colocate_with => {{ literal(source('cirislens', 'covenant_traces')) }}
  );
{%- endmacro %}

{#- Where each table of the database is, in the words of placement, by schema and name; apart: distributed otherwise
    than the traces. Empty without Citus. -#}
{% macro places_found() %}
  {%- set places = {} -%}
  {%- if run_query("select to_regclass('pg_dist_partition')")[0][0] is not none -%}
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
