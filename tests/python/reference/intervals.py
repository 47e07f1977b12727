"""Reference implementation of design effects and intervals (``docs/certainty.md`` §3), one agent at a time, from daily
counts, written from the text alone.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from functools import cache
from statistics import variance
from typing import Any, NamedTuple

import numpy as np

from reference.record import DAY, HOUR, METRICS, Agent, Episode, Window
from reference.scoring import divergence, is_measurable, norm, smoothed

RATES = ("d_identity", "k_contradiction", "i_chain", "i_coverage", "i_replay", "u_unsafe", "s_score")
QUANTITIES = (*RATES, "ece")
INTEGRITY = ("i_chain", "i_coverage", "i_replay")
EFFECT_DAYS = 90


def over(dividend: float, divisor: float) -> float:
    """Return a quotient, or 0 if the divisor is 0."""
    return float(dividend / divisor) if divisor else 0.0


def to_multiple(value: Any, digits: int) -> Any:
    """Round to a multiple of 2 to the power of −digits."""
    return np.round(np.multiply(value, 2.0**digits)) / 2.0**digits


class Days:
    """Counts of an agent's traces on the last days before the period with index t, in order of time."""

    def __init__(self, agent: Agent, t: int, n_days: int) -> None:
        per_day = agent.fleet.per_day
        self.periods = agent.periods[t - n_days * per_day : t].reshape(n_days, per_day)

    def __getitem__(self, name: str) -> np.ndarray:
        counts: np.ndarray = self.periods[name].sum(axis=1)
        return counts

    def events(self, name: str) -> tuple[np.ndarray, np.ndarray]:
        """Return the events and the trials of a quantity on each day. Signals count without weights."""
        match name:
            case "ece":
                return self["successes"].sum(axis=1), self["judged"].sum(axis=1)
            case "s_score":
                return (self["signals"] - self["coherent"]).sum(axis=1), self["signals"].sum(axis=1)
            case "i_replay":
                return self["sampled"] - self["replayed"], self["sampled"]
            case "i_coverage":
                return (10 * self["n"] - self["fields"]) / 10, self["n"]
            case "i_chain":
                return self["n"] - self["chain_valid"], self["n"]
        names = {"d_identity": "renamed", "k_contradiction": "overridden", "u_unsafe": "unsafe"}
        return self[names[name]], self["n"]


# --- design effects --------------------------------------------------------------------------------------------------


def share_variance(y: np.ndarray, n: np.ndarray) -> float:
    share = over(y.sum(), n.sum())
    return share * (1 - share)


def busy_day(n: np.ndarray) -> float:
    """Return Σn²/Σn."""
    return over(np.sum(n * n), n.sum())


def neighbours(y: np.ndarray, n: np.ndarray) -> tuple[int, np.ndarray, np.ndarray]:
    """Return the number of pairs of neighbours that both have trials, and the terms of S and of h of each pair."""
    both = (n[:-1] > 0) & (n[1:] > 0)
    y, z, n, m = y[1:][both], y[:-1][both], n[1:][both], n[:-1][both]
    return len(n), n * m / (n + m) * (y / n - z / m) ** 2, 2 * n * m / (n + m)


class Clustering(NamedTuple):
    """Clustering of a quantity's events on days, in the 90 days before an as-of."""

    m: int
    s: float
    h: float
    v: float
    busy: float


@cache
def clustering(agent: Agent, t: int, name: str) -> Clustering:
    y, n = Days(agent, t, EFFECT_DAYS + 1).events(name)
    m, of_s, of_h = neighbours(y, n)
    h = over(to_multiple(of_h, 20).sum(), m)
    return Clustering(m, to_multiple(of_s, 40).sum(), h, share_variance(y[1:], n[1:]), busy_day(n[1:]))


