"""Compute the rows of the Python model ``int_windows`` from the sums per agent and period.

Each block is processed in two passes over batches of agents. The first pass computes the fleet's sums, on which the
confidence bounds of every agent depend. The second pass computes the rows.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
from psycopg import sql

from ciris_scoring.statistics.attribution import losses
from ciris_scoring.statistics.blocks import Block, blocks
from ciris_scoring.statistics.changes import behaviour_changes
from ciris_scoring.statistics.design_effects import FleetValues, empty_fleet_sums, fleet_values
from ciris_scoring.statistics.episodes import event_changes, excess
from ciris_scoring.statistics.factors import components
from ciris_scoring.statistics.inputs import Floats, Integers, Rows
from ciris_scoring.statistics.intervals import (
    COMPONENTS,
    agents_per_chunk,
    compute_intervals,
    sum_fleet,
)
from ciris_scoring.statistics.long_run import Present, design_effects, long_run
from ciris_scoring.statistics.rate_components import rate_components
from ciris_scoring.statistics.reading import (
    Batch,
    BlockReader,
    Relations,
    agents_of_block,
    agents_per_read,
    batches,
    of_agents,
)
from ciris_scoring.statistics.session import Numbers, Session
from ciris_scoring.statistics.setting import Setting, read_setting
from ciris_scoring.statistics.ties import Scored, count_ties
from ciris_scoring.statistics.windows import (
    Columns,
    Events,
    between,
    log_hours,
    running_total,
    window_columns,
)
from ciris_scoring.statistics.writing import (
    add_agents,
    add_rows,
    change_columns,
    long_run_columns,
    statistics_columns,
    windows_query,
)


def compute_windows(connection: Any, inputs: Mapping[str, str]) -> str:
    """Compute the rows of ``int_windows`` that the run rewrites.

    :param connection: dbt's connection, inside the transaction of the materialization.
    :param inputs: names of relations, by the fields of :class:`Relations`.
    :returns: the query that selects the computed rows.
    :raises StepError: a parameter is missing, or a sum is null or has the wrong length.
    """
    session = Session(connection)
    relations = Relations(**{name: sql.SQL(relation) for name, relation in inputs.items()})
    setting = read_setting(
        session, relations.scoring_parameters, relations.scoring_windows, relations.scoring_run
    )
    session.avoid_nested_loops()
    found = [
        (block, agents_of_block(session, relations, setting, block))
        for block in blocks(session, relations.agent_periods, setting)
    ]
    nothing = Block(setting.as_of, setting.as_of, setting.as_of - setting.longest_horizon), list[str]()
    n_agents, types = 0, dict[str, Numbers]()
    for block, agents in found or [nothing]:
        types = _compute_block(session, BlockReader(session, relations, setting, block, agents), n_agents)
        add_agents(session, block, agents, n_agents)
        n_agents += len(agents)
    return windows_query(relations, setting, types)


def _compute_block(session: Session, reader: BlockReader, first_number: int) -> dict[str, Numbers]:
    """Compute and write the rows of a block. If the block has no agents, no rows are written.

    :param first_number: number of the block's first agent in the list of the agents of all blocks.
    :returns: types of the columns.
    """
    setting, n_agents, types = reader.setting, len(reader.agents), dict[str, Numbers]()
    n_periods = reader.block.n_periods(setting)
    chunk_agents, read_agents = agents_per_chunk(n_periods), agents_per_read(n_periods)
    starts = range(0, max(n_agents, 1), read_agents)
    ranges = [range(first, min(first + read_agents, n_agents)) for first in starts]

    shared = empty_fleet_sums(len(setting.windows), n_periods)
    for agents in ranges:
        for _, chunk in batches(reader.batch(agents), chunk_agents):
            sum_fleet(
                chunk.sums,
                chunk.places,
                setting.windows,
                periods_per_day=setting.periods_per_day,
                others=shared,
            )
    values = fleet_values(shared)
    for agents in ranges:
        scored = reader.scored(agents)
        for part, chunk in batches(reader.batch(agents), chunk_agents):
            here = range(agents.start + part.start, agents.start + part.stop)
            columns = _compute_rows(chunk, reader.events(here), of_agents(scored, part), values, setting)
            types = add_rows(session, first_number + here.start, chunk.places, columns)
    return types


def _compute_rows(
    chunk: Batch, events: Events, scored: Scored, fleet: FleetValues, setting: Setting
) -> Columns:
    parameters, windows, places = setting.parameters, setting.windows, chunk.places
    columns = window_columns(
        *(chunk.sums, chunk.counts, events, places, windows),
        parameters.steady_days,
        setting.periods_per_day,
    )
    made = components(columns, parameters)
    rows = Rows(
        *places,
        mttr_hours=made.mttr_hours,
        n_episodes=made.n_episodes,
        rho_regression=made.rho_regression,
        q_deferral=made.q_deferral,
        n_judged_deferrals=columns["n_judged_deferrals"],
    )
    bounds = compute_intervals(
        chunk.sums, rows, windows, parameters, fleet, periods_per_day=setting.periods_per_day
    )
    published = {
        **dict(zip(COMPONENTS, bounds.component.T, strict=True)),
        **made._asdict(),
        "s_score": np.nan_to_num(bounds.s_score),
    }
    window_days = np.array([window.window_days for window in windows])[places.window]
    return {
        **columns,
        "chain_gap_z": _chain_gap_z(chunk, columns, window_days, setting.periods_per_day),
        **count_ties(scored, rows, windows, setting.periods_per_day)._asdict(),
        **_columns_of_pairs(chunk, events, columns, fleet, setting),
        **statistics_columns(
            rows,
            fleet,
            bounds,
            losses(published, parameters),
            rate_components(bounds, parameters),
        ),
    }


def _columns_of_pairs(
    chunk: Batch, events: Events, columns: Columns, fleet: FleetValues, setting: Setting
) -> Columns:
    """Return the columns of the steady score and of changes. They are computed once per pair of an agent and an as-of,
    not once per window."""
    agent, as_of, window = chunk.places
    is_first = np.append(True, (agent[1:] != agent[:-1]) | (as_of[1:] != as_of[:-1]))[: len(agent)]
    first, pair = np.flatnonzero(is_first), np.cumsum(is_first) - 1
    agent, as_of, n_open = agent[first], as_of[first], columns["n_open_episodes"][first]
    parameters, per_day = setting.parameters, setting.periods_per_day
    present = Present(
        agent=agent,
        as_of=as_of,
        n_open=n_open,
        open_log_hours=np.where(n_open > 0, log_hours(columns["open_microseconds"][first]), 0.0),
        effect=design_effects(chunk.sums, agent, as_of, fleet.icc[0, as_of], per_day),
        episode_cv=fleet.episode_cv[0, as_of],
    )
    window_days = tuple(one.window_days for one in setting.windows)
    found = long_run(chunk.sums, events, present, window_days, parameters, per_day)
    return {
        **long_run_columns(found, pair, window, columns["n_traces"] >= parameters.min_traces),
        **change_columns(
            behaviour_changes(chunk.sums, present, parameters, per_day),
            event_changes(events, present, per_day),
            pair,
        ),
    }


GAP_DAYS = 90
"""Days before the window with which the window's gaps in the audit numbers are compared (certainty.md §4,
"broken_chain")."""


def _chain_gap_z(chunk: Batch, columns: Columns, window_days: Integers, periods_per_day: int) -> Floats:
    """Return the excess of each window's gaps per trace over those of the ``GAP_DAYS`` days before, in standard
    deviations."""
    until = chunk.places.as_of - window_days * periods_per_day
    since = until - GAP_DAYS * periods_per_day
    n_gaps, n_traces = (
        between(running_total(counts), chunk.places.agent, since, until).astype(np.float64)
        for counts in (chunk.sums.n_chain_gaps, chunk.sums.n_traces)
    )
    return excess(columns["n_chain_gaps"], columns["n_traces"] * 1.0, n_gaps, n_traces)
