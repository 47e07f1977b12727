{#- Materialization of every table of this project. It writes a table in one transaction, which enter_node has begun. A
    run replaces the rows in a range of the column meta.range (rewritten_rows), or all rows. An existing table is always
    changed in place, also by a full refresh, so that readers and views never miss it. A mart's rows go into its staging
    table (publication.sql). A Python model returns a query over temporary tables. It gets the rows of the marts that
    it reads (dbt.rows_after_run), and the variables of the verdict (dbt.settings). -#}
{% materialization replace_range, adapter='postgres', supported_languages=['sql', 'python'] %}
  {%- set table = this.incorporate(type='table') -%}
  {%- set is_new = load_cached_relation(this) is none -%}
  {%- set is_staged = is_mart_table(model) -%}

  {{ run_hooks(pre_hooks, inside_transaction=False) }}
  {{ run_hooks(pre_hooks, inside_transaction=True) }}
  {%- if is_new -%} {%- do require_no_history(table) -%} {%- endif -%}
  {%- set select = sql -%}
  {%- if model.language == 'python' -%}
    {%- call statement('python', language='python') -%}
{{ compiled_code }}
{{ py_script_postfix(model) }}
dbtObj.rows_after_run = {{ rows_of_marts(model) | tojson }}
dbtObj.settings = {{ verdict_settings() | tojson }}
    {%- endcall -%}
    {%- set select = load_result('python')['response'].query -%}
  {%- endif -%}
  {%- if is_staged %} {{ get_assert_columns_equivalent(select) }} {% endif -%}
  {%- call statement('main') -%}
    {%- if is_staged %} {{ stage(select) }}
    {%- elif is_new %} {{ make_table(table, select) }}
    {%- else %} {{ rewrite_range(table, select) }}
    {%- endif -%}
  {%- endcall -%}
  {%- if is_staged or is_new -%} {#- dbt shows the status of the last statement, but another statement wrote the rows. -#}
    {%- set n = run_query('select count(*) from ' ~ (staging_table(model) if is_staged else table))[0][0] | int -%}
    {%- do store_raw_result('main', message='INSERT 0 ' ~ n, code='INSERT', rows_affected=n) -%}
    {%- if is_staged -%} {%- do run_query('update ' ~ relation_as_left('int_built') ~ ' set staged_rows = ' ~ n ~ ' where node = ' ~ literal(model.name)) -%} {%- endif -%}
  {%- endif -%}
  {%- if is_new -%}
    {%- if is_staged -%} {%- do run_query(make_table(table, 'select * from ' ~ staging_table(model) ~ ' where false')) -%} {%- endif -%}
    {%- do create_indexes(table) -%}
    {%- do adapter.cache_added(table) -%}
  {%- endif -%}
  {%- do update_grants(table) -%}
  {%- do describe(table) -%}
  {%- set statistics = '' if is_staged else update_statistics(model, table, is_incremental()) | trim -%}
  {%- if statistics -%} {%- do run_query(statistics) -%} {%- endif -%}
  {{ run_hooks(post_hooks, inside_transaction=True) }}
  {%- do adapter.commit() -%}
  {{ run_hooks(post_hooks, inside_transaction=False) }}
  {{ return({'relations': [table]}) }}
{% endmaterialization %}

{#- Refuses to create a table of which an increment would write only the newest rows. -#}
{% macro require_no_history(table) %}
  {%- if belongs_to_run(model) and 'range' in config.get('meta') and this_run()['cutoff'] is not none -%}
    {{ exceptions.raise_compiler_error(
      "Table " ~ table.schema ~ "." ~ table.identifier ~ " is missing although scores are published, so its earlier rows are lost. "
      ~ "Score everything again: ciris-scoring run --full-refresh --allow-rescoring (in plain dbt --full-refresh --vars "
      ~ "'ciris_allow_rescoring: true'), or publish in another schema.") }}
  {%- endif -%}
{% endmacro %}

{#- SQL that replaces rows of a table by the rows that the model selects. These rows are first written into a scratch
    table, because PostgreSQL does not run INSERT ... SELECT in parallel. -#}
{% macro rewrite_range(table, select) %}
  {%- set source = '(' ~ select ~ ')' -%}
  {%- if distribution_of(model) == 'local' -%}
    {%- set source = 'pg_temp.' ~ adapter.quote(model.alias ~ '__selected') %}
  create temporary table {{ adapter.quote(model.alias ~ '__selected') }} on commit drop as
  {{ select }};
    {%- if 'range' not in model.config.meta %}
  {{ make_key(source) }}
    {%- endif -%}
  {%- endif %}
  {{ replace_rows(model, table, rewritten_rows(model), source) }}
{% endmacro %}

{#- SQL that replaces the rows of a table that meet a condition by the rows of a source. If a whole table is replaced,
    only rows that differ are written. The source of a whole table has a primary key, so duplicates have already stopped
    the run. -#}
{% macro replace_rows(node, table, condition, source) %}
  {%- set columns = get_quoted_csv(node.columns.keys()) -%}
  {%- set old, added = adapter.quote(table.identifier), 'true' -%}
  {%- if 'range' not in node.config.meta and distribution_of(node) == 'local' -%}
    {%- set key = (node.constraints | selectattr('type', 'equalto', 'primary_key') | first)['columns'] -%}
    {%- set condition = 'not exists (select 1 from ' ~ source ~ ' as selected where ' ~ row_of('selected', key) ~ ' = '
        ~ row_of(old, key) ~ ' and ' ~ row_of('selected', node.columns) ~ ' is not distinct from ' ~ row_of(old, node.columns) ~ ')' -%}
    {%- set added = 'not exists (select 1 from ' ~ table ~ ' as kept where ' ~ row_of('kept', key) ~ ' = '
        ~ row_of('selected', key) ~ ')' -%}
  {%- endif %}
  delete from {{ table }} where {{ condition }};
  insert into {{ table }} ({{ columns }})
  select {{ columns }} from {{ source }} as selected where {{ added }};
{% endmacro %}

{#- Columns of a relation as a row, for comparison. -#}
{% macro row_of(relation, columns) -%}
  ({% for column in columns %}{{ relation }}.{{ adapter.quote(column) }}{{ ', ' if not loop.last }}{% endfor %})
{%- endmacro %}

{#- SQL that creates and fills the table of this model. On a cluster the empty table is distributed first, so that the
    workers write their rows without the coordinator. A table without a primary key gets replica identity full, because
    otherwise PostgreSQL refuses to delete its rows while they are replicated logically. is_staging: see
    publication.sql. A staging table on a cluster is logged, because a crash of one worker would empty a part of it. -#}
{% macro make_table(table, select, is_staging=false) %}
  {%- set is_local = distribution_of(model) == 'local' -%}
  {%- set columns = [] -%}
  {%- for column in model.columns.values() -%}
    {%- do columns.append('selected.' ~ adapter.quote(column.name) ~ '::' ~ column.data_type ~ ' as ' ~ adapter.quote(column.name)) -%}
  {%- endfor %}
  create {{ 'unlogged ' if is_staging and is_local }}table {{ table }}
  {%- if is_staging %} with (autovacuum_enabled = false, toast.autovacuum_enabled = false){% endif %} as
  select {{ columns | join(', ') }} from (
  {{ select }}
  ) as selected
  {%- if not is_local %} with no data{% endif %};
  {%- for clause in without_statistics(model.columns) %}{{ ' alter table ' ~ table ~ ' ' if loop.first else ', ' }}{{ clause }}{{ ';' if loop.last }}{% endfor %}
  {{ add_constraints(table) }}
  {%- if not model.constraints | selectattr('type', 'equalto', 'primary_key') | list %}
  alter table {{ table }} replica identity full;
  {%- endif %}
  {%- if not is_local %}
  {{ distribute(table) }}
  insert into {{ table }} select {{ columns | join(', ') }} from ({{ select }}) as selected;
  {%- endif %}
{% endmacro %}

{#- Constraints of a table from its YAML: name, column, condition and clause of alter table. If a check names columns,
    its expression is applied to each column; otherwise the expression is a complete condition. -#}
{% macro constraints_of_model() %}
  {%- set constraints = [] -%}
  {%- for column in model.constraints | rejectattr('type', 'in', ['check', 'foreign_key']) | map(attribute='columns') | sum(start=[]) | unique -%}
    {%- do constraints.append({
        'name': (column ~ ' not null')[:63],
        'column': column,
        'condition': column ~ ' is not null',
        'clause': 'alter ' ~ column ~ ' set not null',
    }) -%}
  {%- endfor -%}
  {%- for constraint in model.constraints | selectattr('type', 'equalto', 'check') -%}
    {%- for column in constraint.columns or [none] -%}
      {%- set name = ((column or model.name) ~ ' ' ~ constraint.name)[:63] -%}
      {%- set condition = (column ~ ' ' if column else '') ~ constraint.expression -%}
      {%- do constraints.append({
          'name': name,
          'column': column,
          'condition': condition,
          'clause': 'add constraint "' ~ name ~ '" check (' ~ condition ~ ')',
      }) -%}
    {%- endfor -%}
  {%- endfor -%}
  {{ return(constraints) }}
{% endmacro %}

{#- SQL that adds constraints and key to a filled table. PostgreSQL does not name the row that violates a constraint. So
    the row is looked up, and its key and the column are shown. -#}
{% macro add_constraints(table) %}
  {%- set name = literal(this.schema ~ '.' ~ this.identifier) -%}
  {%- set constraints = constraints_of_model() -%}
  {%- set keys = model.constraints | selectattr('type', 'equalto', 'primary_key') | map(attribute='columns') | list -%}
  {%- set shown = keys[0] if keys else model.columns | list -%}
  {%- if constraints or keys %}
  do $constraints$
  declare
    broken record;
    duplicate text;
  begin
    {%- if constraints %}
    alter table {{ table }} {{ constraints | map(attribute='clause') | join(', ') }};
    {%- endif %}
    {{ make_key(table) }}
  exception
    {%- if constraints %}
    when check_violation or not_null_violation then
      select checked.name, checked.columns, to_jsonb(filled) as row into broken
      from {{ table }} as filled
      cross join lateral (
        values
        {%- for constraint in constraints %}
        (
          {{ literal(constraint.name) }},
          '{ {{- (shown + [constraint.column or shown[0]]) | unique | join(', ') -}} }'::text[],
          {{ constraint.condition }}
        )
        {%- if not loop.last %},{% endif %}
        {%- endfor %}
      ) as checked (name, columns, holds)
      where not checked.holds
      limit 1;
      if not found then raise; end if;
      raise check_violation using message = (
        select format(
          '%s would have a row that violates the constraint "%s": %s',
          {{ name }},
          broken.name,
          string_agg(format('%s %s', shown.name, coalesce(broken.row ->> shown.name, 'null')), ', ')
        )
        from unnest(broken.columns) as shown (name)
      );
    {%- endif %}
    when unique_violation then
      get stacked diagnostics duplicate = pg_exception_detail;
      raise unique_violation using message = format('%s would have two rows of one key: %s', {{ name }}, duplicate);
  end
  $constraints$;
  {%- endif %}
{% endmacro %}

{#- SQL that adds the key. On a cluster the key must contain the distribution column. -#}
{% macro make_key(table) %}
  {%- set distribution = ['agent_id_hash'] if distribution_of(model) == 'agent' else [] -%}
  {%- for constraint in model.constraints if constraint.type == 'primary_key' %}
  alter table {{ table }} add primary key ({{ (constraint.columns + distribution) | unique | join(', ') }});
  {%- endfor %}
{% endmacro %}
