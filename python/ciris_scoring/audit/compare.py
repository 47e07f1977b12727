"""Compare a database with raw batches: the traces, their signatures and their positions in the chain."""

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

import psycopg
from psycopg import sql
from psycopg.rows import dict_row

from ciris_scoring.audit.incoming import (
    copy_incoming,
    has_run_kind,
    key_uses,
    refuse_foreign_keys,
    share_marks,
)
from ciris_scoring.audit.keys import REGISTERED_ENDS, Key, read_keys, registered_key
from ciris_scoring.audit.load import SHOWN_PROBLEMS, Summary, problem_lines, read_batches
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
SHOWN_ENDS = 10
READABLE_TIME = """case when "timestamp" between '0001-01-02' and '9999-12-30' then "timestamp" end"""
"""SQL of the time of a trace, null if Python has no such time. A row with the time infinity must not end the audit."""
DEFERRALS = "deferrals (wbd_deferrals): they are not signed, so no file can confirm them. They change the factor I_inc."
PREVIOUS = "previous_audit_sequence_number"
"""Audit number of the agent's previous trace, in the order that the score uses."""

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
_PREVIOUS = """
    lag(audit_sequence_number) over (
        partition by agent_id_hash
        order by "timestamp" asc, audit_sequence_number asc nulls last, trace_id collate "C" asc
    ) as previous_audit_sequence_number
"""
# Lists of columns by which traces of the files are paired with traces of the database: all columns of a list must be
# equal. The lists are tried in this order. The second and later lists find traces whose agent, id or time was altered
# in the database.
_MATCHES = (
    ("agent_id_hash", "trace_id", "timestamp"),
    ("trace_id", "timestamp"),
    ("signature",),
    ("trace_id",),
    ("agent_id_hash", "audit_entry_hash"),
)


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
    chain: dict[str, int] = field(default_factory=dict)
    """Numbers of gaps, rewinds and repeats in the files. They lower the score, but they are not discrepancies."""
    counts: Counter[str] = field(default_factory=Counter)
    found: list[Discrepancy] = field(default_factory=list)
    unstated_key_ends: list[dict[str, str]] = field(default_factory=list)
    """Times at which a key ends in the database and which the files do not state: key_id, column, database."""
    not_compared: list[str] = field(default_factory=list)
    """Sentences on what was not compared, although scores are computed from it."""

    @property
    def is_confirmed(self) -> bool:
        """Whether database and files agree, and the files state when each key ends."""
        return not self.counts.total() and not self.unstated_key_ends

    @property
    def exit_code(self) -> int:
        """Exit code of the command, see docs/auditing.md."""
        return 1 if self.counts else 0 if self.is_confirmed and not self.summary.n_problems else 2

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
    *,
    every_problem: bool = False,
) -> Audit:
    """Verify raw batches with the given keys and compare them with the database. The database is not changed.

    :param agent: hash of an agent, the beginning of a hash, or a name; None for all agents in the files.
    :param window: start (inclusive) and end (exclusive) of the compared traces; None for no limit.
    :param every_problem: keep up to 20 problems of each batch instead of 20 in total.
    :raises InputError: a file of keys is invalid, the files have no trace of the agent, or no trace is in the window.
    """
    first, last = window
    if first is not None and last is not None and first >= last:
        raise InputError(
            f"--from is {as_of_time.text(first)}, which is not before --to, {as_of_time.text(last)}.",
            "Traces from --from on and before --to are compared.",
        )
    summary = Summary(most_problems=None if every_problem else SHOWN_PROBLEMS)
    keys, problems = read_keys(keys_files)
    summary.add_problems(problems)
    traces, registry = map(project.source_table, ("covenant_traces", "covenant_public_keys"))
    with connect(project) as connection, snapshot(connection, read_only=False):  # it creates temporary tables
        _read(connection, traces, paths, keys, summary)
        agents = _agents(connection, agent)
        result = Audit(agents, window, summary)
        columns = TRACE_COLUMNS
        if has_run_kind(connection, traces):
            columns = (*columns, "run_kind")
        else:
            _skip_marked(connection, traces)
        _set_side_by_side(connection, traces, columns, agents, window)
        _match(connection)
        counts = "count(*), count(*) filter (where signature_verified), (select count(*) from claimed)"
        found = one_row(connection.execute(f"select {counts} from raw"))
        result.in_files, result.verified, result.in_database = found
        if not result.in_files and not result.in_database and window != (None, None):
            raise InputError(
                "Neither the files nor the database have a trace in the range of --from and --to.",
                "Nothing was compared. Give another range.",
            )
        result.chain = _breaks(connection)
        _compare_keys(connection, registry, keys, result)
        result.add(_differing(connection, columns))
        result.add(_alone(connection, "raw", MISSING))
        result.add(_alone(connection, "claimed", UNFOUNDED))
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
    foreign = refuse_foreign_keys(connection, uses, _agents_of_keys(connection, traces, uses, contents))
    summary.add_found(foreign)
    share_marks(connection)
    connection.execute("analyze incoming")


