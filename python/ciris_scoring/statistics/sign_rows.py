"""What the Python model ``int_record_signs`` calls: reads what signs are judged by, and keeps those that are raised."""

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any, NamedTuple

from psycopg import sql

from ciris_scoring.basics.statements import column_list
from ciris_scoring.statistics.fixed_copy import Numbers, read_numbers
from ciris_scoring.statistics.session import Session
from ciris_scoring.statistics.signs import FIELDS, Raised, raised_signs

READ_ROWS = 100_000
"""Rows that are read at a time, at least one as-of of all agents; some 100 MB."""

COUNT, REAL, FIELD_COUNTS = Numbers("int8"), Numbers("float8"), Numbers("int8", len(FIELDS))
COUNTERS = ("n_traces", "n_trivial", "n_renumbered", "n_shared_key", "n_new_keys")
"""Counters of a window that signs compare with the baseline."""
ARRAYS = ("n_checked", "n_unreported", "n_contradicted")
"""The same that are arrays by field."""
COLUMNS = {
    "window_days": COUNT,
    "baseline_days": REAL,
    **{f"{prefix}{name}": COUNT for name in COUNTERS for prefix in ("", "baseline_")},
    **{f"{prefix}{name}": FIELD_COUNTS for name in ARRAYS for prefix in ("", "baseline_")},
    **dict.fromkeys(
        (
            *("n_recoveries", "n_modes", "n_earlier_recoveries", "n_earlier_modes"),
            *("n_raised_deferrals", "n_escalated_deferrals", "n_due_deferrals", "n_open_deferrals"),
            *("n_earlier_due_deferrals", "n_earlier_open_deferrals"),
            *("n_plausibilities", "n_commonest_plausibility", "n_triples"),
            *("equal_pairs", "equal_plausibilities", "equal_alignments", "equal_coherences"),
        ),
        COUNT,
    ),
}
"""Columns of ``int_sign_inputs``, as they are read."""


class _Relations(NamedTuple):
    """Where signs are read from, as dbt quotes the relations."""

    sign_inputs: sql.SQL
    successions: sql.SQL
    statistics_inputs: sql.SQL


def record_signs(dbt: Any, connection: Any, inputs: Mapping[str, str]) -> str:
    """Judge the rows that the run rewrites (certainty.md §5).

    :param dbt: what dbt gives a Python model, with ``rewritten_range`` of replace_range.
    :param connection: dbt's own, inside the materialization's transaction.
    :param inputs: ``sign_inputs``, ``successions`` and ``statistics_inputs``.
    :returns: the query of the raised signs.
    """
    session = Session(connection)
    relations = _Relations(**{name: sql.SQL(relation) for name, relation in inputs.items()})
    session.execute("""
        create temporary table ciris_signs (
            agent_id_hash text, as_of timestamptz, window_days int4, sign text, field text, value float8,
            comparison_value float8, compared_with text, z float8, message text
        ) on commit drop
        """)
    session.execute(
        sql.SQL("""
        create temporary table ciris_successions on commit drop as
        select
            agent_id_hash, agent_name, predecessor, first_traced_at, silent_from, silent_until,
            (extract(epoch from first_traced_at - silent_from) / 3600)::float8 as hours
        from {}
        """).format(relations.successions)
    )
    # The planner takes agent, as-of and window for independent, and a nested loop for cheap.
    session.execute("set local jit = off; set local enable_nestloop = off")
    for first, last in _blocks(session, relations, dbt.rewritten_range):
        _judge(session, relations, first, last)
        _add_new_identities(session)
    # The key of the macro surrogate_key.
    return """
        select
            md5(concat_ws('|', coalesce(field, '-'), agent_id_hash, extract(epoch from as_of), window_days, sign))
                as record_sign_id,
            agent_id_hash, as_of, window_days, sign, field, value, comparison_value, compared_with, z, message
        from pg_temp.ciris_signs
        """


def _blocks(
    session: Session, relations: _Relations, rewritten_range: str
) -> Iterator[tuple[datetime, datetime]]:
    """First and last as-of of rows that are read together; a fleet is never cut, since it has a median."""
    as_ofs = session.rows(
        sql.SQL("select as_of, sum(n_agents)::int8 from {} where {} group by as_of order by as_of").format(
            relations.statistics_inputs, sql.SQL(rewritten_range)
        )
    )
    first, n_rows = None, 0
    for number, (as_of, n_agents) in enumerate(as_ofs, 1):
        first = first or as_of
        n_rows += n_agents
        if n_rows >= READ_ROWS or number == len(as_ofs):
            yield first, as_of
            first, n_rows = None, 0


def _judge(session: Session, relations: _Relations, first: datetime, last: datetime) -> None:
    """Put the signs of the as-ofs from first to last, both included, into ``ciris_signs``."""
    session.execute(
        sql.SQL("""
        drop table if exists pg_temp.ciris_sign_rows;
        create temporary table ciris_sign_rows on commit drop as
        select
            row_number() over (order by as_of, window_days, agent_id_hash collate "C") - 1 as row_number,
            dense_rank() over (order by as_of, window_days) as fleet,
            agent_id_hash, as_of, {columns}
        from {inputs}
        where
            as_of between %(first)s and %(last)s
            and events_as_of between %(first)s and %(last)s
            and statistics_as_of between %(first)s and %(last)s
        """).format(columns=column_list(COLUMNS), inputs=relations.sign_inputs),
        {"first": first, "last": last},
    )
    query = sql.SQL("select fleet, {} from ciris_sign_rows order by row_number").format(
        sql.SQL(", ").join(kind.cast(sql.Identifier(name)) for name, kind in COLUMNS.items())
    )
    found = list(raised_signs(read_numbers(session, query, {}, {"fleet": COUNT, **COLUMNS})))
    if found:
        session.execute(
            sql.SQL("""
            insert into ciris_signs
            select
                rows.agent_id_hash, rows.as_of, rows.window_days, signs.sign, signs.field, signs.value,
                signs.comparison_value, signs.compared_with, signs.z, signs.message
            from unnest(
                %s::int8[], %s::text[], %s::text[], %s::float8[], %s::float8[], %s::text[], %s::float8[], %s::text[]
            ) as signs ({names})
            inner join ciris_sign_rows as rows on signs.row = rows.row_number
            """).format(names=column_list(Raised._fields)),
            [list(column) for column in zip(*found, strict=True)],
        )


def _add_new_identities(session: Session) -> None:
    """Put new_identity into ``ciris_signs``: windows that hold the agent's first trace, from a day of silence on."""
    session.execute("""
        insert into ciris_signs (agent_id_hash, as_of, window_days, sign, value, message)
        select
            rows.agent_id_hash, rows.as_of, rows.window_days, 'new_identity', silences.hours,
            format(
                'First trace %s hours after %s of the same name (%s) fell silent.',
                round(silences.hours::numeric, 1), left(silences.predecessor, 64), left(silences.agent_name, 64)
            )
        from ciris_sign_rows as rows
        inner join ciris_successions as silences
            on
                rows.agent_id_hash = silences.agent_id_hash
                and rows.as_of - rows.window_days * interval '24 hours' <= silences.first_traced_at
                and rows.as_of > silences.first_traced_at
                and rows.as_of >= silences.silent_from + interval '24 hours'
                and (silences.silent_until is null or rows.as_of <= silences.silent_until)
        """)
