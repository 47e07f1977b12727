"""Skip static nodes if they and the project are unchanged since the last run.

Static nodes do not depend on the data: seeds, views, and nodes with the tag ciris_static.
"""

import json
from hashlib import md5
from importlib.metadata import version
from typing import Any

import psycopg
from psycopg import sql

from ciris_scoring.basics.connection import has_right, one_row
from ciris_scoring.basics.relations import PACKAGE, Relations
from ciris_scoring.basics.source_schema import ENGINE_TABLES
from ciris_scoring.basics.variables import PREFIX, SET_BY_US
from ciris_scoring.job.dbt_build import DbtBuild
from ciris_scoring.job.for_macros import CONSTANTS
from ciris_scoring.job.run_log import RunRecord

TAG = "ciris_static"
SELECTION = (f"tag:{TAG}", "config.materialized:replace_view", "resource_type:seed")
"""Static nodes in dbt's selection syntax."""
VARIABLES_OF_ONE_RUN = SET_BY_US | {
    f"{PREFIX}{name}" for name in ("allow_rescoring", "as_of", "rescore_from")
}
"""Variables whose values differ from run to run. Static nodes do not depend on these variables."""

_RELATIONS = """
select
    n.nspname,
    c.relname,
    c.relkind,
    c.relacl::text,
    case when c.relkind = 'v' then pg_get_viewdef(c.oid) end,
    array(
        select format('%%s %%s %%s', a.attname, format_type(a.atttypid, a.atttypmod), a.attnotnull)
        from pg_attribute as a
        where a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
        order by a.attnum
    ),
    array(
        with recursive children as (
            select c.oid as relid
            union
            select i.inhrelid from children join pg_inherits as i on i.inhparent = children.relid
        )
        select p.relkind from children join pg_class as p on p.oid = children.relid order by 1
    )
from unnest(%s::text[], %s::text[]) as wanted (schema_name, relation_name)
join pg_namespace as n on n.nspname = wanted.schema_name
join pg_class as c on c.relnamespace = n.oid and c.relname = wanted.relation_name
order by 1, 2
"""


def digest_to_skip_by(connection: psycopg.Connection, build: DbtBuild, record: RunRecord) -> str | None:
    """Return the digest of the database if static nodes can be skipped, else None.

    They can be skipped if the last run published and left the database with this digest.
    """
    n_others = _n_other_runs(connection, build.relations, record)
    digest = None if n_others is None else state_digest(connection, build)
    if digest is None or n_others is None:
        return None
    # The log of an earlier version may lack the column, until the run adds it.
    query = sql.SQL(
        "select 1 from {} as log where outcome = 'published' and to_jsonb(log) ->> 'state_digest' = %s"
    ).format(build.relations["int_runs"])
    found = connection.execute(query, [_stamped(digest, n_others - 1)]).fetchone()
    return digest if found else None


def stamped_digest(
    connection: psycopg.Connection, build: DbtBuild, record: RunRecord, before: str | None
) -> str | None:
    """Return the text that the run writes into the log: the digest, and the number of other runs in the log.

    By this number the next run knows that no other run has been between. The times of the log cannot say so, because
    the server's clock may have been corrected.

    :param before: digest at the start of the run if static nodes were skipped. It is kept, so that the next run sees
        any change to them.
    """
    digest = before or state_digest(connection, build)
    n_others = _n_other_runs(connection, build.relations, record)
    return None if digest is None or n_others is None else _stamped(digest, n_others)


def _stamped(digest: str, n_others: int) -> str:
    return f"{digest} {n_others}"


def _n_other_runs(connection: psycopg.Connection, relations: Relations, record: RunRecord) -> int | None:
    if not has_right(connection, relations.places["int_runs"]):
        return None
    query = sql.SQL("select count(*) from {} where run_id <> %s").format(relations["int_runs"])
    n: int = one_row(connection.execute(query, [record.run_id]))[0]
    return n


def state_digest(connection: psycopg.Connection, build: DbtBuild) -> str | None:
    """Return a digest of the static relations and of their inputs: files, target, environment variables, versions,
    constants, dbt variables, and the columns of the sources. Return None if a relation is missing."""
    project, manifest = build.project, build.manifest
    nodes = [node for node in manifest.nodes.values() if is_static(node)]
    static = _described(connection, [node.schema for node in nodes], [node.alias for node in nodes])
    if len(static) < len(nodes):
        return None
    tables = sorted({*project.source_tables.values(), *ENGINE_TABLES})
    variables = {f"{PREFIX}{name}": value for name, value in project.variables.items()}
    state = [
        sorted((name, file.checksum.checksum) for name, file in manifest.files.items()),
        manifest.state_check.to_dict(),
        manifest.env_vars,
        version("ciris-scoring"),
        repr(CONSTANTS),
        sorted(
            (name, value)
            for name, value in {**project.cli_vars, **variables}.items()
            if name not in VARIABLES_OF_ONE_RUN
        ),
        _described(connection, [project.source_schema] * len(tables), tables),
        static,
    ]
    return md5(json.dumps(state, default=str).encode()).hexdigest()


def is_static(node: Any) -> bool:
    """Return whether a node of the manifest is static."""
    return node.package_name == PACKAGE and (
        node.resource_type == "seed"
        or (
            node.resource_type == "model" and (TAG in node.tags or node.config.materialized == "replace_view")
        )
    )


def _described(connection: psycopg.Connection, schemas: list[str], names: list[str]) -> list[Any]:
    return connection.execute(_RELATIONS, [schemas, names]).fetchall()
