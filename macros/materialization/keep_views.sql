{#- Post-hook of the marts, and of other tables that a mart is a view of. Where dbt puts a new table or view in the place
    of an old one, it drops the views that others have made of the old one with it, and a mart would be built again only
    behind the gate: this turns them to the new one in the same transaction. A view that does not fit the new one, or
    that we may not replace, goes with the old one after all. -#}
{% macro keep_views(relation) %}
  {%- if not is_swapped() -%} {{ return('') }} {%- endif -%}
  {%- set backup = make_backup_relation(relation, relation.type) %}
  do $$
  declare
    view_of_backup record;
  begin
    for view_of_backup in
      select distinct
        format('%I.%I', n.nspname, c.relname) as view_name,
        coalesce('with (' || array_to_string(c.reloptions, ', ') || ') ', '') as options,
        pg_get_viewdef(c.oid) as definition
      from pg_depend as d
      inner join pg_rewrite as r on d.classid = 'pg_rewrite'::regclass and d.objid = r.oid
      inner join pg_class as c on r.ev_class = c.oid and c.relkind = 'v' and c.oid <> d.refobjid
      inner join pg_namespace as n on c.relnamespace = n.oid
      where d.refclassid = 'pg_class'::regclass and d.refobjid = to_regclass('{{ backup | string | replace("'", "''") }}')
    loop
      begin
        execute format(
          'create or replace view %s %sas %s',
          view_of_backup.view_name,
          view_of_backup.options,
          replace(view_of_backup.definition, '{{ backup.identifier }}', '{{ relation.identifier }}')
        );
      exception when syntax_error_or_access_rule_violation then
        null;
      end;
    end loop;
  end
  $$
{% endmacro %}

{#- Whether dbt puts a new relation in the place of this model's old one. -#}
{% macro is_swapped() %}
  {%- set materialized = config.get('materialized') -%}
  {{ return(execute and (materialized == 'view' or (materialized == 'incremental' and not is_incremental()))) }}
{% endmacro %}

{#- Pre-hook of what has keep_views: one is swapped at a time. A view on two of them would otherwise have them wait for each
    other. -#}
{% macro swap_alone() %}
  {%- if is_swapped() -%}
    select pg_advisory_xact_lock(hashtext('ciris_scoring_swap'), hashtext('{{ target.schema | replace("'", "''") }}'))
  {%- endif -%}
{% endmacro %}

{#- Pre-hook of a mart that is a view of a table with keep_views. dbt takes it to have gone with the old table, and would
    find its name taken: it is moved to where dbt puts what it replaces. -#}
{% macro replace_kept_view() %}
  {%- if execute and load_cached_relation(this) is none -%}
    alter view if exists {{ this }} rename to {{ adapter.quote(make_backup_relation(this, 'view').identifier) }}
  {%- endif -%}
{% endmacro %}
