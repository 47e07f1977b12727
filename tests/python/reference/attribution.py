"""Reference implementation of attribution (``docs/certainty.md`` §1 and 2), with 60 digits.

A state is a dictionary of a score's components. Unmeasured components have their neutral value.
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal, localcontext
from typing import Any

from reference.record import DEFAULTS

INTEGRITY = ("i_chain", "i_coverage", "i_replay")
WITHIN_R = ("delta_drift", "mttr_hours", "rho_regression")
PARTS = (
    *("d_identity", "k_contradiction", *INTEGRITY, "r_ceiling", *WITHIN_R),
    *("ece", "u_unsafe", "q_deferral", "s_score"),
)
Losses = dict[str, Decimal]


class Level:
    """certainty.md §1: losses of the components, and points that each component takes from a score of 1. Losses can be
    infinite."""

    def __init__(self, state: Mapping[str, float], overrides: Mapping[str, Any]) -> None:
        names = ("lambda_c", "mu_c", "integrity_floor", "mttr_scale_hours", "norm_k", "norm_x0")
        self.p = {name: Decimal((DEFAULTS | dict(overrides))[name]) for name in names}
        of = {name: Decimal(state[name]) for name in PARTS if name != "r_ceiling"}
        loss = {
            "d_identity": self.p["lambda_c"] * of["d_identity"],
            "k_contradiction": self.p["mu_c"] * of["k_contradiction"],
            "r_ceiling": self.of_r(Decimal(0)),
        }
        loss |= {name: -of[name].ln() for name in (*INTEGRITY, "q_deferral", "s_score")}
        loss |= {name: -(1 - of[name]).ln() for name in ("ece", "u_unsafe")}
        most, of_integrity = -self.p["integrity_floor"].ln(), [loss[name] for name in INTEGRITY]
        if sum(of_integrity) > most:
            loss |= zip(INTEGRITY, share(most, of_integrity), strict=True)
        hours = 1 + of["mttr_hours"] / self.p["mttr_scale_hours"]
        self.a = [-(1 - of["delta_drift"]).ln(), hours.ln(), -(1 - of["rho_regression"]).ln()]
        self.u = sum(self.a, Decimal(0))
        beyond = self.of_r(self.u) - self.of_r(Decimal(0))
        loss |= zip(WITHIN_R, share(beyond, self.a), strict=True)
        self.loss: Losses = {name: loss[name] for name in PARTS}
        self.total = sum(loss.values(), Decimal(0))
        self.capacity = (-self.total).exp()
        if self.total.is_infinite():
            self.points = dict(zip(PARTS, share(Decimal(1), list(self.loss.values())), strict=True))
        else:
            mean = (1 - self.capacity) / self.total if self.total else 1
            self.points = {name: value * mean for name, value in self.loss.items()}

    def of_r(self, u: Decimal) -> Decimal:
        """Return −ln norm(e^−u), the loss of R including the fixed cost (certainty.md §1)."""
        return (1 + (-self.p["norm_k"] * ((-u).exp() - self.p["norm_x0"])).exp()).ln()

    def slope(self) -> Decimal:
        """Return the derivative of ``of_r`` at u: k x (1 − norm(x)), where x = e^−u and k is ``norm_k``."""
        x = (-self.u).exp()
        return self.p["norm_k"] * x * (1 - (-self.of_r(self.u)).exp())


def share(total: Decimal, amounts: list[Decimal]) -> list[Decimal]:
    """Divide a total in proportion to amounts. If some amounts are infinite, they get equal shares and finite amounts
    get 0. If all amounts are 0, all shares are 0."""
    infinite = sum(amount.is_infinite() for amount in amounts)
    if infinite:
        return [total / infinite if amount.is_infinite() else Decimal(0) for amount in amounts]
    whole = sum(amounts)
    return [total * amount / whole if whole else Decimal(0) for amount in amounts]


def level(state: Mapping[str, float], overrides: Mapping[str, Any]) -> Level:
    with localcontext(prec=60):
        return Level(state, overrides)


def change(earlier: Level, later: Level) -> tuple[Losses, Losses]:
    """certainty.md §2: return the change of each loss, and the points that each component gained or lost."""
    with localcontext(prec=60):
        losses, points = {}, dict.fromkeys(PARTS, Decimal(0))
        for name in PARTS:
            old, new = earlier.loss[name], later.loss[name]
            losses[name] = Decimal(0) if old == new else new - old
        dh = later.of_r(later.u) - earlier.of_r(earlier.u)
        if earlier.u.is_infinite() or later.u.is_infinite():
            turned = [one.is_infinite() != other.is_infinite() for one, other in zip(earlier.a, later.a, strict=True)]
            within = share(dh, list(map(Decimal, turned)))
        else:
            du = later.u - earlier.u
            slope = dh / du if abs(du) > Decimal("1e-20") else earlier.slope()
            within = [(new - old) * slope for old, new in zip(earlier.a, later.a, strict=True)]
        losses |= zip(WITHIN_R, within, strict=True)
        gain = later.capacity - earlier.capacity
        if earlier.capacity and later.capacity:
            fall = later.total - earlier.total
            mean = gain / fall if fall else -earlier.capacity
            points = {name: value * mean for name, value in losses.items()}
        elif gain:
            turned = [earlier.loss[name].is_infinite() != later.loss[name].is_infinite() for name in PARTS]
            points = dict(zip(PARTS, share(gain, list(map(Decimal, turned))), strict=True))
        return losses, points