def design_effects(agent: Agent, t: int, correlations: Mapping[str, float]) -> dict[str, float]:
    effects = {}
    for name in QUANTITIES:
        m, s, h, v, busy = clustering(agent, t, name)
        of_fleet = 1 + max(h - 1, 0) * correlations[name]
        d = (s / 1.5 + 10 * of_fleet * v) / ((m / 1.5 + 10) * v) if v else of_fleet
        effects[name] = max(0.1 if name == "i_coverage" else 1.0, 1 + (d - 1) * busy / h if h else d)
    return effects


def log_hours(episode: Episode, end: Any = None) -> float:
    return math.log(max(((end or episode.recovered) - episode.detected) / HOUR, 0.01))


def of_fleet(agents: Iterable[Agent], end: Any) -> tuple[dict[str, float], float]:
    """Return the correlation of each quantity, and the coefficient of variation of the durations of episodes."""
    agents, correlations = list(agents), {}
    for name in QUANTITIES:
        above = below = 0.0
        for agent in agents:
            m, s, h, v, _ = clustering(agent, agent.fleet.index(end), name)
            g, w = max(h - 1, 0), m / 1.5 if v else 0
            b = min(max(s / (m * v) - 1, -g), g) if m * v else 0
            above, below = above + to_multiple(w * b * g, 30), below + to_multiple(w * g * g, 30)
        correlations[name] = min(max(over(above, below), 0), 0.15)
    squares, degrees = 10 * math.log(1 + 1.8**2), 10.0
    for agent in agents:
        logs = [log_hours(e) for e in agent.episodes if e.recovered_in(end - EFFECT_DAYS * DAY, end)]
        if len(logs) >= 3:
            d = min(len(logs), 1000) - 1
            squares, degrees = squares + to_multiple(d * variance(logs), 30), degrees + d
    return correlations, math.sqrt(math.exp(min(squares / degrees, 9)) - 1)


# --- the interval of the capacity score ------------------------------------------------------------------------------


class Loss(NamedTuple):
    """Expected loss of a component, and its variance."""

    mean: float = 0.0
    variance: float = 0.0


def loss_of_share(m: float, variance: float) -> Loss:
    return Loss(-math.log(1 - m), variance / (1 - m) ** 2)


def loss_of_rate(name: str, m: float, variance: float, p: Mapping[str, Any]) -> Loss:
    factor = {"d_identity": p["lambda_c"], "k_contradiction": p["mu_c"]}.get(name)
    return loss_of_share(m, variance) if factor is None else Loss(factor * m, factor**2 * variance)


def total(losses: Mapping[str, Loss], p: Mapping[str, Any]) -> tuple[float, dict[str, float]]:
    """Return the sum of the losses and the variance of each. If ``integrity_floor`` limits the loss of I_int, the
    variances of its components are 0."""
    of_integrity = math.fsum(losses[name].mean for name in INTEGRITY)
    most = -math.log(p["integrity_floor"]) if p["integrity_floor"] else math.inf
    fixed = INTEGRITY if of_integrity > most else ()
    variances = {name: 0.0 if name in fixed else one.variance for name, one in losses.items()}
    others = math.fsum(one.mean for name, one in losses.items() if name not in INTEGRITY)
    return others + min(of_integrity, most), variances


def bounds(
    agent: Agent, score: Mapping[str, Any], t: int, window: Window, effects: Mapping[str, float], cv: float
) -> tuple[float | None, float | None, set[str | None]]:
    """Return the bounds of a row's capacity score, and the components that can be its driver: those whose variance is
    the largest within 1e-9."""
    if score["capacity_score"] is None:
        return None, None, {None}
    p = agent.fleet.p
    losses = {name: _rate(agent, score, t, window, name, effects[name]) for name in RATES}
    losses |= {"ece": _ece(agent, t, window, effects["ece"]), "q_deferral": _deferrals(score)}
    losses |= _resilience(agent, score, t, window, float(np.mean(list(effects.values()))), cv)
    loss, variances = total(losses, p)
    widest = max(variances.values())
    drivers = {name for name, one in variances.items() if one >= widest * (1 - 1e-9)} if widest > 0 else {None}
    if "s_score" in score["unmeasured_components"]:
        return 0.0, 0.0, drivers
    fixed = -math.log(norm(1, p))
    x = max(loss - fixed, 1e-9)
    sd = 1.1 * math.sqrt(math.log(1 + math.fsum(variances.values()) / x**2))
    low, high = (math.exp(-fixed - x * math.exp(z * sd)) for z in (1.96, -1.96))
    return min(low, score["capacity_score"]), max(high, score["capacity_score"]), drivers


