"""Find objects and rights that would let another role run code as the scoring role, or change its rows.

PostgreSQL runs triggers and functions of views as the role that reads or writes a relation. So every schema and
relation that a run uses must belong to the scoring role or to a role that may act as the scoring role anyway, and no
other role may create objects there or write rows. A command that writes source tables trusts the owner of their schema
too.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence

import psycopg
from psycopg import sql
from psycopg.rows import tuple_row

from ciris_scoring.database.relations import Relations
from ciris_scoring.errors import DatabaseError

# The kind of a wanted relation is table, view (whatever the database has) or source (a source table, also of a lens).
# Stranger: a role that can log in, is not a superuser, and cannot become the scoring role or the trusted role. The
# trusted role is the owner of the schema of source tables; it is null for a run.
# Exposed: a role as which a stranger can act. Only owners can add constraints, defaults, indexes and rules, and only
# they and holders of the right can add triggers. So it suffices to check owners, rights, and the triggers that remain
# after a right was revoked.
_FAULTS = """
with strangers as (

    select oid, rolname
    from pg_roles
    where
        rolcanlogin and not rolsuper and not pg_has_role(oid, current_user, 'member')
        and pg_has_role(oid, {trusted}::name, 'member') is not true

),

exposed as (

    select roles.oid, quote_ident(roles.rolname) as role, min(quote_ident(strangers.rolname)) as stranger
    from pg_roles as roles
    inner join strangers on pg_has_role(strangers.oid, roles.oid, 'member')
    group by roles.oid, roles.rolname
    union all
    select 0, 'PUBLIC', 'PUBLIC'

),

wanted as (

    select n.oid as schema_oid, n.nspname as schema_name, wanted.name, wanted.kind
    from unnest({schemas}::text[], {names}::text[], {kinds}::text[]) as wanted (schema_name, name, kind)
    inner join pg_namespace as n on wanted.schema_name = n.nspname

),

-- A mart has a staging table (macros/materialization/publication.sql), whose comment a run executes.
places as (

    select n.oid, 'schema' as word, quote_ident(n.nspname) as name, n.nspowner as owner, n.nspacl as acl, '' as kind
    from pg_namespace as n
    where n.oid in (select wanted.schema_oid from wanted)
    union all
    select
        c.oid,
        case c.relkind when 'v' then 'view' when 'm' then 'materialized view' else 'table' end,
        format('%I.%I', n.nspname, c.relname),
        c.relowner,
        c.relacl,
        case when c.relkind in ('v', 'm') and bool_or(wanted.kind = 'table') then 'misplaced' else min(wanted.kind) end
    from wanted
    inner join pg_class as c
        on c.relname in (wanted.name, wanted.name || '__next') and c.relkind in ('r', 'p', 'v', 'm', 'f')
    inner join pg_namespace as n on c.relnamespace = n.oid
    where n.oid = wanted.schema_oid or c.relname <> wanted.name and n.oid in (select w.schema_oid from wanted as w)
    group by c.oid, n.nspname

),

faults as (

    select
        1 as number,
        places.name,
        format(
            '%s %s is owned by %s%s', initcap(places.word collate "C"), places.name, quote_ident(owners.rolname),
            case
                when exposed.oid is null then format(', as which role %I cannot act', current_user)
                when exposed.role <> exposed.stranger then format(', as which role %s can act', exposed.stranger)
            end
        ) as message,
        format('alter %s %s owner to %I;', places.word, places.name, current_user) as remedy
    from places
    inner join pg_roles as owners on places.owner = owners.oid
    left join exposed on places.owner = exposed.oid
    where
        exposed.oid is not null
        or places.word <> 'schema' and {trusted}::name is null and not pg_has_role(current_user, places.owner, 'usage')

    union all

    select
        2,
        places.name,
        format('Role %s has the privilege %s on %s %s', exposed.role, granted.privilege_type, places.word, places.name),
        format(
            'revoke %s on %s %s from %s;', granted.privilege_type,
            case places.word when 'schema' then 'schema' else 'table' end, places.name, exposed.role
        )
    from places
    cross join lateral (
        select rights.grantee, rights.privilege_type
        from aclexplode(places.acl) as rights
        union
        select rights.grantee, rights.privilege_type
        from pg_attribute as a
        cross join lateral aclexplode(a.attacl) as rights
        where a.attrelid = places.oid and places.word <> 'schema' and not a.attisdropped
    ) as granted
    inner join exposed on granted.grantee = exposed.oid
    where
        granted.privilege_type in ('TRIGGER', 'REFERENCES')
        or granted.privilege_type in ('CREATE', 'INSERT', 'UPDATE', 'DELETE', 'TRUNCATE') and {trusted}::name is null

    union all

    select
        3,
        places.name,
        format(
            'The trigger %I of %s calls %s, which is owned by %s',
            t.tgname, places.name, p.oid::regprocedure, exposed.role
        ),
        format('drop trigger %I on %s;', t.tgname, places.name)
    from places
    inner join pg_trigger as t on places.oid = t.tgrelid and not t.tgisinternal
    inner join pg_proc as p on t.tgfoid = p.oid
    inner join exposed on p.proowner = exposed.oid

    union all

    select
        4,
        places.name,
        format(
            '%s %s has the name of a table, and rows written into a view go into the tables that the view reads, '
            'such as the original of a dbt clone', initcap(places.word collate "C"), places.name
        ),
        format('drop %s %s;', places.word, places.name)
    from places
    where places.kind = 'misplaced'

)

select
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
    places = [(*place, "table" if name in relations.tables else "view") for name, place in relations.places.items()]
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
