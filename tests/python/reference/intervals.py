"""Reference implementation of the intervals (``docs/certainty.md`` §3), one row at a time, from daily counts.

Where the text leaves a choice, this module makes the choice that the docstring of
``ciris_scoring.certainty.intervals`` describes.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable, Mapping
from decimal import Decimal
from typing import Any, NamedTuple

import numpy as np

from reference.record import HOUR, METRICS, Agent, Episode, Window
from reference.scoring import COLUMNS, divergence, is_measurable, norm, smoothed

RATES = ("d_identity", "k_contradiction", "i_chain", "i_coverage", "i_replay", "u_unsafe", "s_score")
EFFECTS = (*RATES, "ece", *METRICS)


class Days:
    """Daily counts of an agent's traces, in order of time."""

    def __init__(self, periods: np.ndarray, end: int, n_days: int, per_day: int) -> None:
        self.periods = periods[end - n_days * per_day : end].reshape(n_days, per_day)

    def __getitem__(self, name: str) -> np.ndarray:
        counts: np.ndarray = self.periods[name].sum(axis=1)
        return counts

    def rate(self, name: str) -> tuple[np.ndarray, np.ndarray]:
        """Return the bad events and the trials of a rate component on each day."""
        if name == "i_replay":
            return self["sampled"] - self["replayed"], self["sampled"]
        if name == "s_score":
            return (self["signals"] - self["coherent"]).sum(axis=1), self["signals"].sum(axis=1)
        if name == "i_coverage":
            return self["n"] - self["fields"] / 10, self["n"]
        if name == "i_chain":
            return self["n"] - self["chain_valid"], self["n"]
        names = {"d_identity": "renamed", "k_contradiction": "overridden", "u_unsafe": "unsafe"}
        return self[names[name]], self["n"]


def parts_of(agent: Agent, t: int, window: Window) -> tuple[Days, Days]:
    """Return the daily counts of the window and of the baseline."""
    per_day = agent.fleet.per_day
    return (
        Days(agent.periods, t, window.days, per_day),
        Days(agent.periods, t - window.days * per_day, window.baseline_days, per_day),
    )


# --- design effects --------------------------------------------------------------------------------------------------


class Spread(NamedTuple):
    """Inputs of a design effect: sum of squared deviations of daily counts, as observed and as expected of independent
    traces; number of pairs of traces of the same day, times the variance of one trace; degrees of freedom."""

    found: float = 0.0
    binomial: float = 0.0
    pairs: float = 0.0
    degrees: int = 0

    @property
    def weight(self) -> float:
        return 1 / (2 / self.degrees + 1 / self.binomial) if self.degrees > 0 and self.binomial > 0 else 0.0


def total(spreads: Iterable[Spread]) -> Spread:
    return Spread(*map(sum, zip(*spreads, strict=True)))


def rate_spread(y: np.ndarray, n: np.ndarray) -> Spread:
    y, n = y[n > 0], n[n > 0]
    if not 0 < y.sum() < n.sum() - 1e-9:
        return Spread()
    p = y.sum() / n.sum()
    variance = p * (1 - p)
    return Spread(
        np.sum((y - n * p) ** 2),
        variance * np.sum(n * (1 - n / n.sum())),
        variance * np.sum(n * (n - 1)) * (1 - 1 / len(n)),
        len(n) - 1,
    )


def calibration_spread(days: Days) -> Spread:
    """Return the spread of the successes among the judged traces, over all bins of confidence."""
    return rate_spread(days["successes"].sum(axis=1), days["judged"].sum(axis=1))


def histogram_spread(days: Days, metric: int) -> Spread:
    """Return the spread of a metric's daily histograms: squared residuals over the shares of their bins."""
    n = days["histograms"][:, metric]
    n = n[n.any(axis=1)]
    p = n.sum(axis=0) / max(n.sum(), 1)
    is_used = p > 0
    free = np.count_nonzero(is_used) - 1
    if free < 1:
        return Spread()
    of_day = n.sum(axis=1)
    residual = (n - np.outer(of_day, p)) / np.sqrt(np.where(is_used, p, 1))
    size = np.sum(of_day * (1 - of_day / n.sum()))
    pairs = free * np.sum(of_day * (of_day - 1)) * (1 - 1 / len(n))
    return Spread(np.sum(residual**2), free * size, pairs, len(n) - 1)


