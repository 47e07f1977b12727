"""Combine the confidence bounds of components into those of factors and of the score: square-and-add on the scale of
losses.

The method is MOVER (Newcombe 1998, Statistics in Medicine 17, 873–890, method 10; Zou and Donner 2008, Statistics in
Medicine 27, 1693–1702), applied to −ln of a factor, which is a sum over its components (certainty.md §3,
"Combination", has the formulas with the letters L and B that are used here).

Squared distances can be added in any order, so the score is combined from the factors. That lets ``integrity_floor``
limit the loss of I_int.

A component estimated as 0 has an infinite loss. The lower bound of its factor is 0. The upper bound of the factor is
the component's own upper bound times the upper bound of the other components together.
"""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ciris_scoring.certainty.bounds import Bounds
from ciris_scoring.windows.inputs import Booleans, Floats


class Loss(NamedTuple):
    """Losses of a score, (n,), or of c components or factors, (n, c), from which an interval is computed."""

    worse: Floats
    """Loss at the centre from which the bound of a worse score is computed."""
    worse_distance: Floats
    """Loss at the bound of a worse score minus ``worse``, 0 or more; infinite where the loss at this bound is
    infinite."""
    better: Floats
    """Loss at the centre from which the bound of a better score is computed."""
    better_distance: Floats
    """``better`` minus the loss at the bound of a better score, 0 or more."""
    zero: Booleans
    """Whether a component is estimated as 0. The losses do not include this component, but ``zero_upper`` does."""
    zero_upper: Floats
    """Product of the upper bounds of the components estimated as 0; 1 without such a component."""


def loss(value: Floats) -> Floats:
    """Return ``−ln value``, element by element; infinite at 0 and below."""
    positive: Booleans = value > 0
    return np.where(positive, -np.log(np.where(positive, value, 1.0)), np.inf)


def retention_loss(*components: tuple[Floats, Floats, Floats, Floats]) -> Loss:
    """Return the losses, (n, c), of c components that are multiplied into a factor.

    :param components: four arrays, (n,), for each component: its value in [0, 1] at the centre for a worse score, its
        value at the centre for a better score, its lower bound, and its upper bound.
    """
    centre, better_centre, lower, upper = (np.stack(values, axis=-1) for values in zip(*components, strict=True))
    zero: Booleans = (centre <= 0) | (better_centre <= 0)

    def of(value: Floats) -> Floats:
        return np.where(zero, 0.0, loss(value))

    worse, better = of(centre), of(better_centre)
    upper_or_one = np.where(zero, np.clip(upper, 0.0, 1.0), 1.0)
    return Loss(worse, of(lower) - worse, better, better - of(upper), zero, upper_or_one)


def finite_loss(worse: Floats, worse_bound: Floats, better: Floats, better_bound: Floats) -> Loss:
    """Return the losses of components whose loss is always finite. All arrays are losses, (n, c)."""
    none = np.zeros(worse.shape, dtype=np.bool_)
    return Loss(worse, worse_bound - worse, better, better - better_bound, none, np.ones(worse.shape))


def combine(parts: Loss) -> Loss:
    """Combine the losses of a factor's components, or of a score's factors, (n, c), into (n,)."""
    return Loss(
        worse=np.sum(parts.worse, axis=-1),
        worse_distance=np.sqrt(np.sum(parts.worse_distance**2, axis=-1)),
        better=np.sum(parts.better, axis=-1),
        better_distance=np.sqrt(np.sum(parts.better_distance**2, axis=-1)),
        zero=np.any(parts.zero, axis=-1),
        zero_upper=np.prod(parts.zero_upper, axis=-1),
    )


def bounds_of(whole: Loss) -> Bounds:
    """Return the confidence bounds of a factor or score, (n,) in [0, 1], from its losses."""
    lower = np.where(whole.zero, 0.0, np.exp(-(whole.worse + whole.worse_distance)))
    upper = whole.zero_upper * np.exp(-np.maximum(whole.better - whole.better_distance, 0))
    return Bounds(np.minimum(lower, 1.0), upper)


def floored(factor: Loss, floor: float) -> Loss:
    """Return the losses of a factor, (n,), after raising its value and bounds to at least ``floor``."""
    if floor <= 0:
        return factor
    bounds = bounds_of(factor)
    most = -np.log(floor)
    worse = np.where(factor.zero, most, np.minimum(factor.worse, most))
    better = np.where(factor.zero, most, np.minimum(factor.better, most))
    return Loss(
        worse=worse,
        worse_distance=loss(np.maximum(bounds.lower, floor)) - worse,
        better=better,
        better_distance=np.maximum(better - loss(np.maximum(bounds.upper, floor)), 0),
        zero=np.zeros_like(factor.zero),
        zero_upper=np.ones_like(factor.zero_upper),
    )


def driver(parts: list[Loss], scale: Mapping[int, Floats]) -> NDArray[np.int64]:
    """Return the component that widens the interval most in each row: the one with the largest ``worse_distance``.

    If the value of a component is estimated as 0, its distance is infinite. If several components have the largest
    distance, the first one is returned.

    :param parts: losses of the components of each factor, (n, c).
    :param scale: share of a factor's distance that remains in the score, (n,), by index of the factor; 1 for other
        factors.
    :returns: (n,) index in the list of the components of all factors; −1 if every distance of the row is 0.
    """
    distances = [np.where(part.zero, np.inf, part.worse_distance) for part in parts]
    for factor, share in scale.items():
        remains = (share > 0)[:, None]
        distances[factor] = np.where(remains, distances[factor], 0.0) * np.where(remains, share[:, None], 1.0)
    widths = np.concatenate(distances, axis=-1)
    return np.where(np.max(widths, axis=-1) > 0, np.argmax(widths, axis=-1), -1)
