"""Skips whatever has not changed since the last run: code, variables, source columns, and the relations themselves."""

import json
from collections.abc import Iterable
from hashlib import md5
from importlib.metadata import version
from typing import Any

import psycopg
from psycopg import sql

from ciris_scoring.basics.connection import has_right, one_row
from ciris_scoring.basics.project import PREFIX, SET_BY_US, Project
from ciris_scoring.basics.relations import PACKAGE, Relations
from ciris_scoring.basics.source_schema import ENGINE_TABLES
from ciris_scoring.job.dbt_build import DbtBuild
from ciris_scoring.job.for_macros import CONSTANTS
from ciris_scoring.job.run_log import Attempt

VARIABLES_OF_ONE_RUN = SET_BY_US | {f"{PREFIX}allow_rescoring", f"{PREFIX}as_of"}
"""Variables that differ from run to run; no view depends on them."""
_CONSTANT = "constant"
"""A value of a table's meta.rewritten, which macros/materialization/replace_range.sql explains."""

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
    array(select pg_get_constraintdef(k.oid) from pg_constraint as k where k.conrelid = c.oid order by 1),
    array(select pg_get_indexdef(i.indexrelid) from pg_index as i where i.indrelid = c.oid order by 1),
    array(select p.relkind from pg_partition_tree(c.oid) as t join pg_class as p on p.oid = t.relid order by 1)
from unnest(%s::text[], %s::text[]) as wanted (schema_name, relation_name)
join pg_namespace as n on n.nspname = wanted.schema_name
join pg_class as c on c.relnamespace = n.oid and c.relname = wanted.relation_name
order by 1, 2
"""
_ROWS = """select md5(string_agg(r::text, E'\n' order by r::text collate "C")) from {} as r"""


def unchanged_digest(connection: psycopg.Connection, build: DbtBuild, attempt: Attempt) -> str | None:
    """Return the digest of the last run if it still holds; then the next run may skip unchanged_nodes.

    :param attempt: the next run; in a backfill, its previous step was the last run.
    """
    known = attempt.state_digest or _digest_of_last_run(connection, build.relations, attempt)
    return known if known is not None and known == state_digest(connection, build) else None


def state_digest(connection: psycopg.Connection, build: DbtBuild) -> str | None:
    """Return the digest of the lasting nodes, and of everything that decides them; None if one does not exist."""
    project, manifest = build.project, build.manifest
    built = _built(connection, manifest)
    if built is None:
        return None
    state = [_code(project, manifest), _sources(connection, project), built]
    return md5(json.dumps(state, default=str).encode()).hexdigest()


def unchanged_nodes(manifest: Any) -> list[str]:
    """Return the unique ids that a run may skip if nothing has changed: lasting nodes, and tests of constants."""
    lasting = lasting_nodes(manifest)
    constants = {node.unique_id for node in _constants(manifest, lasting)}
    tests = [
        node.unique_id
        for node in manifest.nodes.values()
        if node.package_name == PACKAGE
        and node.resource_type == "test"
        and node.depends_on.nodes
        and constants.issuperset(node.depends_on.nodes)
    ]
    return [*lasting, *tests]


def lasting_nodes(manifest: Any) -> list[str]:
    """Return the unique ids of nodes that no run changes: seeds, constant tables, views."""
    return sorted(
        node.unique_id
        for node in manifest.nodes.values()
        if node.package_name == PACKAGE
        and (node.resource_type == "seed" or _rewritten(node) == _CONSTANT or _is(node, "replace_view"))
    )


def _is(node: Any, materialization: str) -> bool:
    return bool(node.resource_type == "model" and node.config.materialized == materialization)


def _rewritten(node: Any) -> str | None:
    return node.config.meta.get("rewritten") if _is(node, "replace_range") else None


def _constants(manifest: Any, lasting: Iterable[str]) -> list[Any]:
    nodes = [manifest.nodes[name] for name in lasting]
    return [node for node in nodes if node.resource_type == "seed" or _rewritten(node) == _CONSTANT]


def _digest_of_last_run(connection: psycopg.Connection, relations: Relations, attempt: Attempt) -> str | None:
    """The digest that the last run left; None if it did not publish, or was one of plain dbt."""
    if not has_right(connection, *relations.places["int_runs"]):
        return None
    query = sql.SQL(
        """
        select case when outcome = 'published' then state_digest end
        from {}
        where run_id <> %s and outcome is distinct from 'refused'
        order by started_at desc
        limit 1
        """
    ).format(relations["int_runs"])
    row = connection.execute(query, [attempt.run_id]).fetchone()
    return None if row is None else row[0]


def _code(project: Project, manifest: Any) -> list[Any]:
    """Every file that dbt reads, the target, environment variables, versions, constants, and the variables in force."""
    lasting = {
        name: value
        for name, value in project.variables.items()
        if f"{PREFIX}{name}" not in VARIABLES_OF_ONE_RUN
    }
    others = {name: value for name, value in project.cli_vars.items() if not name.startswith(PREFIX)}
    return [
        sorted((name, file.checksum.checksum) for name, file in manifest.files.items()),
        manifest.state_check.to_dict(),
        manifest.env_vars,
        version("ciris-scoring"),
        repr(CONSTANTS),
        sorted(lasting.items()),
        sorted(others.items()),
    ]


def _sources(connection: psycopg.Connection, project: Project) -> list[Any]:
    tables = sorted({*project.source_tables.values(), *ENGINE_TABLES})
    return _described(connection, [project.source_schema] * len(tables), tables)


def _built(connection: psycopg.Connection, manifest: Any) -> list[Any] | None:
    """The definitions of the lasting relations, and the rows of constant ones; None if one is missing."""
    lasting = lasting_nodes(manifest)
    nodes = [manifest.nodes[name] for name in lasting]
    found = _described(connection, [node.schema for node in nodes], [node.alias for node in nodes])
    if len(found) < len(nodes):
        return None
    rows = [
        one_row(connection.execute(sql.SQL(_ROWS).format(sql.Identifier(node.schema, node.alias))))
        for node in _constants(manifest, lasting)
    ]
    return [found, rows]


def _described(connection: psycopg.Connection, schemas: list[str], names: list[str]) -> list[Any]:
    """The definition of each relation that exists; every name has its schema, which is not on the search path."""
    return connection.execute(_RELATIONS, [schemas, names]).fetchall()