def _rate(agent: Agent, score: Mapping[str, Any], t: int, window: Window, name: str, effect: float) -> Loss:
    if name in score["unmeasured_components"]:
        return Loss()
    y, n = (float(counts.sum()) / effect for counts in Days(agent, t, window.days).events(name))
    if name == "s_score":
        n = 0.8 * Days(agent, t, window.coherence_days)["signals"].sum() / effect
        y = (1 - score["s_score"]) * n
    of_all = n + 1 + 24 * (1 - over(y, n))
    m = (y + 0.5) / of_all
    return loss_of_rate(name, m, m * (1 - m) / (of_all + 1), agent.fleet.p)


def _ece(agent: Agent, t: int, window: Window, effect: float) -> Loss:
    days = Days(agent, t, window.days)
    n_b, y_b, c_b = (days[name].sum(axis=0) for name in ("judged", "successes", "confidence"))
    n, s = max(n_b.sum(), 1), (y_b + 1) / (n_b + 2)
    v_b = effect * n_b * s * (1 - s) / n**2
    ece = min(np.sqrt(np.maximum((c_b - y_b) ** 2 / n**2 - v_b, 0)).sum(), 0.99)
    return loss_of_share(ece, v_b.sum())


def _resilience(
    agent: Agent, score: Mapping[str, Any], t: int, window: Window, effect: float, cv: float
) -> dict[str, Loss]:
    """Return the losses of ``delta_drift``, which contains all of R, and of ``mttr_hours``."""
    p, hours = agent.fleet.p, score["mttr_hours"]
    recent = Days(agent, t, window.days)["histograms"].sum(axis=0)
    baseline = Days(agent, t - window.days * agent.fleet.per_day, window.baseline_days)["histograms"].sum(axis=0)
    deltas, squares = [], []
    for k in range(len(METRICS)):
        if not is_measurable(recent[k], baseline[k], p):
            continue
        one, other = smoothed(recent[k], baseline[k], p)
        n_r, n_b, free, kl = recent[k].sum(), baseline[k].sum(), len(one) - 1, divergence(one, other)
        e = effect * (1 / n_r + 1 / n_b)
        of_recent, of_baseline = np.sum(one * (np.log(one / other) - kl) ** 2), np.sum((one - other) ** 2 / other)
        a = effect * (of_recent / n_r + of_baseline / n_b) + free * e**2 / 2
        kept = math.exp(-max(kl - free * e / 2, 0))
        deltas.append(1 - kept)
        squares.append(kept**2 * a)
    delta, d = over(sum(deltas), len(deltas)), over(math.sqrt(sum(squares)), len(deltas))

    def loss(drift: float, of_hours: float) -> float:
        left = (1 - min(drift, 1)) / (1 + of_hours / p["mttr_scale_hours"]) * (1 - score["rho_regression"])
        return -math.log(norm(left, p))

    down, ratio = min(delta, d), math.exp(math.sqrt(math.log(1 + cv**2 / max(score["n_episodes"], 1))))
    of_drift = over(d * (loss(delta + d, hours) - loss(delta - down, hours)), d + down)
    of_hours = (loss(delta, hours * ratio) - loss(delta, hours / ratio)) / 2
    return {"delta_drift": Loss(loss(delta, hours), of_drift**2), "mttr_hours": Loss(0.0, of_hours**2)}


def _deferrals(score: Mapping[str, Any]) -> Loss:
    n = score["n_judged_deferrals"]
    of_all, m = n + 2.5, ((1 - score["q_deferral"]) * n + 0.5) / (n + 2.5)
    return loss_of_share(m, m * (1 - m) / (of_all + 1)) if n else Loss()
