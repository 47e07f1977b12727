{#- Publication: all mart tables change in one transaction, which also writes int_runs. Before that, the rows of the run
    are in staging tables. The comment on a staging table is JSON with three keys. run: the invocation that built
    int_scoring_run. rows: the condition of the rows in the mart that the staged rows replace. n_rows: number of staged
    rows. The tables are unlogged, because a subscriber of FOR ALL TABLES stops at a table that it does not have. After
    a crash of the server they are empty, so the number is compared before the publication. They have no autovacuum,
    which would lock them against DROP. -#}

{#- Whether a model is a mart that is a table. -#}
{% macro is_mart_table(node) %}
  {{ return('marts' in node.fqn and node.config.materialized == 'replace_range') }}
{% endmacro %}

{#- The staging table of a mart. basics/ownership.py uses the same name. -#}
{% macro staging_table(node) %}
  {{ return(api.Relation.create(
    database=node.database,
    schema=graph.nodes['model.ciris_scoring.int_runs'].schema,
    identifier=node.alias ~ '__next',
    type='table',
  )) }}
{% endmacro %}

{#- Comment on the staging table of a mart as a dictionary, or none. is_current says whether the staged rows are of the
    last run. One query reads the comments of all marts. If this invocation has built int_scoring_run, only this
    invocation changes the staging tables. dbt's graph then keeps the comments, because a run needs them a hundred times:
    note_staged and publish keep them up to date. -#}
{% macro staged(node) %}
  {%- set known = graph.get('staged ' ~ invocation_id) -%}
  {%- if known is none -%}
    {%- set known = staged_now(none) -%}
    {%- if known['run'] == invocation_id and 'staged ' ~ invocation_id not in graph -%}
      {#- Another thread may have kept them since, and noted its staging table: setdefault returns what is kept. -#}
      {%- set known = graph.setdefault('staged ' ~ invocation_id, known) or known -%}
    {%- endif -%}
  {%- endif -%}
  {{ return(known.get(node.unique_id)) }}
{% endmacro %}

{#- Read the comments on the staging tables: the id of the last run as `run`, and the comments by unique id of the mart.
    mart: only this one; none for all marts. -#}
{% macro staged_now(mart) %}
  {%- set scoring_run, marts, known = relation_as_left('int_scoring_run'), [], {'run': none} -%}
  {%- for node in ([mart] if mart else graph.nodes.values()) if node.package_name == 'ciris_scoring' and is_mart_table(node) -%}
    {%- do marts.append('(' ~ literal(node.unique_id) ~ ', ' ~ literal(staging_table(node)) ~ ')') -%}
  {%- endfor -%}
  {%- set rows = [] if scoring_run is none else run_query("
      select
        marts.unique_id,
        obj_description(to_regclass(marts.staging), 'pg_class') as comment,
        (select run.invocation_id from " ~ scoring_run ~ " as run) as run
      from (values " ~ marts | join(', ') ~ ") as marts (unique_id, staging)") -%}
  {%- for row in rows -%}
    {%- do known.update({'run': row['run']}) -%}
    {%- if row['comment'] -%}
      {%- set comment = fromjson(row['comment']) -%}
      {%- do known.update({row['unique_id']: dict(comment, is_current=comment['run'] == row['run'])}) -%}
    {%- endif -%}
  {%- endfor -%}
  {{ return(known) }}
{% endmacro %}

{#- Read the comment on the staging table that this node has just written, and note it for later nodes. -#}
{% macro note_staged(node) %}
  {%- set comment = staged_now(node)[node.unique_id] -%}
  {%- if graph.get('staged ' ~ invocation_id) is not none -%}
    {%- do graph['staged ' ~ invocation_id].update({node.unique_id: comment}) -%}
  {%- endif -%}
  {{ return(comment) }}
{% endmacro %}

{#- Relation with the rows that a mart will have after the publication of this run, with an alias (by default the mart's
    name). It is the mart itself if the run has no staged rows for it, because they are published already or the run did
    not build the mart. -#}
{% macro rows_after_run(name, alias=none) %}
  {%- set mart = ref(name) -%}
  {%- set alias = ' as ' ~ (alias or name) -%}
  {%- if not execute or model.resource_type == 'unit_test' -%} {{ return(mart ~ alias) }} {%- endif -%}
  {%- set node = graph.nodes['model.ciris_scoring.' ~ name] -%}
  {%- set comment = staged(node) -%}
  {%- if comment is none or not comment['is_current'] -%} {{ return(mart ~ alias) }} {%- endif -%}
  {%- set columns = get_quoted_csv(node.columns.keys()) -%}
  {{ return("(
    select " ~ columns ~ " from " ~ staging_table(node) ~ "
    union all
    select " ~ columns ~ " from " ~ mart ~ " where not (" ~ comment['rows'] ~ ")
  )" ~ alias) }}
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
{% macro stage(select, condition) %}
  {%- set staging = staging_table(model) -%}
  {%- set known = graph.get('staged ' ~ invocation_id) -%}
  {%- set run = run_query("select invocation_id from " ~ relation_as_left('int_scoring_run'))[0][0] if known is none else known['run'] -%}
  drop table if exists {{ staging }};
  {{ make_table(staging, select, is_staging=true) }}
  {%- for index in config.get('indexes', []) if index.get('unique') %}
  alter table {{ staging }} add unique ({{ index['columns'] | join(', ') }});
  {%- endfor %}
  do $comment$
  begin
    execute 'comment on table {{ staging }} is ' || quote_literal((
      select {{ literal(tojson({'run': run, 'rows': condition})) }}::jsonb || jsonb_build_object('n_rows', count(*))
      from {{ staging }}
    ));
  end
  $comment$;
  analyze {{ staging }};
{% endmacro %}

{#- Pre-hook of int_runs: SQL that publishes the staged rows. A mart without staged rows of the run stops the
    publication, because it would differ from the other marts. Static marts (tag ciris_static) do not need staged rows.
    -#}
{% macro publish() %}
  {%- if not execute -%} {{ return('') }} {%- endif -%}
  {#- From now on, nothing is kept, because the publication drops the staging tables. -#}
  {%- do graph.update({'staged ' ~ invocation_id: none}) -%}
  {%- set statements, missing, comments, last = [], [], staged_now(none), last_run() -%}
  {%- for node in graph.nodes.values() if node.package_name == 'ciris_scoring' and node.resource_type == 'model'
      and is_mart_table(node) -%}
    {%- set comment = comments.get(node.unique_id) -%}
    {%- if comment is not none and comment['is_current'] -%}
      {%- set staging = staging_table(node) -%}
      {%- set mart = api.Relation.create(database=node.database, schema=node.schema, identifier=node.alias, type='table') -%}
      {%- do statements.append(require_rows(staging, comment['n_rows'], last)) -%}
      {%- if is_full_refresh() -%} {%- do statements.append(drop_old_columns(node, mart)) -%} {%- endif -%}
      {%- do statements.append(replace_rows(node, mart, comment['rows'], staging)) -%}
      {%- do statements.append(update_statistics(node, mart, comment['rows'] != 'true')) -%}
      {%- do statements.append('drop table ' ~ staging ~ ';') -%}
    {%- elif 'ciris_static' not in node.tags -%}
      {%- do missing.append(node.name) -%}
    {%- endif -%}
  {%- endfor -%}
  {%- set untested = missing_tests() -%}
  {%- if untested -%}
    {{ exceptions.raise_compiler_error(
      "Nothing is published, because " ~ untested | length ~ " tests have not passed in this run, such as " ~ untested[0] ~ ". Run the "
      ~ "tests of each model after the model, then int_runs again.") }}
  {%- endif -%}
  {%- if missing and not last['has_ended'] -%}
    {{ exceptions.raise_compiler_error(
      "Nothing is published, because all marts must change together, and this run has not built these marts of schema "
      ~ target.schema ~ ": " ~ missing | sort | join(', ') ~ ". Build them too; or run again from the beginning: " ~ command_of(last) ~ ".") }}
  {%- endif -%}
  {%- do statements.append("update " ~ ref('int_scoring_run') ~ " set published_by = '" ~ run_id() ~ "';") -%}
  {{ return(statements | join('\n')) }}
{% endmacro %}

{#- SQL that stops the publication if a staging table has lost rows. -#}
{% macro require_rows(staging, n_rows, last) %}
  do $rows$
  begin
    if (select count(*) from {{ staging }}) <> {{ n_rows }} then
      raise exception using message = {{ literal(
        "Nothing is published, because the table " ~ staging ~ " has lost rows of this run, as after a crash of the server. "
        ~ "Run again from the beginning: " ~ command_of(last) ~ ".") }};
    end if;
  end
  $rows$;
{% endmacro %}

{#- SQL that drops the columns of a mart that the model no longer has, so that they are not null from then on. Only a
    full refresh drops them. check_readers_of_old_columns has refused it if somebody else reads them. -#}
{% macro drop_old_columns(node, mart) %}
  {%- set dropped = [] -%}
  {%- for column in old_columns([node]) -%} {%- do dropped.append('drop column ' ~ adapter.quote(column['name'])) -%} {%- endfor -%}
  {{ return('alter table ' ~ mart ~ ' ' ~ dropped | join(', ') ~ ';' if dropped else '') }}
{% endmacro %}

{#- Columns of marts that their models no longer have: mart, name, and the views, functions or other objects that read
    the column, divided by "|". -#}
{% macro old_columns(nodes) %}
  {%- set columns = [] -%}
  {%- for node in nodes -%}
    {%- do columns.append('(' ~ literal(node.schema) ~ ', ' ~ literal(node.alias) ~ ', '
        ~ literal('{' ~ node.columns | join(',') ~ '}') ~ '::text[])') -%}
  {%- endfor -%}
  {{ return(run_query("
    select
      n.nspname || '.' || c.relname as mart,
      a.attname::text as name,
      (
        select string_agg(distinct
          coalesce('view ' || schemas.nspname || '.' || views.relname, pg_describe_object(d.classid, d.objid, d.objsubid)), '|')
        from pg_depend as d
        left join pg_rewrite as r on d.classid = 'pg_rewrite'::regclass and d.objid = r.oid
        left join pg_class as views on r.ev_class = views.oid
        left join pg_namespace as schemas on views.relnamespace = schemas.oid
        left join pg_constraint as k on d.classid = 'pg_constraint'::regclass and d.objid = k.oid and k.conrelid = c.oid
        where
          d.refclassid = 'pg_class'::regclass and d.refobjid = c.oid and d.refobjsubid = a.attnum and d.deptype = 'n'
          and k.oid is null
      ) as readers
    from (values " ~ columns | join(', ') ~ ") as models (schema_name, table_name, columns)
    inner join pg_namespace as n on models.schema_name = n.nspname
    inner join pg_class as c on n.oid = c.relnamespace and models.table_name = c.relname and c.relkind in ('r', 'p')
    inner join pg_attribute as a
      on c.oid = a.attrelid and a.attnum > 0 and not a.attisdropped and a.attname <> all (models.columns)
    order by 1, 2")) }}
{% endmacro %}

{#- Refuses a full refresh that would drop a column that a view or a function of somebody else reads. -#}
{% macro check_readers_of_old_columns() %}
  {%- set marts, mine, readers = [], [], [] -%}
  {%- for node in graph.nodes.values() if node.package_name == 'ciris_scoring' and node.resource_type == 'model' -%}
    {%- do mine.append('view ' ~ node.schema ~ '.' ~ node.alias) -%}
    {%- if is_mart_table(node) -%} {%- do marts.append(node) -%} {%- endif -%}
  {%- endfor -%}
  {%- for column in old_columns(marts) -%}
    {%- for reader in (column['readers'] or '').split('|') if reader and reader not in mine -%}
      {%- do readers.append(reader ~ " reads " ~ column['mart'] ~ "." ~ column['name']) -%}
    {%- endfor -%}
  {%- endfor -%}
  {%- if readers -%}
    {{ refuse(
      "This version of the project no longer has columns that others read, and a full refresh drops them: "
      ~ readers | join('; ') ~ ". Drop these readers, or change them (CHANGELOG.md names the new places); then run again.") }}
  {%- endif -%}
{% endmacro %}
