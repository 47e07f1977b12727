"""Compare the traces and keys of a database with raw batches."""

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

import psycopg
from psycopg import sql
from psycopg.rows import dict_row

from ciris_scoring.audit.incoming import (
    LOADED_KEY,
    copy_incoming,
    has_run_kind,
    key_uses,
    refuse_foreign_keys,
    share_marks,
)
from ciris_scoring.audit.keys import Key, read_keys, registered_keys
from ciris_scoring.audit.load import Summary, problem_lines, read_batches
from ciris_scoring.database import as_of as as_of_time
from ciris_scoring.database.connection import connect, one_row, snapshot
from ciris_scoring.database.project import Project
from ciris_scoring.database.source_schema import TRACE_COLUMNS
from ciris_scoring.database.source_shape import source_shape
from ciris_scoring.database.statements import column_list
from ciris_scoring.database.terminal import aligned, fitted, plural, printable
from ciris_scoring.errors import InputError
from ciris_scoring.names import WHOLE_HASH, whole_hash

KEPT = 10_000
"""Maximum number of discrepancies that are kept, and listed with --json. Further discrepancies are only counted."""
SHOWN = 50
READABLE_TIME = """case when "timestamp" between '0001-01-02' and '9999-12-30' then "timestamp" end"""
"""SQL of the time of a trace, null if Python has no such time. A row with the time infinity must not end the audit."""
DEFERRALS = "deferrals (wbd_deferrals): they are not signed, so no file can confirm them. They change the factor I_inc."

DIFFERS, MISSING, UNFOUNDED, KEY_DIFFERS = "differs", "missing_in_database", "not_in_files", "key_differs"
MEANINGS = {
    DIFFERS: "the database has other values",
    MISSING: "in the files, but not in the database",
    UNFOUNDED: "in the database, but not in the files",
    KEY_DIFFERS: "the registered key differs, ends at another time, or is missing",
}

# Columns in which the score treats several spellings as equal, for instance SPEAK and HandlerActionType.SPEAK. Each
# column has an SQL expression that gives all spellings the same value.
_COMPARED = {
    "signature_verified": "coalesce(signature_verified, false)",
    "run_kind": "coalesce(run_kind, 'production')",
    "selected_action": """regexp_replace(upper(trim(selected_action) collate "C"), '^HANDLERACTIONTYPE[.]', '')""",
}
_AMONG = """
    agent_id_hash = any(%(agents)s)
    and (%(first)s::timestamptz is null or "timestamp" >= %(first)s)
    and (%(last)s::timestamptz is null or "timestamp" < %(last)s)
"""


@dataclass(frozen=True)
class Discrepancy:
    """A trace or key that differs between database and files."""

    kind: str
    agent_id_hash: str | None
    trace_id: str | None
    timestamp: datetime | None
    differences: dict[str, dict[str, Any]]
    """For each column, the value in the database and the value recomputed from the files."""


@dataclass
class Audit:
    """Result of the comparison of a database with files."""

    agents: list[str]
    window: tuple[datetime | None, datetime | None]
    summary: Summary
    in_files: int = 0
    in_database: int = 0
    verified: int = 0
    counts: Counter[str] = field(default_factory=Counter)
    found: list[Discrepancy] = field(default_factory=list)
    not_compared: list[str] = field(default_factory=list)
    """Sentences on what was not compared, although scores are computed from it."""

    @property
    def is_confirmed(self) -> bool:
        """Whether database and files agree."""
        return not self.counts

    @property
    def exit_code(self) -> int:
        """Exit code of the command, see docs/auditing.md."""
        return 1 if self.counts else 2 if self.summary.n_problems else 0

    @property
    def among(self) -> dict[str, Any]:
        """Parameters of the condition on the compared traces."""
        return {"agents": self.agents, "first": self.window[0], "last": self.window[1]}

    def add(self, discrepancies: Iterable[Discrepancy]) -> None:
        """Count discrepancies and keep the first `KEPT`."""
        for one in discrepancies:
            self.counts[one.kind] += 1
            if len(self.found) < KEPT:
                self.found.append(one)


