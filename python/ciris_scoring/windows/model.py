"""Compute the rows of the Python model ``int_windows`` from the sums per agent and period."""

from collections.abc import Mapping
from typing import Any

from psycopg import sql

from ciris_scoring.windows.coherence import coherence_columns
from ciris_scoring.windows.drift import drift_columns
from ciris_scoring.windows.reading import readers
from ciris_scoring.windows.session import Numbers
from ciris_scoring.windows.sums import window_columns
from ciris_scoring.windows.ties import count_ties
from ciris_scoring.windows.writing import add_agents, add_rows, finished_rows, values_of


def compute_windows(connection: Any, inputs: Mapping[str, str]) -> str:
    """Compute the rows of ``int_windows`` that the run rewrites.

    :param connection: dbt's connection, inside the transaction of the materialization.
    :param inputs: names of relations.
    :returns: the query that selects the computed rows.
    :raises StepError: a parameter is missing, or a sum is null or has the wrong length.
    """
    types = dict[str, Numbers]()
    setting, blocks = readers(connection, inputs, horizon_of_windows=True)
    for reader in blocks:
        add_agents(reader)
        for agents, chunk, scored in reader.chunks(reader.scored):
            common = setting.windows, setting.parameters, setting.periods_per_day
            columns = {
                **window_columns(chunk.sums, chunk.counts, reader.events(agents), chunk.places, *common),
                **drift_columns(chunk.sums, chunk.places, *common),
                **coherence_columns(chunk.sums, chunk.places, *common),
                **count_ties(scored, chunk.places, setting.windows, setting.periods_per_day)._asdict(),
            }
            types = add_rows(reader, agents, chunk.places, columns)
    query = sql.SQL("""
        with finished as ({finished})

        select
            finished.agent_id_hash, agent_names.agent_name, agents.first_traced_at, finished.as_of,
            finished.window_days,
            finished.as_of - windows.window_days * interval '24 hours' as window_start,
            finished.as_of - (windows.window_days + windows.baseline_days) * interval '24 hours' as baseline_start,
            extract(
                epoch from finished.as_of - windows.window_days * interval '24 hours' - greatest(
                    finished.as_of - (windows.window_days + windows.baseline_days) * interval '24 hours',
                    date_bin({period}, agents.first_traced_at, timestamptz '2000-01-01 00:00:00+00')
                )
            ) / 86400 as baseline_days,
            windows.coherence_days, {columns}, now() as computed_at
        from finished
        inner join {scoring_windows} as windows using (window_days)
        inner join {agents} as agents using (agent_id_hash)
        left join {agent_names} as agent_names
            on
                finished.agent_id_hash = agent_names.agent_id_hash
                and finished.as_of > agent_names.named_from
                and (agent_names.named_until is null or finished.as_of <= agent_names.named_until)
        """).format(
        finished=finished_rows(setting),
        columns=values_of(types, {}),
        period=sql.Literal(setting.period),
        scoring_windows=sql.SQL(inputs["scoring_windows"]),
        agents=sql.SQL(inputs["agents"]),
        agent_names=sql.SQL(inputs["agent_names"]),
    )
    return query.as_string(None)
