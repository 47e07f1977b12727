{#- Publication: all mart tables change in one transaction, which also writes int_runs. Before that, the rows of the run
    are in staging tables, and int_built has their number. The tables are unlogged, because a subscriber of FOR ALL TABLES
    stops at a table that it does not have. After a crash of the server they are empty, so the number is compared before
    the publication. They have no autovacuum, which would lock them against DROP. A staging table exists from the time
    when the run has built the mart until the run publishes it. -#}

{#- Whether a model is a mart that is a table. -#}
{% macro is_mart_table(node) %}
  {{ return('marts' in node.fqn and node.config.materialized == 'replace_range') }}
{% endmacro %}

{#- The staging table of a mart. database/ownership.py uses the same name. -#}
{% macro staging_table(node) %}
  {{ return(api.Relation.create(
    database=node.database,
    schema=graph.nodes['model.ciris_scoring.int_runs'].schema,
    identifier=node.alias ~ '__next',
    type='table',
  )) }}
{% endmacro %}

{#- Drop the staging table of a mart, also in dbt's cache. -#}
{% macro drop_staging_table(node) %}
  {%- do run_query('drop table if exists ' ~ staging_table(node)) -%}
  {%- do adapter.cache_dropped(staging_table(node)) -%}
{% endmacro %}

{#- Relation with the rows that a mart will have after the publication of this run, with an alias (by default the mart's
    name). It is the mart itself if the run has no staged rows for it, because they are published already. -#}
{% macro rows_after_run(name, alias=none) %}
  {%- set mart = ref(name) -%}
  {%- set alias = ' as ' ~ (alias or name) -%}
  {%- if not execute or model.resource_type == 'unit_test' -%} {{ return(mart ~ alias) }} {%- endif -%}
  {%- set node = graph.nodes['model.ciris_scoring.' ~ name] -%}
  {%- if load_cached_relation(staging_table(node)) is none -%} {{ return(mart ~ alias) }} {%- endif -%}
  {%- set columns = get_quoted_csv(node.columns.keys()) -%}
  {%- set staged, rewritten = "select " ~ columns ~ " from " ~ staging_table(node), rewritten_rows(node) | trim -%}
  {%- set kept = " union all select " ~ columns ~ " from " ~ mart ~ " where not (" ~ rewritten ~ ")" -%}
  {{ return("(" ~ staged ~ (kept if rewritten != 'true' else "") ~ ")" ~ alias) }}
{% endmacro %}

{#- Rows of the marts that a Python model reads, by name of the mart. The alias is "scores". -#}
{% macro rows_of_marts(node) %}
  {%- set rows = {} -%}
  {%- for id in node.depends_on.nodes if id in graph.nodes and is_mart_table(graph.nodes[id]) -%}
    {%- do rows.update({graph.nodes[id].name: rows_after_run(graph.nodes[id].name, 'scores') | string}) -%}
  {%- endfor -%}
  {{ return(rows) }}
{% endmacro %}

{#- SQL that writes the rows of the run into the staging table of this mart. Constraints, key and unique indexes apply
    here, so that an invalid row stops the run before anything is published. -#}
{% macro stage(select) %}
  {%- set staging = staging_table(model) %}
  drop table if exists {{ staging }};
  {{ make_table(staging, select, is_staging=true) }}
  {%- for index in config.get('indexes', []) if index.get('unique') %}
  alter table {{ staging }} add unique ({{ index['columns'] | join(', ') }});
  {%- endfor %}
  analyze {{ staging }};
  {%- do adapter.cache_added(staging) -%}
{% endmacro %}

{#- Pre-hook of int_runs: SQL that publishes the staged rows. int_runs reads all marts, so the run has built them all
    (enter_node). A mart without staged rows is published already. int_runs counts the staged rows of the scores, and then
    its post-hook removes the counts. -#}
{% macro publish() %}
  {%- if not execute -%} {{ return('') }} {%- endif -%}
  {%- set statements, built = [], relation_as_left('int_built') -%}
  {%- for row in run_query("select node, staged_rows from " ~ built ~ " where staged_rows is not null order by node") -%}
    {%- set node = graph.nodes['model.ciris_scoring.' ~ row['node']] -%}
    {%- set staging = staging_table(node) -%}
    {%- set mart = api.Relation.create(database=node.database, schema=node.schema, identifier=node.alias, type='table') -%}
    {%- do statements.append(require_rows(staging, row['staged_rows'])) -%}
    {%- do statements.append(replace_rows(node, mart, rewritten_rows(node), staging)) -%}
    {%- do statements.append(update_statistics(node, mart, this_run()['cutoff'] is not none)) -%}
    {%- do statements.append('drop table ' ~ staging ~ ';') -%}
    {%- do adapter.cache_dropped(staging) -%}
  {%- endfor -%}
  {%- do statements.append("update " ~ ref('int_scoring_run') ~ " set published_by = '" ~ run_id() ~ "';") -%}
  {{ return(statements | join('\n')) }}
{% endmacro %}

{#- SQL that stops the publication if a staging table has lost rows. -#}
{% macro require_rows(staging, n_rows) %}
  do $rows$
  begin
    if (select count(*) from {{ staging }}) <> {{ n_rows }} then
      raise exception using message = {{ literal(
        "Nothing is published, because the table " ~ staging ~ " has lost rows of this run, as after a crash of the server. "
        ~ "Run again from the beginning: ciris-scoring run (in plain dbt: dbt build).") }};
    end if;
  end
  $rows$;
{% endmacro %}

{#- Post-hook of int_runs: SQL that adds the foreign keys of the marts, so that BI tools draw joins. They are not enforced,
    because the join of dim_agents holds by construction, and the check would cost as much as writing the rows. Needs
    PostgreSQL 18. -#}
{% macro declare_foreign_keys() %}
  {%- if not execute -%} {{ return('') }} {%- endif -%}
  {%- set statements = [] -%}
  {%- for node in graph.nodes.values() if is_mart_table(node) and distribution_of(node) == 'local' -%}
    {%- for constraint in node.constraints if constraint.type == 'foreign_key' -%}
      {%- set mart = api.Relation.create(database=node.database, schema=node.schema, identifier=node.alias) -%}
      {%- do statements.append(
        "if not exists (select from pg_constraint where contype = 'f' and conrelid = " ~ literal(mart) ~ "::regclass) then "
        ~ "execute " ~ literal(
          "alter table " ~ mart ~ " add foreign key (" ~ constraint.columns | join(", ") ~ ") references " ~ ref("dim_agents")
          ~ " (agent_id_hash) not enforced"
        ) ~ "; end if;") -%}
    {%- endfor -%}
  {%- endfor %}
  do $keys$
  begin
    if current_setting('server_version_num')::integer >= 180000 then
      {{ statements | join("\n      ") }}
    end if;
  end
  $keys$;
{% endmacro %}
