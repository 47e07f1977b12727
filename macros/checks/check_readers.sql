{#- Every role that the config grants of a mart names exists: a grant to another one would fail when everything is scored. -#}
{% macro check_readers() %}
  {%- set names = [] -%}
  {%- for node in graph.nodes.values() if node.package_name == 'ciris_scoring' and node.resource_type in ['model', 'seed'] -%}
    {%- for roles in (node.config.grants or {}).values() -%}
      {%- for role in ([roles] if roles is string else roles) if role | lower != 'public' -%}
        {%- do names.append(role | string) -%}
      {%- endfor -%}
    {%- endfor -%}
  {%- endfor -%}
  {%- if names -%}
    {%- set literals = [] -%}
    {%- for name in names | unique(true) -%} {%- do literals.append(literal(name)) -%} {%- endfor -%}
    {%- for row in run_query("
        select
          wanted.name,
          array(select r.rolname::text from pg_roles as r where " ~ upper_case('r.rolname') ~ " = " ~ upper_case('wanted.name') ~ ")
        from unnest(array[" ~ literals | join(', ') ~ "]) as wanted (name)
        where wanted.name not in (select r.rolname from pg_roles as r)
        order by 1") -%}
      {%- set alike = fromjson(row[1]) if row[1] is string else row[1] -%}
      {{ refuse(
        "The environment variable CIRIS_MART_READERS (or the config grants of a model) names the role " ~ shown(row[0])
        ~ ", which does not exist in the server. "
        ~ ("Its name is " ~ shown(alike[0]) ~ ": correct the variable." if alike else
           "Correct the variable, or create the role: create role " ~ quoted_role(row[0]) ~ ";")) }}
    {%- endfor -%}
  {%- endif -%}
{% endmacro %}