def audit(
    project: Project,
    paths: Sequence[Path],
    keys_files: Sequence[Path],
    agent: str | None,
    window: tuple[datetime | None, datetime | None],
) -> Audit:
    """Verify raw batches with the given keys and compare them with the database. The database is not changed.

    :param agent: hash of an agent, the beginning of a hash, or a name; None for all agents in the files.
    :param window: start (inclusive) and end (exclusive) of the compared traces; None for no limit.
    :raises InputError: a file of keys is invalid, the files have no trace of the agent, or no trace is in the window.
    """
    first, last = window
    if first is not None and last is not None and first >= last:
        raise InputError(
            f"--from is {as_of_time.text(first)}, which is not before --to, {as_of_time.text(last)}.",
            "Traces from --from on and before --to are compared.",
        )
    summary = Summary()
    keys, problems = read_keys(keys_files)
    summary.add_problems(problems)
    traces, registry = map(project.source_table, ("covenant_traces", "covenant_public_keys"))
    with connect(project) as connection, snapshot(connection, read_only=False):  # it creates temporary tables
        _read(connection, traces, paths, keys, summary)
        result = Audit(_agents(connection, agent, summary), window, summary)
        columns = (*TRACE_COLUMNS, "run_kind") if has_run_kind(connection, traces) else TRACE_COLUMNS
        _set_side_by_side(connection, traces, columns, result)
        counts = "count(*), count(*) filter (where signature_verified), (select count(*) from claimed)"
        found = one_row(connection.execute(f"select {counts} from recomputed"))
        result.in_files, result.verified, result.in_database = found
        if not result.in_files and not result.in_database and window != (None, None):
            raise InputError(
                "Neither the files nor the database have a trace in the range of --from and --to.",
                "Nothing was compared. Give another range.",
            )
        result.add(_different_keys(connection, registry, keys))
        result.add(_different_traces(connection, columns))
        result.not_compared = list(_not_compared(connection, project, result, agent))
    return result


def _read(
    connection: psycopg.Connection,
    traces: sql.Identifier,
    paths: Sequence[Path],
    keys: dict[str, Key],
    summary: Summary,
) -> None:
    n = copy_incoming(connection, traces, [])
    uses: dict[tuple[str, str], None] = {}
    contents = {name: key.content for name, key in keys.items()}
    for batches in read_batches(paths, contents, summary):
        n = copy_incoming(connection, traces, batches, n)
        uses |= key_uses(batches)
    summary.add_found(refuse_foreign_keys(connection, uses, contents))
    share_marks(connection, sql.Identifier("incoming"))
    connection.execute("analyze incoming")


def _agents(connection: psycopg.Connection, agent: str | None, summary: Summary) -> list[str]:
    query = """
        select distinct agent_id_hash from incoming
        where
            %(agent)s::text is null
            or agent_id_hash = %(hash)s
            or (%(hash)s::text is null and (starts_with(agent_id_hash, %(agent)s) or agent_name = %(agent)s))
        order by agent_id_hash
    """
    whole = agent.removeprefix(WHOLE_HASH) if agent is not None and agent.startswith(WHOLE_HASH) else None
    agents = [found for (found,) in connection.execute(query, {"agent": agent, "hash": whole})]
    if agent is not None and len(agents) > 1:
        raise InputError(
            f"{len(agents)} agents in the files have the name {agent!r} or a hash that begins with it: "
            f"{', '.join(agents[:10])}{' and more' if len(agents) > 10 else ''}.",
            f"Give more of the hash, or the whole hash after {WHOLE_HASH!r}, for example {whole_hash(agents[0])}.",
        )
    if not agents:
        of_whom = "any agent" if agent is None else f"an agent {agent!r}"
        why = "".join(f" {one.where}: {one.reason}: {one.detail}." for one in summary.problems[:1])
        raise InputError(
            f"The files contain no trace of {of_whom}.{why}",
            "Name the agent by its hash, the beginning of its hash, or its name. Give the files that this agent wrote.",
        )
    return agents


