"""Read the input and write the rows of the Python model ``fct_red_flags``. :mod:`counts` counts what is compared,
:mod:`rules` decides which red flags are raised."""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from psycopg import sql

from ciris_scoring.kinds import FLAGS
from ciris_scoring.red_flags.counts import ARRAYS, DAYS_TO_JUDGE, FIELDS, NUMBERS, count, read_scored
from ciris_scoring.red_flags.rules import Raised, raised_red_flags
from ciris_scoring.red_flags.ties import Ties
from ciris_scoring.windows.reading import Numbers, Reader
from ciris_scoring.windows.session import Session

READ_ROWS = 100_000
"""Number of rows to read at a time, about 100 MB. Whole as-ofs are read until this number is reached."""
OF_WINDOWS = ("n_traces", "n_recoveries", "n_modes")
"""Columns that are read from ``int_windows``."""
COMPARED = {
    "window_days": "window_days",
    "baseline_days": """extract(
        epoch from windows.window_start - greatest(
            windows.window_start - baseline.baseline_days * interval '24 hours',
            date_bin({period}, windows.first_traced_at, timestamptz '2000-01-01 00:00:00+00')
        )
    )::float8 / 86400""",
    **{
        name: f"windows.{name}" if name in OF_WINDOWS else f"counted.{name}"
        for flag in FLAGS.values()
        for name in flag.counts.values()
    },
    **{name: f"counted.{name}" for name in Ties._fields},
}
COLUMNS = Numbers(
    {name: text for name, text in COMPARED.items() if name.removeprefix("baseline_") not in ARRAYS},
    {name: (text, len(FIELDS)) for name, text in COMPARED.items() if name.removeprefix("baseline_") in ARRAYS},
    "float8",
)
"""Columns that red flags compare. ``baseline_days`` counts from the agent's first period if the baseline began earlier;
it is negative if that period began in the window."""

Relations = Mapping[str, sql.SQL]
"""Names of the relations that are read, as dbt quotes them, by the keys of ``inputs`` in :func:`red_flags`."""


def red_flags(connection: Any, inputs: Mapping[str, str]) -> str:
    """Compute the red flags of the rows that the run rewrites (certainty.md §5).

    :param connection: dbt's connection, inside the transaction of the materialization.
    :param inputs: names of relations.
    :returns: the query that selects the raised red flags.
    :raises StepError: a sum is null or has the wrong length.
    """
    reader = Reader(connection, inputs, NUMBERS)
    session = reader.session
    relations = {name: sql.SQL(relation) for name, relation in inputs.items()}
    horizon = reader.run.baseline_horizon
    for block in reader.blocks(horizon):
        for batch in reader.batches(block, event_days=horizon + DAYS_TO_JUDGE):
            reader.write(batch, count(batch, read_scored(reader, batch), reader.run))
    session.execute("""
        create index on pg_temp.ciris_rows ((counts[2]));
        analyze pg_temp.ciris_rows;
        create temporary table ciris_red_flags (
            agent_id_hash text, agent_name text, agent_label text, as_of timestamptz, window_days int4,
            scored_at timestamptz, red_flag text, field text, value float8, comparison_value float8, compared_with text,
            z float8, message text
        ) on commit drop
        """)
    _find_successions(session, relations)
    for first, last in _blocks(session):
        _judge(reader, relations, first, last)
        _add_new_identities(session)
    # The key has the same expression as in the macro surrogate_key.
    return """
        select
            md5(concat_ws('|', coalesce(field, '-'), agent_id_hash, extract(epoch from as_of), window_days, red_flag))
                as red_flag_id,
            agent_id_hash, agent_name, as_of, window_days, red_flag, field, value, comparison_value, compared_with, z,
            message, scored_at, agent_label
        from pg_temp.ciris_red_flags
        """


def _blocks(session: Session) -> Iterator[tuple[int, int]]:
    """Yield the first and last as-of of each block of rows that are read together. The rows of an as-of are in one
    block, because red flags compare agents with the median of all agents."""
    as_ofs = session.rows("select counts[2], count(*) from pg_temp.ciris_rows group by 1 order by 1")
    first, n_rows = None, 0
    for number, (as_of, n) in enumerate(as_ofs, 1):
        first = first or as_of
        n_rows += n
        if n_rows >= READ_ROWS or number == len(as_ofs):
            yield first, as_of
            first, n_rows = None, 0


