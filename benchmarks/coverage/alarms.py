"""Raise the alerts ``falling``, ``episode`` and ``low_capacity`` for simulated agents (certainty.md §4). In production,
models/marts/fct_capacity_alerts.sql raises them."""

from typing import NamedTuple

import numpy as np

from benchmarks.coverage.behaviour import Behaviour as Doing
from benchmarks.coverage.behaviour import DayEffects, Facts, draw, realised
from benchmarks.coverage.cases import WINDOWS
from benchmarks.coverage.events import row_facts
from benchmarks.coverage.published import published
from benchmarks.coverage.truth import PARAMETERS
from ciris_scoring.certainty.changes import behaviour_changes
from ciris_scoring.certainty.design_effects import FleetValues, fleet_values
from ciris_scoring.certainty.episodes import event_changes
from ciris_scoring.certainty.intervals import Intervals, compute_intervals, sum_fleet
from ciris_scoring.certainty.rate_components import RateComponents, rate_components
from ciris_scoring.certainty.steady import Present, design_effects
from ciris_scoring.windows.inputs import Booleans, Floats, Integers, PeriodSums, Places
from ciris_scoring.windows.sums import Events, recovery_sums

LEAST_FALL = 0.05
"""Parameter ``falling_least_drop``."""
TOGETHER, ALONE = 2.8, 3.8
"""Parameters ``falling_z_together`` and ``falling_z_alone``."""
LEAST_LOSS_OF_ONE = 0.02
RATIO = 8.5
"""Parameter ``falling_ratio``."""
EPISODE_Z = 3.3
LOW_CAPACITY = 0.3
"""Parameter ``low_capacity_threshold``."""
EARLIEST = max(WINDOWS)
"""Number of days before the first watched as-of that are scored too, to compare a window with the window before it."""


class Raised(NamedTuple):
    """Whether each alert is raised; arrays of (agents, as-ofs)."""

    week: Booleans
    """Whether the window of 7 days has larger losses than the previous 7 days: a condition of ``falling``."""
    month: Booleans
    """Whether the window of 30 days has larger losses than the previous 30 days: a condition of ``falling``."""
    changed: Booleans
    """Whether the losses of the rate components have grown since one of the last 42 days: a condition of ``falling``
    for 7 and for 30 days."""
    episode: Booleans
    low_week: Booleans
    """Whether ``low_capacity`` is raised in the window of 7 days. The category is then ``high_fragility``, too."""
    low_month: Booleans

    def reviews(self) -> tuple[Booleans, Booleans]:
        """Return whether an alert requires a review of the score of 7 days, and of the score of 30 days."""
        of_both = self.changed | self.episode
        return self.week | of_both | self.low_week, self.month | of_both | self.low_month


def watched(
    doing: Doing, events: Events, facts: Facts, effects: DayEffects, first: int, rng: np.random.Generator
) -> tuple[PeriodSums, tuple[Intervals, Intervals], Present, Raised]:
    """Draw the behaviour of agents, and compute scores and alerts at each as-of from day ``first`` on.

    :returns: the sums of traces by agent and day; the scores of 7 and of 30 days, as arrays of (agents, as-ofs, ...);
        all pairs of an agent and an as-of; the alerts.
    """
    sums = draw(realised(doing, effects, rng), facts, effects, rng)
    as_ofs = np.arange(first - EARLIEST, facts.n_traces.shape[1] + 1)
    scores, capacities, fleet = _scored(sums, events, as_ofs)
    week, month = (Intervals._make(values[:, EARLIEST:] for values in limits) for limits in scores)
    present = pairs(sums, fleet, as_ofs[EARLIEST:])
    capacity = capacities[0][:, EARLIEST:]
    shape = capacity.shape
    change = behaviour_changes(sums, present, PARAMETERS, 1)
    changed = (change.ratio >= RATIO) & (change.kept_before - change.kept_now >= LEAST_FALL)
    worse = event_changes(events, present, 1)
    raised = Raised(
        week=_falling(scores[0], capacities[0], 7),
        month=_falling(scores[1], capacities[1], 30),
        changed=changed.reshape(shape) & ~np.isnan(capacity),
        episode=(worse.z >= EPISODE_Z).reshape(shape),
        low_week=capacity < LOW_CAPACITY,
        low_month=capacities[1][:, EARLIEST:] < LOW_CAPACITY,
    )
    return sums, (week, month), present, raised


