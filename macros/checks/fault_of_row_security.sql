{#- A sentence about the rows of a source that row-level security hides, with the remedy; none if it hides nothing.
    PostgreSQL applies the policies of a table to the role that reads it: the owner of the view through which it is read,
    unless that view is a security_invoker, else ours. A table read through its parent follows the parent's policies. -#}
{% macro fault_of_row_security(node) %}
  {%- set table = node.schema ~ "." ~ node.identifier -%}
  {%- set relation = adapter.quote(node.schema) ~ "." ~ adapter.quote(node.identifier) -%}
  {%- set rows = run_query("
    with recursive me as (
      select oid from pg_roles where rolname = current_user
    ),
    tables_read (relid, reader) as (
      select to_regclass(" ~ literal(relation) ~ ")::oid, me.oid from me
      union
      select
        d.refobjid,
        case
          when exists (
            select 1
            from pg_options_to_table(v.reloptions) as o
            where o.option_name = 'security_invoker' and o.option_value::boolean
          ) then me.oid
          else v.relowner
        end
      from tables_read
      cross join me
      inner join pg_class as v on tables_read.relid = v.oid and v.relkind in ('v', 'm')
      inner join pg_rewrite as r on v.oid = r.ev_class
      inner join pg_depend as d
        on d.classid = 'pg_rewrite'::regclass and d.objid = r.oid and d.refclassid = 'pg_class'::regclass and d.refobjid <> v.oid
    )
    select
      c.oid::regclass::text as table_name,
      quote_ident(readers.rolname) as reader,
      pg_has_role(readers.oid, c.relowner, 'usage') as reads_as_owner,
      (
        select string_agg(quote_ident(p.polname), ', ' order by p.polname) from pg_policy as p where p.polrelid = c.oid
      ) as policies
    from tables_read
    inner join pg_class as c on tables_read.relid = c.oid
    inner join pg_roles as readers on tables_read.reader = readers.oid
    where
      c.relrowsecurity and not readers.rolsuper and not readers.rolbypassrls
      and not (pg_has_role(readers.oid, c.relowner, 'usage') and not c.relforcerowsecurity)
    order by 1, 2") -%}
  {%- if rows | length == 0 -%} {{ return(none) }} {%- endif -%}
  {%- set row = rows[0] -%}
  {{ return(
    "Source table " ~ table ~ " is subject to row-level security: "
    ~ ("the policy " ~ row['policies'] if row['policies'] else "without any policy, security")
    ~ " of table " ~ row['table_name'] ~ " decides which rows role " ~ row['reader'] ~ " sees, and scores need all rows. "
    ~ ("As a superuser: alter table " ~ row['table_name'] ~ " no force row level security; or"
       if row['reads_as_owner'] else "As a superuser:")
    ~ " alter role " ~ row['reader'] ~ " bypassrls; else read a view of the table that belongs to its owner, who is exempt.") }}
{% endmacro %}