def _agents_of_keys(
    connection: psycopg.Connection,
    traces: sql.Identifier,
    uses: Iterable[tuple[str, str]],
    keys: Mapping[str, bytes],
) -> dict[str, str]:
    """Return the agent of each key id. A public key may sign for one agent only, even if it has several ids.

    A key may verify traces of several agents in the files. If the database has verified traces of exactly one of these
    agents, the key belongs to this agent, because the files may have been loaded in another order. Otherwise the key
    belongs to the agent that comes first in the files.
    """
    agents: dict[bytes, dict[str, None]] = {}
    for key_id, agent in uses:
        agents.setdefault(keys[key_id], {})[agent] = None
    several = [key_id for key_id, key in keys.items() if len(agents.get(key, ())) > 1]
    query = sql.SQL(
        """
        select distinct signature_key_id, agent_id_hash::text
        from {}
        where signature_verified and signature_key_id = any(%s)
        """
    ).format(traces)
    rows = connection.execute(query, [several]).fetchall() if several else []
    claimed = {(keys[key_id], agent) for key_id, agent in rows}
    right = {}
    for key, named in agents.items():
        [agent, *others] = [one for one in named if (key, one) in claimed] or named
        right[key] = next(iter(named)) if others else agent
    return {key_id: right[keys[key_id]] for key_id, _ in uses}


def _agents(connection: psycopg.Connection, agent: str | None) -> list[str]:
    query = """
        select agent_id_hash, coalesce(bool_or(agent_name = %(agent)s), false) as is_name
        from incoming
        where
            %(agent)s::text is null
            or agent_id_hash = %(hash)s
            or (%(hash)s::text is null and (starts_with(agent_id_hash, %(agent)s) or agent_name = %(agent)s))
        group by agent_id_hash
    """
    values: dict[str, str | None] = {"agent": agent, "hash": None}
    if agent is not None and agent.startswith(WHOLE_HASH):
        values["hash"] = agent.removeprefix(WHOLE_HASH)
    is_name: dict[str, bool] = dict(sorted(connection.execute(query, values).fetchall()))
    # If the text of --agent is the whole hash of an agent, agents whose longer hash begins with it are ignored. Agents
    # whose name is the text are kept, because an agent may have chosen the hash of another agent as its name.
    agents = [one for one in is_name if agent not in is_name or one == agent or is_name[one]]
    if agent is not None and len(agents) > 1:
        raise InputError(
            f"{len(agents)} agents in the files have the name {agent!r} or a hash that begins with it: "
            f"{', '.join(agents[:10])}{' and more' if len(agents) > 10 else ''}.",
            f"Give more of the hash, or the whole hash after {WHOLE_HASH!r}, for example {whole_hash(agents[0])}.",
        )
    if not agents:
        of_whom = "any agent" if agent is None else f"an agent {agent!r}"
        raise InputError(
            f"The files contain no trace of {of_whom}.",
            "Name the agent by its hash, the beginning of its hash, or its name. Give the files that this agent wrote.",
        )
    return agents


def _skip_marked(connection: psycopg.Connection, traces: sql.Identifier) -> None:
    """Remove the traces of the files that `load` skips, because the table has no column for their run kind."""
    query = """
        delete from incoming
        where
            run_kind <> 'production'
            and not exists (
                select from {} as loaded
                where
                    loaded.trace_id = incoming.trace_id and loaded."timestamp" = incoming."timestamp"
                    and loaded.agent_id_hash = incoming.agent_id_hash
            )
    """
    connection.execute(sql.SQL(query).format(traces))


