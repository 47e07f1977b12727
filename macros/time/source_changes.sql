{#- Start of the restatement window (scoring.md §9). -#}
{% macro lookback_start(newest_published_as_of, as_of) -%}
  least({{ newest_published_as_of }}, {{ as_of }}) - {{ lookback_periods() }} * {{ period_length() }}
{%- endmacro %}

{#- CTE children: a relation, its partitions, and its children by inheritance. parents: CTE with the column relid. -#}
{% macro children_of(parents) -%}
    children (relid) as (
      select relid from {{ parents }}
      union
      select i.inhrelid from children inner join pg_inherits as i on children.relid = i.inhparent
    )
{%- endmacro %}

{#- A number that changes with every edit of a source row, computed from the row's position (ctid) and transaction
    (xmin). Null for views, foreign tables, and tables with a foreign child, which always count as changed. row: alias
    of the row. -#}
{% macro row_version(relation, row=none) %}
  {%- set rows = run_query("
    with recursive source_table (relid) as (select to_regclass(" ~ literal(relation) ~ ")::oid), "
    ~ children_of('source_table') ~ "
    select bool_and(c.relkind in ('r', 'p')) as is_stored
    from children
    inner join pg_class as c on children.relid = c.oid
    having count(*) > 0") if execute else [] -%}
  {%- if rows | length > 0 and rows[0]['is_stored'] -%}
    {%- set row = row or adapter.quote(relation.identifier) -%}
    {{ return("hashtidextended(" ~ row ~ ".ctid, (" ~ row ~ ".tableoid::bigint << 32) # " ~ row ~ ".xmin::text::bigint)") }}
  {%- endif -%}
  {{ return('null::bigint') }}
{% endmacro %}

{#- Digest of the definition of the traces in the source: the views that read them, and the columns of their tables. A
    change can give all rows other values without a new version of a row: a column that was added with a default and
    then renamed, another expression of a generated column, another label of an enum. -#}
{% macro source_definition() %}
  {%- set traces = relation_as_left('stg_cirislens__covenant_traces') -%}
  {%- if traces is none -%} {{ return('') }} {%- endif -%}
  {{ return(run_query(
    relations_read([traces]) ~ ", " ~ children_of('relations_read') ~ ",
    definitions (definition) as (
      select pg_get_viewdef(c.oid) from children inner join pg_class as c on children.relid = c.oid and c.relkind in ('v', 'm')
      union
      select concat_ws(
        ' ', a.attname, a.attnum, format_type(a.atttypid, a.atttypmod), a.attmissingval, pg_get_expr(d.adbin, d.adrelid),
        (
          with recursive types (type_id) as (
            select a.atttypid
            union
            select t.typbasetype from types inner join pg_type as t on types.type_id = t.oid and t.typtype = 'd'
          )
          select string_agg(quote_literal(e.enumlabel), ', ' order by e.enumsortorder)
          from types
          inner join pg_enum as e on types.type_id = e.enumtypid
        )
      )
      from children
      inner join pg_attribute as a on children.relid = a.attrelid and a.attnum > 0 and not a.attisdropped
      left join pg_attrdef as d on a.attgenerated <> '' and a.attrelid = d.adrelid and a.attnum = d.adnum
    )
    select md5(string_agg(definition, E'\n' order by definition collate \"C\")) from definitions")[0][0]) }}
{% endmacro %}

{#- Digest of everything, except the rows of the sources, that decides how a trace is checked. If it changes, traces in
    the restatement window are checked again. The digest covers all code and all columns of the source: an irrelevant
    change only costs one more check, but an ignored change could leave wrong checks. -#}
{% macro checking_code() %}
  {%- if not execute -%} {{ return('') }} {%- endif -%}
  {%- set codes = [] -%}
  {%- for node in graph.nodes.values() if node.package_name == 'ciris_scoring' and node.resource_type in ['model', 'seed'] -%}
    {%- if node.resource_type == 'seed' or 'staging' in node.fqn or node.config.meta.get('range', 'as_of') not in ['as_of', 'run_id'] -%}
      {%- do codes.append(node.unique_id ~ ' ' ~ node.checksum.checksum ~ ' ' ~ node.config.meta.get('package_version')) -%}
    {%- endif -%}
  {%- endfor -%}
  {%- for name, macro in context['ciris_scoring'].items() -%}
    {%- do codes.append(name ~ ' ' ~ macro.macro.macro_sql) -%}
  {%- endfor -%}
  {%- do codes.append('constants ' ~ adapter.ciris_scoring_constants()) -%}
  {%- for name in scoring_parameter_definitions() -%}
    {%- do codes.append(name ~ ' ' ~ scoring_parameter_text(name)) -%}
  {%- endfor -%}
  {%- for name in ['scoring_period', 'traces_from', 'scored_run_kinds'] -%}
    {%- do codes.append(name ~ ' ' ~ setting(name)) -%}
  {%- endfor -%}
  {%- do codes.append('source ' ~ source_shape() ~ ' ' ~ trace_fields() ~ ' ' ~ source_definition()) -%}
  {%- do codes.append('marks ' ~ mark_columns('covenant_traces') ~ mark_columns('trace_events')) -%}
  {{ return(local_md5(codes | sort | join('\n'))) }}
{% endmacro %}
