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
        "Both " ~ traces ~ " and " ~ events ~ " exist; " ~ traces ~ " is read. The trace store writes only the second: set "
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

{#- Report of each source table that is read: its columns, their types, and one sentence with all faults. -#}
{% macro source_report() %}
  {%- set report = [] -%}
  {#- Kinds of column types that the models can read, by the data_type of the column in production. -#}
  {%- set readable_kinds = {
    'text': ['text', 'uuid'],
    'mark': ['text', 'caseless', '_text', '_varchar', 'jsonb'],
    'timestamptz': ['timestamptz'],
    'boolean': ['bool'],
    'numeric': ['numeric', 'int2', 'int4', 'int8', 'float4', 'float8'],
    'bigint': ['int8', 'int4', 'int2', 'numeric'],
    'integer': ['int4', 'int2', 'int8', 'numeric'],
    'jsonb': ['jsonb'],
    'uuid': ['uuid', 'text', 'int2', 'int4', 'int8'],
  } -%}
  {%- for node in graph.sources.values() if node.unique_id.startswith('source.ciris_scoring.') -%}
    {%- set table = node.schema ~ "." ~ node.identifier -%}
    {%- set variable = 'ciris_source_schema' if node.name in constant('engine_tables') else 'ciris_' ~ node.name ~ '_table' -%}
    {%- set types = source_types(node.name) -%}
    {%- set is_needed = tables_of_shape(source_shape()).get(node.name) -%}
    {%- if is_needed is not none and (is_needed or types) %}
    {%- set columns, missing, mistyped = [], [], [] -%}
    {%- for column in node.columns.values() if (scoring_parameter('replay_enabled') or column.data_type != 'jsonb' or node.name != 'covenant_traces')
        and (column.name in types or not column.config.meta.get('is_mark')) -%}
      {%- set name = signing_key_column() if column.name == 'signature_key_id' else column.name -%}
      {%- set type = types.get(name) -%}
      {%- do columns.append({
        'column': name, 'type': type.declared if type else none, 'read_as': column.name, 'as_type': column.data_type}) -%}
      {%- if not type -%}
        {%- do missing.append(name) -%}
      {%- elif type.kind not in readable_kinds['mark' if column.config.meta.get('is_mark') and column.data_type == 'text' else column.data_type] -%}
        {%- set wanted = 'jsonb' if type.kind == 'json' and column.config.meta.get('is_mark') else column.data_type -%}
        {%- do mistyped.append(
          name ~ " is " ~ type.declared ~ " and must be " ~ wanted ~ ": "
          ~ source_cast(wanted, type.kind, adapter.quote(name))) -%}
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
        ~ (", or the scoring parameter replay_enabled to false" if missing and node.columns[missing[0]].data_type == 'jsonb' else "")
        ~ "." -%}
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
  {%- elif wanted == 'jsonb' and kind == 'json' -%}
    {{ return("case when pg_input_is_valid(" ~ column ~ "::text, 'jsonb') then " ~ column ~ "::jsonb end, in PostgreSQL 15 " ~ column ~ "::jsonb") }}
  {%- elif wanted == 'jsonb' and kind != 'text' -%} {{ return("to_jsonb(" ~ column ~ ")") }}
  {%- endif -%}
  {%- set through_text = '' if kind == 'text' or is_number else '::text' -%}
  {{ return(column ~ through_text ~ '::' ~ wanted) }}
{% endmacro %}