def _judge(reader: Reader, relations: Relations, first: int, last: int) -> None:
    """Insert the red flags of the as-ofs from ``first`` to ``last``, both included, into ``ciris_red_flags``."""
    session = reader.session
    session.execute(
        sql.SQL("""
        drop table if exists pg_temp.ciris_red_flag_rows;
        create temporary table ciris_red_flag_rows on commit drop as
        select
            row_number() over (order by as_of, window_days, agent_id_hash collate "C") - 1 as row_number,
            dense_rank() over (order by as_of, window_days) as fleet,
            agent_id_hash, windows.agent_name, agents.agent_label, as_of, now() as scored_at, window_days,
            {columns} as compared
        from ({counted} where counts[2] between %(first)s and %(last)s) as counted
        inner join {windows} as windows using (agent_id_hash, as_of, window_days)
        inner join {scoring_windows} as baseline using (window_days)
        inner join {agents} as agents using (agent_id_hash)
        """).format(
            columns=sql.SQL(COLUMNS.sql.replace("{period}", f"interval '{reader.run.seconds} seconds'")),
            counted=sql.SQL(reader.written()),
            **relations,
        ),
        {"first": first, "last": last},
    )
    query = "select fleet::float8 || compared from pg_temp.ciris_red_flag_rows order by row_number"
    rows = session.read(query, {}, 1 + COLUMNS.length, "float8")
    compared = {name: COLUMNS.of(rows[:, 1:], name) for name in COLUMNS.at}
    counts = {name: np.rint(values).astype(np.int64) for name, values in compared.items()}
    inputs = counts | {"fleet": rows[:, 0].astype(np.int64), "baseline_days": compared["baseline_days"]}
    found = list(raised_red_flags(inputs))
    if found:
        session.execute(
            sql.SQL("""
            insert into ciris_red_flags
            select
                rows.agent_id_hash, rows.agent_name, rows.agent_label, rows.as_of, rows.window_days, rows.scored_at,
                red_flags.red_flag, red_flags.field, red_flags.value,
                red_flags.comparison_value, red_flags.compared_with, red_flags.z, red_flags.message
            from unnest(
                %s::int8[], %s::text[], %s::text[], %s::float8[], %s::float8[], %s::text[], %s::float8[], %s::text[]
            ) as red_flags ({names})
            inner join ciris_red_flag_rows as rows on red_flags.row = rows.row_number
            """).format(names=sql.SQL(", ".join(Raised._fields))),
            [list(column) for column in zip(*found, strict=True)],
        )


def _find_successions(session: Session, relations: Relations) -> None:
    """Create ``ciris_successions``: the agents that began after another agent of the same name fell silent.

    If several agents fell silent, the predecessor is the agent with the last trace. An agent that sent traces both
    before and after the new agent's first trace in one period was not silent. ``silent_until`` is the time at which the
    predecessor sent traces again; null if it never did.
    """
    session.execute(
        sql.SQL("""
        create temporary table ciris_names on commit drop as
        select
            agent_id_hash, names.agent_name, names.named_from, names.named_until, names.identity_event_id,
            agents.first_traced_at
        from {agent_names} as names
        inner join {agents} as agents using (agent_id_hash);

        create temporary table ciris_successions on commit drop as
        with first_names as (
            select distinct on (agent_id_hash) agent_id_hash, agent_name, first_traced_at
            from ciris_names
            order by agent_id_hash, named_from, identity_event_id
        ),

        namesakes as materialized (
            select mine.*, others.agent_id_hash as predecessor, others.identity_event_id
            from first_names as mine
            inner join ciris_names as others
                on
                    mine.agent_name = others.agent_name
                    and mine.agent_id_hash <> others.agent_id_hash
                    and mine.first_traced_at > others.named_from
                    and (others.named_until is null or mine.first_traced_at <= others.named_until)
        ),

        silences as (
            select
                mine.agent_id_hash, mine.agent_name, mine.first_traced_at, mine.predecessor, mine.identity_event_id,
                max(periods.last_traced_at) filter (where periods.last_traced_at < mine.first_traced_at) as silent_from,
                min(periods.first_traced_at) filter (where periods.first_traced_at >= mine.first_traced_at)
                    as silent_until
            from namesakes as mine
            inner join {agent_periods} as periods on mine.predecessor = periods.agent_id_hash
            group by 1, 2, 3, 4, 5
            having not bool_or(
                periods.first_traced_at < mine.first_traced_at and periods.last_traced_at >= mine.first_traced_at
            )
        )

        select distinct on (agent_id_hash)
            *, (extract(epoch from first_traced_at - silent_from) / 3600)::float8 as hours
        from silences
        where silent_from >= first_traced_at - %(most_hours)s * interval '1 hour'
        order by agent_id_hash, silent_from desc, identity_event_id
        """).format(**relations),
        FLAGS["new_identity"].thresholds,
    )


def _add_new_identities(session: Session) -> None:
    """Insert red flags ``new_identity`` into ``ciris_red_flags``, for windows that contain an agent's first trace."""
    message = FLAGS["new_identity"].sql_sentence(
        {
            "hours": "round(silences.hours::numeric, 1)",
            "predecessor": "left(silences.predecessor, 64)",
            "name": "left(silences.agent_name, 64)",
        }
    )
    session.execute(
        sql.SQL("""
        insert into ciris_red_flags (
            agent_id_hash, agent_name, agent_label, as_of, window_days, scored_at, red_flag, value, message
        )
        select
            rows.agent_id_hash, rows.agent_name, rows.agent_label, rows.as_of, rows.window_days, rows.scored_at,
            'new_identity', silences.hours, {message}
        from ciris_red_flag_rows as rows
        inner join ciris_successions as silences
            on
                rows.agent_id_hash = silences.agent_id_hash
                and rows.as_of - rows.window_days * interval '24 hours' <= silences.first_traced_at
                and rows.as_of > silences.first_traced_at
                and rows.as_of >= silences.silent_from + {least_hours} * interval '1 hour'
                and (silences.silent_until is null or rows.as_of <= silences.silent_until)
        """).format(message=sql.SQL(message), least_hours=FLAGS["new_identity"].thresholds["least_hours"])
    )
