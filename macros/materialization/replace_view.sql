{#- A mart that is a view, replaced in place so that views of others stay. If its columns changed other than by new last
    ones, it is dropped with those views and made again. -#}
{% materialization replace_view, adapter='postgres' %}
  {%- set view = this.incorporate(type='view') -%}
  {%- set old = load_cached_relation(this) -%}
  {{ run_hooks(pre_hooks, inside_transaction=False) }}
  {{ run_hooks(pre_hooks, inside_transaction=True) }}
  {%- if old is not none and old.type != 'view' -%} {%- do adapter.drop_relation(old) -%} {%- endif -%}
  {{ get_assert_columns_equivalent(sql) }}
  {%- call statement('main') %}
  do $view$
  begin
    execute 'create or replace view {{ view }} as ' || {{ literal(sql) }};
  exception
    when invalid_table_definition then
      drop view {{ view }} cascade;
      execute 'create view {{ view }} as ' || {{ literal(sql) }};
  end
  $view$
  {%- endcall -%}
  {%- do apply_grants(view, config.get('grants'), should_revoke=should_revoke(old, full_refresh_mode=False)) -%}
  {%- do describe(view) -%}
  {{ run_hooks(post_hooks, inside_transaction=True) }}
  {%- do adapter.commit() -%}
  {{ run_hooks(post_hooks, inside_transaction=False) }}
  {{ return({'relations': [view]}) }}
{% endmaterialization %}
