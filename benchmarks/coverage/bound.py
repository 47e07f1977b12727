"""Compute how soon any 95 % interval can contain the long run after deferrals have turned bad.

The bound is the lower end of a Bayesian interval that knows everything about an agent except whether and when its
deferrals changed, and their new value: the value before, the outcomes of each day, and the probability of a change.
"""

from typing import Any

import numpy as np

from ciris_scoring.certainty.change_points import CHANGE_PER_DAY
from ciris_scoring.windows.inputs import Floats

BEFORE, AFTER = 0.9, 0.4
"""Mean value of deferrals before and after the change."""
NEW_VALUES: Floats = np.linspace(0.25, 1, 31)
"""Mean values that deferrals may have after a change, all equally likely."""
PER_DAY = (-1.2, -0.2)
"""Range of the deferrals per day, as powers of ten."""
DAYS_BEFORE, STEPS = 364, (7, 14, 28, 60)
LEAST_SHARE = 0.025
"""Probability below the lower end of a 95 % interval."""


def _outcomes(good: Floats) -> Floats:
    """Return the probabilities of the values 1, 0.5 and 0 for mean values of deferrals, (..., 3)."""
    half = (1 - good) * 2 / 3
    result: Floats = np.maximum(np.stack([1 - 2 * half, half, half], axis=-1), 1e-12)
    return result


def soonest(agents: int, seed: int) -> dict[str, Any]:
    """Return the share of agents and days whose bound is at most the value after the change, by days since it."""
    rng = np.random.default_rng([seed, agents])
    per_day = 10.0 ** rng.uniform(*PER_DAY, agents)
    days = np.arange(DAYS_BEFORE + STEPS[-1])
    good = np.where(days < DAYS_BEFORE, BEFORE, AFTER)
    counts = rng.multinomial(rng.poisson(per_day[:, None], (agents, len(days))), _outcomes(good))
    evidence = counts @ (np.log(_outcomes(NEW_VALUES)) - np.log(_outcomes(np.array(BEFORE)))).T
    found = np.zeros((agents, STEPS[-1]), dtype=bool)
    for day in range(STEPS[-1]):
        since = np.cumsum(evidence[:, DAYS_BEFORE + day :: -1], axis=1)
        changed = np.exp(since).sum(axis=1) * CHANGE_PER_DAY / len(NEW_VALUES)
        worse = changed[:, NEW_VALUES <= AFTER].sum(axis=1)
        found[:, day] = worse / (1 + changed.sum(axis=1)) >= LEAST_SHARE
    starts = (0, *STEPS[:-1])
    return {
        "bound": f"deferrals {BEFORE} to {AFTER}",
        "agents": agents,
        **{f"days {a} to {b}": np.mean(found[:, a:b]) for a, b in zip(starts, STEPS, strict=True)},
        "in 28 days": np.mean(found[:, :28]),
    }
