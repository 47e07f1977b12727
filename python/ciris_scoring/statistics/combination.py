"""From the limits of components to those of factors and of the score: square-and-add on the scale of the loss.

A factor's loss is −ln of it, a sum over its components. With centres L_j and worst limits L_j⁺, the factor's lower
limit is exp(−(Σ L_j + √Σ (L_j⁺ − L_j)²)); with the better side's centres B_j and limits B_j⁻ the upper one is
exp(−max(0, Σ B_j − √Σ (B_j − B_j⁻)²)). Distances add up in squares whether all at once or factor by factor, so the
score is combined from the factors; that lets ``integrity_floor`` cap what I_int can do to it.

A component estimated as 0 has an infinite loss. It is kept apart: the lower limit is 0, and the upper one is the
component's own times what the others' better side leaves.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ciris_scoring.statistics.component_limits import Limits
from ciris_scoring.statistics.inputs import Booleans, Floats


class Side(NamedTuple):
    """A centre and a limit of losses, of one shape."""

    centre: Floats
    limit: Floats


class Loss(NamedTuple):
    """Losses of the c components of a factor, (n, c): both sides, and the components estimated as 0."""

    worse: Side
    better: Side
    zero: Booleans
    """Where true, both sides are 0 and the limit counts instead."""
    upper: Floats
    """Upper limit of the component itself, where ``zero``; else 1."""


class Combined(NamedTuple):
    """A factor, (n,) each, or several, (n, f)."""

    worse: Floats
    """Loss of the worse side's centre, without the components estimated as 0."""
    worse_distance: Floats
    """√Σ (L⁺ − L)², 0 or more; infinite where a limit is."""
    better: Floats
    better_distance: Floats
    zero: Booleans
    """Whether a component is estimated as 0."""
    zero_upper: Floats
    """Product of the upper limits of those components; 1 where there is none."""


def loss(value: Floats) -> Floats:
    """``−ln value``; infinite at 0 and below."""
    positive: Booleans = value > 0
    return np.where(positive, -np.log(np.where(positive, value, 1.0)), np.inf)


def retention_loss(centre: Floats, better_centre: Floats, lower: Floats, upper: Floats) -> Loss:
    """Losses of components that multiply a factor, (n, c) each.

    :param centre: value of the worse side's centre, in [0, 1]; ``better_centre`` that of the better side's.
    :param lower: limit of the value on the worse side; ``upper`` on the better one.
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
    """Losses of components that are never infinite, (n, c) each."""
    return Loss(worse, better, np.zeros(worse.centre.shape, dtype=np.bool_), np.ones(worse.centre.shape))


def combine(parts: Loss) -> Combined:
    """Combine the components of a factor, whose losses add up."""
    return Combined(
        worse=np.sum(parts.worse.centre, axis=-1),
        worse_distance=_root_sum_square(parts.worse.limit - parts.worse.centre),
        better=np.sum(parts.better.centre, axis=-1),
        better_distance=_root_sum_square(parts.better.centre - parts.better.limit),
        zero=np.any(parts.zero, axis=-1),
        zero_upper=np.prod(parts.upper, axis=-1),
    )


def limits_of(combined: Combined) -> Limits:
    """Limits of the factor or score itself, in [0, 1]."""
    lower = np.where(combined.zero, 0.0, np.exp(-(combined.worse + combined.worse_distance)))
    upper = combined.zero_upper * np.exp(-np.maximum(combined.better - combined.better_distance, 0))
    return Limits(np.minimum(lower, 1.0), upper)


def floored(combined: Combined, floor: float) -> Combined:
    """A factor as the composite takes it, no lower than ``floor`` (``integrity_floor``); limits likewise."""
    if floor <= 0:
        return combined
    limits = limits_of(combined)
    most = -np.log(floor)
    worse = np.where(combined.zero, most, np.minimum(combined.worse, most))
    better = np.where(combined.zero, most, np.minimum(combined.better, most))
    return Combined(
        worse=worse,
        worse_distance=loss(np.maximum(limits.lower, floor)) - worse,
        better=better,
        better_distance=np.maximum(better - loss(np.maximum(limits.upper, floor)), 0),
        zero=np.zeros_like(combined.zero),
        zero_upper=np.ones_like(combined.zero_upper),
    )


def combine_factors(factors: list[Combined]) -> Combined:
    """Combine the factors of a score."""
    return Combined(
        worse=np.sum([factor.worse for factor in factors], axis=0),
        worse_distance=_root_sum_square(np.stack([factor.worse_distance for factor in factors], axis=-1)),
        better=np.sum([factor.better for factor in factors], axis=0),
        better_distance=_root_sum_square(np.stack([factor.better_distance for factor in factors], axis=-1)),
        zero=np.any([factor.zero for factor in factors], axis=0),
        zero_upper=np.prod([factor.zero_upper for factor in factors], axis=0),
    )


def driver(parts: list[Loss], scale: list[Floats]) -> NDArray[np.int64]:
    """The component with the largest (L⁺ − L)²; one estimated as 0 comes first; ties go to the first.

    :param parts: per factor, (n, c).
    :param scale: per factor, (n,): what is left of its distances in the score, 1 but for a floored I_int.
    :returns: (n,) index over all factors' components; −1 where no component has any width.
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
