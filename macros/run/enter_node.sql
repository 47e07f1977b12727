{#- One run at a time. The row of int_scoring_run names the run and has its bounds. int_built has a row for each node of
    this run that is up to date. Every node writes in one transaction:
    1. it locks the row of int_scoring_run in int_built in shared mode (the fencing token); if that row names another run,
       the node stops. So a run that begins waits until the last transaction of an earlier run has ended, and the earlier
       run writes nothing any more. int_built is on one server also in a cluster, where a row of int_scoring_run cannot
       be locked in shared mode without deadlocks;
    2. it requires that the nodes that it reads are in int_built;
    3. it notes itself, and takes back the notes of the nodes that depend on it;
    4. it writes its rows.
    An invocation that builds int_scoring_run begins a run. Any other continues the run of the row: a part (--select),
    dbt retry, or a process per model (CIRIS_RUN). -#}

{#- State of this invocation: `checked` (whether the checks at its start were made), `run` (the row of the run),
    `source_types` (columns of the source tables) and `nodes_of_run` (belongs_to_run by unique id). A dictionary in dbt's
    graph, because dbt has no other place that the macros of all nodes share. -#}
{% macro kept() %}
  {%- if graph.get('ciris_scoring', {}).get('invocation_id') != invocation_id -%}
    {%- do graph.update({'ciris_scoring': {'invocation_id': invocation_id}}) -%}
  {%- endif -%}
  {{ return(graph['ciris_scoring']) }}
{% endmacro %}

{#- The run that this invocation has begun or continues (last_run), or none. It is read once. -#}
{% macro this_run() %}
  {%- if not execute or model.resource_type == 'unit_test' -%} {{ return(none) }} {%- endif -%}
  {%- set kept = kept() -%}
  {%- if 'run' not in kept -%} {%- do kept.update({'run': last_run()}) -%} {%- endif -%}
  {{ return(kept['run']) }}
{% endmacro %}

{#- Text of the environment variable CIRIS_RUN, which the processes of a run have in common if a scheduler starts one for
    each model; none for a run of one process. -#}
{% macro shared_run() %}
  {%- if not execute or setting('run_record') -%} {{ return(none) }} {%- endif -%}
  {{ return(env_var('CIRIS_RUN', '') | trim or none) }}
{% endmacro %}

{#- Whether a node depends on int_scoring_run. The others are its inputs, or views that do not change with a run. -#}
{% macro belongs_to_run(node) %}
  {%- set found = kept().setdefault('nodes_of_run', {}) -%}
  {%- if node.unique_id not in found -%}
    {%- do found.update({node.unique_id: 'model.ciris_scoring.int_scoring_run' in with_ancestors([node.unique_id])[1:]}) -%}
  {%- endif -%}
  {{ return(found[node.unique_id]) }}
{% endmacro %}

{#- Names of the models of the run that a node reads, also through an ephemeral model. -#}
{% macro parents_in_run(node) %}
  {%- set found, unique_ids = [], node.depends_on.nodes | list -%}
  {%- for unique_id in unique_ids if unique_id in graph.nodes -%}
    {%- set parent = graph.nodes[unique_id] -%}
    {%- if parent.config.materialized == 'ephemeral' -%} {%- do unique_ids.extend(parent.depends_on.nodes) -%}
    {%- elif belongs_to_run(parent) -%} {%- do found.append(parent.name) -%}
    {%- endif -%}
  {%- endfor -%}
  {{ return(found | unique | list) }}
{% endmacro %}

{#- Pre-hook of every node that writes: begins its transaction, and enters the node in the run. The transaction begins
    again, because the first query of a transaction fixes its isolation level. -#}
{% macro enter_node() %}
  {%- if not execute -%} {{ return('') }} {%- endif -%}
  {%- if flags.WHICH == 'clone' -%}
    {{ exceptions.raise_compiler_error(
      "dbt clone would make views, and hooks of the models would write through them into the tables of the original. Score "
      ~ "into the schema of this target instead: ciris-scoring run (in plain dbt: dbt build). To clone other packages, add "
      ~ "--exclude package:ciris_scoring.") }}
  {%- endif -%}
  {%- do require_checks() -%}
  {%- do begin_transaction() -%}
  {%- if belongs_to_run(model) -%} {%- do lock_run() -%} {%- do note_node() -%} {%- endif -%}
  {{ set_on_workers() }}
{% endmacro %}

{#- Lock the run until the transaction ends. The publication excludes other nodes. -#}
{% macro lock_run() %}
  {%- set run = this_run() -%}
  {%- if run is none -%}
    {{ exceptions.raise_compiler_error(
      "No run has begun in schema " ~ target.schema ~ ". Build everything first: ciris-scoring run (in plain dbt: dbt build).") }}
  {%- endif -%}
  {%- if setting('as_of') is not none and run['as_of'] != as_of_datetime().strftime('%Y-%m-%d %H:%M:%S.%f') -%}
    {{ exceptions.raise_compiler_error(
      "ciris_as_of is " ~ shown(setting('as_of')) ~ ", but the run that " ~ model.name ~ " would continue has the as-of "
      ~ shown_time(run['as_of']) ~ ". Leave ciris_as_of out, or build everything: ciris-scoring run (in plain dbt: dbt build).") }}
  {%- endif -%}
  {%- if (shared_run() and run['run_id'] != run_id()) or not run_query(
      "select 1 from " ~ relation_as_left('int_built') ~ " where node = 'int_scoring_run' and run_id = " ~ literal(run['run_id']) ~ " for " ~ ('update' if model.name == 'int_runs' else 'share')) -%}
    {{ exceptions.raise_compiler_error(
      "Another run has begun on schema " ~ target.schema ~ (", or the run " ~ shown(shared_run()) ~ " (environment variable CIRIS_RUN) "
      ~ "has not built int_scoring_run yet" if shared_run() else "") ~ ", so this run stops. When the other run has ended, run again if "
      ~ "necessary.") }}
  {%- endif -%}
{% endmacro %}

{#- Note that the run has built this node, which commits together with its rows. A second process that builds the same
    node waits here. -#}
{% macro note_node() %}
  {%- set built, run, parents = relation_as_left('int_built'), literal(this_run()['run_id']), [] -%}
  {%- for parent in parents_in_run(model) -%} {%- do parents.append(literal(parent)) -%} {%- endfor -%}
  {%- set parents = "array[" ~ parents | join(', ') ~ "]::text[]" -%}
  {%- set missing = run_query(
      forget([model.name]) ~ ";
      insert into " ~ built ~ " (node, run_id, parents) values (" ~ literal(model.name) ~ ", " ~ run ~ ", " ~ parents ~ ")
      on conflict (run_id, node) do update set parents = excluded.parents, staged_rows = null;
      select parents.node
      from unnest(" ~ parents ~ ") as parents (node)
      where parents.node not in (select built.node from " ~ built ~ " as built where built.run_id = " ~ run ~ ")
      order by 1").columns[0].values() -%}
  {%- if missing -%}
    {{ exceptions.raise_compiler_error(
      model.name ~ " reads " ~ missing | join(', ') ~ ", which the run of " ~ shown_time(this_run()['started_at']) ~ " has not built, "
      ~ "or whose input or blocking test has failed or changed since. Build it too (--select), or run from the beginning: ciris-scoring run "
      ~ "(in plain dbt: dbt build).") }}
  {%- endif -%}
{% endmacro %}

{#- SQL that takes back the notes of nodes and of all nodes that depend on them. -#}
{% macro forget(names) -%}
  {%- set built, rows = relation_as_left('int_built'), [] -%}
  {%- for name in names -%} {%- do rows.append('(' ~ literal(name) ~ ')') -%} {%- endfor -%}
  delete from {{ built }}
  where node in (
    with recursive outdated as (
      select changed.node from (values {{ rows | join(', ') }}) as changed (node)
      union
      select built.node from {{ built }} as built inner join outdated on outdated.node = any (built.parents)
    )
    select outdated.node from outdated
  )
{%- endmacro %}

{#- Pre-hook of int_scoring_run: waits until no node of an earlier run is writing, and no other run is beginning. -#}
{% macro wait_for_run() %}
  {%- if execute -%} {%- do run_query("select 1 from " ~ ref('int_built') ~ " where node = 'int_scoring_run' for update") -%} {%- endif -%}
{% endmacro %}

{#- Post-hook of int_scoring_run: from now on the row is the run of this invocation. Nothing is built or staged yet. -#}
{% macro begin_run() %}
  {%- if not execute -%} {{ return('') }} {%- endif -%}
  {%- do run_query("delete from " ~ ref('int_built') ~ "; insert into " ~ ref('int_built') ~ " (node, run_id) values ('int_scoring_run', "
      ~ literal(run_id()) ~ ")") -%}
  {%- for node in graph.nodes.values() if node.package_name == 'ciris_scoring' and is_mart_table(node) -%}
    {%- do drop_staging_table(node) -%}
  {%- endfor -%}
  {%- do kept().update({'run': last_run()}) -%}
{% endmacro %}
