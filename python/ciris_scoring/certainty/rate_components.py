"""Losses of the nine rate components with their standard deviations, which the alert ``falling`` compares.

The alert does not compare episodes and deferrals, because these are few and skewed, and their numbers vary without a
change of the agent (certainty.md §4).
"""

from typing import NamedTuple

import numpy as np

from ciris_scoring.basics.components import COMPONENT_ROWS
from ciris_scoring.certainty.inputs import PUBLISHED_LEVEL
from ciris_scoring.certainty.intervals import COMPONENTS, GOOD_SHARES, Intervals
from ciris_scoring.certainty.losses import loss_of_r, loss_of_rate, penalty
from ciris_scoring.windows.inputs import Floats, Parameters

PARTS = tuple(one.component for one in COMPONENT_ROWS if one.has_design_effect)
"""Names of the nine rate components, in the order of the last axis of the arrays in :class:`RateComponents`."""

MOST_LOSS = -np.log(1e-9)
"""Largest loss of a component that is not in C, so that every loss is finite (certainty.md §4, "By window")."""


class RateComponents(NamedTuple):
    """Losses of the nine components, (..., 9) in the order of ``PARTS``; NaN where a component is unmeasured."""

    loss: Floats
    """−ln of the number by which the component multiplies the score."""
    worse_sd: Floats
    """Standard deviation towards a worse score: (loss at the worse published bound minus loss) divided by z."""
    better_sd: Floats
    """Standard deviation towards a better score: (loss minus loss at the better published bound) divided by z."""


def rate_components(bounds: Intervals, parameters: Parameters) -> RateComponents:
    """Compute the loss of each rate component, with its standard deviations (certainty.md §4, "By window").

    :param bounds: intervals of n rows. The axis n may be replaced by axes of any shape (...).
    """

    def loss(part: str, value: Floats) -> Floats:
        if part == "delta_drift":
            found = loss_of_r(value, 0 * value, 0 * value, parameters)
        else:
            found = loss_of_rate(part, 1 - value if part in GOOD_SHARES else value, parameters)
        limited: Floats = np.minimum(found, penalty(part, parameters) or MOST_LOSS)
        return limited

    columns = []
    for part in PARTS:
        at = COMPONENTS.index(part)
        low, high = bounds.component_low[..., at], bounds.component_high[..., at]
        worst, best = (low, high) if part in GOOD_SHARES else (high, low)
        value = loss(part, bounds.component[..., at])
        columns.append(
            np.where(
                np.isnan(bounds.design_effect[..., at]),
                np.nan,
                [
                    value,
                    (loss(part, worst) - value) / PUBLISHED_LEVEL.z_worse,
                    (value - loss(part, best)) / PUBLISHED_LEVEL.z_better,
                ],
            )
        )
    return RateComponents(*np.stack(columns, axis=-1))
