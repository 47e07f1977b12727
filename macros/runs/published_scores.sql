{#- The relation of a model by name, or none where it was never built. For looking at what an earlier run left, where
    ref() would turn the look into a cycle. -#}
{% macro relation_as_left(identifier, layer=none) %}
  {%- if not execute -%} {{ return(none) }} {%- endif -%}
  {{ return(adapter.get_relation(target.database, generate_schema_name(layer, none) | trim, identifier)) }}
{% endmacro %}

{#- What was published last, from the log: one row, or none. -#}
{% macro last_publication() %}
  {%- set scores = relation_as_left('fct_capacity_scores') -%}
  {%- set publications = relation_as_left('int_score_publications', 'intermediate') -%}
  {%- if scores is none or publications is none -%} {{ return(none) }} {%- endif -%}
  {%- set rows = run_query("
    select to_char(p.newest_as_of at time zone 'UTC', 'YYYY-MM-DD HH24:MI:SS') as newest_as_of, p.parameter_set_id,
      to_char(p.published_at at time zone 'UTC', 'YYYY-MM-DD HH24:MI:SS.US') as published_at,
      to_char(p.run_as_of at time zone 'UTC', 'YYYY-MM-DD HH24:MI:SS') as run_as_of
    from " ~ publications ~ " as p
    where p.newest_as_of is not null and exists (select 1 from " ~ scores ~ ")
    order by p.published_at desc
    limit 1") -%}
  {{ return(rows[0] if rows | length > 0 else none) }}
{% endmacro %}