def _set_side_by_side(
    connection: psycopg.Connection, traces: sql.Identifier, columns: Sequence[str], result: Audit
) -> None:
    """Create two temporary tables with the traces to compare: ``recomputed`` from the files, ``claimed`` from the
    database."""
    compared = (sql.SQL(_COMPARED.get(name, "{0}") + " as {0}").format(sql.Identifier(name)) for name in columns)
    names = {
        "traces": traces,
        "compared": sql.SQL(", ").join(compared),
        "columns": column_list(columns),
        "of_files": column_list(columns, "of_files"),
        "loaded": column_list(columns, "loaded"),
        "key": column_list(LOADED_KEY),
    }
    # If several contents of a trace or decision verify, the one that was loaded first is in the database.
    query = f"""
        create temporary table recomputed on commit drop as
        with of_files as (select {{compared}}, reason, decision_sha256, ordinal from incoming),

        sent as (
            select
                of_files.*,
                row({{loaded}}) is not distinct from row({{of_files}}) as is_loaded,
                loaded.trace_id is not null as has_loaded_id,
                bool_or(of_files.signature_verified) over (partition by {{key}}) as has_verified
            from of_files
            left join (select {{compared}} from {{traces}}) as loaded using ({{key}})
        ),

        decisions as (
            select distinct on (coalesce(decision_sha256, ordinal::text)) *
            from sent
            order by
                coalesce(decision_sha256, ordinal::text) asc,
                signature_verified desc, is_loaded desc, has_loaded_id desc, ordinal asc
        )

        select distinct on ({{key}}) {{columns}}, reason, 1 as copy
        from decisions
        where (signature_verified or is_loaded or not has_verified) and {_AMONG}
        order by {{key}}, signature_verified desc, is_loaded desc, ordinal asc
    """
    connection.execute(sql.SQL(query).format(**names), result.among, prepare=False)
    query = f"""
        create temporary table claimed on commit drop as
        select {{compared}}, row_number() over (partition by {{key}}) as copy from {{traces}} where {_AMONG}
    """
    connection.execute(sql.SQL(query).format(**names), result.among, prepare=False)
    connection.execute("analyze recomputed")
    connection.execute("analyze claimed")


def _different_traces(connection: psycopg.Connection, columns: Sequence[str]) -> Iterator[Discrepancy]:
    query = """
        select
            agent_id_hash, trace_id, {at} as at,
            case when claimed.trace_id is not null then to_jsonb(claimed) end as claimed,
            case when recomputed.trace_id is not null then to_jsonb(recomputed) end as recomputed
        from claimed
        full join recomputed using ({key}, copy)
        where row({claimed}) is distinct from row({recomputed})
        order by agent_id_hash collate "C", "timestamp", trace_id collate "C"
    """
    statement = sql.SQL(query).format(
        at=sql.SQL(READABLE_TIME),
        key=column_list(LOADED_KEY),
        claimed=column_list(columns, "claimed"),
        recomputed=column_list(columns, "recomputed"),
    )
    with connection.cursor(row_factory=dict_row) as cursor:
        for row in cursor.stream(statement):
            claimed, recomputed = row["claimed"], row["recomputed"]
            kind, differences = MISSING if claimed is None else UNFOUNDED, {}
            if claimed and recomputed:
                kind = DIFFERS
                differences = {
                    name: {"database": claimed[name], "recomputed": recomputed[name]}
                    for name in columns
                    if not _same(claimed[name], recomputed[name])
                }
                if "signature_verified" in differences and recomputed["reason"]:
                    differences["signature_verified"]["reason"] = recomputed["reason"]
            yield Discrepancy(kind, row["agent_id_hash"], row["trace_id"], row["at"], differences)


def _same(one: object, other: object) -> bool:
    """Return whether two JSON values are equal. Python's == is not used, because it treats true and 1 as equal."""
    return json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)


def _different_keys(
    connection: psycopg.Connection, registry: sql.Identifier, keys: dict[str, Key]
) -> Iterator[Discrepancy]:
    registered = registered_keys(connection, registry)
    used = "select distinct signature_key_id from recomputed order by signature_key_id"
    for (key_id,) in connection.execute(used).fetchall():
        key, there = keys.get(key_id), registered.get(key_id)
        if key is not None:
            differing = ["public_key_base64"] if there is None else key.differences(there)
            differences = {
                f"{name} of key {key_id}": {"database": getattr(there, name, None), "recomputed": getattr(key, name)}
                for name in differing
            }
            if differences:
                yield Discrepancy(KEY_DIFFERS, None, None, None, differences)


