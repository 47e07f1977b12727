"""Compare a window's fragile episodes and deferrals with the agent's own before the window, for the alert ``episode``.

The method is described in certainty.md §4. Durations are compared by their logarithms, so that one long episode does
not decide.
"""

from typing import NamedTuple

import numpy as np

from ciris_scoring.statistics.component_bounds import wilson
from ciris_scoring.statistics.design_effects import FLEET_WEIGHT
from ciris_scoring.statistics.inputs import Booleans, Floats, Integers, Level
from ciris_scoring.statistics.residuals import ratio

TINY = 1e-300
"""Smallest argument of a logarithm; where a count is 0, its term is 0."""


class Episodes(NamedTuple):
    """Episodes of n windows and of the steady days before each window; (n,) each."""

    n: Integers
    """Number of episodes that ended in the window, and the open one."""
    log_hours: Floats
    """Sum of the natural logarithms of their durations in hours."""
    n_before: Integers
    """Number of episodes that ended in the steady days before the window."""
    log_hours_before: Floats
    log_hours_squared_before: Floats


def longer(episodes: Episodes, episode_cv: Floats) -> Floats:
    """Compute by how many standard deviations the durations of a window exceed those before it.

    This is a two-sample z of the mean logarithms (certainty.md §4, "Longer"). The variance is the agent's own, shrunk
    towards the fleet's with the weight of ``FLEET_WEIGHT`` degrees of freedom.

    :param episode_cv: (n,) the fleet's coefficient of variation of durations.
    :returns: (n,) standard deviations; NaN without an episode in the window or before it.
    """
    known = (episodes.n > 0) & (episodes.n_before > 0)
    n, n_before = (np.where(known, some, 1) for some in (episodes.n, episodes.n_before))
    spread = np.maximum(episodes.log_hours_squared_before - episodes.log_hours_before**2 / n_before, 0)
    variance = (FLEET_WEIGHT * np.log1p(episode_cv**2) + spread) / (FLEET_WEIGHT + n_before - 1)
    rise = episodes.log_hours / n - episodes.log_hours_before / n_before
    return np.where(known, rise / np.sqrt(variance * (1 / n + 1 / n_before)), np.nan)


def chance_of_as_many(episodes: Episodes, window_days: Integers, steady_days: int) -> Floats:
    """Compute the probability that chance puts as many episodes into the window, or more.

    Given the total, the number in the window is binomial if the rate is constant (Przyborowski and Wilenski 1940,
    Biometrika 31; certainty.md §4, "More often").

    :param window_days: (n,) length of each window in days.
    :param steady_days: length of the time before it in days.
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


def excess(n: Integers, exposure: Floats, n_before: Integers, exposure_before: Floats) -> Floats:
    """Compute the signed root of the likelihood ratio of two Poisson rates (certainty.md §4).

    It is about a standard deviation where the rate did not rise.

    :param n: (n,) events.
    :param exposure: (n,) days or trials in which they happened.
    :param n_before: (n,) events before, in ``exposure_before``.
    :returns: (n,) 0 where the rate is not higher than before, or where nothing is known of the time before.
    """
    share = ratio(exposure, exposure + exposure_before, 1.0)
    expected, expected_before = (n + n_before) * share, (n + n_before) * (1 - share)
    deviance = sum(
        some * np.log(np.maximum(ratio(some, by_chance, 1.0), TINY))
        for some, by_chance in ((n, expected), (n_before, expected_before))
    )
    return np.where(n > expected, np.sqrt(np.maximum(2 * deviance, 0)), 0.0)


def share_rose(share: Floats, n: Integers, before: Floats, n_before: Integers, z: float) -> Booleans:
    """Return whether a share of bad events exceeds the earlier share by more than chance explains.

    The earlier share enters with its Wilson upper bound at z/√2, and the window's share with the standard error at that
    bound, because both may be based on few events (certainty.md §4, "Judged worse").

    :param share: (n,) share in the window, of ``n`` events.
    :param before: (n,) share before the window, of ``n_before`` events.
    :param z: number of standard deviations.
    :returns: (n,); False where one of the two has no event.
    """
    half = Level(z / np.sqrt(2), z / np.sqrt(2))
    highest = wilson(before, n_before.astype(np.float64), half, before <= 0, before >= 1).upper
    spread = np.sqrt(highest * (1 - highest) / np.maximum(n, 1))
    result: Booleans = (n > 0) & (n_before > 0) & (share - highest > z * spread)
    return result