@functools.cache
def spreads(agent: Agent, t: int, window: Window) -> dict[str, Spread]:
    """Return the spread of each component that has a design effect. Deviations in the window are from the mean of the
    window, and deviations in the baseline are from the mean of the baseline."""
    parts = parts_of(agent, t, window)
    found = {name: total(rate_spread(*part.rate(name)) for part in parts) for name in RATES}
    found["ece"] = total(map(calibration_spread, parts))
    for k, metric in enumerate(METRICS):
        found[metric] = total(histogram_spread(part, k) for part in parts)
    return found


def log_hours(episode: Episode, end: Any = None) -> float:
    return math.log(max(((end or episode.recovered) - episode.detected) / HOUR, 0.01))


def of_fleet(agents: Iterable[Agent], t: int, window: Window) -> tuple[dict[str, float], float]:
    """Return estimates from all agents: for each component the correlation between traces of one day, and the
    coefficient of variation of the durations of episodes."""
    agents = list(agents)
    found = [spreads(agent, t, window) for agent in agents]
    correlations = {}
    for effect in EFFECTS:
        some = [of[effect] for of in found if of[effect].pairs > 0]
        weights = [one.weight for one in some]
        alone = [min(1.0, max(-0.1, (one.found - one.binomial) / one.pairs)) for one in some]
        mean = np.dot(weights, alone) / sum(weights) if sum(weights) > 0 else 0.0
        correlations[effect] = min(0.15, max(-0.05, mean))
    squares, degrees = 10 * math.log(1 + 1.8**2), 10
    for agent in agents:
        first = t - (window.days + window.baseline_days) * agent.fleet.per_day
        logs = [log_hours(e) for e in agent.episodes if e.recovered and first <= agent.fleet.index(e.recovered) < t]
        if len(logs) >= 3:
            weight = min(len(logs), 1000) - 1
            squares, degrees = squares + weight * np.var(logs, ddof=1), degrees + weight
    return correlations, math.sqrt(math.exp(min(9.0, squares / degrees)) - 1)


def fleet_effect(n: np.ndarray, correlation: float) -> float:
    per_day = np.sum(n * n) / n.sum() if n.any() else 0.0
    return max(0.1, 1 + (per_day - 1) * correlation)


# --- bounds of components --------------------------------------------------------------------------------------------


@functools.cache
def gamma_quantile(share: float, shape: float) -> float:
    """Return a quantile of the gamma distribution with scale 1. The distribution function is a series. Bisection
    inverts it."""
    low, high = -1e4, math.log(10)
    for _ in range(200):
        middle = (low + high) / 2
        terms = np.cumprod(math.exp(middle) / (shape + np.arange(1, 200)))
        log_below = shape * middle - math.exp(middle) - math.lgamma(shape + 1) + math.log1p(terms.sum())
        low, high = (middle, high) if log_below < math.log(share) else (low, middle)
    return math.exp(low)


def rate_bounds(p: float, n: float, z_worse: float, z_better: float) -> tuple[float, float]:
    """Return the Wilson bounds of a rate of bad events. With b < 4 bad events in n trials, the lower bound is at most q
    / n, where q is the 5 % quantile of the gamma distribution of shape b. b is compared with 9 decimals."""
    if n <= 0:
        return 0.0, 1.0

    def wilson(z: float, sign: int) -> float:
        root = math.sqrt(p * (1 - p) / n + z * z / (4 * n * n))
        return (p + z * z / (2 * n) + sign * z * root) / (1 + z * z / n)

    low = 0.0 if p <= 0 else max(0.0, wilson(z_better, -1))
    if p * n > 0 and Decimal(p * n).quantize(Decimal("1e-9")) < 4:
        low = min(low, gamma_quantile(0.05, p * n) / n)
    return min(low, p), 1.0 if p >= 1 else max(wilson(z_worse, 1), p)


