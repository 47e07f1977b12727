"""Schedule of a simulated fleet: the times and the order of traces."""

from dataclasses import dataclass

import numpy as np

from ciris_scoring.lab.simulation.arrays import DAY, HOUR, MINUTE, SECOND, Flags, Ints
from ciris_scoring.lab.simulation.plan import THOUGHTS_PER_TASK, Plan
from ciris_scoring.lab.simulation.randomness import Draw, Draws, Stream


@dataclass(frozen=True)
class Rows:
    """Rows of a chunk, in the order in which they are written."""

    agent: Ints
    index: Ints
    """Position in the agent's history, from 0."""
    time: Ints
    """Time at which the thought was completed."""
    delivered: Ints
    """Timestamp of the row. It equals `time` with two exceptions: a duplicate is 1 to 10 hours later, and an agent with
    the property `batch_clock` gives all rows of 5 minutes the last second of these 5 minutes."""
    duplicate: Flags
    draws: Draws


def schedule(plan: Plan, first_day: int, last_day: int) -> Rows:
    """Return the rows of the days [first_day, last_day), ordered by day, and within a day by timestamp."""
    counts = plan.n_traces[:, first_day:last_day].T.ravel()
    group = np.repeat(np.arange(counts.size), counts)
    day, agent = first_day + group // len(plan.agent_keys), group % len(plan.agent_keys)
    index = plan.first_index[agent, day] + np.arange(group.size) - np.repeat(np.cumsum(counts) - counts, counts)
    draws = Draws.of(plan.agent_keys[agent], Stream.TRACE, index)

    # A task takes up to 8 minutes. It starts at least 10 minutes before the day ends.
    task = Draws.of(plan.agent_keys[agent], Stream.TASK, index // THOUGHTS_PER_TASK)
    start = plan.time_of_day(task.bits(Draw.START)) * 143 // 144
    position = index % THOUGHTS_PER_TASK
    pause_1 = 4 * SECOND + task.below(Draw.PAUSE, 86 * SECOND)
    pause_2 = 10 * SECOND + task.below(Draw.SECOND_PAUSE, 390 * SECOND)
    moment = start + np.where(position > 0, pause_1, 0) + np.where(position > 1, pause_2, 0)
    # The tasks of a day are drawn in random order. Sort the times within agent and day, so that they increase with the
    # index.
    time = np.sort(group * (2 * DAY) + moment) - group * (2 * DAY) + plan.start + day * DAY

    tick = 5 * MINUTE
    delivered = np.where(plan.knobs["batch_clock"][agent], time // tick * tick + tick - SECOND, time)

    late = delivered + HOUR + draws.below(Draw.DELAY, 9 * 3600) * SECOND + 7
    again = np.flatnonzero(draws.chance(Draw.DUPLICATE, 0.003) & (late < plan.boundaries["last"][agent]))
    pick = np.concatenate([np.arange(index.size), again])
    delivered = np.concatenate([delivered, late[again]])
    duplicate = np.arange(pick.size) >= index.size
    order = np.lexsort((index[pick], agent[pick], delivered, day[pick]))
    pick = pick[order]
    return Rows(agent[pick], index[pick], time[pick], delivered[order], duplicate[order], Draws(draws.keys[pick]))
