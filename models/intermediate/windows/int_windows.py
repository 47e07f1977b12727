"""Sums and counts of every scored window, and KL drift, in numpy (scoring.md §3 to §7)."""

from typing import Any

from psycopg import sql

from ciris_scoring.windows.drift import drift_columns
from ciris_scoring.windows.reading import readers
from ciris_scoring.windows.session import Numbers
from ciris_scoring.windows.sums import window_columns
from ciris_scoring.windows.ties import count_ties
from ciris_scoring.windows.writing import add_agents, add_rows, finished_rows, values_of


def model(dbt: Any, session: Any) -> str:
    """Return the query of the rows that this run computes.

    :param session: dbt's connection, inside the transaction of the materialization.
    :raises StepError: a parameter is missing, or a sum is null or has the wrong length.
    """
    dbt.config(materialized="replace_range")
    inputs = {
        "scoring_run": dbt.ref("int_scoring_run"),
        "scoring_parameters": dbt.ref("int_scoring_parameters"),
        "scoring_windows": dbt.ref("scoring_windows"),
        "agents": dbt.ref("int_agents"),
        "agent_names": dbt.ref("int_agent_names"),
        "agent_periods": dbt.ref("int_agent_periods"),  # counts, histograms and signals by period
        "deferral_values": dbt.ref("int_deferral_values"),
        "agent_events": dbt.ref("int_agent_events"),  # fragile episodes
    }
    types = dict[str, Numbers]()
    setting, blocks = readers(session, inputs, of_windows=True)
    for reader in blocks:
        add_agents(reader)
        for agents, chunk, scored in reader.chunks(reader.scored):
            common = setting.windows, setting.parameters, setting.periods_per_day
            columns = {
                **window_columns(chunk.sums, chunk.counts, reader.events(agents), chunk.places, *common),
                **drift_columns(chunk.sums, chunk.places, *common),
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