def effective_signals(agent: Agent, t: int, window: Window) -> float:
    """Return the effective number of signals of S, that is, the number of signals of equal weight for which S has the
    same variance. Without signals the number is 0."""
    p, per_day = agent.fleet.p, agent.fleet.per_day
    memory, length = window.coherence_days * per_day, window.days * per_day
    kept = (1 - p["decay_per_day"] / per_day) ** np.arange(memory)
    weight = np.array([p["w_corroborated"], p["w_uncorroborated"]])
    periods = agent.periods[t - length - memory : t]["signals"]
    share, n_ends = np.zeros(len(periods)), 0
    for end in range(memory + 1, len(periods) + 1):
        remembered = slice(end - memory, end)
        most = np.dot(kept[::-1], periods[remembered] @ weight)
        if most > 0:
            share[remembered] += kept[::-1] / most
            n_ends += 1
    return n_ends**2 / np.dot(share**2, periods @ weight**2) if n_ends else 0.0


class Bounded(NamedTuple):
    """Drift or calibration error, corrected for chance, with bounds. ``raw`` and its bound ``low`` may be negative."""

    centre: float = 0.0
    high: float = 0.0
    raw: float = 0.0
    low: float = 0.0
    effect: float = 1.0
    """Design effect."""


def drift_bounds(
    parts: tuple[Days, Days], correlations: Mapping[str, float], p: Any, z_worse: float, z_better: float
) -> Bounded | None:
    """Return drift and its bounds, or None if no metric is measurable. Chance adds a chi-square times the design effect
    to the divergence of each metric. The published design effect is the mean over the metrics."""
    y = divergences = null = slope = limit_of_slope = 0.0
    corrected, effects = [], []
    for k, metric in enumerate(METRICS):
        recent, baseline = (part["histograms"][:, k].sum(axis=0) for part in parts)
        if not is_measurable(recent, baseline, p):
            continue
        n_r, n_b = recent.sum(), baseline.sum()
        free, half = np.count_nonzero(recent + baseline) - 1, 1 / n_r + 1 / n_b
        one, other = smoothed(recent, baseline, p)
        kl = max(0.0, divergence(one, other))
        effect = max(1.0, fleet_effect(parts[0]["histograms"][:, k].sum(axis=1), correlations[metric]))
        variance = (np.sum(one * np.log(one / other) ** 2) - divergence(one, other) ** 2) / n_r
        variance += (np.sum(one**2 / other) - 1) / n_b
        excess = effect * free * half / 2
        y, divergences, null = y + kl - excess, divergences + kl, null + free * (effect * half) ** 2 / 2
        slope, limit_of_slope = slope + effect * variance, limit_of_slope + effect * 2 * half
        corrected.append(max(0.0, kl - excess))
        effects.append(effect)
    n = len(effects)
    if not n:
        return None
    f = (slope / divergences if divergences > 1e-12 else limit_of_slope / n) / 4
    below = 1 - math.exp(-sum(corrected) / n)
    scale = np.mean(1 - np.exp(-np.array(corrected))) / below if below > 0 else 1.0

    def limit(z: float, sign: int) -> float:
        return y + 2 * z * z * f + sign * z * math.sqrt(max(0.0, 4 * f * y + 4 * z * z * f * f + null))

    def delta(x: float) -> float:
        return float(scale * (1 - math.exp(-x / n)))

    centre = max(0.0, y)
    high, low = max(limit(z_worse, 1), centre), min(limit(z_better, -1), y)
    return Bounded(delta(centre), delta(high), delta(y), delta(low), float(np.mean(effects)))


def calibration_bounds(days: Days, effect: float, z_worse: float, z_better: float) -> Bounded:
    n, won, confidence = (days[name].sum(axis=0) for name in ("judged", "successes", "confidence"))
    used = n > 0
    n, won, confidence = n[used], won[used], confidence[used]
    weight, overall = n / n.sum(), (won.sum() + 2) / (n.sum() + 4)
    success = (won + 2 * weight + 2 * overall) / (n + 4 * weight + 2)
    variance = effect * n * success * (1 - success) / n.sum() ** 2
    gap, sd = np.abs(confidence - won) / n.sum(), np.sqrt(variance)
    q = np.exp(-((gap / (2.5 * sd)) ** 4))
    centre, raw = np.sum(np.sqrt(np.maximum(0, gap**2 - variance))), np.sum(gap - 0.846 * sd * q)
    high = centre + z_worse * math.sqrt(variance.sum())
    return Bounded(centre, high, raw, raw - z_better * math.sqrt(np.sum(variance * (1 - 0.516 * q))), effect)


# --- bounds of factors and of the score ------------------------------------------------------------------------------


def loss(share: float) -> float:
    return -math.log(share) if share > 0 else math.inf


