"""Find objects in the target schemas that would let another role run code as the scoring role.

PostgreSQL runs triggers, rules and functions of views as the role that reads or writes a relation. So every relation
that a run uses, and its schema, must belong to the scoring role or to a role that may act as it anyway.
"""

from collections.abc import Iterable, Iterator, Sequence

import psycopg
from psycopg import sql

from ciris_scoring.basics.errors import DatabaseError
from ciris_scoring.basics.relations import Relations

# Stranger: a role that can log in, is not a superuser, and cannot become the scoring role.
# Exposed: a role that owns something or has a right to it, if a stranger can act as this role.
_FAULTS = """
with me as (

    select oid, rolname
    from pg_roles
    where rolname = current_user

),

strangers as (

    select roles.oid, roles.rolname
    from pg_roles as roles
    cross join me
    where roles.rolcanlogin and not roles.rolsuper and not pg_has_role(roles.oid, me.oid, 'member')

),

wanted as (

    select wanted.schema_name, wanted.name, n.oid as schema_oid
    from unnest({schemas}::text[], {names}::text[]) as wanted (schema_name, name)
    inner join pg_namespace as n on wanted.schema_name = n.nspname

),

schemas as (

    select n.oid, n.nspowner as owner, quote_ident(n.nspname) as name, n.nspacl as acl
    from pg_namespace as n
    where n.oid in (select wanted.schema_oid from wanted)

),

-- dbt makes a relation beside the old one, under a name with a suffix. A mart has a staging table in another schema
-- (macros/materialization/publication.sql), whose comment a run executes.
relations as (

    select distinct on (c.oid)
        c.oid,
        c.relowner as owner,
        format('%I.%I', n.nspname, c.relname) as name,
        c.relacl as acl,
        c.relkind as kind,
        c.relrowsecurity as has_row_security,
        c.relname = wanted.name as is_model,
        case c.relkind
            when 'v' then 'view'
            when 'm' then 'materialized view'
            when 'S' then 'sequence'
            when 'f' then 'foreign table'
            when 'c' then 'type'
            when 'i' then 'index'
            when 'I' then 'index'
            else 'table'
        end as word
    from wanted
    inner join pg_class as c
        on
            wanted.schema_oid = c.relnamespace
            and (wanted.name = c.relname or starts_with(c.relname, wanted.name || '__dbt_'))
            or wanted.name || '__next' = c.relname
            and c.relnamespace in (select schemas.oid from schemas)
    inner join pg_namespace as n on c.relnamespace = n.oid
    order by c.oid, wanted.name <> c.relname

),

grants as (

    select 'schema' as word, schemas.name, granted.grantee, lower(granted.privilege_type collate "C") as privilege
    from schemas
    cross join lateral aclexplode(schemas.acl) as granted
    where granted.privilege_type = 'CREATE'
    union all
    select 'table' as word, relations.name, granted.grantee, lower(granted.privilege_type collate "C") as privilege
    from relations
    cross join lateral aclexplode(relations.acl) as granted
    where granted.privilege_type in ('TRIGGER', 'REFERENCES') and relations.kind <> 'S'
    union all
    select 'column' as word, relations.name, granted.grantee, lower(granted.privilege_type collate "C") as privilege
    from relations
    inner join pg_attribute as a on relations.oid = a.attrelid
    cross join lateral aclexplode(a.attacl) as granted
    where granted.privilege_type = 'REFERENCES'

),

default_grants as (

    select d.defaclrole, n.nspname, granted.grantee, lower(granted.privilege_type collate "C") as privilege
    from pg_default_acl as d
    left join pg_namespace as n on d.defaclnamespace = n.oid
    cross join me
    cross join lateral aclexplode(d.defaclacl) as granted
    where
        d.defaclrole = me.oid
        and d.defaclobjtype = 'r'
        and (d.defaclnamespace = 0 or d.defaclnamespace in (select schemas.oid from schemas))
        and granted.privilege_type in ('TRIGGER', 'REFERENCES')

),

-- Objects that are evaluated when a run writes a relation.
evaluated as (

    select
        relations.name,
        'pg_trigger'::regclass as catalog,
        t.oid,
        format('Trigger %I of table %s', t.tgname, relations.name) as message,
        format('drop trigger %I on %s;', t.tgname, relations.name) as remedy
    from relations
    inner join pg_trigger as t on relations.oid = t.tgrelid
    where not t.tgisinternal
    union all
    select
        relations.name,
        'pg_constraint'::regclass as catalog,
        k.oid,
        format('Constraint %I of table %s', k.conname, relations.name) as message,
        format('alter table %s drop constraint %I;', relations.name, k.conname) as remedy
    from relations
    inner join pg_constraint as k on relations.oid = k.conrelid
    union all
    select
        relations.name,
        'pg_attrdef'::regclass as catalog,
        d.oid,
        format('The default of column %I of table %s', a.attname, relations.name) as message,
        format('alter table %s drop column %I;', relations.name, a.attname) as remedy
    from relations
    inner join pg_attrdef as d on relations.oid = d.adrelid
    inner join pg_attribute as a on d.adrelid = a.attrelid and d.adnum = a.attnum
    union all
    select
        relations.name,
        'pg_class'::regclass as catalog,
        i.indexrelid as oid,
        format('Index %s', i.indexrelid::regclass) as message,
        format('drop index %s;', i.indexrelid::regclass) as remedy
    from relations
    inner join pg_index as i on relations.oid = i.indrelid
    union all
    select
        relations.name,
        itself.catalog,
        itself.oid,
        format('%s %s', initcap(relations.word collate "C"), relations.name) as message,
        format('drop %s %s;', relations.word, relations.name) as remedy
    from relations
    cross join lateral (
        select 'pg_class'::regclass as catalog, relations.oid
        union all
        select 'pg_rewrite'::regclass as catalog, r.oid
        from pg_rewrite as r
        where relations.oid = r.ev_class
    ) as itself

),

code as (

    select 'pg_proc'::regclass as catalog, p.oid, p.proowner as owner, 'calls' as verb, 'a function' as word,
        p.oid::regprocedure::text as name
    from pg_proc as p
    union all
    select 'pg_operator'::regclass as catalog, o.oid, o.oprowner as owner, 'uses' as verb, 'an operator' as word,
        o.oid::regoperator::text as name
    from pg_operator as o
    union all
    select 'pg_opclass'::regclass as catalog, o.oid, o.opcowner as owner, 'uses' as verb, 'an operator class' as word,
        quote_ident(o.opcname) as name
    from pg_opclass as o
    union all
    select 'pg_type'::regclass as catalog, t.oid, t.typowner as owner, 'uses' as verb, 'a type' as word,
        t.oid::regtype::text as name
    from pg_type as t

),

calls as (

    select
        evaluated.name,
        evaluated.message,
        evaluated.remedy,
        code.owner,
        format('%s %s, %s', code.verb, code.name, code.word) as what
    from evaluated
    inner join pg_depend as d
        on evaluated.catalog = d.classid and evaluated.oid = d.objid
    inner join code on d.refclassid = code.catalog and d.refobjid = code.oid

),

foreign_keys as (

    select relations.name, k.conrelid, k.conname, c.relowner as owner
    from relations
    inner join pg_constraint as k on relations.oid = k.confrelid
    inner join pg_class as c on k.conrelid = c.oid
    where k.contype = 'f' and k.conparentid = 0

),

exposed as (

    select named.oid, found.stranger
    from (
        select schemas.owner from schemas
        union
        select relations.owner from relations
        union
        select calls.owner from calls
        union
        select foreign_keys.owner from foreign_keys
        union
        select grants.grantee from grants
        union
        select default_grants.grantee from default_grants
    ) as named (oid)
    cross join lateral (
        select strangers.rolname as stranger
        from strangers
        where pg_has_role(strangers.oid, nullif(named.oid, 0), 'member')
        order by strangers.oid = named.oid desc, strangers.rolname
        limit 1
    ) as found
    union all
    select 0 as oid, 'PUBLIC' as stranger

),

faults as (

    select
        1 as number,
        schemas.name,
        format('Schema %s is owned by %s', schemas.name, quote_ident(roles.rolname))
        || case
            when roles.rolname <> exposed.stranger then format(', as which role %I can act', exposed.stranger)
            else ''
        end
        as message,
        format('alter schema %s owner to %I;', schemas.name, me.rolname) as remedy
    from schemas
    inner join exposed on schemas.owner = exposed.oid
    inner join pg_roles as roles on schemas.owner = roles.oid
    cross join me

    union all

    select
        2 as number,
        relations.name,
        format('%s %s is owned by %s', initcap(relations.word collate "C"), relations.name, quote_ident(roles.rolname))
        || case
            when exposed.stranger is null then format(', as which role %I cannot act', me.rolname)
            when roles.rolname <> exposed.stranger then format(', as which role %I can act', exposed.stranger)
            else ''
        end as message,
        format(
            'drop %s %s; or, if you know where it comes from: alter %s %s owner to %I;',
            relations.word, relations.name, relations.word, relations.name, me.rolname
        ) as remedy
    from relations
    inner join pg_roles as roles on relations.owner = roles.oid
    cross join me
    left join exposed on relations.owner = exposed.oid
    where exposed.oid is not null or not pg_has_role(me.oid, relations.owner, 'usage')

    union all

    select
        3 as number,
        grants.name,
        format(
            'Role %s has the privilege %s on %s %s', coalesce(quote_ident(roles.rolname), 'PUBLIC'), grants.privilege,
            case when grants.word = 'column' then 'columns of' else grants.word end, grants.name
        ) as message,
        case
            when grants.word = 'column'
                then format('revoke all on %s from %s;', grants.name, coalesce(quote_ident(roles.rolname), 'PUBLIC'))
            else format(
                'revoke %s on %s %s from %s;',
                grants.privilege, grants.word, grants.name, coalesce(quote_ident(roles.rolname), 'PUBLIC')
            )
        end as remedy
    from grants
    inner join exposed on grants.grantee = exposed.oid
    left join pg_roles as roles on grants.grantee = roles.oid

    union all

    select
        4 as number,
        calls.name,
        format('%s %s that is owned by %s', calls.message, calls.what, quote_ident(roles.rolname)) as message,
        calls.remedy
    from calls
    inner join exposed on calls.owner = exposed.oid
    inner join pg_roles as roles on calls.owner = roles.oid

    union all

    select
        5 as number,
        relations.name,
        format('%s %s has the rule %I', initcap(relations.word collate "C"), relations.name, r.rulename) as message,
        format('drop rule %I on %s;', r.rulename, relations.name) as remedy
    from relations
    inner join pg_rewrite as r on relations.oid = r.ev_class
    where r.rulename <> '_RETURN'

    union all

    select
        6 as number,
        relations.name,
        format(
            'Table %s has row-level security, which a full refresh would lose and which hides rows from readers',
            relations.name
        ) as message,
        format(
            'alter table %s disable row level security; and put the policy on a view of your own.', relations.name
        ) as remedy
    from relations
    where relations.has_row_security

    union all

    select
        7 as number,
        relations.name,
        format('Table %s has the child table %s, whose rows a run would read too', relations.name, i.inhrelid::regclass)
        as message,
        format('alter table %s no inherit %s;', i.inhrelid::regclass, relations.name) as remedy
    from relations
    inner join pg_inherits as i on relations.oid = i.inhparent
    where relations.kind = 'r'

    union all

    select
        7 as number,
        relations.name,
        format('Table %s is a child of table %s', relations.name, i.inhparent::regclass) as message,
        format('alter table %s no inherit %s;', relations.name, i.inhparent::regclass) as remedy
    from relations
    inner join pg_inherits as i on relations.oid = i.inhrelid
    where relations.kind = 'r'

    union all

    select
        8 as number,
        foreign_keys.name,
        format(
            'Table %s, which is owned by %I, refers to %s by a foreign key',
            foreign_keys.conrelid::regclass, roles.rolname, foreign_keys.name
        ) as message,
        format('alter table %s drop constraint %I;', foreign_keys.conrelid::regclass, foreign_keys.conname) as remedy
    from foreign_keys
    inner join exposed on foreign_keys.owner = exposed.oid
    inner join pg_roles as roles on foreign_keys.owner = roles.oid

    union all

    select
        9 as number,
        relations.name,
        format('%s is a %s, but a run makes a table or view of that name', relations.name, relations.word) as message,
        format('drop %s %s; or rename it.', relations.word, relations.name) as remedy
    from relations
    where relations.is_model and relations.kind not in ('r', 'v', 'm')

    union all

    select
        9 as number,
        t.oid::regtype::text,
        format('%s is a type, but a run makes a table or view of that name', t.oid::regtype) as message,
        format(
            'drop %s %s; or rename it.', case t.typtype when 'd' then 'domain' else 'type' end, t.oid::regtype
        ) as remedy
    from wanted
    inner join pg_type as t on wanted.schema_oid = t.typnamespace and wanted.name = t.typname
    where t.typrelid = 0

    union all

    select
        9 as number,
        p.oid::regprocedure::text,
        format(
            '%s is a function, but a run makes a table or view of that name, and dbt takes one for the other',
            p.oid::regprocedure
        ) as message,
        format('drop routine %s; or rename it.', p.oid::regprocedure) as remedy
    from wanted
    inner join pg_proc as p on wanted.schema_oid = p.pronamespace and wanted.name = p.proname

    union all

    select
        10 as number,
        coalesce(default_grants.nspname, ''),
        format(
            'By default role %s gets the privilege %s on new tables of %I%s',
            coalesce(quote_ident(roles.rolname), 'PUBLIC'), default_grants.privilege, me.rolname,
            ' in schema ' || quote_ident(default_grants.nspname)
        ) as message,
        format(
            'alter default privileges for role %I%s revoke %s on tables from %s;',
            me.rolname, ' in schema ' || quote_ident(default_grants.nspname), default_grants.privilege,
            coalesce(quote_ident(roles.rolname), 'PUBLIC')
        ) as remedy
    from default_grants
    inner join exposed on default_grants.grantee = exposed.oid
    left join pg_roles as roles on default_grants.grantee = roles.oid
    cross join me

)

select distinct
    faults.number,
    faults.name,
    faults.message || '.' as message,
    'As the owner or a superuser: ' || faults.remedy as remedy
from faults
order by faults.number, faults.name, message
"""


def ownership_query(places: Iterable[Sequence[str]]) -> str:
    """Return the query that lists the faults of some relations and their schemas: number, name, message, remedy.

    :param places: schema and name of each relation.
    """
    schemas, names = zip(*places, strict=True)
    query = sql.SQL(_FAULTS).format(schemas=sql.Literal(list(schemas)), names=sql.Literal(list(names)))
    return query.as_string(None)


def ownership_faults(connection: psycopg.Connection, relations: Relations) -> Iterator[DatabaseError]:
    """Yield an error for each object that would let another role run code as the scoring role."""
    places = sorted(relations.places.values())
    for _, _, message, remedy in connection.execute(ownership_query(places)).fetchall():
        yield DatabaseError(message, remedy)


def check_ownership(connection: psycopg.Connection, relations: Relations) -> None:
    """Check, before anything of the target is read, that no other role can run code as the scoring role.

    :raises DatabaseError: names the first such object, with the statement that removes it.
    """
    for fault in ownership_faults(connection, relations):
        raise fault