def _not_compared(connection: psycopg.Connection, project: Project, result: Audit, agent: str | None) -> Iterator[str]:
    """Yield sentences on what the scores are computed from and the files cannot confirm."""
    yield DEFERRALS
    if agent is None:
        query = f"""
            select count(*), count(distinct agent_id_hash) from {{}}
            where {_AMONG.replace("= any", "<> all")}
        """
        traces = project.source_table("covenant_traces")
        n_traces, n_agents = one_row(connection.execute(sql.SQL(query).format(traces), result.among))
        if n_traces:
            of = plural(n_agents, "agent that is", "agents that are")
            yield f"{plural(n_traces, 'trace')} in the database of {of} not in the files"
    if source_shape(connection, project) == "events":
        yield "the table trace_events, from which this target is scored"


def as_json(result: Audit) -> str:
    """Return the result of a comparison as JSON."""
    first, last = result.window
    document = {
        "agents": result.agents,
        "from": first,
        "to": last,
        "is_confirmed": result.is_confirmed,
        "traces_in_files": result.in_files,
        "traces_in_database": result.in_database,
        "verified": result.verified,
        "not_verified": result.in_files - result.verified,
        "n_discrepancies": result.counts.total(),
        "discrepancies_by_kind": dict(result.counts),
        "discrepancies": [vars(one) for one in result.found],
        "not_compared": result.not_compared,
        "n_problems": result.summary.n_problems,
        "problems": [one._asdict() for one in result.summary.problems],
    }
    return json.dumps(document, indent=2, default=str)


def page(result: Audit) -> list[str]:
    """Return the result of a comparison as lines of text."""
    first, last = (f"{moment:%Y-%m-%d %H:%M:%S} UTC" if moment else None for moment in result.window)
    window = "whole history" if not (first or last) else f"from {first or 'the first'} to {last or 'the last'}"
    lines = [
        f"{plural(len(result.agents), 'agent')}, {window}: {', '.join(map(printable, result.agents[:10]))}",
        f"{plural(result.in_files, 'trace')} in the files, {result.verified:,} verified; "
        f"{plural(result.in_database, 'trace')} in the database.",
        "",
    ]
    if result.is_confirmed:
        lines.append("Confirmed: the traces and keys in the database agree with the files.")
    else:
        lines.append(f"{plural(result.counts.total(), 'discrepancy', 'discrepancies')}:")
        lines += [f"  {n:,} {kind}: {MEANINGS[kind]}" for kind, n in result.counts.items()]
        lines += ["", *_table(result.found[:SHOWN])]
        if result.counts.total() > SHOWN:
            lines.append(f"and {result.counts.total() - SHOWN:,} more; --json lists up to {KEPT:,}.")
    lines += ["Not compared:", *(printable(f"  {one}") for one in result.not_compared)]
    if result.summary.n_problems:
        lines += ["", *problem_lines(result.summary, " in the files and keys")]
    return lines


def _table(found: Sequence[Discrepancy]) -> list[str]:
    rows = [
        (
            printable((one.agent_id_hash or "")[:8]),
            f"{one.timestamp:%Y-%m-%dT%H:%M:%SZ}" if one.timestamp else "",
            fitted(printable(one.trace_id or ""), 56),
            one.kind,
            "; ".join(_difference(name, values) for name, values in one.differences.items()),
        )
        for one in found
    ]
    return aligned(["agent", "time", "trace", "finding", "what differs"], rows)


def _difference(name: str, values: dict[str, Any]) -> str:
    database, recomputed = values["database"], values["recomputed"]
    if isinstance(database, dict) and isinstance(recomputed, dict):
        keys = sorted(key for key in {*database, *recomputed} if not _same(database.get(key), recomputed.get(key)))
        return printable(f"{name}: {', '.join(keys)}")
    reason = f" ({values['reason']})" if "reason" in values else ""
    return f"{name} {_short(database)}, recomputed {_short(recomputed)}{reason}"


def _short(value: Any) -> str:
    return fitted(printable(json.dumps(value, ensure_ascii=False, default=str)), 40)