def _set_side_by_side(
    connection: psycopg.Connection,
    traces: sql.Identifier,
    columns: Sequence[str],
    agents: list[str],
    window: tuple[datetime | None, datetime | None],
) -> None:
    """Create two temporary tables with the traces to compare: ``raw`` from the files, ``claimed`` from the database."""
    _name_contents(connection)
    compared = (sql.SQL(_COMPARED.get(name, "{0}") + " as {0}").format(sql.Identifier(name)) for name in columns)
    names = {
        "traces": traces,
        "compared": sql.SQL(", ").join(compared),
        "columns": column_list(columns),
        "sent": column_list(columns, "sent"),
        "loaded": column_list(columns, "loaded"),
        "previous": sql.SQL(_PREVIOUS),
    }
    among = """
        agent_id_hash = any(%(agents)s)
        and (%(first)s::timestamptz is null or "timestamp" >= %(first)s)
        and (%(last)s::timestamptz is null or "timestamp" < %(last)s)
    """
    values = {"agents": agents, "first": window[0], "last": window[1]}
    # If several contents of a trace verify, the database has the content that was loaded first.
    query = f"""
        create temporary table raw on commit drop as
        with sent as (
            select sent.*, contents.number, row({{loaded}}) is not distinct from row({{sent}}) as is_loaded
            from (select {{compared}}, reason, decision_sha256, ordinal from incoming) as sent
            inner join contents using (trace_id, "timestamp", agent_id_hash)
            left join (select {{compared}} from {{traces}}) as loaded using (trace_id, "timestamp", agent_id_hash)
        ),

        chosen as (
            select distinct on (number) {{columns}}, reason, number
            from sent
            order by number asc, signature_verified desc, is_loaded desc, ordinal asc
        ),

        -- If the verified content of an id is a copy of another trace, an unverified content of this id may be loaded.
        beside as (
            select distinct on (sent.trace_id, sent."timestamp", sent.agent_id_hash)
                {{sent}}, sent.reason, -sent.ordinal as number
            from sent
            inner join chosen using (number)
            where
                sent.decision_sha256 is null and sent.is_loaded
                and (sent.trace_id, sent."timestamp", sent.agent_id_hash)
                <> (chosen.trace_id, chosen."timestamp", chosen.agent_id_hash)
            order by sent.trace_id, sent."timestamp", sent.agent_id_hash, sent.ordinal
        )

        select {{columns}}, reason, {{previous}}, number
        from (select * from chosen union all select * from beside) as expected
        where {among}
    """
    connection.execute(sql.SQL(query).format(**names), values, prepare=False)
    query = f"""
        create temporary table claimed on commit drop as
        select {{compared}}, {{previous}}, row_number() over () as number from {{traces}} where {among}
    """
    connection.execute(sql.SQL(query).format(**names), values, prepare=False)
    connection.execute("create temporary table pairs (raw_number bigint, claimed_number bigint) on commit drop")
    connection.execute("analyze raw")
    connection.execute("analyze claimed")


def _name_contents(connection: psycopg.Connection) -> None:
    """Create the temporary table ``contents``, which numbers the combinations of trace id, time and agent.

    Copies of one decision under several trace ids get the same number if the signature does not cover the trace id.
    """
    connection.execute(
        """
        create temporary table contents on commit drop as
        with names as (
            select distinct trace_id, "timestamp", agent_id_hash, decision_sha256
            from incoming
        ),

        first_decisions as (
            select
                *,
                min(decision_sha256) over (partition by trace_id, "timestamp", agent_id_hash) as decision
            from names
        ),

        -- Two steps are needed, because a trace id may have two decisions, and a decision several trace ids.
        second_decisions as (
            select
                *,
                case
                    when decision_sha256 is null then decision
                    else min(decision) over (partition by decision_sha256)
                end as of_decision
            from first_decisions
        ),

        traces as (
            select trace_id, "timestamp", agent_id_hash, min(of_decision) as decision
            from second_decisions
            group by trace_id, "timestamp", agent_id_hash
        )

        select
            trace_id,
            "timestamp",
            agent_id_hash,
            dense_rank() over (
                order by coalesce(decision, format('%L %L %L', trace_id, "timestamp", agent_id_hash))
            ) as number
        from traces
        """
    )
    connection.execute("analyze contents")


