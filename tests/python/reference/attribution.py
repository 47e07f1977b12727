"""Reference implementation of attribution (``docs/certainty.md`` §1 and 2), written from the text.

It uses the standard library only. A state is a dictionary of a score's components. Unmeasured components have their
neutral value; an unmeasured S is 0.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal, localcontext

from reference.scoring import DEFAULT_PARAMETERS

OUTSIDE_R = ("d_identity", "k_contradiction", "i_chain", "i_coverage", "i_replay", "r_ceiling")
WITHIN_R = ("delta_drift", "mttr_hours", "rho_regression")
PARTS = (*OUTSIDE_R, *WITHIN_R, "ece", "u_unsafe", "q_deferral", "s_score")
INTEGRITY = ("i_chain", "i_coverage", "i_replay")


@dataclass(frozen=True)
class Level:
    """certainty.md §1: loss of each component, possibly ``math.inf``, and the points that it
    takes from a score of 1.
    """

    capacity: float
    loss: dict[str, float]
    points: dict[str, float]


def _neg_log(value: float) -> float:
    return -math.log(value) if value > 0 else math.inf


def _neg_log1m(value: float) -> float:
    """``−ln(1 − value)``, exact for small values."""
    return -math.log1p(-value) if value < 1 else math.inf


def _parameters(overrides: Mapping[str, float] | None) -> dict[str, float]:
    return DEFAULT_PARAMETERS | dict(overrides or {})


def _minus_ln_norm(x: float, p: Mapping[str, float]) -> float:
    """``−ln norm(x) = ln(1 + exp(−k (x − x₀)))``."""
    exponent = -p["norm_k"] * (x - p["norm_x0"])
    return exponent + math.log1p(math.exp(-exponent)) if exponent > 0 else math.log1p(math.exp(exponent))


def _within_r(state: Mapping[str, float], p: Mapping[str, float]) -> tuple[float, float, float]:
    """Return a₁, a₂ and a₃ of certainty.md §1."""
    return (
        _neg_log1m(state["delta_drift"]),
        math.log1p(state["mttr_hours"] / p["mttr_scale_hours"]),
        _neg_log1m(state["rho_regression"]),
    )


def _h(u: float, p: Mapping[str, float]) -> float:
    """h(u) = ln norm(1) − ln norm(e^−u), the loss beyond the fixed cost.

    With x = e^−u, the ratio of the two norms is (1 + e^(−k(x − x₀)))/(1 + e^(−k(1 − x₀))). It is computed as 1 plus
    e^(−k(1 − x₀)) (e^(k(1 − x)) − 1)/(1 + e^(−k(1 − x₀))), which is exact for a small u.
    """
    base = math.exp(-p["norm_k"] * (1 - p["norm_x0"]))
    one_minus_x = -math.expm1(-u)  # 1 at u = ∞
    return math.log1p(base * math.expm1(p["norm_k"] * one_minus_x) / (1 + base))


def _changes_within_r(
    before: Mapping[str, float], after: Mapping[str, float], p: Mapping[str, float]
) -> list[float]:
    """certainty.md §2: changes of the components of R if u is finite: their changes of a, times dh/du.

    It is computed with 40 digits, because large changes of a can add up to hardly any change of u.
    """
    scale, k, x0 = (Decimal(p[name]) for name in ("mttr_scale_hours", "norm_k", "norm_x0"))

    def amounts(state: Mapping[str, float]) -> list[Decimal]:
        drift, hours, relapse = (Decimal(state[name]) for name in WITHIN_R)
        return [-(1 - drift).ln(), (1 + hours / scale).ln(), -(1 - relapse).ln()]

    with localcontext(prec=40):
        a0, a1 = amounts(before), amounts(after)
        u0, u1 = sum(a0), sum(a1)
        x = Decimal(-u0).exp()
        odds = [1 + (-k * (Decimal(-u).exp() - x0)).exp() for u in (u0, u1)]
        is_same = abs(u1 - u0) < Decimal("1e-20")
        slope = k * x * (1 - 1 / odds[0]) if is_same else (odds[1].ln() - odds[0].ln()) / (u1 - u0)
        return [float((now - then) * slope) for then, now in zip(a0, a1, strict=True)]


def _share(total: float, amounts: list[float]) -> list[float]:
    """Divide a total in proportion to amounts. Infinite amounts divide it equally among themselves; if all are 0, all
    get 0."""
    infinite = sum(math.isinf(amount) for amount in amounts)
    if infinite:
        return [total / infinite if math.isinf(amount) else 0.0 for amount in amounts]
    whole = math.fsum(amounts)
    return [total * amount / whole if whole > 0 else 0.0 for amount in amounts]


def losses(state: Mapping[str, float], parameters: Mapping[str, float] | None = None) -> dict[str, float]:
    """certainty.md §1: the thirteen loss components of −ln capacity_score. A loss can be ``math.inf``."""
    p = _parameters(parameters)
    loss = {
        "d_identity": p["lambda_c"] * state["d_identity"],
        "k_contradiction": p["mu_c"] * state["k_contradiction"],
        **{part: _neg_log(state[part]) for part in INTEGRITY},
        "r_ceiling": _minus_ln_norm(1.0, p),
        "ece": _neg_log1m(state["ece"]),
        "u_unsafe": _neg_log1m(state["u_unsafe"]),
        "q_deferral": _neg_log(state["q_deferral"]),
        "s_score": _neg_log(state["s_score"]),
    }
    if p["integrity_floor"] > 0:
        most = _neg_log(p["integrity_floor"])
        own = [loss[part] for part in INTEGRITY]
        if math.fsum(own) > most:
            loss.update(zip(INTEGRITY, _share(most, own), strict=True))
    a = _within_r(state, p)
    loss.update(zip(WITHIN_R, _share(_h(sum(a), p), list(a)), strict=True))
    return {part: loss[part] for part in PARTS}


def level(state: Mapping[str, float], parameters: Mapping[str, float] | None = None) -> Level:
    """certainty.md §1: loss and points of each component of a score."""
    loss = losses(state, parameters)
    total = math.fsum(loss.values())
    capacity = math.exp(-total)
    if math.isinf(total):
        infinite = sum(math.isinf(value) for value in loss.values())
        points = {part: 1 / infinite if math.isinf(value) else 0.0 for part, value in loss.items()}
        return Level(0.0, loss, points)
    # (1 − c)/(−ln c), whose limit at c = 1 is 1
    mean = -math.expm1(-total) / total if total > 0 else 1.0
    return Level(capacity, loss, {part: value * mean for part, value in loss.items()})


def change_of_losses(
    before: Mapping[str, float], after: Mapping[str, float], parameters: Mapping[str, float] | None = None
) -> dict[str, float]:
    """certainty.md §2: change of each loss, later minus earlier, if both scores are above 0."""
    p = _parameters(parameters)
    old, new = losses(before, parameters), losses(after, parameters)
    change = {part: new[part] - old[part] for part in PARTS if part not in WITHIN_R}
    a0, a1 = _within_r(before, p), _within_r(after, p)
    u0, u1 = sum(a0), sum(a1)
    if math.isinf(u0) or math.isinf(u1):
        # If losses became infinite or finite, they divide dh equally among themselves.
        moved = [math.isinf(one) != math.isinf(other) for one, other in zip(a0, a1, strict=True)]
        dh = _h(u1, p) - _h(u0, p)
        within = [dh / sum(moved) if each else 0.0 for each in moved] if any(moved) else [0.0] * 3
    else:
        within = _changes_within_r(before, after, p)
    change.update(zip(WITHIN_R, within, strict=True))
    return {part: change[part] for part in PARTS}


def change(
    before: Mapping[str, float], after: Mapping[str, float], parameters: Mapping[str, float] | None = None
) -> dict[str, float]:
    """certainty.md §2: points gained or lost by each component. They sum to c₁ − c₀."""
    earlier, later = level(before, parameters), level(after, parameters)
    if earlier.capacity == 0 and later.capacity == 0:
        return dict.fromkeys(PARTS, 0.0)
    if earlier.capacity == 0 or later.capacity == 0:
        moved = [part for part in PARTS if math.isinf(earlier.loss[part]) != math.isinf(later.loss[part])]
        share = (later.capacity - earlier.capacity) / len(moved)
        return {part: share if part in moved else 0.0 for part in PARTS}
    changes = change_of_losses(before, after, parameters)
    total0, total1 = math.fsum(earlier.loss.values()), math.fsum(later.loss.values())
    fall = total1 - total0  # ln c₀ − ln c₁
    # (c₀ − c₁)/(ln c₀ − ln c₁), whose limit at c₀ = c₁ is c₀
    mean = earlier.capacity * -math.expm1(-fall) / fall if fall != 0 else earlier.capacity
    return {part: -value * mean for part, value in changes.items()}
