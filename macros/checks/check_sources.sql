{#- Every table and column that the models read exists and has a readable type (scoring.md §10). -#}
{% macro check_sources() %}
  {%- if source_shape() == 'events' and is_distributed() -%}
    {{ refuse(
      "Variable ciris_distribution is citus, but events (trace_events) are read on one server alone. Leave the variable out.") }}
  {%- endif -%}
  {%- for remark in source_remarks() -%} {%- do exceptions.warn(remark) -%} {%- endfor -%}
  {%- for table in source_report() if table.fault -%}
    {{ refuse(table.fault) }}
  {%- endfor -%}
{% endmacro %}

{#- Remarks about the sources: others exist beside them, or some are missing. -#}
{% macro source_remarks() %}
  {%- set remarks = [] -%}
  {%- set schema = setting('source_schema') ~ "." -%}
  {%- set traces, events = schema ~ source_table('covenant_traces'), schema ~ "trace_events" -%}
  {%- if setting('source') is none and source_types('covenant_traces') and source_types('trace_events') -%}
    {%- do remarks.append(
        "Both " ~ traces ~ " and " ~ events ~ " are there; " ~ traces ~ " is read. Today's lens writes the second alone: set "
        ~ "the variable ciris_source to events, or to traces if the first still grows.") -%}
  {%- endif -%}
  {%- if source_shape() == 'events' -%}
    {%- if not source_types('wbd_deferrals') -%}
      {%- do remarks.append(
          "There is no " ~ schema ~ source_table('wbd_deferrals') ~ ", so no deferral is known and their quality counts as 1.") -%}
    {%- endif -%}
    {%- if not source_types('federation_keys') and not source_types('accord_public_keys') -%}
      {%- do remarks.append(
          "There is neither " ~ schema ~ "federation_keys nor " ~ schema ~ "accord_public_keys, so no signature is by a "
          ~ "registered key.") -%}
    {%- endif -%}
  {%- endif -%}
  {{ return(remarks) }}
{% endmacro %}

{#- Functions that views of the sources call, where names in the body may no longer be found. -#}
{% macro function_remarks() %}
  {%- set remarks = [] -%}
  {%- for node in graph.sources.values() if node.unique_id.startswith('source.ciris_scoring.')
      and node.name in tables_of_shape(source_shape()) -%}
    {%- for row in run_query("
      with recursive views (relid) as (
        select to_regclass(" ~ literal(adapter.quote(node.schema) ~ "." ~ adapter.quote(node.identifier)) ~ ")::oid
        union
        select d.refobjid
        from views
        inner join pg_rewrite as r on views.relid = r.ev_class
        inner join pg_depend as d
          on d.classid = 'pg_rewrite'::regclass and d.objid = r.oid and d.refclassid = 'pg_class'::regclass
      )
      select distinct p.oid::regprocedure::text as function, quote_ident(n.nspname) as schema
      from views
      inner join pg_rewrite as r on views.relid = r.ev_class
      inner join pg_depend as d
        on d.classid = 'pg_rewrite'::regclass and d.objid = r.oid and d.refclassid = 'pg_proc'::regclass
      inner join pg_proc as p on d.refobjid = p.oid
      inner join pg_namespace as n on p.pronamespace = n.oid
      inner join pg_language as l on p.prolang = l.oid
      where
        n.nspname <> 'pg_catalog' and p.prosqlbody is null and l.lanname not in ('c', 'internal')
        and not coalesce(array_to_string(p.proconfig, ',') like '%search_path=%', false)
      order by 1") -%}
      {%- do remarks.append(
          "Source " ~ node.schema ~ "." ~ node.identifier ~ " is a view that calls " ~ row['function'] ~ ", and a run looks names up "
          ~ "in pg_catalog alone. If the function uses names without their schema, give it its own search path: alter "
          ~ "function " ~ row['function'] ~ " set search_path = " ~ row['schema'] ~ ", pg_temp;") -%}
    {%- endfor -%}
  {%- endfor -%}
  {{ return(remarks) }}
{% endmacro %}

{#- Each source table read: its columns, what they are read as, and all faults in one sentence. -#}
{% macro source_report() %}
  {%- set report = [] -%}
  {%- for node in graph.sources.values() if node.unique_id.startswith('source.ciris_scoring.') -%}
    {%- set table = node.schema ~ "." ~ node.identifier -%}
    {%- set variable = 'ciris_source_schema' if node.name in engine_tables() else 'ciris_' ~ node.name ~ '_table' -%}
    {%- set types = source_types(node.name) -%}
    {%- set is_needed = tables_of_shape(source_shape()).get(node.name) -%}
    {%- if is_needed is not none and (is_needed or types) %}
    {%- set columns = [] -%}
    {%- set missing = [] -%}
    {%- set mistyped = [] -%}
    {%- for column in node.columns.values() if scoring_parameter('replay_enabled') or column.name not in trace_components() -%}
      {%- set name = signing_key_column(types) if column.name == 'signature_key_id' else column.name -%}
      {%- set type = types.get(name) -%}
      {%- do columns.append({
        'column': name, 'type': type.declared if type else none, 'read_as': column.name, 'as_type': column.data_type}) -%}
      {%- if not type -%}
        {%- do missing.append(name) -%}
      {%- elif type.kind not in readable_kinds()[column.data_type] -%}
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
        ~ ("variable ciris_source_schema" if node.name in engine_tables() else "variables ciris_source_schema and " ~ variable)
        ~ " to where it is" ~ accord_variables() ~ "." -%}
    {%- elif faults | length > 0 -%}
      {%- set fault = "Source table " ~ table ~ " " ~ faults | join(', and it ') ~ ". Set the variable " ~ variable ~ " to a "
        ~ ("table or view that has it" if mistyped | length == 0 else "view that selects them so")
        ~ (", or the scoring parameter replay_enabled to false" if missing and missing[0] in trace_components() else "")
        ~ "." -%}
    {%- else -%}
      {%- set fault = fault_of_row_security(node) -%}
    {%- endif -%}
    {%- do report.append({'name': node.name, 'table': table, 'columns': columns, 'fault': fault}) -%}
    {%- endif -%}
  {%- endfor -%}
  {{ return(report) }}
{% endmacro %}

{#- Newer lenses call three tables accord_*: the option to paste if only those exist. -#}
{% macro accord_variables() %}
  {%- set found = [] -%}
  {%- for name in constant('tables_of_shape', {})['traces'] if name.startswith('covenant_') -%}
    {%- set newer = name | replace('covenant_', 'accord_') -%}
    {%- if source_types(name) | length == 0 and columns_of(setting('source_schema'), newer) | length > 0 -%}
      {%- do found.append('ciris_' ~ name ~ '_table: ' ~ newer) -%}
    {%- endif -%}
  {%- endfor -%}
  {{ return(", here --vars '{" ~ found | join(', ') ~ "}'" if found else '') }}
{% endmacro %}

{#- By the declared data_type, which is production's: the kinds of types that can be read too. -#}
{% macro readable_kinds() %}
  {{ return({
    'text': ['text', 'uuid'],
    'timestamptz': ['timestamptz'],
    'boolean': ['bool'],
    'numeric': ['numeric', 'int2', 'int4', 'int8', 'float4', 'float8'],
    'bigint': ['int8', 'int4', 'int2', 'numeric'],
    'integer': ['int4', 'int2', 'int8', 'numeric'],
    'jsonb': ['jsonb', 'json'],
    'uuid': ['uuid', 'text', 'int2', 'int4', 'int8'],
  }) }}
{% endmacro %}

{#- What a view must select instead of a column of another kind. -#}
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
