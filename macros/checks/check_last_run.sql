{#- Refuses a command that would mix data of two runs or of two parameter sets. A command may build only a part of the
    project (--select), or the rest of a failed run (dbt retry). Then the inputs and parameters must be those of the
    last run. After an unfinished full refresh, a run must repeat it. -#}
{% macro check_last_run(models) %}
  {%- set last = last_run() -%}
  {%- if shared_run() and 'model.ciris_scoring.int_scoring_run' not in models -%}
    {%- if not that_follow_run(models) -%} {{ return('') }} {%- endif -%}
    {%- if last is none or last['run_id'] != run_id() -%}
      {%- do refuse("The run " ~ shown(shared_run()) ~ " (environment variable CIRIS_RUN) has not built int_scoring_run in schema "
        ~ target.schema ~ ", or another run has begun after it. Start all processes of this run again, first "
        ~ "int_scoring_run and the models that it depends on.") -%}
    {%- endif -%}
  {%- endif -%}
  {%- if last is none -%} {{ return(check_inputs_exist(models)) }} {%- endif -%}
  {%- if 'model.ciris_scoring.int_scoring_run' not in models -%}
    {%- if not last['has_ended'] -%} {%- do check_inputs_of_part(models, last) -%} {%- endif -%}
    {%- if models or not last['has_ended'] -%} {%- do check_parameters_of_part(last) -%} {%- endif -%}
  {%- elif last['is_full_refresh'] and not is_full_refresh() and not last['has_ended'] and last_publication() is not none -%}
    {{ refuse(
      "The full refresh that began at " ~ shown_time(last['started_at']) ~ " did not end, so the tables behind the scores in "
      ~ "schema " ~ target.schema ~ " are partly old and partly new. Repeat it, with the same variables: "
      ~ command_of(last) ~ " (in plain dbt --full-refresh --vars 'ciris_allow_rescoring: true').") }}
  {%- endif -%}
{% endmacro %}

{#- Refuses to keep the rows of tables that another version of this project wrote. Either a table is missing although
    this schema has a publication, or the other version named columns otherwise: the table lacks a column of its key, or
    it lacks a column that is never null and has another one that the model does not know. A full refresh writes all rows
    again. A column that is only missing is added (bring_up_to_date) and is null in older rows. -#}
{% macro check_columns() %}
  {%- if is_full_refresh() -%} {{ return(check_readers_of_old_columns()) }} {%- endif -%}
  {%- set tables, lacking, is_published = [], [], last_publication() is not none -%}
  {%- for node in graph.nodes.values() if node.package_name == 'ciris_scoring' and node.resource_type == 'model'
      and (is_mart_table(node) or 'range' in node.config.meta) -%}
    {%- if is_published and 'range' in node.config.meta
        and adapter.get_relation(node.database, node.schema, node.alias) is none -%}
      {%- do lacking.append("table " ~ node.schema ~ "." ~ node.alias ~ " is missing") -%}
    {%- endif -%}
    {%- set keys = node.constraints | selectattr('type', 'equalto', 'primary_key') | map(attribute='columns') | sum(start=[]) -%}
    {%- set never_null = node.constraints | selectattr('type', 'equalto', 'not_null') | map(attribute='columns') | sum(start=keys) -%}
    {%- set lists = [] -%}
    {%- for names in [keys, never_null, node.columns] -%}
      {%- do lists.append(literal('{' ~ names | join(',') ~ '}') ~ '::text[]') -%}
    {%- endfor -%}
    {%- do tables.append('(' ~ literal(node.schema) ~ ', ' ~ literal(node.alias) ~ ', ' ~ lists | join(', ') ~ ')') -%}
  {%- endfor -%}
  {%- set rows = run_query("
    select
      n.nspname || '.' || c.relname,
      (select string_agg(distinct name, ', ') from unnest(models.never_null) as name where name <> all (found.names))
    from (values " ~ tables | join(', ') ~ ") as models (schema_name, table_name, keys, never_null, columns)
    inner join pg_namespace as n on models.schema_name = n.nspname
    inner join pg_class as c on n.oid = c.relnamespace and models.table_name = c.relname and c.relkind in ('r', 'p')
    cross join lateral (
      select
        array_agg(a.attname::text) as names,
        bool_or(a.attnotnull and a.attname <> all (models.columns)) as has_unknown
      from pg_attribute as a
      where a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
    ) as found
    where not models.keys <@ found.names or (found.has_unknown and not models.never_null <@ found.names)
    order by 1") -%}
  {%- for row in rows -%} {%- do lacking.append("table " ~ row[0] ~ " has no column " ~ row[1]) -%} {%- endfor -%}
  {%- if lacking -%}
    {{ refuse(
      "Another version of this project built tables of schema " ~ target.schema ~ ", whose rows this version cannot read: "
      ~ lacking | join('; ') ~ ". Score everything again: ciris-scoring run --full-refresh --allow-rescoring (in plain dbt "
      ~ "--full-refresh --vars 'ciris_allow_rescoring: true'), or publish in another schema.") }}
  {%- endif -%}
{% endmacro %}

{#- Refuses a part of the project (--select) before the first run, if models that the part reads do not exist. -#}
{% macro check_inputs_exist(models) %}
  {%- for unique_id in models if unique_id in graph.nodes -%}
    {%- for parent in graph.nodes[unique_id].depends_on.nodes if parent in graph.nodes and parent not in models -%}
      {%- set node = graph.nodes[parent] -%}
      {%- if node.resource_type == 'model' and adapter.get_relation(node.database, node.schema, node.alias) is none -%}
        {{ refuse(
          "There is no " ~ node.name ~ " in schema " ~ node.schema ~ " yet, which " ~ graph.nodes[unique_id].name ~ " reads. Build "
          ~ "everything first: " ~ command_of(none) ~ " (in plain dbt: dbt build).") }}
      {%- endif -%}
    {%- endfor -%}
  {%- endfor -%}
{% endmacro %}

{#- Refuses a part of the project (--select) that continues an unfinished run, if the part reads a table of an earlier
    run or does not repeat a blocking test that failed. Ancestors of int_scoring_run are not checked, because another
    command may have built them. -#}
{% macro check_inputs_of_part(models, last) %}
  {%- set inputs_of_run = with_ancestors(['model.ciris_scoring.int_scoring_run'])[1:] -%}
  {%- set built, failed_tests = fromjson(last['built_nodes']) + inputs_of_run, fromjson(last['failed_tests']) -%}
  {%- set missing = [] -%}
  {%- for unique_id in with_ancestors(models) if unique_id in graph.nodes and unique_id not in models + built + selected_resources -%}
    {%- set node = graph.nodes[unique_id] -%}
    {%- if node.config.materialized == 'replace_range' and 'ciris_static' not in node.tags and 'staging' not in node.fqn -%}
      {%- do missing.append(node.name) -%}
    {%- endif -%}
  {%- endfor -%}
  {%- for unique_id in failed_tests if unique_id not in built + selected_resources -%}
    {%- do missing.append(unique_id.split('.')[2]) -%}
  {%- endfor -%}
  {#- dbt retry does not name its models, so their inputs are unknown. It is refused if the last run was killed, because
      a killed run did not note its built nodes. -#}
  {%- if (missing and selected_resources) or (last['built_nodes'] == '[]' and not models) -%}
    {%- do refuse(
      "The run that began at " ~ shown_time(last['started_at']) ~ " did not end, so new tables in schema "
      ~ target.schema ~ " would be built from old and new ones" ~ (" (" ~ missing[0] ~ " is from an earlier run)" if missing else "")
      ~ ". Run again from the beginning: " ~ command_of(last)
      ~ ("." if last['is_full_refresh'] else " (in plain dbt: dbt build).")) -%}
  {%- endif -%}
{% endmacro %}

{#- Refuses a part of the project if the parameters, windows, categories or outcomes of deferrals are not those of the
    last run. They differ if variables have changed, or if a refused run has written other values. -#}
{% macro check_parameters_of_part(last) %}
  {%- set parameters = relation_as_left('int_scoring_parameters') -%}
  {%- set seeds = [] -%}
  {%- for name in ['scoring_windows', 'capacity_categories', 'deferral_outcomes'] -%}
    {%- do seeds.append(relation_as_left(name)) -%}
  {%- endfor -%}
  {%- if parameters is none or none in seeds -%} {{ return('') }} {%- endif -%}
  {%- set in_force = [] -%}
  {%- for name in scoring_parameter_definitions() -%}
    {%- do in_force.append("(" ~ literal(name) ~ ", " ~ literal(local_md5(scoring_parameter_text(name))) ~ ")") -%}
  {%- endfor -%}
  {%- set rows = run_query("
    select
      " ~ parameter_set_id(parameters, *seeds) ~ " = " ~ literal(last['parameter_set_id']) ~ "
      and not exists (
        select 1 from " ~ parameters ~ " where (parameter_name, value_digest) not in (" ~ in_force | join(', ') ~ ")
      ) as is_the_same") -%}
  {%- if not rows[0][0] -%}
    {%- do refuse(
      "A part of schema " ~ target.schema ~ " can only be built with the parameters of the last run (parameter_set_id "
      ~ last['parameter_set_id'] ~ "), but they have changed since, or a refused run has written others. Set the parameters "
      ~ "of the last run, and run from the beginning: ciris-scoring run (in plain dbt: dbt build).") -%}
  {%- endif -%}
{% endmacro %}

{#- Command that finishes an unfinished run, or makes the first run if there has been none. -#}
{% macro command_of(last) %}
  {{ return('ciris-scoring run' ~ (' --full-refresh --allow-rescoring' if last is not none and last['is_full_refresh'] else '')) }}
{% endmacro %}

{#- Whether a model or seed is built from scratch: the answer of dbt's should_full_refresh() for this node. -#}
{% macro is_rebuilt(node) %}
  {%- set given = node.config.get('full_refresh') -%}
  {{ return((flags.FULL_REFRESH or false) if given is none else given) }}
{% endmacro %}

{#- Whether the run is a full refresh, that is, whether int_scoring_run is built from scratch. check_full_refresh
    refuses the run if another model or a seed is treated differently. -#}
{% macro is_full_refresh() %}
  {%- if not execute -%} {{ return(false) }} {%- endif -%}
  {{ return(is_rebuilt(graph.nodes['model.ciris_scoring.int_scoring_run'])) }}
{% endmacro %}

{#- Refuses a full refresh of a part of the models and seeds, because their tables would keep only the rows that this
    run scores. Also refuses a full refresh of published scores without ciris_allow_rescoring. -#}
{% macro check_full_refresh(models) %}
  {%- if flags.FULL_REFRESH and not is_full_refresh() -%}
    {{ refuse(
      "Option --full-refresh is set, but the setting full_refresh of int_scoring_run is false, so nothing "
      ~ "would be rebuilt. Remove +full_refresh of ciris_scoring from dbt_project.yml, or omit --full-refresh.") }}
  {%- endif -%}
  {%- for node in graph.nodes.values() if node.package_name == 'ciris_scoring' and node.resource_type in ['model', 'seed']
      and node.name != 'int_runs' and is_rebuilt(node) != is_full_refresh() -%}
    {{ refuse(
      "Setting full_refresh of " ~ node.resource_type ~ " " ~ node.name ~ " is " ~ shown(is_rebuilt(node)) ~ ", but this run "
      ~ ("is a full refresh" if is_full_refresh() else "is not a full refresh") ~ ", so the tables would be "
      ~ "partly old and partly new. Remove +full_refresh of ciris_scoring from dbt_project.yml, or write it below the "
      ~ "project's own name.") }}
  {%- endfor -%}
  {%- set continued = continued_run(models) -%}
  {%- if is_full_refresh() and not setting('allow_rescoring') and last_publication() is not none -%}
    {%- set incremental = [] -%}
    {%- for unique_id in models -%}
      {%- set model = graph.nodes[unique_id] -%}
      {#- int_scoring_run is not incremental, but it tells the incremental models which rows to rewrite. -#}
      {%- set keeps_history = model.config.materialized == 'replace_range' and 'range' in model.config.meta and model.name != 'int_runs' -%}
      {%- if keeps_history or model.name == 'int_scoring_run' -%}
        {%- do incremental.append(model.name) -%}
      {%- endif -%}
    {%- endfor -%}
    {%- if incremental | length > 0 -%}
      {{ refuse(
        "A full refresh would replace the scores published in schema " ~ target.schema ~ " (it would rebuild "
        ~ incremental | sort | join(', ') ~ "). If that is what you want, add --vars 'ciris_allow_rescoring: true' (with "
        ~ "ciris-scoring: --allow-rescoring). Otherwise omit --full-refresh, or publish in another schema.") }}
    {%- endif -%}
  {%- endif -%}
  {%- if is_full_refresh() and continued is not none and not continued['is_full_refresh'] -%}
    {{ refuse(
      "A part of schema " ~ target.schema ~ " cannot have a full refresh alone: it would keep only what the last run scored. "
      ~ "Omit --full-refresh, or build everything: ciris-scoring run --full-refresh --allow-rescoring.") }}
  {%- endif -%}
{% endmacro %}

{#- Post-hook of int_scoring_run, which is built before the inputs of any score. Refuses parameters that differ from
    those of the published scores. Also refuses a longer restatement window, or a ciris_rescore_from, that would score
    final as-ofs again. The cutoff is not compared, so that a run may complete an unfinished run that had an earlier
    cutoff. -#}
{% macro refuse_rescoring(scoring_run) %}
  {%- set rows = run_query("
    select
      " ~ utc_text('lookback_from') ~ " as lookback_from, " ~ utc_text('rescored_from') ~ " as rescored_from,
      " ~ utc_text('final_until') ~ " as final_until,
      parameter_set_id, published_parameter_set_id, parameter_set_id <> published_parameter_set_id as has_other_parameters
    from " ~ scoring_run ~ "
    where
      not is_full_refresh
      and (parameter_set_id <> published_parameter_set_id or lookback_from < final_until or rescored_from <= final_until)
    ") if execute else [] -%}
  {%- for run in rows if run['has_other_parameters'] -%}
    {{ refuse(
      "The parameters of this run (parameter_set_id " ~ run['parameter_set_id'] ~ ") are not those of the scores "
      ~ "published in schema " ~ target.schema ~ " (" ~ run['published_parameter_set_id'] ~ "). Go back to those, or "
      ~ "score everything again (--full-refresh with --allow-rescoring; in plain dbt --full-refresh --vars "
      ~ "'ciris_allow_rescoring: true'), or publish in another schema.") }}
  {%- endfor -%}
  {%- for run in rows if not setting('allow_rescoring') -%}
    {{ refuse(
      ("With ciris_lookback_periods " ~ lookback_periods() ~ " this run would score the as-ofs after "
       ~ shown_time(run['lookback_from']) if run['rescored_from'] is none else
       "With ciris_rescore_from this run would score the as-ofs from " ~ shown_time(run['rescored_from']) ~ " on again")
      ~ ", but the scores in schema " ~ target.schema ~ " are final up to " ~ shown_time(run['final_until'])
      ~ (". Set the smaller value again" if run['rescored_from'] is none else ". Leave the variable out") ~ ", or allow this run once: --allow-rescoring (in plain dbt --vars 'ciris_allow_rescoring: true').") }}
  {%- endfor -%}
{% endmacro %}
