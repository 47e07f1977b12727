{#- Tables of another version of this project may have other columns, so only a full refresh may follow. A version that
    changes a table has another major or minor number. -#}
{% macro check_version() %}
  {%- set other = other_version() -%}
  {%- if other and not is_full_refresh() -%}
    {{ refuse(
      "Version " ~ other ~ " of this project built the tables of schema " ~ target.schema ~ ", and this version may have other "
      ~ "columns. Score everything again: ciris-scoring run --full-refresh --allow-rescoring (in plain dbt --full-refresh --vars "
      ~ "'ciris_allow_rescoring: true'), or publish in another schema.") }}
  {%- endif -%}
{% endmacro %}

{#- The version that published, if its tables may be different from those of this version; otherwise none. -#}
{% macro other_version() %}
  {%- set published = (last_publication() or {'version': none})['version'] -%}
  {%- set ours = graph.nodes['model.ciris_scoring.int_runs'].config.meta['package_version'] -%}
  {{ return(published if published is not none and published.split('.')[:2] != ours.split('.')[:2] else none) }}
{% endmacro %}

{#- Before a full refresh of another version's tables, drop all relations of this project but the log. PostgreSQL refuses
    to drop a mart that an object of somebody else reads, and names the object. -#}
{% macro drop_tables_of_another_version() %}
  {%- if begins_run() and is_full_refresh() and other_version() -%}
    {%- set inner, marts = [], {'view': [], 'table': []} -%}
    {%- for node in graph.nodes.values() if node.package_name == 'ciris_scoring' and node.resource_type in ['model', 'seed'] and node.name != 'int_runs' -%}
      {%- set relation = adapter.get_relation(node.database, node.schema, node.alias) -%}
      {%- if node.resource_type == 'model' and is_mart_table(node) -%} {%- do drop_staging_table(node) -%} {%- endif -%}
      {%- if relation is not none -%} {%- do (marts[relation.type] if 'marts' in node.fqn else inner).append(relation) -%} {%- endif -%}
    {%- endfor -%}
    {%- for relation in inner -%} {%- do run_query('drop ' ~ relation.type ~ ' if exists ' ~ relation ~ ' cascade') -%} {%- endfor -%}
    {%- for type, relations in marts.items() if relations -%} {%- do run_query('drop ' ~ type ~ ' if exists ' ~ relations | join(', ')) -%} {%- endfor -%}
    {%- for relation in inner + marts['view'] + marts['table'] -%} {%- do adapter.cache_dropped(relation) -%} {%- endfor -%}
  {%- endif -%}
{% endmacro %}

{#- Refuses a full refresh of published scores without ciris_allow_rescoring, and a full refresh that does not begin a
    run: a part keeps the range of the run that it continues. -#}
{% macro check_full_refresh(models) %}
  {%- if not is_full_refresh() -%} {{ return('') }} {%- endif -%}
  {%- if last_publication() is not none and not setting('allow_rescoring') -%}
    {{ refuse(
      "A full refresh would replace the scores published in schema " ~ target.schema ~ ". If that is what you want, add --vars "
      ~ "'ciris_allow_rescoring: true' (with ciris-scoring: --allow-rescoring). Otherwise omit --full-refresh, or publish in "
      ~ "another schema.") }}
  {%- endif -%}
  {%- if models and 'model.ciris_scoring.int_scoring_run' not in models -%}
    {{ refuse(
      "A part of schema " ~ target.schema ~ " cannot have a full refresh alone: it would keep only what the last run scored. "
      ~ "Omit --full-refresh, or build everything: ciris-scoring run --full-refresh --allow-rescoring.") }}
  {%- endif -%}
{% endmacro %}

{#- Refuses to continue a run with other parameters, windows, categories or outcomes of deferrals than it began with. -#}
{% macro check_parameters_of_run(models) %}
  {%- set last, seeds = last_run(), [] -%}
  {%- for name in ['scoring_windows', 'capacity_categories', 'deferral_outcomes'] -%}
    {%- do seeds.append(relation_as_left(name)) -%}
  {%- endfor -%}
  {%- if 'model.ciris_scoring.int_scoring_run' in models or last is none or none in seeds or (last['has_ended'] and not models) -%}
    {{ return('') }}
  {%- endif -%}
  {%- set found = run_query("select " ~ parameter_set_id(*seeds))[0][0] -%}
  {%- if found != last['parameter_set_id'] -%}
    {{ refuse(
      "A part of schema " ~ target.schema ~ " can only be built with the parameters of the run that it continues "
      ~ "(parameter_set_id " ~ last['parameter_set_id'] ~ "), but they are " ~ found ~ " now. Set the parameters of that run, or run "
      ~ "from the beginning: ciris-scoring run (in plain dbt: dbt build).") }}
  {%- endif -%}
{% endmacro %}

{#- Whether the run keeps the scores before its cutoff. -#}
{% macro is_incremental_run() %}
  {{ return(this_run() is not none and this_run()['cutoff'] is not none) }}
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
      parameter_set_id <> published_parameter_set_id
      or not is_full_refresh and (lookback_from < final_until or rescored_from <= final_until)
    ") if execute and not is_full_refresh() else [] -%}
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
