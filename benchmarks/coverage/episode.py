"""How often the alert ``episode`` is raised of agents whose episodes and deferrals come and go at a steady rate."""

from itertools import product
from typing import NamedTuple

import numpy as np

from benchmarks.coverage.behaviour import STEADY_DAYS, WORTH
from ciris_scoring.steps.intervals.inputs import Booleans, Floats, Integers

EPISODE_Z = 2.935
"""As the macro ``episode_z``."""

AGENTS_PER_ROW = 20
"""Agents are cheap here, and what is looked for is rare."""


class Steadily(NamedTuple):
    """Agents that do not change."""

    window_days: int
    episodes_per_week: float
    deferrals_per_week: float
    cv: float
    """Coefficient of variation of the episodes' durations, in the whole fleet."""

    @property
    def name(self) -> str:
        """For tables."""
        return (
            f"{self.window_days} days, {self.episodes_per_week:g} episodes (cv {self.cv:g}) and "
            f"{self.deferrals_per_week:g} deferrals a week"
        )


STEADILY = [
    Steadily(window_days, *events, cv)
    for window_days, events, cv in product((7, 30), ((0.5, 1), (1, 4), (4, 8)), (1.0, 1.8, 3.0))
]


class FalseAlarms(NamedTuple):
    """Shares of agents' windows."""

    name: str
    longer: float
    worse: float
    raised: float
    """By either."""


def false_alarms(cell: Steadily, rows: int, seed: int) -> FalseAlarms:
    """Compare a window with the steady days before it, whose events have the same rate."""
    rng = np.random.default_rng([seed, *cell.name.encode()])
    n = rows * AGENTS_PER_ROW
    weeks, weeks_before = cell.window_days / 7, STEADY_DAYS / 7
    episodes, episodes_before = (rng.poisson(cell.episodes_per_week * w, n) for w in (weeks, weeks_before))
    longer = _lasts_longer(
        _mean_duration(episodes, cell.cv, rng),
        episodes,
        _mean_duration(episodes_before, cell.cv, rng),
        episodes_before,
        cell.cv,
    )
    good = rng.uniform(0.6, 1.0, n)
    outcomes = np.stack([good, (1 - good) / 2, (1 - good) / 2], axis=-1)
    deferrals, deferrals_before = (rng.poisson(cell.deferrals_per_week * w, n) for w in (weeks, weeks_before))
    worse = _share_rose(
        *_share(deferrals - rng.multinomial(deferrals, outcomes) @ WORTH, deferrals),
        *_share(deferrals_before - rng.multinomial(deferrals_before, outcomes) @ WORTH, deferrals_before),
    )
    return FalseAlarms(cell.name, *(float(np.mean(one)) for one in (longer, worse, longer | worse)))


def _mean_duration(n: Integers, cv: float, rng: np.random.Generator) -> Floats:
    """Mean of n log-normal durations, 0 where there is none."""
    sigma = np.sqrt(np.log1p(cv * cv))
    happened = np.arange(max(int(n.max()), 1)) < n[:, None]
    durations = np.where(happened, rng.lognormal(0.0, sigma, happened.shape), 0.0)
    result: Floats = durations.sum(axis=1) / np.maximum(n, 1)
    return result


def _share(bad: Floats | Integers, n: Integers) -> tuple[Floats, Integers]:
    return bad / np.maximum(n, 1), n


def _lasts_longer(mean: Floats, n: Integers, before: Floats, n_before: Integers, cv: float) -> Booleans:
    """certainty.md §4, the macro ``lasts_longer``."""
    both: Booleans = (n > 0) & (n_before > 0)
    ratio = np.log(np.where(both, mean, 1.0) / np.where(both, before, 1.0))
    spread = np.sqrt(np.log1p(cv**2 / np.maximum(n, 1)) + np.log1p(cv**2 / np.maximum(n_before, 1)))
    result: Booleans = both & (ratio > EPISODE_Z * spread)
    return result


def _share_rose(share: Floats, n: Integers, before: Floats, n_before: Integers) -> Booleans:
    """certainty.md §4, the macro ``share_rose``."""
    z, m, m_before = EPISODE_Z / np.sqrt(2), np.maximum(n, 1), np.maximum(n_before, 1)
    half = z * np.sqrt(before * (1 - before) / m_before + (z / (2 * m_before)) ** 2)
    highest = np.minimum((before + z**2 / (2 * m_before) + half) / (1 + z**2 / m_before), 1.0)
    result: Booleans = (
        (n > 0) & (n_before > 0) & (share - highest > EPISODE_Z * np.sqrt(highest * (1 - highest) / m))
    )
    return result
