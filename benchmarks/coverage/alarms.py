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
from ciris_scoring.certainty.design_effects import (
    add_to_fleet,
    day_steps,
    design_effects,
    empty_fleet,
    fleet_values,
)
from ciris_scoring.certainty.events import event_changes
from ciris_scoring.certainty.inputs import Counts, Pairs, Present
from ciris_scoring.certainty.intervals import compute_intervals
from ciris_scoring.windows.arrays import Booleans, Floats, Integers
from ciris_scoring.windows.sums import Events, Places

LEAST_FALL = 0.05
"""Parameter ``falling_least_drop``."""
RATIO = 7.5
"""Parameter ``falling_ratio``."""
EPISODE_Z = 3.1
LOW_CAPACITY = 0.3
"""Parameter ``low_capacity_threshold``."""


class Scored(NamedTuple):
    """Scores of one window with their intervals; arrays of (agents, as-ofs)."""

    score: Floats
    low: Floats
    high: Floats


class Raised(NamedTuple):
    """Whether each alert is raised; arrays of (agents, as-ofs)."""

    falling: Booleans
    episode: Booleans
    low_week: Booleans
    """Whether ``low_capacity`` is raised in the window of 7 days. The category is then ``high_fragility``, too."""
    low_month: Booleans

    def reviews(self) -> tuple[Booleans, Booleans]:
        """Return whether an alert requires a review of the score of 7 days, and of the score of 30 days."""
        of_both = self.falling | self.episode
        return of_both | self.low_week, of_both | self.low_month


def watched(
    doing: Doing, events: Events, facts: Facts, effects: DayEffects, first: int, rng: np.random.Generator
) -> tuple[Counts, tuple[Scored, Scored], Present, Raised]:
    """Draw the behaviour of agents, and compute scores and alerts at each as-of from day ``first`` on.

    :returns: the sums of traces by agent and day; the scores of 7 and of 30 days; all pairs of an agent and an as-of;
        the alerts.
    """
    sums = draw(realised(doing, effects, rng), facts, rng)
    as_ofs = np.arange(first, facts.n_traces.shape[1] + 1)
    (week, month), present = _scored(sums, events, as_ofs)
    capacity = week.score
    shape = capacity.shape
    change = behaviour_changes(sums, present, PARAMETERS, 1)
    falling = (change.ratio >= RATIO) & (change.kept_before - change.kept_now >= LEAST_FALL)
    worse = event_changes(events, present, 1)
    raised = Raised(
        falling=falling.reshape(shape) & ~np.isnan(capacity),
        episode=(worse.z >= EPISODE_Z).reshape(shape),
        low_week=capacity < LOW_CAPACITY,
        low_month=month.score < LOW_CAPACITY,
    )
    return sums, (week, month), present, raised


def pairs(sums: Counts, events: Events, as_ofs: Integers) -> Present:
    """Return a row for each pair of an agent and an as-of."""
    agent, at = (index.ravel() for index in np.indices((len(sums.n_gaps), len(as_ofs))))
    of_all, none = Pairs(agent, as_ofs[at]), np.zeros(len(agent), dtype=np.int64)
    effect, episode_cv = of_fleet_values(sums, events, of_all)
    return Present(of_all, none, none.astype(np.float64), effect, day_steps(sums, of_all, 1).per_day, episode_cv)


def of_fleet_values(sums: Counts, events: Events, pairs: Pairs) -> tuple[Floats, Floats]:
    """Return the design effects, (n, 8), and the coefficient of variation of episode durations, (n,), of n pairs that
    are a fleet."""
    fleet = empty_fleet(sums.n_gaps.shape[1])
    add_to_fleet(sums, events, pairs, fleet, 1)
    values = fleet_values(fleet)
    return design_effects(day_steps(sums, pairs, 1), values.correlation[pairs.as_of]), values.episode_cv[pairs.as_of]


def _scored(sums: Counts, events: Events, as_ofs: Integers) -> tuple[tuple[Scored, Scored], Present]:
    """Score all agents as one fleet.

    :param as_ofs: number of days before each as-of.
    :returns: the scores of 7 and of 30 days; all pairs of an agent and an as-of.
    """
    windows = tuple(WINDOWS.values())
    shape = (len(sums.n_gaps), len(as_ofs))
    agent, at = (index.ravel() for index in np.indices(shape))
    facts = [row_facts(events, as_ofs, window.window_days) for window in windows]
    places = Places(np.tile(agent, 2), np.tile(as_ofs[at], 2), np.repeat(np.arange(2), agent.size))
    given = (np.concatenate([one.ravel() for one in both]) for both in zip(*facts, strict=True))
    rows = published(sums, places, windows, PARAMETERS, *given)
    present = pairs(sums, events, as_ofs)
    found = compute_intervals(
        sums, rows, windows, np.tile(present.effect, (2, 1)), np.tile(present.episode_cv, 2), PARAMETERS
    )
    columns = rows.capacity_score, found.capacity_score_low, found.capacity_score_high
    week, month = (
        Scored(*(values[part].reshape(shape) for values in columns))
        for part in (slice(agent.size), slice(agent.size, None))
    )
    return (week, month), present
