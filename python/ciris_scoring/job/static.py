"""Skip static nodes if they and the project are unchanged since the last run.

Static nodes do not depend on the data: seeds, views, and nodes with the tag ciris_static.
"""

import json
from hashlib import md5
from importlib.metadata import version
from typing import Any

import psycopg
from psycopg import sql

from ciris_scoring.basics.connection import has_right
from ciris_scoring.basics.relations import PACKAGE, Relations
from ciris_scoring.basics.source_schema import ENGINE_TABLES
from ciris_scoring.basics.variables import PREFIX, SET_BY_US
from ciris_scoring.job.dbt_build import DbtBuild
from ciris_scoring.job.for_macros import CONSTANTS
from ciris_scoring.job.run_log import RunRecord

TAG = "ciris_static"
SELECTION = (f"tag:{TAG}", "config.materialized:replace_view", "resource_type:seed")
"""Static nodes in dbt's selection syntax."""
VARIABLES_OF_ONE_RUN = SET_BY_US | {f"{PREFIX}allow_rescoring", f"{PREFIX}as_of"}
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
    array(select p.relkind from pg_partition_tree(c.oid) as t join pg_class as p on p.oid = t.relid order by 1)
from unnest(%s::text[], %s::text[]) as wanted (schema_name, relation_name)
join pg_namespace as n on n.nspname = wanted.schema_name
join pg_class as c on c.relnamespace = n.oid and c.relname = wanted.relation_name
order by 1, 2
"""


def digest_to_skip_by(connection: psycopg.Connection, build: DbtBuild, record: RunRecord) -> str | None:
    """Return the known digest if static nodes can be skipped, else None.

    They can be skipped if the digest still describes the database. The known digest is that of the previous step in a
    backfill, and otherwise that of the last run, if it published.
    """
    known = record.state_digest or _digest_of_last_run(connection, build.relations, record)
    return known if known is not None and known == state_digest(connection, build) else None


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


def _digest_of_last_run(
    connection: psycopg.Connection, relations: Relations, record: RunRecord
) -> str | None:
    """Return the digest of the last run; None if that run did not publish, or was plain dbt."""
    if not has_right(connection, *relations.places["int_runs"]):
        return None
    query = sql.SQL(
        """
        select case when outcome = 'published' then state_digest end
        from {}
        where run_id <> %s
        order by started_at desc
        limit 1
        """
    ).format(relations["int_runs"])
    row = connection.execute(query, [record.run_id]).fetchone()
    return None if row is None else row[0]


def _described(connection: psycopg.Connection, schemas: list[str], names: list[str]) -> list[Any]:
    return connection.execute(_RELATIONS, [schemas, names]).fetchall()
