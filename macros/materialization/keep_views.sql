{#- SQL that turns the views that others have made of a relation to the one that takes its place. dbt drops them with the old
    one, and a mart would be built again only behind the gate. A view that does not fit the new one, or that we may not
    replace, goes with the old one after all. -#}
{% macro turn_views(replaced, relation) %}
  do $$
  declare
    view_of_replaced record;
  begin
    for view_of_replaced in
      select distinct
        format('%I.%I', n.nspname, c.relname) as view_name,
        coalesce('with (' || array_to_string(c.reloptions, ', ') || ') ', '') as options,
        pg_get_viewdef(c.oid) as definition
      from pg_depend as d
      inner join pg_rewrite as r on d.classid = 'pg_rewrite'::regclass and d.objid = r.oid
      inner join pg_class as c on r.ev_class = c.oid and c.relkind = 'v' and c.oid <> d.refobjid
      inner join pg_namespace as n on c.relnamespace = n.oid
      where d.refclassid = 'pg_class'::regclass and d.refobjid = to_regclass({{ literal(replaced) }})
    loop
      begin
        execute format(
          'create or replace view %s %sas %s',
          view_of_replaced.view_name,
          view_of_replaced.options,
          replace(view_of_replaced.definition, '{{ replaced.identifier }}', '{{ relation.identifier }}')
        );
      exception when syntax_error_or_access_rule_violation then
        null;
      end;
    end loop;
  end
  $$
{% endmacro %}

{#- SQL by which one relation is swapped at a time: a view on two of them would otherwise have them wait for each other. -#}
{% macro alone_in_swapping() -%}
  select pg_advisory_xact_lock(hashtext('ciris_scoring_swap'), hashtext({{ literal(target.schema) }}))
{%- endmacro %}

{#- Pre-hook and post-hook of the marts: the same for views, whose materialization is dbt's. -#}
{% macro swap_alone() -%}
  {%- if execute and config.get('materialized') == 'view' -%} {{ alone_in_swapping() }} {%- endif -%}
{%- endmacro %}

{#- See swap_alone. -#}
{% macro keep_views(relation) -%}
  {%- if execute and config.get('materialized') == 'view' -%}
    {{ turn_views(make_backup_relation(relation, relation.type), relation) }}
  {%- endif -%}
{%- endmacro %}

{#- Pre-hook of a mart that is a view of a table whose views are turned. dbt takes it to have gone with the old table, and would
    find its name taken: it is moved to where dbt puts what it replaces. -#}
{% macro replace_kept_view() %}
  {%- if execute and load_cached_relation(this) is none -%}
    alter view if exists {{ this }} rename to {{ adapter.quote(make_backup_relation(this, 'view').identifier) }}
  {%- endif -%}
{% endmacro %}
