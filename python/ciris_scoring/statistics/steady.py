"""The steady score (certainty.md §4b): the score with episodes and deferrals as in the agent's last 90 days.

Its loss is that of the score without episodes and deferrals, and one more for each of the two kinds of events: the mean
loss over windows with and without such an event.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from ciris_scoring.statistics.combination import Combined
from ciris_scoring.statistics.component_bounds import Bounds, recovery_bounds
from ciris_scoring.statistics.inputs import SCORE_LEVEL, Floats, Parameters, Rows, Window
from ciris_scoring.statistics.resilience import sigmoid

MORE_EVENTS, FEWER_EVENTS = 0.8225, 0.98
"""Distance by which the square root of a Poisson count moves towards more and towards fewer events: half of the score's
quantiles 1.645 and 1.96, because √count has a standard deviation of about 1/2 (Anscombe 1948, Biometrika 35, 246–254;
certainty.md §4b)."""

LEAST_KEPT = 1e-300
"""Smallest share of the score that events leave, so that the loss stays finite."""


class Steady(NamedTuple):
    """Effect of events on n scores."""

    r_score: Floats
    """(n,) R, the mean over windows with and without an episode."""
    lost: Combined
    """Losses by episodes and by deferrals, combined like a factor of the score."""


def without_events(rows: Rows) -> Rows:
    """Return the rows as they would be without episodes and deferrals."""
    nothing = np.zeros_like(rows.mttr_hours)
    return rows._replace(
        mttr_hours=nothing,
        n_episodes=np.zeros_like(rows.n_episodes),
        rho_regression=nothing,
        q_deferral=np.ones_like(rows.q_deferral),
        n_judged_deferrals=np.zeros_like(rows.n_judged_deferrals),
    )


def steady_events(
    rows: Rows, delta: Floats, episode_cv: Floats, deferrals: Bounds, window: Window, parameters: Parameters
) -> Steady:
    """Compute the losses by events, with confidence bounds (certainty.md §4b).

    :param delta: (n,) published drift.
    :param episode_cv: (n,) the fleet's coefficient of variation of durations.
    :param deferrals: bounds of 1 − the quality of the steady days' deferrals, at the level of the score.
    :param window: the window of all rows.
    """
    days = max(parameters.steady_days, window.window_days)
    n_episodes = rows.n_steady_episodes.astype(np.float64)
    n_deferrals = rows.n_steady_deferrals.astype(np.float64)
    kept = 1 - delta

    def norm(x: Floats) -> Floats:
        return sigmoid(x, parameters.norm_k, parameters.norm_x0)

    def chance(n: Floats) -> Floats:
        result: Floats = -np.expm1(-n / days * window.window_days)
        return result

    def loss(n: Floats, worth: Floats) -> Floats:
        p = chance(n)
        result: Floats = -np.log(np.maximum(1 - p + p * worth, LEAST_KEPT))
        return result

    def of_episodes(n: Floats, hours: Floats) -> Floats:
        return loss(n, norm(kept / (1 + hours / parameters.mttr_scale_hours)) / norm(kept))

    def of_deferrals(n: Floats, lost: Floats) -> Floats:
        return loss(n, 1 - lost)

    hours, lost = rows.mttr_hours_steady, 1 - rows.q_deferral_steady
    recovery = recovery_bounds(hours, n_episodes, episode_cv, SCORE_LEVEL)
    episode_loss, worse_episodes, better_episodes = _sides(of_episodes, n_episodes, hours, recovery)
    deferral_loss, worse_deferrals, better_deferrals = _sides(of_deferrals, n_deferrals, lost, deferrals)
    p = chance(n_episodes)
    return Steady(
        r_score=(1 - p) * norm(kept) + p * norm(kept / (1 + hours / parameters.mttr_scale_hours)),
        lost=Combined(
            worse=episode_loss + deferral_loss,
            worse_distance=np.hypot(worse_episodes, worse_deferrals),
            better=episode_loss + deferral_loss,
            better_distance=np.hypot(better_episodes, better_deferrals),
            zero=np.zeros(len(delta), dtype=np.bool_),
            zero_upper=np.ones(len(delta)),
        ),
    )


def _sides(
    loss: Callable[[Floats, Floats], Floats], n: Floats, value: Floats, bounds: Bounds
) -> tuple[Floats, Floats, Floats]:
    """Return the loss at n events of a value, and the distances to its worse and to its better bound.

    A distance combines the bounds of the number and of the value by square-and-add.
    """
    at = loss(n, value)
    more = loss((np.sqrt(n) + MORE_EVENTS) ** 2, value)
    fewer = loss(np.maximum(np.sqrt(n) - FEWER_EVENTS, 0) ** 2, value)
    return (
        at,
        np.hypot(more - at, loss(n, bounds.upper) - at),
        np.hypot(at - fewer, at - loss(n, bounds.lower)),
    )