def _match(connection: psycopg.Connection) -> None:
    """Pair traces of files and database by the columns of `_MATCHES`. Traces with equal columns are paired in the order
    of time."""
    query = """
        with raw_left as (
            select number, {marks}, row_number() over (partition by {marks} order by "timestamp", number) as n
            from raw
            where not exists (select from pairs where pairs.raw_number = raw.number)
        ),

        claimed_left as (
            select number, {marks}, row_number() over (partition by {marks} order by "timestamp", number) as n
            from claimed
            where not exists (select from pairs where pairs.claimed_number = claimed.number)
        )

        insert into pairs (raw_number, claimed_number)
        select raw_left.number, claimed_left.number
        from raw_left
        inner join claimed_left using ({marks}, n)
    """
    for marks in _MATCHES:
        connection.execute(sql.SQL(query).format(marks=column_list(marks)))
        connection.execute("analyze pairs")


def _breaks(connection: psycopg.Connection) -> dict[str, int]:
    query = f"""
        select
            count(*) filter (where audit_sequence_number > {PREVIOUS} + 1) as gaps,
            count(*) filter (where audit_sequence_number < {PREVIOUS}) as rewinds,
            count(*) filter (where audit_sequence_number = {PREVIOUS}) as repeats
        from raw
    """
    with connection.cursor(row_factory=dict_row) as cursor:
        [breaks] = cursor.execute(query).fetchall()
    return breaks


def _differing(connection: psycopg.Connection, columns: Sequence[str]) -> Iterator[Discrepancy]:
    names = [*columns, PREVIOUS]
    query = """
        select to_jsonb(claimed) as claimed, to_jsonb(raw) as raw, {at} as at
        from pairs
        inner join raw on pairs.raw_number = raw.number
        inner join claimed on pairs.claimed_number = claimed.number
        where ({claimed}) is distinct from ({raw})
        order by claimed.agent_id_hash collate "C", claimed."timestamp", claimed.trace_id collate "C"
    """
    at = sql.SQL(READABLE_TIME.replace('"timestamp"', 'claimed."timestamp"'))
    statement = sql.SQL(query).format(claimed=column_list(names, "claimed"), raw=column_list(names, "raw"), at=at)
    with connection.cursor(row_factory=dict_row) as cursor:
        for row in cursor.stream(statement):
            claimed, raw = row["claimed"], row["raw"]
            differences = {
                name: {"database": claimed[name], "recomputed": raw[name]}
                for name in names
                if not _same(claimed[name], raw[name])
            }
            if "signature_verified" in differences and raw["reason"]:
                differences["signature_verified"]["reason"] = raw["reason"]
            yield Discrepancy(DIFFERS, claimed["agent_id_hash"], claimed["trace_id"], row["at"], differences)


def _same(one: object, other: object) -> bool:
    """Return whether two JSON values are equal. Python's == is not used, because it treats true and 1 as equal."""
    return json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)


def _alone(connection: psycopg.Connection, table: str, kind: str) -> Iterator[Discrepancy]:
    query = f"""
        select agent_id_hash, trace_id, {READABLE_TIME} from {table}
        where not exists (select from pairs where pairs.{table}_number = {table}.number)
        order by agent_id_hash collate "C", "timestamp", trace_id collate "C"
    """
    for agent, trace_id, timestamp in connection.execute(query):
        yield Discrepancy(kind, agent, trace_id, timestamp, {})


