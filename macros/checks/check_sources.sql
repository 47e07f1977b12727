{#- Every table and column that the models read must be there, of a type that they can read (scoring.md §10). All that
    is wrong with a table is said at once. -#}
{% macro check_sources() %}
  {%- for node in graph.sources.values() if node.unique_id.startswith('source.ciris_scoring.') -%}
    {%- set table = node.schema ~ "." ~ node.identifier -%}
    {%- set variable = 'ciris_' ~ node.name ~ '_table' -%}
    {%- set types = source_types(node.name) -%}
    {%- if types | length == 0 -%}
      {{ exceptions.raise_compiler_error(
        "Source table " ~ table ~ " is missing (or you may not see it). Set the variables ciris_source_schema and " ~ variable
        ~ " to where it is.") }}
    {%- endif -%}
    {%- set missing = [] -%}
    {%- set mistyped = [] -%}
    {%- for column in node.columns.values() -%}
      {%- set wanted = column.data_type -%}
      {%- if column.name in trace_components() and not scoring_parameter('replay_enabled') -%}
        {#- not read -#}
      {%- elif column.name not in types -%}
        {%- do missing.append(column.name) -%}
      {%- elif types[column.name].kind not in readable_kinds()[wanted] -%}
        {%- do mistyped.append(
          column.name ~ " is " ~ types[column.name].declared ~ " and must be " ~ wanted ~ ": "
          ~ source_cast(wanted, types[column.name].kind, adapter.quote(column.name))) -%}
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
    {%- if faults | length > 0 -%}
      {{ exceptions.raise_compiler_error(
        "Source table " ~ table ~ " " ~ faults | join(', and it ') ~ ". Set the variable " ~ variable ~ " to a "
        ~ ("table or view that has it" if mistyped | length == 0 else "view that selects them so")
        ~ (", or the scoring parameter replay_enabled to false" if missing and missing[0] in trace_components() else "")
        ~ ".") }}
    {%- endif -%}
  {%- endfor -%}
{% endmacro %}

{#- By the data_type that the sources' columns are declared with, which is production's: the kinds that can stand in. -#}
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

{#- What a view has to select in place of a column of another kind. -#}
{% macro source_cast(wanted, kind, column) %}
  {%- set is_number = kind in ['int2', 'int4', 'int8', 'numeric', 'float4', 'float8'] -%}
  {%- if wanted in ['text', 'uuid'] and kind == 'bytea' -%} {{ return("encode(" ~ column ~ ", 'hex')") }}
  {%- elif wanted in ['text', 'uuid'] and kind in ['json', 'jsonb'] -%} {{ return(column ~ " #>> '{}'") }}
  {%- elif wanted in ['text', 'uuid'] -%} {{ return(column ~ "::text") }}
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
