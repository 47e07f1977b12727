"""Compute the alerts ``falling`` and ``episode`` of simulated agents in numpy (certainty.md §4). In production SQL
computes them."""

from typing import NamedTuple

import numpy as np

from benchmarks.coverage.behaviour import Behaviour as Doing
from benchmarks.coverage.behaviour import DayEffects, Facts, draw, realised
from benchmarks.coverage.cases import WINDOWS
from benchmarks.coverage.events import STEADY_DAYS, Events, compared, row_facts, within
from ciris_scoring.statistics.design_effects import FleetValues, fleet_values
from ciris_scoring.statistics.episodes import chance_of_as_many, longer, share_rose
from ciris_scoring.statistics.inputs import Booleans, Floats, Integers, Parameters, PeriodSums, Rows
from ciris_scoring.statistics.intervals import Intervals, compute_intervals, sum_fleet
from ciris_scoring.statistics.rate_components import PARTS, RateComponents, rate_components

PARAMETERS = Parameters()

LEAST_FALL = 0.15 / 3
"""A third of ``falling_threshold``."""
WEEK, MONTH = (2.8, 3.8), (3.2, 4.3)
"""Required standard deviations of the sum of all components and of one component, against the week and the month
before."""
LEAST_LOSS_OF_ONE = 0.02
EPISODE_Z, EPISODE_CHANCE = 2.935, 0.0017


class Raised(NamedTuple):
    """Whether each alert is raised; arrays of (agents, as-ofs)."""

    against_week: Booleans
    against_month: Booleans
    episode: Booleans
    """Whether ``episode`` is raised in the window of 7 days. The two fields above are of that window too."""
    episode_month: Booleans
    """Whether ``episode`` is raised in the window of 30 days."""


def watched(
    doing: Doing, events: Events, facts: Facts, effects: DayEffects, first: int, rng: np.random.Generator
) -> tuple[PeriodSums, tuple[Intervals, Intervals], FleetValues, Raised]:
    """Draw the behaviour of agents, and compute scores and alerts at each as-of after ``first`` days.

    :returns: sums of the traces, scores of the week and of the month, (agents, as-ofs, ...), values of the fleet, and
        alerts.
    """
    sums = draw(realised(doing, effects, rng), facts, effects, rng)
    as_ofs = np.arange(first - 7, facts.n_traces.shape[1] + 1)
    (week, month), fleet = _scored(sums, events, as_ofs)
    cvs = fleet.episode_cv[:, as_ofs]
    episodes = (_episode(events, as_ofs, days, cv)[:, 7:] for days, cv in zip(WINDOWS, cvs, strict=True))
    raised = Raised(*_falling(week, month), *episodes)
    week, month = (Intervals._make(values[:, 7:] for values in limits) for limits in (week, month))
    return sums, (week, month), fleet, raised


def _scored(
    sums: PeriodSums, events: Events, as_ofs: Integers
) -> tuple[tuple[Intervals, Intervals], FleetValues]:
    """Score all agents as one fleet at as-ofs, which are given as numbers of days.

    :returns: scores by the windows of 7 and 30 days, (agents, as-ofs, ...), and the values of the fleet.
    """
    sums = sums._replace(
        n_recoveries=events.n_episodes,
        log_recovery_hours=events.log_hours,
        log_recovery_hours_squared=events.log_hours_squared,
    )
    windows = tuple(WINDOWS.values())
    shape = (len(events.n_episodes), len(as_ofs))
    agent, at = (index.ravel() for index in np.indices(shape))
    facts = [row_facts(events, as_ofs, window.window_days) for window in windows]
    rows = Rows(
        np.tile(agent, 2),
        np.tile(as_ofs[at], 2),
        np.repeat(np.arange(2), agent.size),
        *(np.concatenate([one.ravel() for one in both]) for both in zip(*facts, strict=True)),
    )
    values = fleet_values(sum_fleet(sums, rows, windows))
    found = compute_intervals(sums, rows, windows, PARAMETERS, values)
    week, month = (
        Intervals._make(array[part].reshape(shape + array.shape[1:]) for array in found)
        for part in (slice(agent.size), slice(agent.size, None))
    )
    return (week, month), values


def is_falling(before: RateComponents, now: RateComponents, z: tuple[float, float] = WEEK) -> Booleans:
    """Return whether ``falling`` is raised, (...,). Components that are unmeasured on one side are ignored."""
    change = now.loss - before.loss
    variance = before.worse_sd**2 + now.better_sd**2
    both = ~np.isnan(change)
    fall = np.exp(-np.sum(before.loss, axis=-1, where=both)) - np.exp(-np.sum(now.loss, axis=-1, where=both))
    together = np.sum(change, axis=-1, where=both) >= z[0] * np.sqrt(np.sum(variance, axis=-1, where=both))
    alone = np.any((change > LEAST_LOSS_OF_ONE) & (change >= z[1] * np.sqrt(variance)), axis=-1)
    raised: Booleans = (fall >= LEAST_FALL) & (together | alone)
    return raised


def _falling(weeks: Intervals, months: Intervals) -> tuple[Booleans, Booleans]:
    """Return whether ``falling`` is raised against the week and against the month, from the eighth as-of on.

    The as-ofs must be consecutive days.
    """
    week, month = rate_components(weeks, PARAMETERS), rate_components(months, PARAMETERS)
    without_drift = np.where(np.array(PARTS) == "delta_drift", np.nan, month.loss)[:, :-7]
    now = RateComponents(*(values[:, 7:] for values in week))
    before, month = (RateComponents(*(values[:, :-7] for values in of)) for of in (week, month))
    is_scored = ~np.isnan(weeks.capacity_score)
    comparable = is_scored[:, 7:] & is_scored[:, :-7]
    against_month = is_falling(month._replace(loss=without_drift), now, MONTH)
    return is_falling(before, now) & comparable, against_month & comparable


def _episode(events: Events, as_ofs: Integers, window_days: int, episode_cv: Floats) -> Booleans:
    """Return whether ``episode`` is raised at each as-of."""
    shape = (len(events.n_episodes), len(as_ofs))
    episodes = compared(events, as_ofs, window_days)
    cv = np.broadcast_to(episode_cv, shape).ravel()
    with np.errstate(invalid="ignore"):
        lasts_longer = longer(episodes, cv) > EPISODE_Z
    chance = chance_of_as_many(episodes, np.full(cv.size, window_days), STEADY_DAYS)
    more_often = (episodes.n >= 2) & (chance <= EPISODE_CHANCE)
    lost = events.n_deferrals - events.worth
    n, n_before = (
        within(events.n_deferrals, as_ofs, *days)
        for days in ((window_days, 0), (window_days + STEADY_DAYS, window_days))
    )
    share = within(lost, as_ofs, window_days) / np.maximum(n, 1)
    earlier = within(lost, as_ofs, window_days + STEADY_DAYS, window_days) / np.maximum(n_before, 1)
    return (lasts_longer | more_often).reshape(shape) | share_rose(share, n, earlier, n_before, EPISODE_Z)
