"""Losses by the parts that are behaviour, with what chance does to them: what the alert ``falling`` compares.

Episodes and deferrals are few and skewed: they are facts of a window, not chance around a rate (certainty.md §4).
"""

from typing import NamedTuple

import numpy as np

from ciris_scoring.basics.components import COMPONENT_ROWS
from ciris_scoring.statistics.inputs import PUBLISHED_LEVEL, Floats, Parameters
from ciris_scoring.statistics.intervals import COMPONENTS, GOOD_SHARES, Intervals
from ciris_scoring.statistics.resilience import sigmoid

PARTS = tuple(one.component for one in COMPONENT_ROWS if one.has_design_effect)

LEAST_UNDER_LOGARITHM = 1e-9
"""So that no loss is infinite."""


class Behaviour(NamedTuple):
    """Of rows in an array of any shape, (..., 9) in the order of ``PARTS``; NaN where a part is unmeasured."""

    loss: Floats
    worse_sd: Floats
    """Standard deviation of the loss by its limit towards a worse score."""
    better_sd: Floats


def behaviour(limits: Intervals, parameters: Parameters) -> Behaviour:
    """Losses at the published components, and by how much chance alone may move each."""

    def loss(part: str, value: Floats) -> Floats:
        if part in ("d_identity", "k_contradiction"):
            return value * (parameters.lambda_c if part == "d_identity" else parameters.mu_c)
        kept = value if part in GOOD_SHARES else 1 - value
        if part == "delta_drift":
            kept = sigmoid(kept, parameters.norm_k, parameters.norm_x0)
        return 0 - np.log(np.maximum(kept, LEAST_UNDER_LOGARITHM))

    columns = []
    for part in PARTS:
        at = COMPONENTS.index(part)
        low, high = limits.component_low[..., at], limits.component_high[..., at]
        worst, best = (low, high) if part in GOOD_SHARES else (high, low)
        value = loss(part, limits.component[..., at])
        columns.append(
            np.where(
                np.isnan(limits.design_effect[..., at]),
                np.nan,
                [
                    value,
                    (loss(part, worst) - value) / PUBLISHED_LEVEL.z_worse,
                    (value - loss(part, best)) / PUBLISHED_LEVEL.z_better,
                ],
            )
        )
    return Behaviour(*np.stack(columns, axis=-1))
