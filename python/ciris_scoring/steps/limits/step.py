"""All statistics of a run: drift, R, limits and what traces share, of every row whose inputs have changed."""

import time

import numpy as np

from ciris_scoring.steps.alike import Scored, alike
from ciris_scoring.steps.episodes import chance_of_as_many, longer
from ciris_scoring.steps.intervals import (
    FleetSums,
    FleetValues,
    agents_per_chunk,
    compute_intervals,
    empty_fleet_sums,
    fleet_values,
    joined_sums,
    sum_fleet,
)
from ciris_scoring.steps.limits.block import BLOCK_PERIODS, Block, blocks
from ciris_scoring.steps.limits.inputs import Inputs
from ciris_scoring.steps.limits.reading import (
    Batch,
    BatchReader,
    chunks,
    create_row_tables,
    number_rows,
    read_scored,
)
from ciris_scoring.steps.limits.setting import Setting, read_setting
from ciris_scoring.steps.limits.waiting import Fleet
from ciris_scoring.steps.limits.writing import add_numbers, create_statistics_tables, finish_block
from ciris_scoring.steps.resilience import drift, resilience_score
from ciris_scoring.steps.session import Session, say

READ_AGENT_PERIODS = 120_000
"""Agents times periods that are read at a time, some 250 MB with what reading takes: few, because the rows of an agent
lie scattered over its tables, so that every query reads most of their pages."""

REPORT_SECONDS = 2.0
"""Between two lines of progress, at least."""


class _Progress:
    """Lines of progress, the first after ``REPORT_SECONDS``."""

    def __init__(self, total: int):
        self._total = total
        self._done, self._last = 0, time.monotonic()

    def add(self, n: int) -> None:
        self._done += n
        if time.monotonic() - self._last > REPORT_SECONDS:
            self._last = time.monotonic()
            say(f"statistics: {self._done:,} of {self._total:,} rows computed")


def compute(
    session: Session,
    inputs: Inputs,
    fleets: list[Fleet],
    *,
    chunk_agents: int | None = None,
    read_agents: int | None = None,
    block_periods: int = BLOCK_PERIODS,
) -> None:
    """Compute the statistics of these fleets into the temporary table ``ciris_statistics``.

    :param fleets: those of ``ciris_fleets``, in the order of their as-ofs.
    :param chunk_agents: agents to compute at a time, and ``read_agents`` to read; by default as many as fit.
    :param block_periods: periods between the first and the last as-of of a block.
    :raises StepError: the inputs do not keep the contract.
    """
    create_row_tables(session)
    create_statistics_tables(session)
    progress = _Progress(sum(fleet.n_agents for fleet in fleets))
    setting = read_setting(session, inputs.scoring_parameters, inputs.scoring_windows, inputs.scoring_run)
    # The planner takes agents and periods for independent, and a nested loop for cheap.
    session.execute("set local jit = off; set local enable_nestloop = off")
    for block in blocks(fleets, setting, block_periods):
        _compute_block(session, inputs, setting, block, chunk_agents, read_agents, progress)
        finish_block(session)


def _compute_block(
    session: Session,
    inputs: Inputs,
    setting: Setting,
    block: Block,
    chunk_agents: int | None,
    read_agents: int | None,
    progress: _Progress,
) -> None:
    """Compute a block's fleets in two passes over its agents: the fleet's sums, then each agent's statistics."""
    n_agents = number_rows(session, inputs, block)
    n_periods = block.n_periods(setting)
    chunk_agents = chunk_agents or agents_per_chunk(n_periods)
    read_agents = read_agents or max(READ_AGENT_PERIODS // n_periods, 1)
    batches = [range(first, min(first + read_agents, n_agents)) for first in range(0, n_agents, read_agents)]
    reader = BatchReader(session, inputs, setting, block)

    shared = empty_fleet_sums(len(setting.windows), n_periods)
    for agents in batches:
        shared = _with_sums_of(shared, reader.read(agents), setting, chunk_agents)
    values = fleet_values(shared)
    for agents in batches:
        scored = read_scored(session, inputs, setting, block, agents)
        _compute_rows(session, reader.read(agents), scored, values, setting, chunk_agents, progress)


def _with_sums_of(shared: FleetSums, batch: Batch, setting: Setting, chunk_agents: int) -> FleetSums:
    """Add what the agents of a batch show to what the fleets' others do."""
    for chunk in chunks(batch, chunk_agents):
        sums = sum_fleet(chunk.sums, chunk.rows, setting.windows, periods_per_day=setting.periods_per_day)
        shared = joined_sums(shared, sums)
    return shared


def _compute_rows(
    session: Session,
    batch: Batch,
    scored: Scored,
    values: FleetValues,
    setting: Setting,
    chunk_agents: int,
    progress: _Progress,
) -> None:
    """Compute the rows of a batch, with what the fleets show."""
    parameters = setting.parameters
    for number, chunk in enumerate(chunks(batch, chunk_agents)):
        drifted = drift(
            chunk.histograms[:, :, 0],
            chunk.histograms[:, :, 1],
            parameters.drift_pseudo_count,
            parameters.drift_min_sample,
        )
        r_score = resilience_score(
            drifted.mean,
            chunk.rows.mttr_hours,
            chunk.rows.rho_regression,
            parameters.mttr_scale_hours,
            parameters.norm_k,
            parameters.norm_x0,
        )
        limits = compute_intervals(
            chunk.sums,
            chunk.rows,
            setting.windows,
            parameters,
            values,
            periods_per_day=setting.periods_per_day,
        )
        window_days = np.array([window.window_days for window in setting.windows])[chunk.rows.window]
        episodes = {
            "episode_z": longer(chunk.episodes, values.episode_cv[chunk.rows.window, chunk.rows.as_of]),
            "episode_chance": chance_of_as_many(chunk.episodes, window_days, parameters.steady_days),
        }
        shared = alike(
            scored.of_agents(number * chunk_agents, chunk_agents),
            chunk.rows,
            setting.windows,
            setting.periods_per_day,
        )
        add_numbers(session, chunk.row_ids, chunk.rows, drifted, r_score, limits, values, episodes, shared)
        progress.add(len(chunk.row_ids))
