"""What a score would be with other parameters: the composites of published components (scoring.md §3 to 8).

The formulas are those of the macros ``core_identity``, ``capacity_score``, ``capacity_score_geometric`` and
``floored_integrity``; R is that of the package's own step. At the values in force they give the published scores.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ciris_scoring.steps.resilience import resilience_score

Floats = NDArray[np.float64]

WEIGHTS = ("weight_c", "weight_i_int", "weight_r", "weight_i_inc", "weight_s")
"""In the order of the factors."""

OF_THE_SCORE = ("lambda_c", "mu_c", "integrity_floor", "mttr_scale_hours", "norm_k", "norm_x0")
"""Parameters that take published components to ``capacity_score``."""


@dataclass(frozen=True)
class Components:
    """What n published scores are made of; each (n,), and as published."""

    d_identity: Floats
    k_contradiction: Floats
    i_int_score: Floats
    delta_drift: Floats
    mttr_hours: Floats
    rho_regression: Floats
    i_inc_score: Floats
    s_score: Floats


def factors(components: Components, parameters: Mapping[str, float]) -> tuple[Floats, ...]:
    """Compute the factors as the composites take them: C, I_int no lower than its floor, R, I_inc and S.

    :param components: of n scores.
    :param parameters: value by name, of all in ``OF_THE_SCORE``.
    :returns: five arrays, each (n,).
    """
    c = components
    core_identity = np.exp(-parameters["lambda_c"] * c.d_identity) * np.exp(
        -parameters["mu_c"] * c.k_contradiction
    )  # scoring.md §3
    integrity = np.maximum(c.i_int_score, parameters["integrity_floor"])  # scoring.md §4
    resilience = resilience_score(
        c.delta_drift,
        c.mttr_hours,
        c.rho_regression,
        parameters["mttr_scale_hours"],
        parameters["norm_k"],
        parameters["norm_x0"],
    )  # scoring.md §5
    return core_identity, integrity, resilience, c.i_inc_score, c.s_score


def capacity_score(components: Components, parameters: Mapping[str, float]) -> Floats:
    """Compute the product of the factors, (n,) (scoring.md §8)."""
    c, i_int, r, i_inc, s = factors(components, parameters)
    product: Floats = c * i_int * r * i_inc * s
    return product


def capacity_score_geometric(components: Components, parameters: Mapping[str, float]) -> Floats:
    """Compute the weighted geometric mean of the factors, (n,) (scoring.md §8); 0 to the power 0 is 1."""
    weights = np.array([parameters[name] for name in WEIGHTS])
    powers = np.power(np.stack(factors(components, parameters), axis=-1), weights)
    mean: Floats = np.prod(powers, axis=-1)
    return mean


def reweighted(parameters: Mapping[str, float], name: str, weight: float) -> dict[str, float]:
    """Give one factor a weight, and the others what is left, in their proportions; equally where all of them are 0."""
    others = [other for other in WEIGHTS if other != name]
    whole = sum(parameters[other] for other in others)
    shares = {other: parameters[other] / whole if whole else 1 / len(others) for other in others}
    return {**parameters, **{other: (1 - weight) * share for other, share in shares.items()}, name: weight}


def without_part(losses: Floats, part: int) -> Floats:
    """Compute the scores with the loss of one part set to 0 (certainty.md §1): exp of minus the others' sum.

    :param losses: (n, parts), as published; infinite where the score is 0 because of the part.
    :param part: which to leave out.
    :returns: (n,).
    """
    scores: Floats = np.exp(-np.delete(losses, part, axis=1).sum(axis=1))
    return scores


def category_numbers(scores: Floats, lower_bounds: Floats) -> NDArray[np.int64]:
    """Which category each score is in (scoring.md §8), counted from the lowest.

    :param scores: (n,).
    :param lower_bounds: ascending, the first minus infinity; a category holds its lower bound.
    :returns: (n,).
    """
    return np.searchsorted(lower_bounds, scores, side="right") - 1
