"""Find objects that would let another role run code as the scoring role, or write its rows into another schema.

PostgreSQL runs triggers, rules and functions of views as the role that reads or writes a relation. So every relation
that a run uses, and its schema, must belong to the scoring role or to a role that may act as the scoring role anyway.
A command that writes source tables trusts the owner of their schema too.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence

import psycopg
from psycopg import sql
from psycopg.rows import tuple_row

from ciris_scoring.basics.errors import DatabaseError
from ciris_scoring.basics.relations import Relations

# The kind of a wanted relation is table, view (whatever the database has) or source (a source table, also of a lens).
# Stranger: a role that can log in, is not a superuser, and cannot become the scoring role or the trusted role. The
# trusted role is the owner of the schema of source tables; it is null for a run.
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
    where
        roles.rolcanlogin and not roles.rolsuper and not pg_has_role(roles.oid, me.oid, 'member')
        and pg_has_role(roles.oid, {trusted}::name, 'member') is not true

),

wanted as (

    select wanted.schema_name, wanted.name, wanted.kind, n.oid as schema_oid
    from unnest({schemas}::text[], {names}::text[], {kinds}::text[]) as wanted (schema_name, name, kind)
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
        wanted.kind as wanted_kind,
        c.relrowsecurity as has_row_security,
        c.relname = wanted.name as is_model,
        -- pg_identify_object calls a composite type "composite type", but SQL calls it "type".
        replace((pg_identify_object('pg_class'::regclass, c.oid, 0)).type, 'composite ', '') as word
    from wanted
    inner join pg_class as c
        on
            wanted.schema_oid = c.relnamespace
            and (wanted.name = c.relname or starts_with(c.relname, wanted.name || '__dbt_'))
            or wanted.name || '__next' = c.relname
            and c.relnamespace in (select schemas.oid from schemas)
    inner join pg_namespace as n on c.relnamespace = n.oid
    order by c.oid, wanted.name <> c.relname, wanted.kind

),

owned as (

    select 'schema' as word, schemas.name, schemas.owner, '' as alternative
    from schemas
    union all
    select
        relations.word,
        relations.name,
        relations.owner,
        case
            when relations.wanted_kind <> 'source' then
                format('drop %s %s; or, if you know where it comes from: ', relations.word, relations.name)
        end as alternative
    from relations

),

-- Lists of access rights. The statement that revokes rights to future tables begins with the words in altered.
rights as (

    select schemas.name, 'schema ' || schemas.name as place, '' as altered, '' as of_column, schemas.acl
    from schemas
    union all
    select relations.name, 'table ' || relations.name as place, '' as altered, '' as of_column, relations.acl
    from relations
    union all
    select
        relations.name, 'table ' || relations.name as place, '' as altered, format(' (%I)', a.attname) as of_column,
        a.attacl as acl
    from relations
    inner join pg_attribute as a on relations.oid = a.attrelid
    union all
    select
        coalesce(n.nspname, '') as name,
        format('new tables of %I%s', me.rolname, ' in schema ' || quote_ident(n.nspname)) as place,
        format('alter default privileges for role %I%s ', me.rolname, ' in schema ' || quote_ident(n.nspname)),
        '' as of_column,
        d.defaclacl as acl
    from pg_default_acl as d
    inner join me on d.defaclrole = me.oid
    left join pg_namespace as n on d.defaclnamespace = n.oid
    where
        d.defaclobjtype = 'r'
        and (d.defaclnamespace = 0 or d.defaclnamespace in (select schemas.oid from schemas))

),

grants as (

    select
        rights.name,
        rights.place,
        rights.altered,
        granted.grantee,
        lower(granted.privilege_type collate "C") || rights.of_column as privilege
    from rights
    cross join lateral aclexplode(rights.acl) as granted
    where
        granted.privilege_type in ('TRIGGER', 'REFERENCES')
        or granted.privilege_type = 'CREATE' and {trusted}::name is null

),

-- Objects that are evaluated when a run writes a relation.
evaluated as (

    select relations.name, relations.word, parts.*
    from relations
    cross join lateral (
        select
            'pg_trigger'::regclass as catalog, t.oid, format(', in trigger %I', t.tgname) as place,
            format('drop trigger %I on %s;', t.tgname, relations.name) as remedy
        from pg_trigger as t
        where relations.oid = t.tgrelid and not t.tgisinternal
        union all
        select
            'pg_constraint'::regclass as catalog, k.oid, format(', in constraint %I', k.conname) as place,
            format('alter table %s drop constraint %I;', relations.name, k.conname) as remedy
        from pg_constraint as k
        where relations.oid = k.conrelid
        union all
        select
            'pg_attrdef'::regclass as catalog, d.oid, format(', in the default of column %I', a.attname) as place,
            format('alter table %s drop column %I;', relations.name, a.attname) as remedy
        from pg_attrdef as d
        inner join pg_attribute as a on d.adrelid = a.attrelid and d.adnum = a.attnum
        where relations.oid = d.adrelid
        union all
        select
            'pg_class'::regclass as catalog, i.indexrelid as oid, format(', in index %s', i.indexrelid::regclass),
            format('drop index %s;', i.indexrelid::regclass) as remedy
        from pg_index as i
        where relations.oid = i.indrelid
        union all
        select itself.catalog, itself.oid, '' as place, format('drop %s %s;', relations.word, relations.name) as remedy
        from (
            select 'pg_class'::regclass as catalog, relations.oid
            union all
            select 'pg_rewrite'::regclass as catalog, r.oid
            from pg_rewrite as r
            where relations.oid = r.ev_class
        ) as itself
    ) as parts

),

code as (

    select 'pg_proc'::regclass as catalog, oid, proowner as owner from pg_proc
    union all
    select 'pg_operator'::regclass as catalog, oid, oprowner as owner from pg_operator
    union all
    select 'pg_opclass'::regclass as catalog, oid, opcowner as owner from pg_opclass
    union all
    select 'pg_type'::regclass as catalog, oid, typowner as owner from pg_type

),

uses as (

    select evaluated.*, code.owner, format('%s %s', used.type, used.identity) as used
    from evaluated
    inner join pg_depend as d on evaluated.catalog = d.classid and evaluated.oid = d.objid
    inner join code on d.refclassid = code.catalog and d.refobjid = code.oid
    cross join lateral pg_identify_object(code.catalog, code.oid, 0) as used

),

foreign_keys as (

    select relations.name, k.conrelid, k.conname, c.relowner as owner
    from relations
    inner join pg_constraint as k on relations.oid = k.confrelid
    inner join pg_class as c on k.conrelid = c.oid
    where k.contype = 'f' and k.conparentid = 0

),

exposed as (

    select roles.oid, quote_ident(roles.rolname) as role, found.stranger
    from (
        select owned.owner from owned
        union
        select uses.owner from uses
        union
        select foreign_keys.owner from foreign_keys
        union
        select grants.grantee from grants
    ) as named (oid)
    inner join pg_roles as roles on named.oid = roles.oid
    cross join lateral (
        select quote_ident(strangers.rolname) as stranger
        from strangers
        where pg_has_role(strangers.oid, roles.oid, 'member')
        order by strangers.oid = roles.oid desc, strangers.rolname
        limit 1
    ) as found
    union all
    select 0 as oid, 'PUBLIC' as role, 'PUBLIC' as stranger

),

others as (

    select 'pg_class'::regclass as catalog, relations.oid
    from relations
    where relations.is_model and relations.kind not in ('r', 'v', 'm') and relations.wanted_kind <> 'source'
    union all
    select 'pg_type'::regclass as catalog, t.oid
    from wanted
    inner join pg_type as t on wanted.schema_oid = t.typnamespace and wanted.name = t.typname
    where t.typrelid = 0
    union all
    select 'pg_proc'::regclass as catalog, p.oid
    from wanted
    inner join pg_proc as p on wanted.schema_oid = p.pronamespace and wanted.name = p.proname

),

faults as (

    select
        1 as number,
        owned.name,
        format('%s %s is owned by %s', initcap(owned.word collate "C"), owned.name, quote_ident(roles.rolname))
        || case
            when exposed.stranger is null then format(', as which role %I cannot act', me.rolname)
            when exposed.role <> exposed.stranger then format(', as which role %s can act', exposed.stranger)
            else ''
        end as message,
        format('%salter %s %s owner to %I;', owned.alternative, owned.word, owned.name, me.rolname)
        || case
            when owned.alternative is null then
                format(' or, if %s may act as that role: grant %I to %1$s;', quote_ident(roles.rolname), me.rolname)
            else ''
        end as remedy
    from owned
    inner join pg_roles as roles on owned.owner = roles.oid
    cross join me
    left join exposed on owned.owner = exposed.oid
    where
        exposed.oid is not null
        or owned.word <> 'schema' and {trusted}::name is null and not pg_has_role(me.oid, owned.owner, 'usage')

    union all

    select
        2 as number,
        grants.name,
        format('Role %s has the privilege %s on %s', exposed.role, grants.privilege, grants.place) as message,
        format(
            '%srevoke %s on %s from %s;', grants.altered, grants.privilege,
            case grants.altered when '' then grants.place else 'tables' end, exposed.role
        ) as remedy
    from grants
    inner join exposed on grants.grantee = exposed.oid

    union all

    select
        3 as number,
        uses.name,
        format(
            '%s %s uses the %s, which is owned by %s%s',
            initcap(uses.word collate "C"), uses.name, uses.used, exposed.role, uses.place
        ) as message,
        uses.remedy
    from uses
    inner join exposed on uses.owner = exposed.oid

    union all

    select
        4 as number,
        relations.name,
        format('%s %s has the rule %I', initcap(relations.word collate "C"), relations.name, r.rulename) as message,
        format('drop rule %I on %s;', r.rulename, relations.name) as remedy
    from relations
    inner join pg_rewrite as r on relations.oid = r.ev_class
    where r.rulename <> '_RETURN' and relations.wanted_kind <> 'source'

    union all

    select
        5 as number,
        relations.name,
        format(
            'Table %s has row-level security, which a full refresh would lose and which hides rows from readers',
            relations.name
        ) as message,
        format(
            'alter table %s disable row level security; and put the policy on a view of your own.', relations.name
        ) as remedy
    from relations
    where relations.has_row_security and relations.wanted_kind <> 'source'

    union all

    select
        6 as number,
        relations.name,
        format(
            'Table %s is a child of table %s, and a query of the parent reads the rows of both',
            i.inhrelid::regclass, i.inhparent::regclass
        ) as message,
        format('alter table %s no inherit %s;', i.inhrelid::regclass, i.inhparent::regclass) as remedy
    from relations
    inner join pg_inherits as i on relations.oid in (i.inhparent, i.inhrelid)
    where relations.kind = 'r' and relations.wanted_kind <> 'source'

    union all

    select
        7 as number,
        foreign_keys.name,
        format(
            'Table %s, which is owned by %s, refers to %s by a foreign key',
            foreign_keys.conrelid::regclass, exposed.role, foreign_keys.name
        ) as message,
        format('alter table %s drop constraint %I;', foreign_keys.conrelid::regclass, foreign_keys.conname) as remedy
    from foreign_keys
    inner join exposed on foreign_keys.owner = exposed.oid

    union all

    select
        8 as number,
        found.identity as name,
        format('The %s %s has the name of a table or view that a run makes', found.type, found.identity) as message,
        format('drop %s %s; or rename it.', replace(found.type, 'composite ', ''), found.identity) as remedy
    from others
    cross join lateral pg_identify_object(others.catalog, others.oid, 0) as found

    union all

    select
        9 as number,
        relations.name,
        format(
            '%s %s has the name of a table, and rows written into a view go into the tables that the view reads, '
            'such as the original of a dbt clone',
            initcap(relations.word collate "C"), relations.name
        ) as message,
        format('drop %s %s;', relations.word, relations.name) as remedy
    from relations
    where relations.kind in ('v', 'm') and relations.wanted_kind = 'table'

)

select distinct
    faults.number,
    faults.name,
    faults.message || '.' as message,
    'As the owner or a superuser: ' || faults.remedy as remedy
from faults
order by faults.number, faults.name, message
"""


