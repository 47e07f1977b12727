"""Reference implementation of the steady score and of changes for the worse (``docs/certainty.md`` §4 and 4b), one
agent and as-of at a time, from daily counts, written from the text alone.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from functools import cache
from statistics import fmean
from typing import Any, NamedTuple

import numpy as np

from reference.intervals import (
    INTEGRITY,
    RATES,
    Days,
    Loss,
    busy_day,
    clustering,
    log_hours,
    loss_of_rate,
    loss_of_share,
    neighbours,
    over,
    share_variance,
    total,
)
from reference.record import DAY, MEMORY_DAYS, Agent, Window, floor
from reference.scoring import norm

TRACE_WINDOWS = (3, 7, 14, 28, 56, 90, 132)
EVENT_WINDOWS = (7, 14, 28, 56, 112, 224, 364)
RECENT, BASE, EVENT_BASE = 42, 90, 322
NODES, WEIGHTS = np.polynomial.hermite_e.hermegauss(5)
Span = Callable[[int, int], float]


class Events:
    """Episodes and judged deferrals of an agent that are known at an as-of. An age is in days, from the end of the
    period in which the episode ended or the outcome was known."""

    def __init__(self, agent: Agent, end: datetime) -> None:
        fleet = agent.fleet

        def age(at: datetime) -> float:
            return (end - floor(at, fleet.period) - fleet.period) / DAY

        ended = [e for e in agent.episodes if e.recovered is not None and e.recovered < end]
        self.episodes = [(age(e.recovered), log_hours(e), e.mode) for e in ended]
        """Age, ln(hours) and failure mode of each episode that has ended, the oldest first."""
        self.open = [log_hours(e, end) for e in agent.episodes if e.is_open(end)]
        """ln(hours) of the open episode, if there is one."""
        self.deferrals = [
            (age(known), 1 - one.value)
            for one in fleet.deferrals
            if one.agent == agent.agent_id_hash
            and one.value is not None
            and one.created is not None
            and (known := max(one.created, one.resolved or one.created)) < end
        ]
        """Age of the outcome and loss of each judged deferral."""
        self.days = (end - floor(agent.times[0], fleet.period)) / DAY


# --- the present value of a quantity ---------------------------------------------------------------------------------


@cache
def histories(windows: Sequence[int]) -> list[tuple[float, list[tuple[int, int]]]]:
    """Return all histories, each as its log probability and the spans between its changes, the latest span first."""
    bounds, last, found = (0, *windows), len(windows), []
    for n in range(last):
        for changes in itertools.combinations(range(1, last), n):
            log = 0.0
            for k in range(1, last + 1):
                stays = (bounds[k] - bounds[k - 1]) * math.log(1 - 1 / 600)
                log += math.log(1 - math.exp(stays)) if k in changes else stays
            found.append((log, list(itertools.pairwise((0, *changes, last)))))
    return found


def weights(windows: Sequence[int], evidence: Span) -> np.ndarray:
    """Return for each window the probability that the present behaviour began at its start.

    :param evidence: function that returns the log evidence of the span between the starts of two windows. Windows are
        numbered from 1; number 0 is the as-of.
    """
    logs = np.array([log + sum(evidence(*span) for span in spans) for log, spans in histories(windows)])
    began = np.array([spans[0][1] for _, spans in histories(windows)])
    chances = np.exp(logs - logs.max())
    return np.array([chances[began == k].sum() for k in range(1, len(windows) + 1)]) / chances.sum()


class Estimate(NamedTuple):
    """Expected present value of a quantity, its variance, and the probability of a change in the last 14 days."""

    mean: float
    variance: float
    recent: float


def estimate(windows: Sequence[int], evidence: Span, present: Callable[[int], tuple[float, float]]) -> Estimate:
    """Estimate the present value as the mixture of the values of the windows.

    :param present: function that returns value and variance of window k.
    """
    w = weights(windows, cache(evidence))
    means, variances = np.array([present(k) for k in range(1, len(windows) + 1)]).T
    return Estimate(w @ means, w @ (variances + (means - w @ means) ** 2), w @ (np.array(windows) <= 14))


def rate(y: Sequence[float], n: Sequence[float], b: float, windows: Sequence[int]) -> Estimate:
    """Estimate a rate with the prior (0.5, b) from the bad events and trials of each window."""
    y, n = (0, *y), (0, *n)

    def log_beta(bad: float, good: float) -> float:
        return math.lgamma(0.5 + bad) + math.lgamma(b + good) - math.lgamma(0.5 + b + bad + good)

    def evidence(i: int, j: int) -> float:
        bad = y[j] - y[i]
        return log_beta(bad, n[j] - n[i] - bad) - log_beta(0, 0)

    def present(k: int) -> tuple[float, float]:
        m = (0.5 + y[k]) / (0.5 + b + n[k])
        return m, m * (1 - m) / (0.5 + b + n[k] + 1)

    return estimate(windows, evidence, present)


def frequency(k: Sequence[float], days: Sequence[float], b: float) -> Estimate:
    """Estimate the number of episodes or deferrals per day with the prior (1, b)."""
    k, t = (0, *k), (0, *days)

    def evidence(i: int, j: int) -> float:
        return math.lgamma(1 + k[j] - k[i]) + math.log(b) - (1 + k[j] - k[i]) * math.log(b + t[j] - t[i])

    return estimate(EVENT_WINDOWS, evidence, lambda i: ((1 + k[i]) / (b + t[i]), (1 + k[i]) / (b + t[i]) ** 2))


def means(
    p: Sequence[np.ndarray], h: Sequence[np.ndarray], mu: float, tau2: float, windows: Sequence[int]
) -> list[Estimate]:
    """Estimate means that change together, from P and H of each window."""
    p, h = ([np.zeros_like(one[0]), *one] for one in (p, h))

    def evidence(i: int, j: int) -> float:
        of_p, of_h = p[j] - p[i], h[j] - h[i]
        squares = (mu / tau2 + of_h) ** 2 / (1 / tau2 + of_p)
        return float(np.sum(squares - mu**2 / tau2 - np.log(1 + of_p * tau2)) / 2)

    def present(k: int, b: int) -> tuple[float, float]:
        return (mu / tau2 + h[k][b]) / (1 / tau2 + p[k][b]), 1 / (1 / tau2 + p[k][b])

    return [estimate(windows, evidence, lambda k, b=b: present(k, b)) for b in range(len(p[0]))]


def since(values: np.ndarray) -> np.ndarray:
    """Return the sums of daily values over the windows of traces."""
    return np.array([values[-days:].sum(axis=0) for days in TRACE_WINDOWS])


# --- the steady score ------------------------------------------------------------------------------------------------


class LongRun(NamedTuple):
    """Steady factors, x, that is, the loss beyond the fixed cost (infinite without a signal), and the spread."""

    factors: dict[str, float]
    x: float
    spread: float


Part = tuple[Loss, float]
"""Loss by a quantity, and the probability that the quantity changed recently."""


def long_runs(agent: Agent, end: datetime, effects: Mapping[str, float], cv: float) -> dict[Window, LongRun]:
    """certainty.md §4b: return the steady score for each window length."""
    p, days = agent.fleet.p, Days(agent, agent.fleet.index(end), MEMORY_DAYS)
    found = {name: _rate(days, name, effects[name], p) for name in RATES} | {"ece": _ece(days, effects["ece"])}
    events = Events(agent, end)
    return {
        window: _score(found | {"r": _episodes(events, cv, window.days, p), "q": _deferrals(events, window.days)}, p)
        for window in agent.fleet.windows
    }


def _score(found: Mapping[str, Part], p: Mapping[str, Any]) -> LongRun:
    losses = {name: loss for name, (loss, _) in found.items()}
    parts = {
        "C": ("d_identity", "k_contradiction"),
        "I_int": INTEGRITY,
        "R": ("r",),
        "I_inc": ("ece", "u_unsafe", "q"),
        "S": ("s_score",),
    }
    factors = {factor: math.exp(-sum(losses[name].mean for name in of)) for factor, of in parts.items()}
    if math.isinf(losses["s_score"].mean):
        return LongRun(factors, math.inf, 0.0)
    loss, variances = total(losses, p)
    x = max(loss + math.log(norm(1, p)), 1e-9)
    y = 1 - math.prod(1 - recent for _, recent in found.values())
    return LongRun(factors, x, math.sqrt(math.log(1 + sum(variances.values()) / x**2)) * (1 + 2.2 * y**2))


def _rate(days: Days, name: str, effect: float, p: Mapping[str, Any]) -> Part:
    y, n = days.events(name)
    if name == "s_score":
        weight = np.array([p["w_corroborated"], p["w_uncorroborated"]])
        signals, coherent = days["signals"][1:], days["coherent"][1:]
        y, n = (signals - coherent) @ weight, signals @ weight
        effect *= over((signals @ weight**2).sum(), n.sum()) or 1
    y, n = since(y) / effect, since(n) / effect
    if n[-1] == 0:
        return Loss(math.inf if name == "s_score" else 0.0), 0.0
    found = rate(y, n, 24.5, TRACE_WINDOWS)
    return loss_of_rate(name, found.mean, found.variance, p), found.recent


def _ece(days: Days, effect: float) -> Part:
    n_b, y_b, c_b = (since(days[name]) for name in ("judged", "successes", "confidence"))
    if not n_b[-1].any():
        return Loss(), 0.0
    s = (y_b[-1] + 1) / (n_b[-1] + 2)
    v = np.maximum(s * (1 - s), 0.02) * effect
    gaps = means(n_b / v, (c_b - y_b) / v, 0.03, 0.01, TRACE_WINDOWS)
    of_14 = n_b[TRACE_WINDOWS.index(14)]
    newest = of_14 if of_14.any() else n_b[-1]
    q = newest / newest.sum()
    ece = sum(of * math.sqrt(gap.mean**2 + 2 * gap.variance / math.pi) for of, gap in zip(q, gaps, strict=True))
    variance = sum(of**2 * gap.variance for of, gap in zip(q, gaps, strict=True))
    return loss_of_share(min(ece, 0.99), variance), gaps[0].recent


def _either(one: Estimate, other: Estimate) -> float:
    return 1 - (1 - one.recent) * (1 - other.recent)


def _episodes(events: Events, cv: float, w: int, p: Mapping[str, Any]) -> Part:
    """Estimate −ln of the expected R."""
    longest = [e for e in events.episodes if e[0] < EVENT_WINDOWS[-1]]
    logs, degrees = [log for _, log, _ in longest], max(len(longest) - 1, 0)
    squares = sum((log - fmean(logs)) ** 2 for log in logs)
    v = (10 * math.log(1 + cv * cv) + squares) / (10 + degrees)
    again = sum(before[2] == after[2] for before, after in itertools.pairwise(longest))
    modes = (degrees + 4) / (again + 1)
    within = [[log for age, log, _ in events.episodes if age < days] + events.open for days in EVENT_WINDOWS]
    often = frequency([len(some) for some in within], [min(days, events.days) for days in EVENT_WINDOWS], 1 / 0.03)
    precision, sums = ([np.array([of(some) / v]) for some in within] for of in (len, math.fsum))
    (hours,) = means(precision, sums, -1.0, 2.0, EVENT_WINDOWS)
    step = math.sqrt(math.log(1 + often.variance / often.mean**2))

    def loss(i: float, j: float) -> float:
        n = w * often.mean * math.exp(i * step)
        return -math.log(expected_r(n, hours.mean + j * math.sqrt(hours.variance), v, modes, p))

    variance = (loss(1, 0) - loss(-1, 0)) ** 2 / 4 + (loss(0, 1) - loss(0, -1)) ** 2 / 4
    return Loss(loss(0, 0), variance), _either(often, hours)


def expected_r(n: float, m: float, v: float, modes: float, p: Mapping[str, Any]) -> float:
    """Return the expected R of a window whose number of episodes has a Poisson distribution with mean n."""
    chances = [math.exp(-n) * n**k / math.factorial(k) for k in range(12)]
    result = chances[0] * norm(1, p)
    for k, chance in enumerate([*chances[1:], max(1 - math.fsum(chances), 0.0)], 1):
        variance = math.log(1 + (math.exp(v) - 1) / k)
        hours = np.exp(m + v / 2 - variance / 2 + math.sqrt(variance) * NODES)
        rho = 1 - modes * (1 - (1 - 1 / modes) ** k) / k
        left = (1 - rho) / (1 + hours / p["mttr_scale_hours"])
        result += chance * sum(WEIGHTS * [norm(x, p) for x in left]) / math.sqrt(2 * math.pi)
    return float(result)


def _deferrals(events: Events, w: int) -> Part:
    within = [[lost for age, lost in events.deferrals if age < days] for days in EVENT_WINDOWS]
    n = [len(some) for some in within]
    often = frequency(n, [min(days, events.days) for days in EVENT_WINDOWS], 1 / 0.3)
    lost = rate([math.fsum(some) for some in within], n, 2, EVENT_WINDOWS)
    none = math.exp(-w * often.mean)
    kept = 1 - (1 - none) * lost.mean
    variance = (w * none * lost.mean / kept) ** 2 * often.variance + ((1 - none) / kept) ** 2 * lost.variance
    return Loss(-math.log(kept), variance), _either(often, lost)


# --- changes for the worse -------------------------------------------------------------------------------------------


def growing(values: np.ndarray) -> np.ndarray:
    """Return the sums of daily values over the last 1, 2, ..., 42 days."""
    return np.cumsum(values[: -RECENT - 1 : -1])


def behaviour_change(agent: Agent, end: datetime, effects: Mapping[str, float]) -> dict[str, Any]:
    """certainty.md §4: return the most likely change for the worse in the last 42 days, by column."""
    p, t = agent.fleet.p, agent.fleet.index(end)
    days, base = Days(agent, t, MEMORY_DAYS), slice(-RECENT - BASE, -RECENT)
    factor = {"d_identity": p["lambda_c"], "k_contradiction": p["mu_c"]}
    found, doubled, nothing = [], np.zeros(RECENT), np.zeros(RECENT)

    def effects_of(name: str) -> tuple[float, np.ndarray]:
        """Return the design effects D₁ of the base and D₂ since each day."""
        y, n = days.events(name)
        weeks = [counts[-RECENT - 84 : -RECENT].reshape(12, 7).sum(axis=1) for counts in (y, n)]
        m, terms, _ = neighbours(*weeks)
        v, d = share_variance(*weeks), effects[name]
        of_base = max(d, (terms.sum() / 1.5 + d * v / 2) / ((m / 1.5 + 0.5) * v) if v else d)
        busy = clustering(agent, t, name).busy
        busier = [max(over(busy_day(n[-day:]), busy) - 1, 0) for day in range(1, RECENT + 1)]
        return of_base, of_base + max(of_base - 1, 0) * np.array(busier)

    for name in RATES:
        y, n = days.events(name)
        if not n[base].any():
            found.append(nothing)
            continue
        d1, d2 = effects_of(name)
        bad, trials = y[base].sum() / d1, n[base].sum() / d1
        r = min((bad + 0.7 * math.sqrt(bad) + 0.5) / trials, 0.9)
        for c in (2, 3, 6):
            s = c * r / (1 + (c - 1) * r)
            ratio = (growing(y) * math.log(s / r) + growing(n - y) * math.log((1 - s) / (1 - r))) / d2
            if c == 2:
                doubled = doubled + ratio
            if round((s - r) * factor.get(name, 1), 12) > 0.02:
                found.append(ratio)
    found.append(doubled)
    good, n = days.events("ece")
    excess = days["confidence"].sum(axis=1) - good
    if n[base].any():
        d1, d2 = effects_of("ece")
        v = max(share_variance(good[base], n[base]), 0.02)
        for delta, e in itertools.product((0.05, 0.1), (1, -1)):
            level = excess[base].sum() / n[base].sum() + 0.7 * e * math.sqrt(v * d1 / n[base].sum())
            if round(abs(level + e * delta) - abs(level), 12) <= 0.02:
                found.append(nothing)
                continue
            ratio = delta * (e * (growing(excess) - growing(n) * level) - growing(n) * delta / 2) / (v * d2)
            found += [ratio, doubled + ratio] if delta == 0.05 else [ratio]
    best = np.max(found, axis=0)
    d = int(np.argmax(best)) + 1

    losses = {}
    for name in (*RATES, "ece"):
        y, n = days.events(name)
        y = excess if name == "ece" else y
        if n[base].any() and n[-d:].any():
            shares = [min(abs(y[some].sum() / n[some].sum()), 0.95) for some in (base, slice(-d, None))]
            losses[name] = [factor[name] * one if name in factor else -math.log(1 - one) for one in shares]
    before, now = (math.exp(-math.fsum(loss[side] for loss in losses.values())) for side in (0, 1))
    rises = {name: losses[name][1] - losses[name][0] if name in losses else 0.0 for name in (*RATES, "ece")}
    return {
        "change_ratio": max(best[d - 1], 0.0),
        "change_days": d,
        "change_kept_before": before,
        "change_kept_now": now,
        "change_component": {name for name, rise in rises.items() if rise >= max(rises.values()) - 1e-12},
    }


def _log_ratio(*parts: tuple[float, float]) -> float:
    """Return √(2Σ a ln(a/b)) over pairs of a count and its expectation."""
    return math.sqrt(max(2 * math.fsum(a * math.log(a / b) for a, b in parts if a > 0), 0))


def events_change(agent: Agent, end: datetime, cv: float) -> dict[str, Any]:
    """certainty.md §4: return the most significant change for the worse of episodes and deferrals, by column."""
    events = Events(agent, end)
    found: dict[str, list[tuple]] = {"longer": [], "more_often": [], "judged_worse": []}
    for w in (7, 28):
        logs = [log for age, log, _ in events.episodes if age < w] + events.open
        logs_before = [log for age, log, _ in events.episodes if w <= age < w + EVENT_BASE]
        n, m, z = len(logs), len(logs_before), 0.0
        if n and m:
            degrees, middle = 10 + m - 1, fmean(logs_before)
            squares = 10 * math.log(1 + cv * cv) + sum((log - middle) ** 2 for log in logs_before)
            t = max((fmean(logs) - middle) / math.sqrt(squares / degrees * (1 / n + 1 / m)), 0.0)
            z = math.sqrt(degrees * math.log(1 + t * t / degrees))
        typical = [math.exp(fmean(some)) if some else 1.0 for some in (logs, logs_before)]
        found["longer"].append((z, w, *typical))

        t = min(w, events.days)
        t_before = min(w + EVENT_BASE, events.days) - t
        e = (n + m) * t / (t + t_before)
        z = _log_ratio((n, e), (m, n + m - e)) if n >= 2 and n > e else 0.0
        found["more_often"].append((z, w, n, over(m * t, t_before)))

        lost = [one for age, one in events.deferrals if age < w]
        lost_before = [one for age, one in events.deferrals if w <= age < w + EVENT_BASE]
        x, n = sum(lost), len(lost)
        y, m = sum(lost_before) + 0.25, len(lost_before) + 0.5
        p, z = (x + y) / (n + m), 0.0
        if lost_before and x > n * p:
            z = _log_ratio(*((part, k * of) for a, k in ((x, n), (y, m)) for part, of in ((a, p), (k - a, 1 - p))))
        values = [1 - fmean(some) if some else None for some in (lost, lost_before)]
        found["judged_worse"].append((z, w, *values))
    every = [(kind, *one) for kind, ones in found.items() for one in ones]
    kind, z, w, now, before = max(every, key=lambda one: one[1])
    columns = ("episode_z", "episode_kind", "episode_days", "episode_now", "episode_before")
    return dict(zip(columns, (z, kind, w, now, before) if z > 0 else (z, kind, w, None, None), strict=True))