class Sum(NamedTuple):
    """Sums of the losses of components, for the lower bound of the score (``worse``) and for its upper bound
    (``better``), and the distance from each sum to its bound."""

    worse: float
    to_worst: float
    better: float
    to_best: float
    zero: float | None = None
    """Product of the upper bounds of components whose estimate is 0, or None if no estimate is 0."""

    def limits(self) -> tuple[float, float]:
        high = math.exp(-max(0.0, self.better - self.to_best))
        if self.zero is not None:
            return 0.0, self.zero * high
        return min(1.0, math.exp(-self.worse - self.to_worst)), high


def square_and_add(sums: list[Sum]) -> Sum:
    zeros = [one.zero for one in sums if one.zero is not None]
    worse, to_worst, better, to_best, _ = zip(*sums, strict=True)
    return Sum(
        sum(worse),
        math.hypot(*to_worst),
        sum(better),
        math.hypot(*to_best),
        math.prod(zeros) if zeros else None,
    )


def lost(value: float, worst: float, raw: float, best: float) -> Sum:
    """Return the loss of a component and its bounds.

    A component whose estimate is 0 has no finite loss. Its upper bound limits the score instead.

    :param value: share of the score that the component leaves.
    :param raw: share from which the upper bound of the score is computed. Only for ``ece`` it differs from ``value``.
    """
    if value <= 0 or raw <= 0:
        return Sum(0.0, 0.0, 0.0, 0.0, min(1.0, best))
    return Sum(loss(value), loss(worst) - loss(value), loss(raw), loss(raw) - loss(best))


def bounds(*row: Any) -> dict[str, Any]:
    """Return bounds of score, factors and components, design effects and interval drivers of a row.

    The lower bound of the score combines bounds of components at 1.645 standard deviations. The published bounds of
    factors and components are at 1.96 standard deviations.
    """
    combined = bounds_at(1.645, *row)
    return bounds_at(1.96, *row) | {name: combined[name] for name in ("capacity", "drivers")}


