{#- A part of the project (--select), or the rest of a failed run (dbt retry), may be built if everything it rests on
    was built by the last run; else a score would mix two runs. -#}
{% macro check_parts(models) %}
  {%- set last = last_run() -%}
  {%- if last is none or last['has_ended'] or 'model.ciris_scoring.int_scoring_run' in models -%} {{ return('') }} {%- endif -%}
  {%- set built, failed_tests = fromjson(last['built_nodes']), fromjson(last['failed_tests']) -%}
  {%- set missing = [] -%}
  {%- for unique_id in ancestors(models) + failed_tests if unique_id not in built + selected_resources -%}
    {%- do missing.append(unique_id.split('.')[2]) -%}
  {%- endfor -%}
  {#- dbt retry selects nothing and builds whatever failed, which is only known if that run came to its end. -#}
  {%- if missing and selected_resources or not (built or models) -%}
    {%- do refuse(
      "The run that began at " ~ shown_time(last['started_at']) ~ " did not end, so what would be built in schema "
      ~ target.schema ~ " is part old, part new" ~ (" (" ~ missing[0] ~ " is from an earlier run)" if missing else "")
      ~ ". Run again from the beginning: " ~ command_of(last)
      ~ ("." if last['is_full_refresh'] or last['backfill_first'] else " (in plain dbt: dbt build).")) -%}
  {%- endif -%}
{% endmacro %}

{#- Unique ids of the tables that each run writes and that these models, but not themselves, are made of. All descend
    from int_scoring_run; its own parents may have been built by another command. -#}
{% macro ancestors(models) %}
  {%- set found = models | list -%}
  {%- for unique_id in found if unique_id in graph.nodes -%}
    {%- for parent in graph.nodes[unique_id].depends_on.nodes if parent not in found and parent in graph.nodes -%}
      {%- if unique_id != 'model.ciris_scoring.int_scoring_run' -%} {%- do found.append(parent) -%} {%- endif -%}
    {%- endfor -%}
  {%- endfor -%}
  {%- set tables = [] -%}
  {%- for unique_id in found if unique_id not in models -%}
    {%- set node = graph.nodes[unique_id] -%}
    {%- if node.config.materialized == 'replace_range' and 'ciris_static' not in node.tags and 'staging' not in node.fqn -%}
      {%- do tables.append(unique_id) -%}
    {%- endif -%}
  {%- endfor -%}
  {{ return(tables) }}
{% endmacro %}

{#- Notes in int_scoring_run which nodes this invocation built and which blocking tests failed. -#}
{% macro note_parts(built, failed) %}
  {%- set scoring_run = relation_as_left('int_scoring_run') -%}
  {%- if scoring_run is none or not (built or failed) -%} {{ return('') }} {%- endif -%}
  {%- set names, failed_tests = [], [] -%}
  {%- for unique_id in built | map(attribute='node.unique_id') -%}
    {%- do names.append(literal(unique_id)) -%}
  {%- endfor -%}
  {%- for result in failed if result.node.resource_type == 'test' -%}
    {%- do failed_tests.append(literal(result.node.unique_id)) -%}
  {%- endfor -%}
  {#- A run that lost its lock notes nothing: an error here would hide the one that stopped it. -#}
  {%- set holders = run_query(run_lock_holders()).columns[0].values() | list -%}
  {%- set holder = setting('lock_holder_pid') -%}
  {%- if (holders if holder is none else holder not in holders) -%} {{ return('') }} {%- endif -%}
  {%- do write_under_lock() -%}
  {%- do run_query("
    update " ~ scoring_run ~ "
    set
      built_nodes = built_nodes || array[" ~ names | join(', ') ~ "]::text[],
      failed_tests = array(
        select test from unnest(failed_tests) as test where test <> all (array[" ~ names | join(', ') ~ "]::text[])
        union
        select unnest(array[" ~ failed_tests | join(', ') ~ "]::text[])
      );
    commit;
    begin") -%}
{% endmacro %}
