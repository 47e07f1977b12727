{#- Materialization of every table of this project. It writes a table in one transaction (see write_under_lock). A run
    replaces the rows in a range of the column meta.range (bounds_of_run.sql), or all rows if the model has no range. A
    full refresh builds a new table beside the old one and then renames it. A table that marts read is filled in place
    instead, so that its views remain, unless the table moves to a cluster or has the key of another version. A mart's
    rows go into its staging table first (publication.sql). A Python model returns a query over temporary tables. It gets
    the condition of the rows to compute (dbt.rewritten_range), the rows of the marts that it reads (dbt.rows_after_run),
    and the variables of the verdict (dbt.settings). -#}
{% materialization replace_range, adapter='postgres', supported_languages=['sql', 'python'] %}
  {%- set table = this.incorporate(type='table') -%}
  {%- set old = load_cached_relation(this) -%}
  {%- set new = table if old is none else make_intermediate_relation(table) -%}
  {%- set is_staged = is_mart_table(model) -%}
  {%- set moves = is_distributed() and distributions_found().get((table.schema, table.identifier)) != distribution_of(model) -%}
  {%- set is_increment = is_incremental() -%}

  {{ run_hooks(pre_hooks, inside_transaction=False) }}
  {{ run_hooks(pre_hooks, inside_transaction=True) }}
  {%- set state = state_of(table) if old is not none and old.type == 'table' else none -%}
  {%- set in_place = state is not none and has_known_key(state)
      and (is_increment or (is_shown_by_marts(model) and not moves)) -%}
  {%- set select = sql -%}
  {%- if model.language == 'python' -%}
    {%- call statement('python', language='python') -%}
{{ compiled_code }}
{{ py_script_postfix(model) }}
dbtObj.rewritten_range = {{ in_rewritten_range(config.get('meta')['range']) | tojson }}
dbtObj.rows_after_run = {{ rows_of_marts(model) | tojson }}
dbtObj.settings = {{ verdict_settings() | tojson }}
    {%- endcall -%}
    {%- set select = load_result('python')['response'].query -%}
  {%- endif -%}
  {%- call statement('main') -%}
    {%- if in_place -%} {{ bring_up_to_date(table, state) }} {%- endif -%}
    {%- if is_staged -%} {{ stage(select, rewritten_rows()) }} {%- endif -%}
    {%- if not in_place -%} {{ make_table(new, 'select * from ' ~ staging_table(model) ~ ' where false' if is_staged else select) }}
    {%- elif not is_staged -%} {{ rewrite_range(table, select) }}
    {%- endif -%}
  {%- endcall -%}
  {%- if is_staged or not in_place -%} {#- dbt shows the status of the last statement, but another statement wrote the
                                           rows. Therefore the rows are counted. -#}
    {%- set n = note_staged(model)['n_rows'] if is_staged else run_query('select count(*) from ' ~ new)[0][0] | int -%}
    {%- do store_raw_result('main', message='INSERT 0 ' ~ n, code='INSERT', rows_affected=n) -%}
  {%- endif -%}
  {%- if not in_place -%}
    {%- do create_indexes(new) -%}
    {%- if old is not none -%}
      {%- do drop_with_views(old) -%}
      {%- do adapter.rename_relation(new, table) -%}
    {%- endif -%}
  {%- endif -%}
  {%- do update_grants(table) -%}
  {%- do describe(table, fromjson(state['comments']) if in_place else none) -%}
  {%- set statistics = '' if is_staged else update_statistics(model, table, is_increment) | trim -%}
  {%- if statistics -%} {%- do run_query(statistics) -%} {%- endif -%}
  {{ run_hooks(post_hooks, inside_transaction=True) }}
  {%- do adapter.commit() -%}
  {{ run_hooks(post_hooks, inside_transaction=False) }}
  {{ return({'relations': [table]}) }}
{% endmaterialization %}

{#- Whether the table exists and is not built from scratch. dbt's macro is_incremental does not support this
    materialization. A mart is also built from scratch if its first run ended before the publication. -#}
{% macro is_incremental() %}
  {%- if not execute or config.get('materialized') != 'replace_range' -%} {{ return(false) }} {%- endif -%}
  {%- set old = load_cached_relation(this) -%}
  {%- if old is none or old.type != 'table' or should_full_refresh() -%} {{ return(false) }} {%- endif -%}
  {%- set comment = staged(model) if is_mart_table(model) else none -%}
  {{ return(comment is none or comment['rows'] != 'true') }}
{% endmacro %}

{#- Whether a table is a mart, or is read by a view among the marts. -#}
{% macro is_shown_by_marts(node) %}
  {%- set views = graph.nodes.values() | selectattr('config.materialized', 'equalto', 'replace_view') -%}
  {%- for view in views if 'marts' in view.fqn and node.unique_id in view.depends_on.nodes -%} {{ return(true) }} {%- endfor -%}
  {{ return(is_mart_table(node)) }}
{% endmacro %}

{#- Columns, constraints and comments of a table, as JSON texts. -#}
{% macro state_of(table) %}
  {{ return(run_query("
    select
      array(select a.attname::text from pg_attribute as a
        where a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped) as columns,
      array(select a.attname::text from pg_index as i
        inner join pg_attribute as a on i.indrelid = a.attrelid and a.attnum = any(i.indkey)
        where i.indisprimary and i.indrelid = c.oid) as key_columns,
      array(select a.attname || ' not null' from pg_attribute as a
        where a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped and a.attnotnull)
      || array(select k.conname::text from pg_constraint as k where k.conrelid = c.oid) as constraints,
      array(select k.conname::text from pg_constraint as k
        where k.conrelid = c.oid and k.contype = 'c' and k.conname like '% %') as checks,
      array(select a.attname::text from pg_attribute as a
        where a.attrelid = c.oid and a.attnum > 0 and a.attstattarget = 0) as without_statistics,
      c.relreplident <> 'd' or exists (
        select 1 from pg_index as i where i.indrelid = c.oid and i.indisprimary
      ) as names_rows,
      " ~ comments_of('c.oid') ~ " as comments
    from pg_class as c
    where c.oid = to_regclass(" ~ literal(table) ~ ")")[0]) }}
{% endmacro %}

{#- Whether the model has all columns of the table's primary key. A table of another version may have a key column that
    the model no longer has. -#}
{% macro has_known_key(state) %}
  {{ return(fromjson(state['key_columns']) | reject('in', columns_of_model()) | list | length == 0) }}
{% endmacro %}

{#- Condition of the rows that the run rewrites. -#}
{% macro rewritten_rows() %}
  {%- set column = config.get('meta').get('range') -%}
  {{ return(in_rewritten_range(column) if column and is_incremental() else 'true') }}
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
  {{ replace_rows(model, table, rewritten_rows(), source) }}
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
  {%- for name, type in columns_of_model().items() -%}
    {%- do columns.append('selected.' ~ adapter.quote(name) ~ '::' ~ type ~ ' as ' ~ adapter.quote(name)) -%}
  {%- endfor %}
  create {{ 'unlogged ' if is_staging and is_local }}table {{ table }}
  {%- if is_staging %} with (autovacuum_enabled = false, toast.autovacuum_enabled = false){% endif %} as
  select {{ columns | join(', ') }} from (
  {{ select }}
  ) as selected
  {%- if not is_local %} with no data{% endif %};
  {%- for clause in without_statistics(columns_of_model()) %}{{ ' alter table ' ~ table ~ ' ' if loop.first else ', ' }}{{ clause }}{{ ';' if loop.last }}{% endfor %}
  {{ add_constraints(table) }}
  {%- if not model.constraints | selectattr('type', 'equalto', 'primary_key') | list %}
  alter table {{ table }} replica identity full;
  {%- endif %}
  {%- if not is_local %}
  {{ distribute(table) }}
  insert into {{ table }} select {{ columns | join(', ') }} from ({{ select }}) as selected;
  {%- endif %}
{% endmacro %}

{#- Types of the model's columns by name, from the model's YAML. -#}
{% macro columns_of_model() %}
  {%- set columns = {} -%}
  {%- for column in model.columns.values() -%}
    {%- do columns.update({column.name: column.data_type}) -%}
  {%- endfor -%}
  {{ return(columns) }}
{% endmacro %}

{#- Constraints of a table from its YAML: name, column, condition and clause of alter table. If a check names columns,
    its expression is applied to each column; otherwise the expression is a complete condition. -#}
{% macro constraints_of_model() %}
  {%- set constraints = [] -%}
  {%- for column in model.constraints | rejectattr('type', 'equalto', 'check') | map(attribute='columns') | sum(start=[]) | unique -%}
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
  {%- set shown = keys[0] if keys else columns_of_model() | list -%}
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

{#- SQL that adds columns and constraints that the table of an earlier version lacks. The columns are null in older
    rows, and older rows may violate the constraints. A column that the model no longer has becomes null in new rows,
    until a full refresh drops it. A check that the model no longer has is dropped. A check with a changed condition needs
    a new name, because checks are compared by name. Checks whose name has no space do not come from
    `constraints_of_model` and are kept. -#}
{% macro bring_up_to_date(table, state) %}
  {%- set columns, constraints, changes = fromjson(state['columns']), fromjson(state['constraints']), [] -%}
  {%- for name, type in columns_of_model().items() if name not in columns -%}
    {%- do changes.append('add column ' ~ adapter.quote(name) ~ ' ' ~ type) -%}
  {%- endfor -%}
  {%- for name in columns if name not in columns_of_model() and name ~ ' not null' in constraints -%}
    {%- do changes.append('alter ' ~ adapter.quote(name) ~ ' drop not null') -%}
  {%- endfor -%}
  {%- for name in fromjson(state['checks']) if name not in constraints_of_model() | map(attribute='name') | list -%}
    {%- do changes.append('drop constraint ' ~ adapter.quote(name)) -%}
  {%- endfor -%}
  {%- for constraint in constraints_of_model() if constraint.name not in constraints -%}
    {%- do changes.append('add constraint "' ~ constraint.name ~ '" check (' ~ constraint.condition ~ ') not valid') -%}
  {%- endfor -%}
  {%- do changes.extend(without_statistics(columns_of_model() | reject('in', fromjson(state['without_statistics'])))) -%}
  {%- if not state['names_rows'] -%}
    {%- do changes.append('replica identity full') -%}
  {%- endif -%}
  {%- if changes %}
  alter table {{ table }} {{ changes | join(', ') }};
  {%- endif %}
{% endmacro %}
