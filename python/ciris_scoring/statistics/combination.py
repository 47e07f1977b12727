"""Combine the confidence bounds of components into those of factors and of the score: square-and-add on the scale of
losses.

The method is MOVER (Newcombe 1998, Statistics in Medicine 17, 873–890, method 10; Zou and Donner 2008, Statistics in
Medicine 27, 1693–1702), applied to −ln of a factor, which is a sum over its components (certainty.md §3,
"Combination"). With centres L_j and worse bounds L_j⁺, the factor's lower bound is exp(−(Σ L_j + √Σ (L_j⁺ − L_j)²)).
With centres B_j and bounds B_j⁻ of the better side, the upper one is exp(−max(0, Σ B_j − √Σ (B_j − B_j⁻)²)).

Squared distances can be added in any order, so the score is combined from the factors. That lets ``integrity_floor``
cap the effect of I_int.

A component estimated as 0 has an infinite loss, so it is handled separately: the lower bound is 0, and the upper bound
is the component's own upper bound times that of the other components.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ciris_scoring.statistics.component_bounds import Bounds
from ciris_scoring.statistics.inputs import Booleans, Floats


class Side(NamedTuple):
    """Centre and bound of losses on one side of an interval, of the same shape."""

    centre: Floats
    limit: Floats


class Loss(NamedTuple):
    """Losses of the c components of a factor, (n, c), on both sides of the interval."""

    worse: Side
    better: Side
    zero: Booleans
    """Whether a component is estimated as 0. Its losses are then 0 on both sides, and ``upper`` counts instead."""
    upper: Floats
    """Upper bound of the component itself where ``zero``, else 1."""


class Combined(NamedTuple):
    """Combined losses of a factor, (n,) each, or of several, (n, f)."""

    worse: Floats
    """Loss at the centre of the worse side, without the components estimated as 0."""
    worse_distance: Floats
    """√Σ (L⁺ − L)², 0 or more; infinite where a bound is."""
    better: Floats
    """Loss at the centre of the better side, without the components estimated as 0."""
    better_distance: Floats
    """√Σ (B − B⁻)², 0 or more."""
    zero: Booleans
    """Whether a component is estimated as 0."""
    zero_upper: Floats
    """Product of the upper bounds of the components estimated as 0; 1 where there is none."""


def loss(value: Floats) -> Floats:
    """Return ``−ln value``; infinite at 0 and below."""
    positive: Booleans = value > 0
    return np.where(positive, -np.log(np.where(positive, value, 1.0)), np.inf)


def retention_loss(centre: Floats, better_centre: Floats, lower: Floats, upper: Floats) -> Loss:
    """Return the losses of components that are multiplied into a factor.

    :param centre: (n, c) value at the centre of the worse side, in [0, 1].
    :param better_centre: (n, c) value at the centre of the better side.
    :param lower: (n, c) bound of the value on the worse side.
    :param upper: (n, c) bound of the value on the better side.
    """
    zero: Booleans = (centre <= 0) | (better_centre <= 0)

    def of(value: Floats) -> Floats:
        return np.where(zero, 0.0, loss(value))

    return Loss(
        worse=Side(of(centre), of(lower)),
        better=Side(of(better_centre), of(upper)),
        zero=zero,
        upper=np.where(zero, np.clip(upper, 0.0, 1.0), 1.0),
    )


def finite_loss(worse: Side, better: Side) -> Loss:
    """Return the losses of components whose loss is always finite, (n, c) each."""
    return Loss(worse, better, np.zeros(worse.centre.shape, dtype=np.bool_), np.ones(worse.centre.shape))


def combine(parts: Loss) -> Combined:
    """Combine the losses of a factor's components."""
    return Combined(
        worse=np.sum(parts.worse.centre, axis=-1),
        worse_distance=_root_sum_square(parts.worse.limit - parts.worse.centre),
        better=np.sum(parts.better.centre, axis=-1),
        better_distance=_root_sum_square(parts.better.centre - parts.better.limit),
        zero=np.any(parts.zero, axis=-1),
        zero_upper=np.prod(parts.upper, axis=-1),
    )


def bounds_of(combined: Combined) -> Bounds:
    """Return the confidence bounds of the factor or score itself, in [0, 1]."""
    lower = np.where(combined.zero, 0.0, np.exp(-(combined.worse + combined.worse_distance)))
    upper = combined.zero_upper * np.exp(-np.maximum(combined.better - combined.better_distance, 0))
    return Bounds(np.minimum(lower, 1.0), upper)


def floored(combined: Combined, floor: float) -> Combined:
    """Return a factor's losses as the score takes them: value and bounds are at least ``floor``
    (``integrity_floor``)."""
    if floor <= 0:
        return combined
    bounds = bounds_of(combined)
    most = -np.log(floor)
    worse = np.where(combined.zero, most, np.minimum(combined.worse, most))
    better = np.where(combined.zero, most, np.minimum(combined.better, most))
    return Combined(
        worse=worse,
        worse_distance=loss(np.maximum(bounds.lower, floor)) - worse,
        better=better,
        better_distance=np.maximum(better - loss(np.maximum(bounds.upper, floor)), 0),
        zero=np.zeros_like(combined.zero),
        zero_upper=np.ones_like(combined.zero_upper),
    )


def combine_factors(factors: list[Combined]) -> Combined:
    """Combine the losses of a score's factors."""
    return Combined(
        worse=np.sum([factor.worse for factor in factors], axis=0),
        worse_distance=_root_sum_square(np.stack([factor.worse_distance for factor in factors], axis=-1)),
        better=np.sum([factor.better for factor in factors], axis=0),
        better_distance=_root_sum_square(np.stack([factor.better_distance for factor in factors], axis=-1)),
        zero=np.any([factor.zero for factor in factors], axis=0),
        zero_upper=np.prod([factor.zero_upper for factor in factors], axis=0),
    )


def driver(parts: list[Loss], scale: list[Floats]) -> NDArray[np.int64]:
    """Return the component with the largest (L⁺ − L)². A component estimated as 0 comes first; ties go to the first
    one.

    :param parts: losses of the components of each factor, (n, c).
    :param scale: (n,) for each factor: the share of its distance that remains in the score. It differs from 1 only for
        a floored I_int.
    :returns: (n,) index over the components of all factors; −1 where no component has any width.
    """
    distances = [np.where(part.zero, np.inf, part.worse.limit - part.worse.centre) for part in parts]
    scaled = [
        np.where(factor_scale[:, None] > 0, distance, 0.0)
        * np.where(factor_scale > 0, factor_scale, 1.0)[:, None]
        for distance, factor_scale in zip(distances, scale, strict=True)
    ]
    widths = np.concatenate(scaled, axis=-1)
    return np.where(np.max(widths, axis=-1) > 0, np.argmax(widths, axis=-1), -1)


def _root_sum_square(distances: Floats) -> Floats:
    result: Floats = np.sqrt(np.sum(distances * distances, axis=-1))
    return result