def pairs(sums: PeriodSums, fleet: FleetValues, as_ofs: Integers) -> Present:
    """Return a row for each pair of an agent and an as-of."""
    agent, at = (index.ravel() for index in np.indices((len(sums.n_traces), len(as_ofs))))
    as_of, none = as_ofs[at], np.zeros(len(agent), dtype=np.int64)
    return Present(
        agent,
        as_of,
        none,
        none.astype(np.float64),
        design_effects(sums, agent, as_of, fleet.icc[0, as_of], 1),
        fleet.episode_cv[0, as_of],
    )


def _scored(
    sums: PeriodSums, events: Events, as_ofs: Integers
) -> tuple[tuple[Intervals, Intervals], tuple[Floats, Floats], FleetValues]:
    """Score all agents as one fleet.

    :param as_ofs: number of days before each as-of.
    :returns: the intervals of 7 and of 30 days, as arrays of (agents, as-ofs, ...); the scores, as arrays of (agents,
        as-ofs); the values of the fleet.
    """
    n_agents, n_days = sums.n_traces.shape
    sums = sums._replace(**recovery_sums(events.episodes, range(n_agents), (n_agents, n_days)))
    windows = tuple(WINDOWS.values())
    shape = (n_agents, len(as_ofs))
    agent, at = (index.ravel() for index in np.indices(shape))
    facts = [row_facts(events, as_ofs, window.window_days) for window in windows]
    places = Places(np.tile(agent, 2), np.tile(as_ofs[at], 2), np.repeat(np.arange(2), agent.size))
    given = (np.concatenate([one.ravel() for one in both]) for both in zip(*facts, strict=True))
    rows = published(sums, places, windows, PARAMETERS, *given)
    values = fleet_values(sum_fleet(sums, places, windows))
    found = compute_intervals(sums, rows, windows, PARAMETERS, values)
    parts = slice(agent.size), slice(agent.size, None)
    week, month = (
        Intervals._make(array[part].reshape(shape + array.shape[1:]) for array in found) for part in parts
    )
    of_week, of_month = (rows.capacity_score[part].reshape(shape) for part in parts)
    return (week, month), (of_week, of_month), values


def is_falling(before: RateComponents, now: RateComponents) -> Booleans:
    """Return whether the losses of a window are significantly larger than the losses of the window before it.

    Components that are unmeasured in one of the two windows are ignored.
    """
    change = now.loss - before.loss
    variance = before.worse_sd**2 + now.better_sd**2
    both = ~np.isnan(change)
    fall = np.exp(-np.sum(before.loss, axis=-1, where=both)) - np.exp(-np.sum(now.loss, axis=-1, where=both))
    together = np.sum(change, axis=-1, where=both) >= TOGETHER * np.sqrt(
        np.sum(variance, axis=-1, where=both)
    )
    alone = np.any((change > LEAST_LOSS_OF_ONE) & (change >= ALONE * np.sqrt(variance)), axis=-1)
    result: Booleans = (fall >= LEAST_FALL) & (together | alone)
    return result


def _falling(limits: Intervals, capacity: Floats, days: int) -> Booleans:
    """Compare each window, from as-of number ``EARLIEST`` on, with the window ``days`` before it (see `is_falling`)."""
    of = rate_components(limits, PARAMETERS)
    now, before = (
        RateComponents(*(values[:, EARLIEST - back : values.shape[1] - back] for values in of))
        for back in (0, days)
    )
    is_scored = ~np.isnan(capacity)
    comparable = is_scored[:, EARLIEST:] & is_scored[:, EARLIEST - days : is_scored.shape[1] - days]
    return is_falling(before, now) & comparable
