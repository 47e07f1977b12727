{#- Distribution of tables over a Citus cluster. Only macros in this folder use Citus. On plain PostgreSQL all tables
    are local. -#}

{#- Whether the tables are on a cluster. -#}
{% macro is_distributed() %}
  {{ return(var('ciris_distribution') == 'citus') }}
{% endmacro %}

{#- Distribution of the table of a model or seed. agent: distributed by agent, so that an agent's rows are on the worker
    that has its traces. reference: a complete copy on every machine, for joins on the workers. local: on the
    coordinator only. -#}
{% macro distribution_of(node) %}
  {%- set by_agent = [
      'int_trace_checks', 'int_replays', 'int_agents', 'int_agent_events',
      'int_agent_hours', 'int_agent_periods', 'int_silent_agents', 'int_windows',
      'int_sustained_coherence',
      'fct_capacity_scores', 'fct_score_certainty', 'fct_capacity_alerts', 'fct_red_flags', 'fct_verdicts',
  ] -%}
  {%- if not is_distributed() -%} {{ return('local') }}
  {%- elif node.name in by_agent -%} {{ return('agent') }}
  {%- elif node.resource_type == 'seed' or node.name == 'int_scoring_run' or node.name.startswith('dim_') -%}
    {{ return('reference') }}
  {%- endif -%}
  {{ return('local') }}
{% endmacro %}

{#- SQL that distributes the new, empty table of this model or seed. -#}
{% macro distribute(table) -%}
  {%- set distribution = distribution_of(model) -%}
  {%- if distribution == 'agent' -%}
  select create_distributed_table({{ literal(table) }}, 'agent_id_hash', colocate_with => {{ literal(source('cirislens', 'covenant_traces')) }});
  {%- elif distribution == 'reference' -%}
  select create_reference_table({{ literal(table) }});
  {%- endif -%}
{%- endmacro %}

{#- Distribution of each table in the database, by schema and name: 'agent', 'reference' or 'local' as in
    distribution_of, or 'other'. Empty without Citus. -#}
{% macro distributions_found() %}
  {%- set found = {} -%}
  {%- if ask("select to_regclass('pg_dist_partition')")[0][0] is not none -%}
    {%- for row in ask("
        select
          n.nspname,
          c.relname,
          case
            when d.repmodel = 't' then 'reference'
            when d.partmethod <> 'h' or d.partmethod is null then 'local'
            when d.colocationid = traces.colocationid then 'agent'
            else 'other'
          end
        from pg_class as c
        inner join pg_namespace as n on c.relnamespace = n.oid
        left join pg_dist_partition as d on c.oid = d.logicalrelid
        left join (
          select t.colocationid
          from pg_dist_partition as t
          inner join pg_attribute as a
            on t.logicalrelid = a.attrelid and a.attnum = substring(t.partkey from 'varattno ([0-9]+)')::integer
          where
            t.logicalrelid = to_regclass(" ~ literal(source('cirislens', 'covenant_traces')) ~ ")
            and a.attname = 'agent_id_hash'
            and a.atttypid = 'text'::regtype
        ) as traces on true
        where c.relkind in ('r', 'p')") -%}
      {%- do found.update({(row[0], row[1]): row[2]}) -%}
    {%- endfor -%}
  {%- endif -%}
  {{ return(found) }}
{% endmacro %}

{#- Refuse sources, and tables of earlier runs, that are not distributed as this run expects. On a cluster,
    covenant_traces must be distributed by agent, and other sources must be reference tables. Tables do not move to a
    cluster or back. -#}
{% macro check_distribution() %}
  {%- set found = distributions_found() -%}
  {%- set variable = "variable ciris_distribution " ~ shown(setting('distribution')) -%}
  {%- set words = {
      'agent': 'distributed by agent_id_hash as text', 'reference': 'a reference table', 'local': 'a table of one server',
      'other': 'distributed, but either not by agent_id_hash as text, or not on the same workers as the traces',
      none: 'not a table, or Citus is missing',
  } -%}
  {%- if is_distributed() -%}
    {%- if source_shape() == 'events' -%}
      {{ refuse("Events (trace_events) can be read on one server only: omit the " ~ variable ~ ".") }}
    {%- endif -%}
    {%- for node in graph.sources.values() if node.unique_id.startswith('source.ciris_scoring.')
        and node.name in tables_of_shape(source_shape()) -%}
      {%- set current = found.get((node.schema, node.identifier)) -%}
      {%- set wanted = 'agent' if node.name == 'covenant_traces' else 'reference' -%}
      {%- if current != wanted -%}
        {{ refuse(
          "Source table " ~ node.schema ~ "." ~ node.identifier ~ " is " ~ words[current] ~ ", but with " ~ variable
          ~ " it must be " ~ words[wanted] ~ ". Run the statements of docs/scaling.md, or omit the variable.") }}
      {%- endif -%}
    {%- endfor -%}
  {%- endif -%}
  {%- for node in graph.nodes.values() if node.package_name == 'ciris_scoring' and node.resource_type in ['model', 'seed'] -%}
    {%- set current, wanted = found.get((node.schema, node.alias)), distribution_of(node) -%}
    {%- if current not in [none, wanted] -%}
      {{ refuse(
        "Table " ~ node.schema ~ "." ~ node.alias ~ " is " ~ words[current] ~ ", but with " ~ variable ~ " it must be "
        ~ words[wanted] ~ ". Set the variable to its earlier value, or choose another target schema, where the first run builds "
        ~ "every table again.") }}
    {%- endif -%}
  {%- endfor -%}
{% endmacro %}

{#- Column of the agent of traces that are being checked, for `partition by` and joins. On a cluster it is the distribution
    column as it was sent, which is the agent of every trace that has one. -#}
{% macro sent_agent() %}
  {{ return('agent_id_hash_as_sent' if is_distributed() else 'agent_id_hash') }}
{% endmacro %}

{#- Null in place of the empty agent_id_hash of a row without an agent. On a cluster it is computed, because Citus on
    PostgreSQL 15 and 16 refuses an outer join under a condition that is constant, such as null = 'agent'. -#}
{% macro null_agent() -%}
  {{ "nullif(agent_id_hash, '')" if is_distributed() else 'null::text' }}
{%- endmacro %}
