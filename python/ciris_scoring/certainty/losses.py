"""Losses of a score's thirteen loss components (certainty.md §1), for intervals, steady score, changes and attribution.

The loss of the score, −ln(score), is their sum. The points, 1 − score in total, are divided in proportion to losses.
This is the logarithmic mean Divisia index with a perfect score as its base (Ang 2005, Energy Policy 33, 867–871). The
losses are computed in numpy because PostgreSQL 15 has no log1p.
"""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from ciris_scoring.certainty.inputs import LOSS_COMPONENTS, Scores
from ciris_scoring.long_run import LEAST_LOSS
from ciris_scoring.names import FACTORS
from ciris_scoring.windows.arrays import Booleans, Floats
from ciris_scoring.windows.run import Parameters

OF_FACTOR = {name: tuple(row.component for row in LOSS_COMPONENTS if row.factor == name) for name in FACTORS}
"""Loss components of each factor."""
INTEGRITY = OF_FACTOR["I_int"]
"""Components whose loss ``integrity_floor`` limits."""


class Part(NamedTuple):
    """Loss of a component of n rows: expectation and variance, and the probability of a recent change; (n,) each."""

    loss: Floats
    variance: Floats
    recent: Floats | float = 0.0

    def where(self, known: Booleans) -> "Part":
        """Return the loss where it is known, and a loss of 0 without variance elsewhere."""
        return Part(*(np.where(known, values, 0.0) for values in self))


class Total(NamedTuple):
    """Loss of a score of n rows beyond the fixed cost of R; (n,) each."""

    beyond: Floats
    log_sd: Floats
    """Standard deviation of its logarithm, if it is log-normal with the mean and variance of the sum of the parts."""
    variances: Mapping[str, Floats]
    """Variance by each component."""


def loss_of_norm(x: ArrayLike, parameters: Parameters) -> Floats:
    """Return −ln norm(x), with ``norm(x) = 1 / (1 + exp(−k (x − x₀)))`` (scoring.md §5)."""
    return np.logaddexp(0.0, -parameters.norm_k * (np.asarray(x, dtype=np.float64) - parameters.norm_x0))


def loss_of_r(delta_drift: Floats, mttr_hours: Floats, rho: Floats, parameters: Parameters) -> Floats:
    """Return −ln R of n rows, with R = norm((1 − δ_drift) · 1/(1 + MTTR/τ) · (1 − ρ_regression)) (scoring.md §5)."""
    return loss_of_norm((1 - delta_drift) / (1 + mttr_hours / parameters.mttr_scale_hours) * (1 - rho), parameters)


def r_ceiling_loss(parameters: Parameters) -> float:
    """Return the fixed cost of R, −ln of the highest possible R."""
    return float(loss_of_norm(1.0, parameters))


def penalty(rate: str, parameters: Parameters) -> float | None:
    """Return the loss per unit of a rate of C, λ_C or μ_C (scoring.md §3); None for other rates."""
    return {"d_identity": parameters.lambda_c, "k_contradiction": parameters.mu_c}.get(rate)


def loss_of_rate(rate: str, bad: Floats, parameters: Parameters) -> Floats:
    """Return the loss of a share of bad events: proportional to it for the rates of C, −ln(1 − share) for others. The
    logarithm is subtracted from 0 to avoid −0."""
    weight = penalty(rate, parameters)
    with np.errstate(divide="ignore"):
        return 0 - np.log1p(-bad) if weight is None else weight * bad


def part_of_rate(
    rate: str, bad: Floats, variance: Floats, parameters: Parameters, recent: Floats | float = 0.0
) -> Part:
    """Return the loss of a share of bad events with a mean ``bad`` and a variance, to first order."""
    slope = penalty(rate, parameters) or 1 / (1 - bad)
    return Part(loss_of_rate(rate, bad, parameters), slope**2 * variance, recent)


def total_loss(parts: Mapping[str, Part], parameters: Parameters) -> Total:
    """Add the losses of the components. An ``integrity_floor`` limits the loss of I_int. Parts are added one by one,
    because the order in which numpy adds many numbers depends on the number of rows."""
    most = -np.log(parameters.integrity_floor) if parameters.integrity_floor > 0 else np.inf
    of_integrity = sum(parts[name].loss for name in INTEGRITY)
    loss = sum(part.loss for name, part in parts.items() if name not in INTEGRITY)
    variances = {
        name: np.where((of_integrity > most) & (name in INTEGRITY), 0.0, part.variance) for name, part in parts.items()
    }
    beyond = np.maximum(loss + np.minimum(of_integrity, most) - r_ceiling_loss(parameters), LEAST_LOSS)
    return Total(beyond, np.sqrt(np.log1p(sum(variances.values()) / beyond**2)), variances)


def losses(score: Scores, parameters: Parameters) -> dict[str, Floats]:
    """Return the loss of each loss component, 0 or more, which sum to −ln(capacity_score) (certainty.md §1). A loss is
    infinite if the component alone makes the score 0."""
    k, x0 = parameters.norm_k, parameters.norm_x0
    found = {}
    with np.errstate(divide="ignore"):
        for row in LOSS_COMPONENTS:
            if row.component in ("r_ceiling", "mttr_hours"):
                continue
            value = score.of(row.component)
            is_share_of_bad = row.better == "lower"
            found[row.component] = (
                loss_of_rate(row.component, value, parameters) if is_share_of_bad else 0 - np.log(value)
            )
    integrity = np.stack([found[name] for name in INTEGRITY], axis=-1)
    if parameters.integrity_floor > 0:
        most = 0 - np.log(parameters.integrity_floor)
        is_capped = np.sum(integrity, axis=-1, keepdims=True) > most
        integrity = np.where(is_capped, _shares(np.full(len(integrity), most), integrity), integrity)

    slow = np.log1p(score.of("mttr_hours") / parameters.mttr_scale_hours)
    amounts = np.stack([found["delta_drift"], slow, found["rho_regression"]], axis=-1)
    # Loss of R beyond its fixed cost: ln norm(1) − ln norm(e^−u), where u is the sum of ``amounts``. With expm1 and
    # log1p, all digits are kept if u is small.
    fall_of_x = -np.expm1(-np.sum(amounts, axis=-1))
    beyond_ceiling = np.log1p(np.expm1(k * fall_of_x) / (1 + np.exp(k * (1 - x0))))
    resilience = _shares(beyond_ceiling, amounts)
    found |= {
        **dict(zip(INTEGRITY, integrity.T, strict=True)),
        "r_ceiling": np.full(len(amounts), r_ceiling_loss(parameters)),
        **dict(zip(("delta_drift", "mttr_hours", "rho_regression"), resilience.T, strict=True)),
    }
    return {row.component: found[row.component] for row in LOSS_COMPONENTS}


def _shares(total: Floats, amounts: Floats) -> Floats:
    """Divide n totals, (n,), into k shares each, in proportion to the amounts, (n, k). If amounts of a row are
    infinite, they share its total equally, and finite amounts get 0."""
    infinite = np.isinf(amounts)
    counted = np.where(np.any(infinite, axis=-1, keepdims=True), infinite.astype(np.float64), amounts)
    whole = np.sum(counted, axis=-1, keepdims=True)
    share: Floats = np.divide(counted, whole, out=np.zeros_like(counted), where=whole > 0)
    return total[:, None] * share