def ownership_query(places: Iterable[Sequence[str]], trusted: str | None = None) -> str:
    """Return the query that lists the faults of relations and of their schemas.

    :param places: schema, name and kind (``table``, ``view`` or ``source``) of each relation.
    :param trusted: role whose code may run, besides superusers and members of the scoring role.
    """
    schemas, names, kinds = map(list, zip(*places, strict=True))
    query = sql.SQL(_FAULTS).format(
        schemas=sql.Literal(schemas),
        names=sql.Literal(names),
        kinds=sql.Literal(kinds),
        trusted=sql.Literal(trusted),
    )
    return query.as_string(None)


def ownership_faults(connection: psycopg.Connection, relations: Relations) -> Iterator[DatabaseError]:
    """Yield an error for each object that would let another role run code as the scoring role, and for each view in
    place of a table."""
    places = [
        (*place, "table" if name in relations.tables else "view") for name, place in relations.places.items()
    ]
    if relations.permissions is not None:
        places.append((*relations.permissions, "view"))
    return _faults(connection, ownership_query(places))


def refuse_untrusted_tables(connection: psycopg.Connection, schema: str, kinds: Mapping[str, str]) -> None:
    """Refuse to write source tables if an untrusted role could run code as this role or wrote their rows.

    :param kinds: ``source`` or ``table`` by name of a table in the schema.
    :raises DatabaseError: a table, or code that it runs, belongs to a role that is neither trusted by a run nor the
        owner of the schema.
    """
    query = "select pg_get_userbyid(nspowner)::text from pg_namespace where nspname = %s"
    [[owner]] = connection.cursor(row_factory=tuple_row).execute(query, [schema]).fetchall()
    places = [(schema, name, kind) for name, kind in kinds.items()]
    for fault in _faults(connection, ownership_query(places, owner)):
        raise fault


def _faults(connection: psycopg.Connection, query: str) -> Iterator[DatabaseError]:
    cursor = connection.cursor(row_factory=tuple_row)
    for _, _, message, remedy in cursor.execute(query).fetchall():
        yield DatabaseError(message, remedy)
