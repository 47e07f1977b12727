{#- Post-hook of the tables that a mart is a view of. A full refresh swaps the table, and would drop the view with the
    old one, to be built again only behind the gate: this turns it to the new table in the same transaction. A view
    that does not fit the new table goes with the old one after all. -#}
{% macro keep_views(table) %}
  {%- set backup = make_backup_relation(table, 'table') %}
  do $$
  declare
    view_of_backup record;
  begin
    for view_of_backup in
      select distinct c.oid::regclass as view_name, pg_get_viewdef(c.oid) as definition
      from pg_depend as d
      inner join pg_rewrite as r on d.classid = 'pg_rewrite'::regclass and d.objid = r.oid
      inner join pg_class as c on r.ev_class = c.oid and c.relkind = 'v'
      where d.refclassid = 'pg_class'::regclass and d.refobjid = to_regclass('{{ backup | string | replace("'", "''") }}')
    loop
      begin
        execute format(
          'create or replace view %s as %s',
          view_of_backup.view_name,
          replace(view_of_backup.definition, '{{ backup.identifier }}', '{{ table.identifier }}')
        );
      exception when syntax_error_or_access_rule_violation then
        null;
      end;
    end loop;
  end
  $$
{% endmacro %}

{#- Pre-hook of such a view: dbt takes it to have gone with the old table, and would find its name taken. -#}
{% macro replace_kept_view() %}
  {%- if execute and load_cached_relation(this) is none -%}
    drop view if exists {{ this }} cascade
  {%- endif -%}
{% endmacro %}
