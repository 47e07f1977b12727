{#- Materialization of a view. An unchanged view is skipped. A changed view is replaced in place, so that views that
    read it are kept. PostgreSQL allows this only if the existing columns do not change; new columns may follow them.
    Otherwise the view is dropped together with the views on it, and created again. -#}
{% materialization replace_view, adapter='postgres' %}
  {%- set view = this.incorporate(type='view') -%}
  {%- set old = load_cached_relation(this) -%}
  {{ run_hooks(pre_hooks, inside_transaction=False) }}
  {{ run_hooks(pre_hooks, inside_transaction=True) }}
  {%- if old is not none and old.type != 'view' -%} {%- do drop_with_views(old) -%} {%- endif -%}
  {%- if config.get('contract').enforced -%} {{ get_assert_columns_equivalent(sql) }} {%- endif -%}
  {%- set is_unchanged = old is not none and old.type == 'view' and is_same_view(view, sql) -%}
  {%- call statement('main') %}
    {%- if is_unchanged %} select {% else %} {{ replacing(view, sql) }} {% endif %}
  {%- endcall -%}
  {%- do update_grants(view) -%}
  {%- do describe(view) -%}
  {{ run_hooks(post_hooks, inside_transaction=True) }}
  {%- do adapter.commit() -%}
  {{ run_hooks(post_hooks, inside_transaction=False) }}
  {{ return({'relations': [view]}) }}
{% endmaterialization %}

{#- SQL that creates or replaces a view. -#}
{% macro replacing(view, sql) %}
        do $view$
        begin
          execute 'create or replace view {{ view }} as ' || {{ literal(sql) }};
        exception
          when invalid_table_definition then
            drop view {{ view }} cascade;
            execute 'create view {{ view }} as ' || {{ literal(sql) }};
        end
        $view$;
{% endmacro %}

{#- Whether a view has this SQL. The server's definition of a temporary view with the SQL is compared, because a stored
    digest would be wrong after somebody changed the view. -#}
{% macro is_same_view(view, sql) %}
  {%- set candidate = adapter.quote('ciris_candidate') -%}
  {%- set rows = run_query(
      "savepoint ciris_candidate; create temporary view " ~ candidate ~ " as " ~ sql ~ ";
      select " ~ view_definition(view) ~ " is not distinct from " ~ view_definition('pg_temp.' ~ candidate)) -%}
  {%- do run_query("rollback to savepoint ciris_candidate") -%}
  {{ return(rows[0][0]) }}
{% endmacro %}

{#- The definition, options and columns of a view as text. -#}
{% macro view_definition(view) -%}
  (
    select
      row(
        pg_get_viewdef(c.oid), c.reloptions,
        array(
          select row(a.attname, a.atttypid, a.atttypmod, a.attcollation)::text
          from pg_attribute as a where a.attrelid = c.oid and a.attnum > 0 order by a.attnum
        )
      )::text
    from pg_class as c
    where c.oid = to_regclass({{ literal(view) }})
  )
{%- endmacro %}

{#- Drop a table or view and the views on it, also in dbt's cache. -#}
{% macro drop_with_views(relation) %}
  {%- do run_query("drop " ~ relation.type ~ " if exists " ~ relation ~ " cascade") -%}
  {%- do adapter.drop_relation(relation) -%}
{% endmacro %}