def _not_compared(connection: psycopg.Connection, project: Project, result: Audit, agent: str | None) -> Iterator[str]:
    """Yield sentences on what the scores are computed from and the files cannot confirm."""
    yield DEFERRALS
    for one in result.unstated_key_ends[:SHOWN_ENDS]:
        end = f"{one['database']} ({one['column']})"
        yield f"key {one['key_id']} ends in the database on {end}, which the files do not state"
    if (n_more := len(result.unstated_key_ends) - SHOWN_ENDS) > 0:
        yield f"and {plural(n_more, 'end')} of keys more; --json lists them"
    if agent is None:
        query = """
            select count(*), count(distinct agent_id_hash) from {}
            where
                agent_id_hash <> all(%(agents)s)
                and (%(first)s::timestamptz is null or "timestamp" >= %(first)s)
                and (%(last)s::timestamptz is null or "timestamp" < %(last)s)
        """
        values = {"agents": result.agents, "first": result.window[0], "last": result.window[1]}
        traces = project.source_table("covenant_traces")
        n_traces, n_agents = one_row(connection.execute(sql.SQL(query).format(traces), values))
        if n_traces:
            of = plural(n_agents, "agent that is", "agents that are")
            yield f"{plural(n_traces, 'trace')} in the database of {of} not in the files"
    if source_shape(connection, project) == "events":
        yield "the table trace_events, from which this target is scored"


def _compare_keys(
    connection: psycopg.Connection, registry: sql.Identifier, keys: dict[str, Key], result: Audit
) -> None:
    query = sql.SQL(
        f"""
        select used.signature_key_id, registered.public_key_base64, registered.expires_at, registered.revoked_at
        from (select distinct signature_key_id from raw) as used
        left join (select key_id, public_key_base64, {REGISTERED_ENDS} from {{}}) as registered
            on used.signature_key_id = registered.key_id
        order by used.signature_key_id collate "C"
        """
    ).format(registry)
    for key_id, text, *ends in connection.execute(query):
        key = keys.get(key_id)
        registered = None if text is None else registered_key(text, *ends)
        differing = key and ("public_key_base64" if registered is None else key.difference(registered))
        if differing:
            values = {"database": getattr(registered, differing, None), "recomputed": getattr(key, differing)}
            column = f"key {key_id}" if differing == "public_key_base64" else f"{differing} of key {key_id}"
            result.add([Discrepancy(KEY_DIFFERS, None, None, None, {column: values})])
        if key and registered:
            result.unstated_key_ends += [
                {"key_id": key_id, "column": name, "database": end}
                for name, end in key.unstated_ends(registered).items()
            ]


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
        "chain": result.chain,
        "n_discrepancies": result.counts.total(),
        "discrepancies_by_kind": dict(result.counts),
        "discrepancies": [vars(one) for one in result.found],
        "unstated_key_ends": result.unstated_key_ends,
        "not_compared": result.not_compared,
        "n_problems": result.summary.n_problems,
        "problems": [one._asdict() for one in result.summary.problems],
    }
    return json.dumps(document, indent=2, default=str)


def page(result: Audit) -> list[str]:
    """Return the result of a comparison as lines of text."""
    first, last = (f"{moment:%Y-%m-%d %H:%M:%S} UTC" if moment else None for moment in result.window)
    window = "whole history" if not (first or last) else f"from {first or 'the first'} to {last or 'the last'}"
    breaks = ", ".join(f"{n:,} {kind}" for kind, n in result.chain.items())
    lines = [
        f"{plural(len(result.agents), 'agent')}, {window}: {', '.join(map(printable, result.agents[:10]))}",
        f"{plural(result.in_files, 'trace')} in the files, {result.verified:,} verified; "
        f"{plural(result.in_database, 'trace')} in the database.",
        f"The chain in the files: {breaks}.",
        "",
    ]
    if result.is_confirmed:
        lines.append("Confirmed: the traces and keys in the database agree with the files.")
    elif not result.counts:
        lines.append("The traces agree, but a key ends in the database at a time that the files do not state.")
    else:
        lines.append(f"{plural(result.counts.total(), 'discrepancy', 'discrepancies')}:")
        lines += [f"  {n:,} {kind}: {MEANINGS[kind]}" for kind, n in result.counts.items()]
        lines += ["", *_table(result.found[:SHOWN])]
        if result.counts.total() > SHOWN:
            lines.append(f"and {result.counts.total() - SHOWN:,} more; --json lists up to {KEPT:,}.")
    lines += ["Not compared:", *(printable(f"  {one}") for one in result.not_compared)]
    if result.summary.n_problems:
        lines += ["", *problem_lines(result.summary, "--json", " in the files and keys")]
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
