"""The window's fragile episodes and deferrals against the agent's own before it: what ``episode`` judges by.

certainty.md §4. Durations are compared by their logarithms, which one long episode does not decide.
"""

from typing import NamedTuple

import numpy as np

from ciris_scoring.statistics.component_limits import wilson
from ciris_scoring.statistics.design_effects import FLEET_WEIGHT
from ciris_scoring.statistics.inputs import Booleans, Floats, Integers, Level


class Episodes(NamedTuple):
    """Episodes of n windows, and of the steady days before each; (n,) each."""

    n: Integers
    """That ended in the window, and the open one."""
    log_hours: Floats
    """Sum of the logarithms of their durations."""
    n_before: Integers
    """That ended in the steady days before the window."""
    log_hours_before: Floats
    log_hours_squared_before: Floats


def longer(episodes: Episodes, episode_cv: Floats) -> Floats:
    """Standard deviations by which the mean logarithm of the durations is larger than before.

    The variance is the agent's own, shrunk towards the fleet's with the weight of ``FLEET_WEIGHT`` episodes.

    :param episode_cv: (n,) the fleet's coefficient of variation of durations.
    :returns: (n,); NaN without an episode in the window, or before it.
    """
    known = (episodes.n > 0) & (episodes.n_before > 0)
    n, n_before = (np.where(known, some, 1) for some in (episodes.n, episodes.n_before))
    spread = np.maximum(episodes.log_hours_squared_before - episodes.log_hours_before**2 / n_before, 0)
    variance = (FLEET_WEIGHT * np.log1p(episode_cv**2) + spread) / (FLEET_WEIGHT + n_before - 1)
    rise = episodes.log_hours / n - episodes.log_hours_before / n_before
    return np.where(known, rise / np.sqrt(variance * (1 / n + 1 / n_before)), np.nan)


def chance_of_as_many(episodes: Episodes, window_days: Integers, steady_days: int) -> Floats:
    """Chance that as many of all these episodes, or more, fall into the window, had they all times alike.

    :param window_days: (n,) length of the window; the days before it are ``steady_days``.
    :returns: (n,) P(Bin(n + n_before, W / (W + steady_days)) ≥ n).
    """
    total = episodes.n + episodes.n_before
    odds = np.log(window_days / steady_days)
    log_term = total * np.log(steady_days / (window_days + steady_days))
    fewer = np.zeros(len(total))
    for k in range(int(episodes.n.max(initial=0))):
        fewer += np.where(k < episodes.n, np.exp(log_term), 0.0)
        log_term = log_term + np.log(np.maximum(total - k, 1) / (k + 1)) + odds
    result: Floats = np.maximum(1 - fewer, 0.0)
    return result


def share_rose(share: Floats, n: Integers, before: Floats, n_before: Integers, z: float) -> Booleans:
    """Whether a share of bad events is further above the upper limit of the earlier share than chance would bring it.

    By a score interval, since both may rest on a few events. False where one of the two has none.
    """
    half = Level(z / np.sqrt(2), z / np.sqrt(2))
    highest = wilson(before, n_before.astype(np.float64), half, before <= 0, before >= 1).upper
    spread = np.sqrt(highest * (1 - highest) / np.maximum(n, 1))
    result: Booleans = (n > 0) & (n_before > 0) & (share - highest > z * spread)
    return result
