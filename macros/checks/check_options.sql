{#- Refuses options of dbt, on the command line or in the environment, with which models would read fewer rows or other
    tables. Also refuses a dbt build that skips a blocking test which it could run: it builds at least one table that
    the test reads, and builds or reads the other tables of the test. Other commands may skip tests: dbt run does not
    execute tests, and dbt retry does not select nodes. -#}
{% macro check_options() %}
  {%- set options = {
      'empty': "every model would be built without rows",
      'sample': "models would be built from a part of the rows",
      'defer': "models would read tables of another environment, and the run would write into them",
  } -%}
  {%- for name, consequence in options.items() if invocation_args_dict.get(name) -%}
    {%- do refuse("Option --" ~ name ~ " (environment: DBT_" ~ name | upper ~ ") is set, but " ~ consequence ~ ", and published "
      ~ "scores would be lost. Omit the option, or exclude this project: --exclude package:ciris_scoring.") -%}
  {%- endfor -%}
  {%- if invocation_args_dict.get('populate_cache') is false -%}
    {%- do refuse("Option --no-populate-cache (environment: DBT_POPULATE_CACHE) is set, but then dbt does not see the tables of "
      ~ "earlier runs. Omit the option.") -%}
  {%- endif -%}
  {%- if flags.WHICH == 'build' and selected_resources -%}
    {%- set built = [] -%}
    {%- for unique_id in selected_resources if unique_id.split('.')[:2] in [['model', 'ciris_scoring'], ['seed', 'ciris_scoring']] -%}
      {%- do built.append(unique_id) -%}
    {%- endfor -%}
    {%- set needed, missing = with_ancestors(built), [] -%}
    {%- for test in graph.nodes.values() if test.package_name == 'ciris_scoring' and test.resource_type == 'test'
        and test.unique_id not in selected_resources and test.config.severity | upper == 'ERROR' -%}
      {%- set tables = test.depends_on.nodes -%}
      {%- if tables | select('in', built) | list and not tables | reject('in', needed) | list -%}
        {%- do missing.append(test.name) -%}
      {%- endif -%}
    {%- endfor -%}
    {%- if missing -%}
      {%- do refuse("This dbt build would leave out tests that stop a run with wrong scores (" ~ missing | length
        ~ ", such as " ~ missing | sort | first ~ "). Omit the option that skips them: --exclude, --exclude-resource-type, "
        ~ "--resource-type or --indirect-selection, or in the environment DBT_EXCLUDE_RESOURCE_TYPES, DBT_RESOURCE_TYPES or "
        ~ "DBT_INDIRECT_SELECTION. To publish untested scores: dbt run.") -%}
    {%- endif -%}
  {%- endif -%}
{% endmacro %}

{#- Refuses settings of a root project that change which rows the package's tables keep, or that let a test pass. A setting
    without a package's name (models: +materialized: table) applies to the nodes of all packages. -#}
{% macro check_overrides() %}
  {%- set faults = [] -%}
  {%- for node in graph.nodes.values() if node.package_name == 'ciris_scoring' -%}
    {%- set config = node.config -%}
    {%- set wrong = {} -%}
    {%- if node.resource_type == 'test' -%}
      {%- set blocks = not node.name.startswith('warn_') -%}
      {%- do wrong.update({'severity': config.severity if blocks and config.severity | upper != 'ERROR' else none,
                           'where': config.where, 'limit': config.limit}) -%}
    {%- elif node.resource_type == 'model' -%}
      {%- do wrong.update({'materialized': none if config.materialized in ['replace_range', 'replace_view', 'ephemeral'] else config.materialized,
                           'contract': 'not enforced' if 'marts' in node.fqn and node.language == 'sql' and not config.contract.enforced else none}) -%}
    {%- endif -%}
    {%- for setting, value in wrong.items() if value is not none -%}
      {%- do faults.append("+" ~ setting ~ " of " ~ node.resource_type ~ " " ~ node.name ~ " is " ~ shown(value)) -%}
    {%- endfor -%}
  {%- endfor -%}
  {%- for name in ['assert_every_source_row_is_checked', 'assert_no_traces_have_vanished'] if 'test.ciris_scoring.' ~ name not in graph.nodes -%}
    {%- do faults.append("+enabled of test " ~ name ~ " is false") -%}
  {%- endfor -%}
  {%- if faults -%}
    {{ refuse("The root project changes settings of ciris_scoring that decide which rows are stored or whether a test stops a "
      ~ "run: " ~ faults[0] ~ (" (and " ~ (faults | length - 1) ~ " more)" if faults | length > 1 else "")
      ~ ". Write the setting below the root project's own name in dbt_project.yml.") }}
  {%- endif -%}
{% endmacro %}