def bounds_at(
    z_worse: float,
    agent: Agent,
    score: Mapping[str, Any],
    t: int,
    window: Window,
    correlations: Mapping[str, float],
    cv: float,
) -> dict[str, Any]:
    z_better = 1.96
    p, per_day = agent.fleet.p, agent.fleet.per_day
    parts = parts_of(agent, t, window)
    days, part = parts[0], agent.periods[t - window.days * per_day : t]
    n = part["n"].sum()

    # For each rate and for deferrals: the share of bad events, its lower and its upper bound.
    rates, effects = {}, {}
    for name in RATES:
        y, trials = days.rate(name)
        effect = max(0.1 if name == "i_coverage" else 1.0, fleet_effect(trials, correlations[name]))
        bad, effective = y.sum() / n, n
        if name in score["unmeasured_components"]:
            rates[name] = (1.0, 1.0, 1.0) if name == "s_score" else (0.0, 0.0, 0.0)
            continue
        if name == "i_replay":
            sampled = part[part["sampled"] > 0]
            bad = np.sum(sampled["n"] * (sampled["sampled"] - sampled["replayed"]) / sampled["sampled"]) / n
            effective = n * n / np.sum(sampled["n"] ** 2 / sampled["sampled"])
        if name == "s_score":
            memory = agent.periods[t - (window.days + window.coherence_days - 1) * per_day : t]
            is_lost = (memory["signals"] - memory["coherent"]).any()
            bad = 1 - score[name] if is_lost else 0.0
            effective = effective_signals(agent, t, window)
        effects[name] = effect
        rates[name] = (bad, *rate_bounds(bad, effective / effect, z_worse, z_better))
    bad = 1 - score["q_deferral"]
    judged = score["n_judged_deferrals"]
    rates["q_deferral"] = (bad, *rate_bounds(bad, judged, z_worse, z_better)) if judged else (bad, bad, bad)

    ece = Bounded()
    if "ece" not in score["unmeasured_components"]:
        of_day = days["judged"].sum(axis=1)
        effects["ece"] = max(1.0, fleet_effect(of_day, correlations["ece"]))
        ece = calibration_bounds(days, effects["ece"], z_worse, z_better)
    drifted = drift_bounds(parts, correlations, p, z_worse, z_better)
    if drifted:
        effects["delta_drift"] = drifted.effect
    d = drifted or Bounded()
    s2 = math.log(1 + cv**2 / max(1, score["n_episodes"]))
    hours = score["mttr_hours"]
    hours_low = hours * min(1.0, math.exp(s2 / 2 - z_better * math.sqrt(s2)))
    hours_high = hours * math.exp(s2 / 2 + z_worse * math.sqrt(s2))

    def resilience(delta: float, of_hours: float) -> float:
        left = (1 - delta) / (1 + of_hours / p["mttr_scale_hours"])
        return loss(norm(left * (1 - score["rho_regression"]), p))

    def kept(name: str) -> Sum:
        bad, low, high = rates[name]
        return lost(1 - bad, 1 - high, 1 - bad, 1 - low)

    def weighted(name: str, weight: float) -> Sum:
        bad, low, high = (weight * value for value in rates[name])
        return Sum(bad, high - bad, bad, bad - low)

    l_r, b_r = resilience(d.centre, hours), resilience(d.raw, hours)
    of_components = {
        "C": {
            "d_identity": weighted("d_identity", p["lambda_c"]),
            "k_contradiction": weighted("k_contradiction", p["mu_c"]),
        },
        "I_int": {name: kept(name) for name in ("i_chain", "i_coverage", "i_replay")},
        "R": {
            "delta_drift": Sum(l_r, resilience(d.high, hours) - l_r, b_r, b_r - resilience(d.low, hours)),
            "mttr_hours": Sum(0.0, resilience(d.centre, hours_high) - l_r, 0.0, b_r - resilience(d.raw, hours_low)),
        },
        "I_inc": {
            "ece": lost(1 - ece.centre, 1 - ece.high, 1 - ece.raw, 1 - ece.low),
            **{name: kept(name) for name in ("q_deferral", "u_unsafe")},
        },
        "S": {"s_score": kept("s_score")},
    }
    sums = {factor: square_and_add(list(of.values())) for factor, of in of_components.items()}
    best, worst = norm(1, p), norm(0, p)
    sums["R"] = sums["R"]._replace(to_worst=min(sums["R"].to_worst, max(0.0, loss(worst) - sums["R"].worse)))

    result: dict[str, Any] = {"factors": {}, "effects": effects, "capacity": None, "drivers": {None}}
    for factor, column in COLUMNS.items():
        point = score[column]
        low, high = sums[factor].limits()
        if factor == "R":
            low, high = max(low, worst), min(high, best)
        result["factors"][factor] = (min(low, point), max(high, point))

    widths = {
        name: one.to_worst if one.zero is None else math.inf
        for of in of_components.values()
        for name, one in of.items()
    }
    if p["integrity_floor"] > 0:
        one, most = sums["I_int"], loss(p["integrity_floor"])
        low, high = (max(limit, p["integrity_floor"]) for limit in one.limits())
        worse, better = (most, most) if one.zero is not None else (min(one.worse, most), min(one.better, most))
        sums["I_int"] = Sum(worse, loss(low) - worse, better, max(0.0, better - loss(high)))
        shrink = sums["I_int"].to_worst / one.to_worst if 0 < one.to_worst < math.inf else 1.0
        for name in of_components["I_int"]:
            widths[name] = widths[name] * shrink if shrink > 0 else -1.0
    if score["capacity_score"] is not None:
        low, high = square_and_add(list(sums.values())).limits()
        point = score["capacity_score"]
        result["capacity"] = (min(low, point), max(min(high, best), point))
        widest = max(widths.values())
        if widest > 0:
            result["drivers"] = {
                name for name, width in widths.items() if width == widest or width >= widest * (1 - 1e-9)
            }

    wide = ece.centre + 1.6 * (ece.high - ece.centre)
    of_name = {name: rates[name][1:] for name in ("d_identity", "k_contradiction", "u_unsafe")}
    for name in ("i_chain", "i_coverage", "i_replay", "s_score", "q_deferral"):
        of_name[name] = (1 - rates[name][2], 1 - rates[name][1])
    of_name["delta_drift"] = (max(0.0, d.low), d.high)
    of_name["mttr_hours"] = (hours_low, hours_high)
    of_name["ece"] = (min(1.0, max(0.0, ece.low)), min(1.0, wide))
    result["components"] = {
        name: (score[name], min(low, score[name]), max(high, score[name])) for name, (low, high) in of_name.items()
    }
    return result
