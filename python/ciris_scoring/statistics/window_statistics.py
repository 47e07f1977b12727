"""What the Python model ``int_window_statistics`` calls: the statistics of every row whose inputs have changed."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from psycopg import sql

from ciris_scoring.statistics.alike import Scored, alike
from ciris_scoring.statistics.attribution import Components, losses
from ciris_scoring.statistics.behaviour import behaviour
from ciris_scoring.statistics.design_effects import (
    FleetValues,
    empty_fleet_sums,
    fleet_values,
    joined_sums,
)
from ciris_scoring.statistics.episodes import chance_of_as_many, longer, share_rose
from ciris_scoring.statistics.fleets import Block, blocks, find_waiting
from ciris_scoring.statistics.intervals import (
    COMPONENTS,
    Intervals,
    agents_per_chunk,
    compute_intervals,
    sum_fleet,
)
from ciris_scoring.statistics.reading import (
    Batch,
    BatchReader,
    Relations,
    agents_per_read,
    chunks,
    number_rows,
    read_scored,
)
from ciris_scoring.statistics.session import Session
from ciris_scoring.statistics.setting import Setting, read_setting
from ciris_scoring.statistics.writing import (
    Columns,
    add_numbers,
    create_statistics_tables,
    finish_block,
    statistics_query,
)


def window_statistics(dbt: Any, connection: Any, inputs: Mapping[str, str]) -> str:
    """Compute drift, R and limits of the rows that the run rewrites (scoring.md §5, certainty.md §3).

    Rows of an as-of and window whose digest has not changed stay: replace_range keeps them.

    :param dbt: what dbt gives a Python model; replace_range adds ``rewritten_range`` and ``rewritten_table`` to it.
    :param connection: dbt's own, inside the materialization's transaction.
    :param inputs: relations by the fields of :class:`Relations`.
    :returns: the query of the computed rows.
    :raises StepError: the inputs do not keep the contract.
    """
    session = Session(connection)
    relations = Relations(**{name: sql.SQL(relation) for name, relation in inputs.items()})
    table = None if dbt.rewritten_table is None else sql.SQL(dbt.rewritten_table)
    fleets = find_waiting(session, relations.statistics_inputs, dbt.rewritten_range, table)
    create_statistics_tables(session)
    setting = read_setting(
        session, relations.scoring_parameters, relations.scoring_windows, relations.scoring_run
    )
    # The planner takes agents and periods for independent, and a nested loop for cheap.
    session.execute("set local jit = off; set local enable_nestloop = off")
    for block in blocks(fleets, setting):
        _compute_block(session, relations, setting, block)
        finish_block(session)
    return statistics_query()


def _compute_block(session: Session, relations: Relations, setting: Setting, block: Block) -> None:
    """Compute a block's fleets in two passes over its agents: the fleet's sums, then each agent's statistics."""
    n_agents = number_rows(session, relations, block)
    n_periods = block.n_periods(setting)
    chunk_agents, read_agents = agents_per_chunk(n_periods), agents_per_read(n_periods)
    batches = [range(first, min(first + read_agents, n_agents)) for first in range(0, n_agents, read_agents)]
    reader = BatchReader(session, relations, setting, block)

    shared = empty_fleet_sums(len(setting.windows), n_periods)
    for agents in batches:
        for chunk in chunks(reader.read(agents), chunk_agents):
            sums = sum_fleet(chunk.sums, chunk.rows, setting.windows, periods_per_day=setting.periods_per_day)
            shared = joined_sums(shared, sums)
    values = fleet_values(shared)
    for agents in batches:
        scored = read_scored(session, relations, setting, block, agents)
        _compute_rows(session, reader.read(agents), scored, values, setting, chunk_agents)


def _compute_rows(
    session: Session,
    batch: Batch,
    scored: Scored,
    values: FleetValues,
    setting: Setting,
    chunk_agents: int,
) -> None:
    """Compute the rows of a batch, with what the fleets show."""
    parameters = setting.parameters
    for number, chunk in enumerate(chunks(batch, chunk_agents)):
        limits = compute_intervals(
            chunk.sums,
            chunk.rows,
            setting.windows,
            parameters,
            values,
            periods_per_day=setting.periods_per_day,
        )
        window_days = np.array([window.window_days for window in setting.windows])[chunk.rows.window]
        episodes: Columns = {
            "episode_z": longer(chunk.episodes, values.episode_cv[chunk.rows.window, chunk.rows.as_of]),
            "episode_chance": chance_of_as_many(chunk.episodes, window_days, parameters.steady_days),
            "deferrals_are_worse": share_rose(
                1 - chunk.rows.q_deferral,
                chunk.rows.n_judged_deferrals,
                1 - chunk.published.q_deferral_before,
                chunk.published.n_deferrals_before,
                parameters.episode_z,
            ).astype(np.int64),
        }
        shared = alike(
            scored.of_agents(number * chunk_agents, chunk_agents),
            chunk.rows,
            setting.windows,
            setting.periods_per_day,
        )
        add_numbers(
            session,
            chunk.row_ids,
            chunk.rows,
            values,
            limits,
            episodes,
            losses(_components(chunk, limits), parameters),
            behaviour(limits, parameters),
            shared,
        )


def _components(chunk: Batch, limits: Intervals) -> Components:
    """Components of a chunk's rows, as they are published."""
    of_intervals = ("d_identity", "k_contradiction", "u_unsafe", "delta_drift")
    return Components(
        **{name: limits.component[:, COMPONENTS.index(name)] for name in of_intervals},
        i_chain=chunk.published.i_chain,
        i_coverage=chunk.published.i_coverage,
        i_replay=chunk.published.i_replay,
        ece=chunk.published.ece,
        mttr_hours=chunk.rows.mttr_hours,
        rho_regression=chunk.rows.rho_regression,
        q_deferral=chunk.rows.q_deferral,
        s_score=np.nan_to_num(limits.s_score),
    )
