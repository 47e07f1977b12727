"""How often the alert ``episode`` is raised of agents whose episodes and deferrals come and go at a steady rate."""

from itertools import product
from typing import NamedTuple

import numpy as np

from benchmarks.coverage.behaviour import STEADY_DAYS, WORTH
from ciris_scoring.statistics.episodes import Episodes, chance_of_as_many, longer
from ciris_scoring.statistics.inputs import Booleans, Floats, Integers

EPISODE_Z, EPISODE_CHANCE = 2.935, 0.0017
"""The parameters ``episode_z`` and ``episode_chance``."""

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
    more_often: float
    worse: float
    raised: float
    """By any."""


def false_alarms(cell: Steadily, rows: int, seed: int) -> FalseAlarms:
    """Compare a window with the steady days before it, whose events have the same rate."""
    rng = np.random.default_rng([seed, *cell.name.encode()])
    n = rows * AGENTS_PER_ROW
    weeks, weeks_before = cell.window_days / 7, STEADY_DAYS / 7
    episodes, episodes_before = (rng.poisson(cell.episodes_per_week * w, n) for w in (weeks, weeks_before))
    hours, _ = _logarithms(episodes, cell.cv, rng)
    compared = Episodes(episodes, hours, episodes_before, *_logarithms(episodes_before, cell.cv, rng))
    lasts_longer = longer(compared, np.full(n, cell.cv)) > EPISODE_Z
    window_days = np.full(n, cell.window_days)
    chance = chance_of_as_many(compared, window_days, STEADY_DAYS)
    more_often = (episodes >= 2) & (chance <= EPISODE_CHANCE)
    good = rng.uniform(0.6, 1.0, n)
    outcomes = np.stack([good, (1 - good) / 2, (1 - good) / 2], axis=-1)
    deferrals, deferrals_before = (rng.poisson(cell.deferrals_per_week * w, n) for w in (weeks, weeks_before))
    worse = _share_rose(
        *_share(deferrals - rng.multinomial(deferrals, outcomes) @ WORTH, deferrals),
        *_share(deferrals_before - rng.multinomial(deferrals_before, outcomes) @ WORTH, deferrals_before),
    )
    kinds = (lasts_longer, more_often, worse, lasts_longer | more_often | worse)
    return FalseAlarms(cell.name, *(float(np.mean(one)) for one in kinds))


def _logarithms(n: Integers, cv: float, rng: np.random.Generator) -> tuple[Floats, Floats]:
    """Sums of the logarithms of n log-normal durations, and of their squares."""
    happened = np.arange(max(int(n.max()), 1)) < n[:, None]
    logs = np.where(happened, rng.normal(0.0, np.sqrt(np.log1p(cv * cv)), happened.shape), 0.0)
    return logs.sum(axis=1), (logs**2).sum(axis=1)


def _share(bad: Floats | Integers, n: Integers) -> tuple[Floats, Integers]:
    return bad / np.maximum(n, 1), n


def _share_rose(share: Floats, n: Integers, before: Floats, n_before: Integers) -> Booleans:
    """certainty.md §4, the macro ``share_rose``."""
    z, m, m_before = EPISODE_Z / np.sqrt(2), np.maximum(n, 1), np.maximum(n_before, 1)
    half = z * np.sqrt(before * (1 - before) / m_before + (z / (2 * m_before)) ** 2)
    highest = np.minimum((before + z**2 / (2 * m_before) + half) / (1 + z**2 / m_before), 1.0)
    result: Booleans = (
        (n > 0) & (n_before > 0) & (share - highest > EPISODE_Z * np.sqrt(highest * (1 - highest) / m))
    )
    return result
