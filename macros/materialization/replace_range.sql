{#- How a table of this project is written, all of it in this file. In one transaction, under the lock and settings that the
    pre-hook of everything that writes begins it with (write_under_lock):
    a table that is not there is made with the columns, types and rules of its YAML, filled and indexed; in a full refresh
    it is made beside the old one and takes its name, but for marts, and what views of marts stand on (meta.keeps_views):
    their rows are all deleted and inserted again, so that the views stay, unless the table moves to a cluster;
    any other run adds what an upgrade brings to columns and rules, deletes the rows of its range, and inserts what the model
    selects straight into the table. Then come grants, descriptions and statistics.
    A model says its range in its meta: scored_range, a column of as-ofs; judged_range, a column of times; or rewritten: whole;
    constant (whole, but the same at every run with the same code, seeds and variables: ciris-scoring runs it only after a
    change of one); anew (made at every run); appended; or nothing, for tables whose rows others write. With kept_by, a
    model and columns of it, rows of the range stay that agree with a row of that model.
    A model in Python returns the query of its rows, on temporary tables that it has filled in this transaction. It is told
    the range as dbt.rewritten_range, a condition of SQL, and the table of which it rewrites that range as
    dbt.rewritten_table, None where the table is made anew. -#}
{% materialization replace_range, adapter='postgres', supported_languages=['sql', 'python'] %}
  {%- set table = this.incorporate(type='table') -%}
  {%- set old = load_cached_relation(this) -%}
  {%- set new = table if old is none else make_intermediate_relation(table) -%}
  {%- set has_views = 'marts' in model.fqn or config.get('meta').get('keeps_views') -%}
  {%- set moves = is_distributed() and places_found().get((table.schema, table.identifier)) != placement(model.name) -%}
  {%- set in_place = old is not none and (is_incremental() or (has_views and old.type == 'table' and not moves)) -%}
  {%- set replaced = none if in_place or old is none else make_backup_relation(table, old.type) -%}

  {%- if replaced is not none -%}
    {%- do drop_relation_if_exists(load_cached_relation(new)) -%}
    {%- do drop_relation_if_exists(load_cached_relation(replaced)) -%}
  {%- endif -%}
  {{ run_hooks(pre_hooks, inside_transaction=False) }}
  {{ run_hooks(pre_hooks, inside_transaction=True) }}
  {%- set select = sql -%}
  {%- if model.language == 'python' -%}
    {%- call statement('python', language='python') -%}
{{ compiled_code }}
{{ py_script_postfix(model) }}
dbtObj.rewritten_range = {{ in_rewritten_range(config.get('meta')) | tojson }}
dbtObj.rewritten_table = {{ tojson(table | string) if is_incremental() else 'None' }}
    {%- endcall -%}
    {%- set select = load_result('python')['response'].query -%}
  {%- endif -%}
  {%- if in_place -%}
    {%- call statement('main') -%} {{ bring_up_to_date(table) }} {{ rewrite_range(table, select) }} {%- endcall -%}
  {%- else -%}
    {%- call statement('main') -%} {{ make_table(new, select) }} {%- endcall -%}
    {%- do create_indexes(new) -%}
    {%- if replaced is not none -%}
      {%- do adapter.rename_relation(old, replaced) -%}
      {%- do adapter.rename_relation(new, table) -%}
    {%- endif -%}
  {%- endif -%}
  {%- do apply_grants(table, config.get('grants'), should_revoke=should_revoke(old, replaced is not none)) -%}
  {%- do describe(table) -%}
  {%- set statistics = update_statistics() | trim -%}
  {%- if statistics -%} {%- do run_query(statistics) -%} {%- endif -%}
  {{ run_hooks(post_hooks, inside_transaction=True) }}
  {%- do adapter.commit() -%}
  {%- if replaced is not none -%} {%- do adapter.drop_relation(replaced) -%} {%- endif -%}
  {{ run_hooks(post_hooks, inside_transaction=False) }}
  {{ return({'relations': [table]}) }}
{% endmaterialization %}

{#- Whether the model's table is there and only a range of it is rewritten. dbt's own knows dbt's materialization alone. -#}
{% macro is_incremental() %}
  {%- if not execute or config.get('materialized') != 'replace_range' or config.get('meta').get('rewritten') == 'anew' -%}
    {{ return(false) }}
  {%- endif -%}
  {%- set old = load_cached_relation(this) -%}
  {{ return(old is not none and old.type == 'table' and not should_full_refresh()) }}
{% endmacro %}

{#- SQL that deletes the range of the run and inserts what the model selects. With meta.in_parallel it is selected into a
    scratch table first, because PostgreSQL works out nothing in parallel that it inserts. With meta.only_differences as
    well, rows that are selected as they stand are left; the scratch table has the model's key, of one column, so that no two
    are taken for one. -#}
{% macro rewrite_range(table, select) %}
  {%- set meta = config.get('meta') -%}
  {%- set rewritten = meta.get('rewritten') -%}
  {%- set range = 'true' if rewritten in ['whole', 'constant'] or not is_incremental() else none if rewritten in ['appended', 'nothing']
      else in_rewritten_range(meta) -%}
  {%- set columns = get_quoted_csv(columns_of_model().keys()) -%}
  {%- if meta.get('in_parallel') and placement(model.name) == 'local' -%}
    {%- set scratch = adapter.quote(model.alias ~ '__selected') %}
  create temporary table {{ scratch }} on commit drop as
  {{ select }};
    {%- set select = 'select * from pg_temp.' ~ scratch -%}
    {%- if meta.get('only_differences') -%}
      {%- set key = (model.constraints | selectattr('type', 'equalto', 'primary_key') | first)['columns'][0] %}
  alter table pg_temp.{{ scratch }} add primary key ({{ key }});
      {%- set old, here, there = adapter.quote(table.identifier), [], [] -%}
      {%- for column in columns_of_model() -%}
        {%- do here.append('selected.' ~ adapter.quote(column)) -%}
        {%- do there.append(old ~ '.' ~ adapter.quote(column)) -%}
      {%- endfor -%}
      {%- set range = 'not exists (select 1 from pg_temp.' ~ scratch ~ ' as selected where selected.' ~ key ~ ' = ' ~ old ~ '.'
          ~ key ~ ' and (' ~ here | join(', ') ~ ') is not distinct from (' ~ there | join(', ') ~ '))' -%}
      {%- set select = select ~ ' as selected where not exists (select 1 from ' ~ table ~ ' as kept where kept.' ~ key
          ~ ' = selected.' ~ key ~ ')' -%}
    {%- endif -%}
  {%- endif -%}
  {%- if rewritten == 'whole' and placement(model.name) == 'local' and 'marts' not in model.fqn and not meta.get('keeps_views') %}
  {{ empty_at_once(table) }}
  {%- elif range is not none %}
  delete from {{ table }} where {{ range }}
  {%- if 'kept_by' in meta %} and ({{ meta['kept_by']['columns'] | join(', ') }}) not in (
    select {{ meta['kept_by']['columns'] | join(', ') }} from {{ ref(meta['kept_by']['model']) }}
  )
  {%- endif %};
  {%- endif %}
  insert into {{ table }} ({{ columns }})
  select {{ columns }} from (
  {{ select }}
  ) as selected;
{% endmacro %}

{#- SQL that empties a table, at once where nobody reads it: what a deletion leaves, after a full history a gigabyte of
    dead rows, is gone through by every reading until a vacuum. -#}
{% macro empty_at_once(table) %}
  do $empty$
  begin
    lock table {{ table }} in access exclusive mode nowait;
    truncate {{ table }};
  exception
    when lock_not_available then
      delete from {{ table }};
  end
  $empty$;
{% endmacro %}

{#- SQL that makes a table with the columns and rules of the YAML and fills it: from the query itself, which PostgreSQL
    works out in parallel, as it does not what is inserted. On a cluster it is made empty and put in its place first, so that
    rows go from worker to worker. -#}
{% macro make_table(table, select) %}
  {%- set place = placement(model.name) -%}
  {%- set columns = [] -%}
  {%- for name, type in columns_of_model().items() -%}
    {%- do columns.append('selected.' ~ adapter.quote(name) ~ '::' ~ type ~ ' as ' ~ adapter.quote(name)) -%}
  {%- endfor %}
  create table {{ table }} as
  select {{ columns | join(', ') }} from (
  {{ select }}
  ) as selected
  {%- if place != 'local' %} with no data{% endif %};
  {{ give_rules(table) }}
  {%- if place != 'local' %}
  {{ 'select create_reference_table(' ~ literal(table) ~ ');' if place == 'reference' else distribute_by_agent(table) }}
  insert into {{ table }} select {{ columns | join(', ') }} from ({{ select }}) as selected;
  {%- endif %}
{% endmacro %}

{#- Columns of a table with their types: those of the YAML, and on a cluster the one by which verdicts are distributed. -#}
{% macro columns_of_model() %}
  {%- set columns = {} -%}
  {%- if is_distributed() and distribution_column(model.name) == 'agent_key' -%}
    {%- do columns.update({'agent_key': 'text'}) -%}
  {%- endif -%}
  {%- for column in model.columns.values() -%}
    {%- do columns.update({column.name: column.data_type}) -%}
  {%- endfor -%}
  {{ return(columns) }}
{% endmacro %}

{#- The rules that the YAML has for a table's rows, in dbt's terms: constraints of a model, of types primary_key, whose columns
    are not null either, not_null and check. The expression of a check follows each of its columns, or stands for itself
    where it names none. Each rule has its name, its column, its condition, and the clause of alter table that makes it. -#}
{% macro rules_of_model() %}
  {%- set rules = [] -%}
  {%- for column in model.constraints | rejectattr('type', 'equalto', 'check') | map(attribute='columns') | sum(start=[]) | unique -%}
    {%- do rules.append({
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
      {%- do rules.append({
          'name': name,
          'column': column,
          'condition': condition,
          'clause': 'add constraint "' ~ name ~ '" check (' ~ condition ~ ')',
      }) -%}
    {%- endfor -%}
  {%- endfor -%}
  {{ return(rules) }}
{% endmacro %}

{#- SQL that gives a table that is filled its rules and its key. Of a rule that a row breaks PostgreSQL says its name and not
    the row: it is looked up. A row is shown by its key and the rule's column; where there is no key, whole. -#}
{% macro give_rules(table) %}
  {%- set name = literal(this.schema ~ '.' ~ this.identifier) -%}
  {%- set rules = rules_of_model() -%}
  {%- set keys = model.constraints | selectattr('type', 'equalto', 'primary_key') | map(attribute='columns') | list -%}
  {%- set shown = keys[0] if keys else columns_of_model() | list -%}
  {%- if rules or keys %}
  do $rules$
  declare
    broken record;
    duplicate text;
  begin
    {%- if rules %}
    alter table {{ table }} {{ rules | map(attribute='clause') | join(', ') }};
    {%- endif %}
    {{ make_key(table) }}
  exception
    {%- if rules %}
    when check_violation or not_null_violation then
      select rules.rule, rules.columns, to_jsonb(filled) as row into broken
      from {{ table }} as filled
      cross join lateral (
        values
        {%- for rule in rules %}
        (
          {{ literal(rule.name) }},
          '{ {{- (shown + [rule.column or shown[0]]) | unique | join(', ') -}} }'::text[],
          {{ rule.condition }}
        )
        {%- if not loop.last %},{% endif %}
        {%- endfor %}
      ) as rules (rule, columns, holds)
      where not rules.holds
      limit 1;
      if not found then raise; end if;
      raise check_violation using message = (
        select format(
          '%s would have a row that breaks the rule "%s": %s',
          {{ name }},
          broken.rule,
          string_agg(format('%s %s', shown.name, coalesce(broken.row ->> shown.name, 'null')), ', ')
        )
        from unnest(broken.columns) as shown (name)
      );
    {%- endif %}
    when unique_violation then
      get stacked diagnostics duplicate = pg_exception_detail;
      raise unique_violation using message = format('%s would have two rows of one key: %s', {{ name }}, duplicate);
  end
  $rules$;
  {%- endif %}
{% endmacro %}

{#- SQL that gives a table the key of its YAML. On a cluster a key holds the column that the table is distributed by; an agent
    as it was recorded may be longer than an index takes, and there the key is a test's. -#}
{% macro make_key(table) %}
  {%- for constraint in model.constraints if constraint.type == 'primary_key' -%}
    {%- set by_agent = placement(model.name) == 'agent' -%}
    {%- set column = distribution_column(model.name) -%}
    {%- if by_agent and column == 'agent_key' %}
  create index on {{ table }} ({{ constraint.columns | join(', ') }});
    {%- else %}
  alter table {{ table }} add primary key (
    {{- (constraint.columns + ([column] if by_agent and column not in constraint.columns else [])) | join(', ') }});
    {%- endif %}
  {%- endfor %}
{% endmacro %}

{#- SQL that gives a table what its YAML has and it has not, because an earlier version made it: columns, null in older
    rows, and rules, which older rows need not keep. -#}
{% macro bring_up_to_date(table) %}
  {%- set found = tables_as_found().get((table.schema, table.identifier), {'columns': [], 'rules': []}) -%}
  {%- set changes = [] -%}
  {%- for name, type in columns_of_model().items() if name not in found.columns -%}
    {%- do changes.append('add column ' ~ adapter.quote(name) ~ ' ' ~ type) -%}
  {%- endfor -%}
  {%- for rule in rules_of_model() if rule.name not in found.rules -%}
    {%- do changes.append('add constraint "' ~ rule.name ~ '" check (' ~ rule.condition ~ ') not valid') -%}
  {%- endfor -%}
  {%- if changes %}
  alter table {{ table }} {{ changes | join(', ') }};
  {%- endif %}
{% endmacro %}

{#- The columns and rules of every table of the database in the schemas of our models, looked up once per invocation. -#}
{% macro tables_as_found() %}
  {%- if graph.get('tables_as_found', {}).get('invocation_id') != invocation_id -%}
    {%- set tables = {'invocation_id': invocation_id} -%}
    {%- set schemas = [] -%}
    {%- for schema in graph.nodes.values() | selectattr('package_name', 'equalto', 'ciris_scoring')
        | selectattr('resource_type', 'equalto', 'model') | map(attribute='schema') | unique -%}
      {%- do schemas.append(literal(schema)) -%}
    {%- endfor -%}
    {%- for row in run_query("
        select
          n.nspname, c.relname,
          array(select a.attname::text from pg_attribute as a
            where a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped) as columns,
          array(select a.attname || ' not null' from pg_attribute as a
            where a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped and a.attnotnull)
          || array(select k.conname::text from pg_constraint as k where k.conrelid = c.oid) as rules
        from pg_class as c
        inner join pg_namespace as n on c.relnamespace = n.oid
        where c.relkind in ('r', 'p') and n.nspname in (" ~ schemas | join(', ') ~ ")") -%}
      {%- do tables.update({(row[0], row[1]): {'columns': fromjson(row[2]), 'rules': fromjson(row[3])}}) -%}
    {%- endfor -%}
    {%- do graph.update({'tables_as_found': tables}) -%}
  {%- endif -%}
  {{ return(graph['tables_as_found']) }}
{% endmacro %}
