{#- Every table and column that the models read must exist and have a readable type (scoring.md §10). -#}
{% macro check_sources() %}
  {%- for remark in source_remarks() -%} {%- do exceptions.warn(remark) -%} {%- endfor -%}
  {%- for table in source_report() if table.fault -%}
    {{ refuse(table.fault) }}
  {%- endfor -%}
{% endmacro %}

{#- Remarks if both covenant_traces and trace_events exist, or if trace_events exists without the tables of deferrals or
    keys. -#}
{% macro source_remarks() %}
  {%- set remarks = [] -%}
  {%- set schema = setting('source_schema') ~ "." -%}
  {%- set traces, events = schema ~ source_table('covenant_traces'), schema ~ "trace_events" -%}
  {%- if setting('source') is none and source_types('covenant_traces') and source_types('trace_events') -%}
    {%- do remarks.append(
        "Both " ~ traces ~ " and " ~ events ~ " exist; " ~ traces ~ " is read. Today's lens writes only the second: set "
        ~ "the variable ciris_source to events, or to traces if the first still gets traces.") -%}
  {%- endif -%}
  {%- if source_shape() == 'events' -%}
    {%- if not source_types('wbd_deferrals') -%}
      {%- do remarks.append(
          "There is no " ~ schema ~ source_table('wbd_deferrals') ~ ", so no deferral is known, and the quality of deferrals counts as 1.") -%}
    {%- endif -%}
    {%- if not source_types('federation_keys') and not source_types('accord_public_keys') -%}
      {%- do remarks.append(
          "There is neither " ~ schema ~ "federation_keys nor " ~ schema ~ "accord_public_keys, so no signature is by a "
          ~ "registered key.") -%}
    {%- endif -%}
  {%- endif -%}
  {{ return(remarks) }}
{% endmacro %}

{#- Remarks about functions that views among the sources or event triggers call. A run has the search path pg_catalog, so
    a function that uses names without their schema may fail. -#}
{% macro function_remarks() %}
  {%- set remarks = [] -%}
  {%- for node in graph.sources.values() if node.unique_id.startswith('source.ciris_scoring.')
      and node.name in tables_of_shape(source_shape()) -%}
    {%- for row in run_query("
      " ~ relations_read([node]) ~ "
      select distinct p.oid::regprocedure::text as function, quote_ident(n.nspname) as schema
      from relations_read
      inner join pg_rewrite as r on relations_read.relid = r.ev_class
      inner join pg_depend as d
        on d.classid = 'pg_rewrite'::regclass and d.objid = r.oid and d.refclassid = 'pg_proc'::regclass
      inner join pg_proc as p on d.refobjid = p.oid
      inner join pg_namespace as n on p.pronamespace = n.oid
      where " ~ looks_names_up() ~ "
      order by 1") -%}
      {%- do remarks.append(
          "Source " ~ node.schema ~ "." ~ node.identifier ~ " is a view that calls " ~ row['function'] ~ ", and a run looks names up "
          ~ "in pg_catalog alone. If the function uses names without their schema, give it its own search path: alter "
          ~ "function " ~ row['function'] ~ " set search_path = " ~ row['schema'] ~ ", pg_temp;") -%}
    {%- endfor -%}
  {%- endfor -%}
  {%- for row in run_query("
    select quote_ident(t.evtname) as trigger, p.oid::regprocedure::text as function, quote_ident(n.nspname) as schema
    from pg_event_trigger as t
    inner join pg_proc as p on t.evtfoid = p.oid
    inner join pg_namespace as n on p.pronamespace = n.oid
    where t.evtenabled <> 'D' and t.evtevent <> 'login' and " ~ looks_names_up() ~ "
    order by 1") -%}
    {%- do remarks.append(
        "The event trigger " ~ row['trigger'] ~ " calls " ~ row['function'] ~ " in every run, and a run looks names up in pg_catalog "
        ~ "alone. If the function uses names without their schema, give it its own search path: alter function "
        ~ row['function'] ~ " set search_path = " ~ row['schema'] ~ ", pg_temp;") -%}
  {%- endfor -%}
  {{ return(remarks) }}
{% endmacro %}

{#- Condition that a function p looks up names in the search path of its caller. -#}
{% macro looks_names_up() -%}
  p.pronamespace <> 'pg_catalog'::regnamespace and p.prosqlbody is null
  and p.prolang in (select l.oid from pg_language as l where l.lanname not in ('c', 'internal'))
  and not coalesce(array_to_string(p.proconfig, ',') like '%search_path=%', false)
{%- endmacro %}

{#- Report of each source table that is read: its columns, their types, and one sentence with all faults. -#}
{% macro source_report() %}
  {%- set report, faults_of_security = [], faults_of_row_security() -%}
  {#- Kinds of column types that the models can read, by the data_type of the column in production. -#}
  {%- set readable_kinds = {
    'text': ['text', 'uuid'],
    'mark': ['text', 'caseless', '_text', '_varchar', 'json', 'jsonb'],
    'timestamptz': ['timestamptz'],
    'boolean': ['bool'],
    'numeric': ['numeric', 'int2', 'int4', 'int8', 'float4', 'float8'],
    'bigint': ['int8', 'int4', 'int2', 'numeric'],
    'integer': ['int4', 'int2', 'int8', 'numeric'],
    'jsonb': ['jsonb', 'json'],
    'uuid': ['uuid', 'text', 'int2', 'int4', 'int8'],
  } -%}
  {%- for node in graph.sources.values() if node.unique_id.startswith('source.ciris_scoring.') -%}
    {%- set table = node.schema ~ "." ~ node.identifier -%}
    {%- set variable = 'ciris_source_schema' if node.name in constant('engine_tables') else 'ciris_' ~ node.name ~ '_table' -%}
    {%- set types = source_types(node.name) -%}
    {%- set is_needed = tables_of_shape(source_shape()).get(node.name) -%}
    {%- if is_needed is not none and (is_needed or types) %}
    {%- set columns, missing, mistyped = [], [], [] -%}
    {%- for column in node.columns.values() if (scoring_parameter('replay_enabled') or column.name not in trace_columns().components)
        and (column.name in types or not column.config.meta.get('is_mark')) -%}
      {%- set name = signing_key_column(types) if column.name == 'signature_key_id' else column.name -%}
      {%- set type = types.get(name) -%}
      {%- do columns.append({
        'column': name, 'type': type.declared if type else none, 'read_as': column.name, 'as_type': column.data_type}) -%}
      {%- if not type -%}
        {%- do missing.append(name) -%}
      {%- elif type.kind not in readable_kinds['mark' if column.config.meta.get('is_mark') else column.data_type] -%}
        {%- do mistyped.append(
          name ~ " is " ~ type.declared ~ " and must be " ~ column.data_type ~ ": "
          ~ source_cast(column.data_type, type.kind, adapter.quote(name))) -%}
      {%- endif -%}
    {%- endfor -%}
    {%- set faults = [] -%}
    {%- if missing | length > 0 -%}
      {%- do faults.append("has no column " ~ missing | join(', ')) -%}
    {%- endif -%}
    {%- if mistyped | length > 0 -%}
      {%- do faults.append(
        "has columns of types that cannot be read (name, type, and what to select instead): " ~ mistyped | join('; ')) -%}
    {%- endif -%}
    {%- set fault = none -%}
    {%- if types | length == 0 -%}
      {%- set fault = "Source table " ~ table ~ " is missing (or you may not see it). Set the "
        ~ ("variable ciris_source_schema to its schema" if node.name in constant('engine_tables') else
           "variables ciris_source_schema and " ~ variable ~ " to its schema and name") ~ accord_variables() ~ "." -%}
    {%- elif faults | length > 0 -%}
      {%- set fault = "Source table " ~ table ~ " " ~ faults | join(', and it ') ~ ". Set the variable " ~ variable ~ " to a "
        ~ ("table or view that has these columns" if mistyped | length == 0 else "view that selects them in this way")
        ~ (", or the scoring parameter replay_enabled to false" if missing and missing[0] in trace_columns().components else "")
        ~ "." -%}
    {%- else -%}
      {%- set fault = faults_of_security.get(table) -%}
    {%- endif -%}
    {%- do report.append({'name': node.name, 'table': table, 'columns': columns, 'fault': fault}) -%}
    {%- endif -%}
  {%- endfor -%}
  {{ return(report) }}
{% endmacro %}

{#- Hint for an error message: the variables to set if the source has a table with the newer name accord_* and none with
    the older name. Empty otherwise. -#}
{% macro accord_variables() %}
  {%- set found = [] -%}
  {%- for name in constant('tables_of_shape', {})['traces'] if name.startswith('covenant_') -%}
    {%- set newer = name | replace('covenant_', 'accord_') -%}
    {%- if source_types(name) | length == 0 and columns_of(setting('source_schema'), [newer]) -%}
      {%- do found.append('ciris_' ~ name ~ '_table: ' ~ newer) -%}
    {%- endif -%}
  {%- endfor -%}
  {{ return(", here --vars '{" ~ found | join(', ') ~ "}'" if found else '') }}
{% endmacro %}

{#- SQL expression that converts a column whose type cannot be read. The error message asks for a view that selects this
    expression in place of the column. -#}
{% macro source_cast(wanted, kind, column) %}
  {%- set is_number = kind in ['int2', 'int4', 'int8', 'numeric', 'float4', 'float8'] -%}
  {%- if wanted in ['text', 'uuid'] and kind == 'bytea' -%} {{ return("encode(" ~ column ~ ", 'hex')") }}
  {%- elif wanted in ['text', 'uuid'] and kind in ['json', 'jsonb'] -%} {{ return(column ~ " #>> '{}'") }}
  {%- elif wanted in ['text', 'uuid'] -%} {{ return(column ~ "::text" ~ (' collate "C"' if kind == 'caseless' else '')) }}
  {%- elif wanted == 'timestamptz' and kind == 'timestamp' -%} {{ return(column ~ " at time zone 'UTC'") }}
  {%- elif wanted == 'timestamptz' and kind == 'date' -%} {{ return(column ~ "::timestamp at time zone 'UTC'") }}
  {%- elif wanted == 'timestamptz' and is_number -%} {{ return("to_timestamp(" ~ column ~ ") where it counts seconds") }}
  {%- elif wanted == 'boolean' and is_number -%} {{ return(column ~ " <> 0") }}
  {%- elif wanted in ['numeric', 'bigint', 'integer'] and kind == 'bool' -%} {{ return(column ~ "::integer") }}
  {%- elif wanted in ['bigint', 'integer'] -%} {%- set wanted = 'numeric' -%}
  {%- elif wanted == 'jsonb' and kind == 'bytea' -%} {{ return("convert_from(" ~ column ~ ", 'UTF8')::jsonb") }}
  {%- elif wanted == 'jsonb' and kind != 'text' -%} {{ return("to_jsonb(" ~ column ~ ")") }}
  {%- endif -%}
  {%- set through_text = '' if kind == 'text' or is_number else '::text' -%}
  {{ return(column ~ through_text ~ '::' ~ wanted) }}
{% endmacro %}

{#- For each source of which row-level security hides rows, by its name: one sentence. The policies of a table apply to
    the role that reads it. A partition that is read through its parent follows the parent's policies. -#}
{% macro faults_of_row_security() %}
  {%- set nodes, faults = graph.sources.values() | selectattr('package_name', 'equalto', 'ciris_scoring') | list, {} -%}
  {%- set rows = run_query("
    " ~ relations_read(nodes) ~ "
    select
      relations_read.source_name,
      c.oid::regclass::text as table_name,
      quote_ident(readers.rolname) as reader,
      pg_has_role(readers.oid, c.relowner, 'usage') as reads_as_owner,
      (
        select string_agg(quote_ident(p.polname), ', ' order by p.polname) from pg_policy as p where p.polrelid = c.oid
      ) as policies
    from relations_read
    inner join pg_class as c on relations_read.relid = c.oid
    inner join pg_roles as readers on relations_read.reader = readers.oid
    where
      c.relrowsecurity and not readers.rolsuper and not readers.rolbypassrls
      and not (pg_has_role(readers.oid, c.relowner, 'usage') and not c.relforcerowsecurity)
    order by 1, 2, 3") -%}
  {%- for row in rows if row['source_name'] not in faults -%}
    {%- do faults.update({row['source_name']:
    "Source table " ~ row['source_name'] ~ " is subject to row-level security: "
    ~ ("the policy " ~ row['policies'] if row['policies'] else "without any policy, security")
    ~ " of table " ~ row['table_name'] ~ " decides which rows role " ~ row['reader'] ~ " sees, and scores need all rows. "
    ~ ("As a superuser: alter table " ~ row['table_name'] ~ " no force row level security; or"
       if row['reads_as_owner'] else "As a superuser:")
    ~ " alter role " ~ row['reader'] ~ " bypassrls; or read a view of the table that belongs to the owner of the table, who is exempt."}) -%}
  {%- endfor -%}
  {{ return(faults) }}
{% endmacro %}

{#- CTE with sources and all relations that their views read, each with the role that reads it. A relation behind a view
    is read by the view's owner, unless the view is a security_invoker. All other relations are read by the scoring
    role. -#}
{% macro relations_read(nodes) -%}
    {%- set names = [] -%}
    {%- for node in nodes -%}
      {%- do names.append('(' ~ literal(node.schema ~ '.' ~ node.identifier) ~ ', '
          ~ literal(adapter.quote(node.schema) ~ '.' ~ adapter.quote(node.identifier)) ~ ')') -%}
    {%- endfor %}
    with recursive me as (
      select oid from pg_roles where rolname = current_user
    ),
    relations_read (source_name, relid, reader) as (
      select sources.name, to_regclass(sources.relation)::oid, me.oid
      from me
      cross join (values {{ names | join(', ') }}) as sources (name, relation)
      union
      select
        relations_read.source_name,
        d.refobjid,
        case
          when exists (
            select 1
            from pg_options_to_table(v.reloptions) as o
            where o.option_name = 'security_invoker' and o.option_value::boolean
          ) then me.oid
          else v.relowner
        end
      from relations_read
      cross join me
      inner join pg_class as v on relations_read.relid = v.oid and v.relkind in ('v', 'm')
      inner join pg_rewrite as r on v.oid = r.ev_class
      inner join pg_depend as d
        on d.classid = 'pg_rewrite'::regclass and d.objid = r.oid and d.refclassid = 'pg_class'::regclass and d.refobjid <> v.oid
    )
{%- endmacro %}
