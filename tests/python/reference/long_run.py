"""Reference implementation of the steady score and of changes for the worse (``docs/certainty.md`` §4 and 4b), one
agent and as-of at a time, from daily counts.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from datetime import datetime
from functools import cache
from statistics import NormalDist, fmean
from typing import Any, NamedTuple

import numpy as np

from reference.intervals import RATES, Days, fleet_effect, log_hours
from reference.record import DAY, MEMORY_DAYS, Agent, Window, floor
from reference.scoring import norm

TRACE_WINDOWS = (3, 7, 14, 28, 56, 90, 132)
EVENT_WINDOWS = (7, 14, 28, 56, 112, 224, 364)
RECENT, BASE, EVENT_BASE = 42, 90, 322
SPREAD = (0.63, 2.2)
NODES, WEIGHTS = np.polynomial.hermite_e.hermegauss(7)
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
            (age(known), one.value)
            for one in fleet.deferrals
            if one.agent == agent.agent_id_hash
            and one.value is not None
            and one.created is not None
            and (known := max(one.created, one.resolved or one.created)) < end
        ]
        """Age of the outcome and value of each judged deferral."""
        self.days = (end - floor(agent.times[0], fleet.period)) / DAY


class Estimate(NamedTuple):
    """Expected present value of a quantity, its variance, and the probability of a change in the last 14 days."""

    mean: float
    variance: float
    recent: float


@cache
def histories(windows: Sequence[int], per_day: float) -> list[tuple[float, list[tuple[int, int]]]]:
    """Return all possible histories of an agent's behaviour, which may have changed at the start of each window except
    the longest one.

    A history is a pair: its log probability, and the spans between its changes, the latest span first.
    """
    bounds, last, found = (0, *windows), len(windows), []
    for n in range(last):
        for changes in itertools.combinations(range(1, last), n):
            log = 0.0
            for k in range(1, last + 1):
                stays = (bounds[k] - bounds[k - 1]) * math.log(1 - per_day)
                log += math.log(1 - math.exp(stays)) if k in changes else stays
            found.append((log, list(itertools.pairwise((0, *changes, last)))))
    return found


def weights(windows: Sequence[int], evidence: Span, per_day: float) -> np.ndarray:
    """Return for each window the probability that the present behaviour began at the window's start.

    :param evidence: function that returns the log probability of the data between the starts of two windows. Windows
        are numbered from 1; number 0 is the as-of.
    """
    some = histories(windows, per_day)
    logs = np.array([log + sum(evidence(*span) for span in spans) for log, spans in some])
    began = np.array([spans[0][1] for _, spans in some])
    chances = np.exp(logs - logs.max())
    return np.array([chances[began == k].sum() for k in range(1, len(windows) + 1)]) / chances.sum()


def estimate(windows: Sequence[int], evidence: Span, present: Callable[[int], tuple[float, float]]) -> Estimate:
    """Estimate the present value of a quantity as a mean over the windows, weighted by :func:`weights`.

    :param present: function that returns mean and variance if the present behaviour began at the start of window k.
    """
    evidence = cache(evidence)
    means, variances = np.array([present(k) for k in range(1, len(windows) + 1)]).T
    near, wide = (weights(windows, evidence, per_day) for per_day in (1 / 600, 1 / 100))
    mean = near @ means
    return Estimate(mean, wide @ (variances + (means - mean) ** 2), near @ (np.array(windows) <= 14))


def _log_beta(a: float, b: float) -> float:
    return math.lgamma(a) + math.lgamma(b) - math.lgamma(a + b)


def rate(y: np.ndarray, n: np.ndarray, events: float, mean: float, windows: Sequence[int]) -> Estimate:
    """Estimate a rate from the bad events and trials of each window. The prior has the given mean and weighs as much as
    ``events`` bad events."""
    a, b = events, events / mean - events
    y, n = np.append(0, y), np.append(0, n)

    def evidence(i: int, j: int) -> float:
        bad, trials = y[j] - y[i], n[j] - n[i]
        return _log_beta(a + bad, b + trials - bad) - _log_beta(a, b)

    def present(k: int) -> tuple[float, float]:
        m = (a + y[k]) / (a + b + n[k])
        return m, m * (1 - m) / (a + b + n[k] + 1)

    return estimate(windows, evidence, present)


def frequency(y: Sequence[float], days: Sequence[float], mean: float) -> Estimate:
    """Estimate the number of episodes or deferrals per day."""
    a, b = 1.0, 1.0 / mean
    y, days = (0, *y), (0, *days)

    def evidence(i: int, j: int) -> float:
        k, t = y[j] - y[i], days[j] - days[i]
        return math.lgamma(a + k) - math.lgamma(a) + a * math.log(b) - (a + k) * math.log(b + t)

    return estimate(EVENT_WINDOWS, evidence, lambda k: ((a + y[k]) / (b + days[k]), (a + y[k]) / (b + days[k]) ** 2))


def log_normal(p: Any, h: Any, m: float, v: float) -> Any:
    """Return the log evidence of normal values with total precision p and precision-weighted sum h. The prior of their
    mean is normal with mean m and variance v."""
    return ((m / v + h) ** 2 / (1 / v + p) - m * m / v - np.log(1 + p * v)) / 2


def since(values: np.ndarray, windows: Sequence[int]) -> np.ndarray:
    """Return the sums of daily values over the last d days, for each window length d."""
    return np.array([values[-days:].sum(axis=0) for days in windows])


def daily_effect(y: np.ndarray, n: np.ndarray, correlation: float, least: float) -> float:
    """Return the design effect of a rate over the last 90 days, from differences between consecutive days."""
    y, n = y[-91:], n[-91:]
    return max(least, _shrunk(y, n, fleet_effect(n[1:], correlation), _variance(y[1:], n[1:])))


def _variance(y: np.ndarray, n: np.ndarray) -> float:
    share = y.sum() / n.sum() if n.any() else 0.0
    return float(share * (1 - share))


def _shrunk(y: np.ndarray, n: np.ndarray, effect: float, variance: float, weight: float = 10) -> float:
    """Return the design effect from differences between consecutive rates, shrunk towards ``effect``."""
    if variance <= 1e-15:
        return effect
    both = (n[1:] > 0) & (n[:-1] > 0)
    y, z, n, m = y[1:][both], y[:-1][both], n[1:][both], n[:-1][both]
    squares = np.sum(n * m / (n + m) * (y / n - z / m) ** 2)
    return float((squares / 1.5 + weight * effect * variance) / ((len(n) / 1.5 + weight) * variance))


def effect_of(days: Days, name: str, correlations: Any) -> float:
    return daily_effect(*days.rate(name), correlations[name], 0.1 if name == "i_coverage" else 1.0)


# --- the steady score ------------------------------------------------------------------------------------------------


class LongRun(NamedTuple):
    factors: dict[str, float]
    score: float
    low: float
    high: float


def long_runs(agent: Agent, end: datetime, correlations: dict[str, float], cv: float) -> dict[Window, LongRun]:
    """certainty.md §4b: return the steady score for each window length."""
    p, t = agent.fleet.p, agent.fleet.index(end)
    days = Days(agent.periods, t, MEMORY_DAYS, agent.fleet.per_day)
    found = {name: _rate(days, name, correlations, p) for name in RATES}
    found["ece"] = _ece(days, correlations["ece"])
    windows = agent.fleet.windows
    return {window: _with_events(found, Events(agent, end), window.days, cv, p) for window in windows}


def _with_events(found: dict[str, Estimate], events: Events, w: int, cv: float, p: Any) -> LongRun:
    """Add the losses of episodes and deferrals to the losses of traces, and compute the steady score."""
    found = found | {"r": _episodes(events, cv, w, p), "q": _deferrals(events, w)}
    integrity = ("i_chain", "i_coverage", "i_replay")
    of_integrity = sum(found[name].mean for name in integrity)
    most = -math.log(p["integrity_floor"]) if p["integrity_floor"] else math.inf
    others = [one for name, one in found.items() if name not in integrity]
    loss = sum(one.mean for one in others) + min(of_integrity, most)
    variance = sum(one.variance for one in others)
    if of_integrity <= most:
        variance += sum(found[name].variance for name in integrity)
    parts = {
        "C": ("d_identity", "k_contradiction"),
        "I_int": integrity,
        "R": ("r",),
        "I_inc": ("ece", "u_unsafe", "q"),
        "S": ("s_score",),
    }
    factors = {factor: math.exp(-sum(found[name].mean for name in of)) for factor, of in parts.items()}
    if math.isinf(found["s_score"].mean):
        return LongRun(factors, 0.0, 0.0, 0.0)
    fixed = -math.log(norm(1, p))
    beyond = max(loss - fixed, 1e-9)
    y = 1 - math.prod(1 - one.recent for one in found.values())
    sd = math.sqrt(math.log(1 + variance / beyond**2)) * (SPREAD[0] + SPREAD[1] * y * y)
    score, low, high = (math.exp(-fixed - beyond * math.exp(z * sd)) for z in (0, 1.96, -1.96))
    return LongRun(factors, score, low, high)


def _rate(days: Days, name: str, correlations: Any, p: Any) -> Estimate:
    """Estimate the loss of a component that is a rate."""
    y, n = days.rate(name)
    effect = effect_of(days, name, correlations)
    if name == "s_score":
        weight = np.array([p["w_corroborated"], p["w_uncorroborated"]])
        signals = days["signals"]
        of_90 = signals[-90:].sum(axis=0)
        if of_90.any():
            effect *= of_90 @ weight**2 / (of_90 @ weight)
        y, n = (signals - days["coherent"]) @ weight, signals @ weight
    y, n = (since(counts, TRACE_WINDOWS) / effect for counts in (y, n))
    if n[-1] == 0:
        return Estimate(math.inf if name == "s_score" else 0.0, 0.0, 0.0)
    mean, variance, recent = rate(y, n, 0.5, 0.02, TRACE_WINDOWS)
    weight_of = {"d_identity": p["lambda_c"], "k_contradiction": p["mu_c"]}.get(name)
    if weight_of is not None:
        return Estimate(weight_of * mean, weight_of**2 * variance, recent)
    return Estimate(-math.log(1 - mean), variance / (1 - mean) ** 2, recent)


def _ece(days: Days, correlation: float) -> Estimate:
    """Estimate the loss of ``ece``, from the expected absolute gap of each bin."""
    judged, successes, excess = days["judged"], days["successes"], days["confidence"] - days["successes"]
    if not judged[-132:].any():
        return Estimate(0.0, 0.0, 0.0)
    effect = daily_effect(successes.sum(axis=1), judged.sum(axis=1), correlation, 1.0)
    n, y = judged[-56:].sum(axis=0), successes[-56:].sum(axis=0)
    overall, share = (y.sum() + 2) / (n.sum() + 4), n / max(n.sum(), 1)
    success = (y + 2 * share + 2 * overall) / (n + 4 * share + 2)
    unit = np.maximum(success * (1 - success), 0.02) * effect
    precision = np.vstack([np.zeros(10), since(judged, TRACE_WINDOWS) / unit])
    weighted = np.vstack([np.zeros(10), since(excess, TRACE_WINDOWS) / unit])

    @cache
    def evidence(i: int, j: int) -> float:
        of_bins = log_normal(precision[j] - precision[i], weighted[j] - weighted[i], 0.03, 0.01)
        return float(of_bins.sum())

    def present(k: int, b: int) -> tuple[float, float]:
        a = 1 / 0.01 + precision[k, b]
        return (0.03 / 0.01 + weighted[k, b]) / a, 1 / a

    newest = judged[-14:].sum(axis=0)
    if not newest.any():
        newest = judged[-132:].sum(axis=0)
    gap = variance = 0.0
    for b, of_bin in enumerate(newest / newest.sum()):
        one = estimate(TRACE_WINDOWS, evidence, lambda k, b=b: present(k, b))
        m, s = abs(one.mean), math.sqrt(one.variance)
        folded = s * math.sqrt(2 / math.pi) * math.exp(-((m / s) ** 2) / 2)
        folded += m * (2 * NormalDist().cdf(m / s) - 1)
        gap += of_bin * folded
        variance += of_bin**2 * max(m * m + s * s - folded**2, 0)
    gap = min(gap, 0.99)
    return Estimate(-math.log(1 - gap), variance / (1 - gap) ** 2, one.recent)


def _observed(events: Events) -> list[float]:
    return [min(days, events.days) for days in EVENT_WINDOWS]


def _either(one: float, other: float) -> float:
    return 1 - (1 - one) * (1 - other)


def _episodes(events: Events, cv: float, w: int, p: Any) -> Estimate:
    """Estimate −ln of the expected R."""
    longest = [e for e in events.episodes if e[0] < EVENT_WINDOWS[-1]]
    logs = [log for _, log, _ in longest]
    spread = np.sum((np.array(logs) - np.mean(logs)) ** 2) if logs else 0.0
    variance = (10 * math.log(1 + cv * cv) + spread) / (10 + max(len(logs) - 1, 0))
    again = sum(a[2] == b[2] for a, b in itertools.pairwise(longest))
    modes = (max(len(longest) - 1, 0) + 4) / (again + 1)
    within = [[log for age, log, _ in events.episodes if age < days] + events.open for days in EVENT_WINDOWS]
    often = frequency([len(some) for some in within], _observed(events), 0.03)
    precision = [0.0, *(len(some) / variance for some in within)]
    weighted = [0.0, *(math.fsum(some) / variance for some in within)]
    hours = estimate(
        EVENT_WINDOWS,
        lambda i, j: float(log_normal(precision[j] - precision[i], weighted[j] - weighted[i], -1.0, 2.0)),
        lambda k: ((-0.5 + weighted[k]) / (0.5 + precision[k]), 1 / (0.5 + precision[k])),
    )
    s = math.sqrt(math.log(1 + often.variance / often.mean**2))

    def loss(i: float, j: float) -> float:
        n = w * often.mean * math.exp(i * s - s * s / 2)
        return -math.log(expected_r(n, hours.mean + j * math.sqrt(hours.variance), variance, modes, p))

    three, middle = math.sqrt(3), loss(0, 0)
    mean, spread = middle, 0.0
    for some in ((loss(-three, 0), loss(three, 0)), (loss(0, -three), loss(0, three))):
        shift = sum(one - middle for one in some) / 6
        mean += shift
        spread += sum((one - middle) ** 2 for one in some) / 6 - shift**2
    return Estimate(mean, max(spread, 0.0), _either(often.recent, hours.recent))


def expected_r(n: float, log_mean: float, log_variance: float, modes: float, p: Any) -> float:
    """Return the expected R of a window whose number of episodes has a Poisson distribution with mean n."""
    chances = [math.exp(-n) * n**k / math.factorial(k) for k in range(20)]
    result = chances[0] * norm(1, p)
    for k, chance in enumerate([*chances[1:], max(1 - sum(chances), 0.0)], 1):
        of_mean = math.log(1 + (math.exp(log_variance) - 1) / k)
        hours = np.exp(log_mean + log_variance / 2 - of_mean / 2 + math.sqrt(of_mean) * NODES)
        rho = 1 - modes * (1 - (1 - 1 / modes) ** k) / k
        left = (1 - rho) / (1 + hours / p["mttr_scale_hours"])
        result += chance * sum(WEIGHTS * [norm(x, p) for x in left]) / math.sqrt(2 * math.pi)
    return float(result)


def _deferrals(events: Events, w: int) -> Estimate:
    """Estimate the loss of ``q_deferral``."""
    within = [[1 - value for age, value in events.deferrals if age < days] for days in EVENT_WINDOWS]
    n = [len(lost) for lost in within]
    often = frequency(n, _observed(events), 0.3)
    lost = rate(np.array(list(map(math.fsum, within))), np.array(n), 0.5, 0.2, EVENT_WINDOWS)
    none = math.exp(-w * often.mean)
    kept = 1 - (1 - none) * lost.mean
    variance = (w * none * lost.mean / kept) ** 2 * often.variance + ((1 - none) / kept) ** 2 * lost.variance
    return Estimate(-math.log(kept), variance, _either(often.recent, lost.recent))


# --- changes for the worse -------------------------------------------------------------------------------------------


def behaviour_change(agent: Agent, end: datetime, correlations: dict[str, float]) -> dict[str, Any]:
    """certainty.md §4: return the most likely change for the worse in the last 42 days, by column of int_windows."""
    p, t = agent.fleet.p, agent.fleet.index(end)
    days = Days(agent.periods, t, MEMORY_DAYS, agent.fleet.per_day)
    weight = {"d_identity": p["lambda_c"], "k_contradiction": p["mu_c"]}
    before_days = slice(-RECENT - BASE, -RECENT)

    def growing(values: np.ndarray) -> np.ndarray:
        """Return the sums of daily values over the last 1, 2, ..., 42 days."""
        return np.cumsum(values[: -RECENT - 1 : -1])

    alone, doubled, measured = [], np.zeros(RECENT), {}
    for name in RATES:
        y, n = days.rate(name)
        if not n[before_days].any():
            continue
        measured[name] = y, n
        effect = with_weeks(effect_of(days, name, correlations), y, n)
        bad, trials = y[before_days].sum() / effect, n[before_days].sum() / effect
        before = min((bad + 0.7 * math.sqrt(bad) + 0.5) / trials, 0.9)
        for times in (2, 3, 6):
            after = times * before / (1 - before + times * before)
            of_bad, of_good = math.log(after / before), math.log((1 - after) / (1 - before))
            ratios = (growing(y) * of_bad + growing(n - y) * of_good) / effect
            if times == 2:
                doubled = doubled + ratios
            if round((after - before) * weight.get(name, 1), 12) > 0.02:
                alone.append(ratios)
    found = [*alone, doubled]
    checked, good = days["judged"].sum(axis=1), days["successes"].sum(axis=1)
    excess = days["confidence"].sum(axis=1) - good
    n_before = checked[before_days].sum()
    if n_before:
        effect = with_weeks(daily_effect(good, checked, correlations["ece"], 1.0), good, checked)
        variance = max(_variance(good[before_days], checked[before_days]), 0.02) * effect
        gap_before = excess[before_days].sum() / n_before
        for gap, sign in itertools.product((0.05, 0.1), (1, -1)):
            level = gap_before + sign * 0.7 * math.sqrt(variance / n_before)
            if round(abs(level + sign * gap) - abs(level), 12) <= 0.02:
                continue
            n = growing(checked)
            ratios = gap * (sign * (growing(excess) - n * level) - n * gap / 2) / variance
            found.append(ratios)
            if gap == 0.05:
                found.append(doubled + ratios)
    best = np.max(found, axis=0)
    d = int(np.argmax(best)) + 1

    losses: dict[str, list[float]] = {}
    for name, (y, n) in measured.items():
        if n[-d:].any():
            rates = [min(y[some].sum() / n[some].sum(), 0.95) for some in (before_days, slice(-d, None))]
            losses[name] = [weight[name] * one if name in weight else -math.log(1 - one) for one in rates]
    if n_before and checked[-d:].any():
        gaps = [excess[some].sum() / checked[some].sum() for some in (before_days, slice(-d, None))]
        losses["ece"] = [-math.log(1 - min(abs(gap), 0.95)) for gap in gaps]
    kept = [math.exp(-math.fsum(loss[side] for loss in losses.values())) for side in (0, 1)]
    rises = {name: losses[name][1] - losses[name][0] if name in losses else 0.0 for name in (*RATES, "ece")}
    return {
        "change_ratio": max(best[d - 1], 0.0),
        "change_days": d,
        "change_kept_before": kept[0],
        "change_kept_now": kept[1],
        "change_component": {name for name, rise in rises.items() if rise >= max(rises.values()) - 1e-12},
    }


def with_weeks(daily: float, y: np.ndarray, n: np.ndarray) -> float:
    """Return the larger design effect: ``daily``, or that of weekly counts in the 12 weeks before the last 42 days."""
    y, n = (counts[-RECENT - 84 : -RECENT].reshape(12, 7).sum(axis=1) for counts in (y, n))
    return max(daily, _shrunk(y, n, daily, _variance(y, n), 0.5))


def _term(count: float, expected: float) -> float:
    return count * math.log(count / expected) if count > 0 else 0.0


def events_change(agent: Agent, end: datetime, cv: float) -> dict[str, Any]:
    """certainty.md §4: return the most significant change for the worse of episodes and deferrals."""
    events = Events(agent, end)
    found: dict[str, list[tuple]] = {"longer": [], "more_often": [], "judged_worse": []}
    for days in (7, 28):
        logs = [log for age, log, _ in events.episodes if age < days] + events.open
        logs_before = [log for age, log, _ in events.episodes if days <= age < days + EVENT_BASE]
        n, m = len(logs), len(logs_before)
        z = 0.0
        if n and m:
            mean_before, degrees = fmean(logs_before), 10 + m - 1
            spread = sum((log - mean_before) ** 2 for log in logs_before)
            variance = (10 * math.log(1 + cv * cv) + spread) / degrees
            t = max((fmean(logs) - mean_before) / math.sqrt(variance * (1 / n + 1 / m)), 0.0)
            z = math.sqrt(degrees * math.log(1 + t * t / degrees))
        typical = [math.exp(fmean(some)) if some else 1.0 for some in (logs, logs_before)]
        found["longer"].append((z, days, *typical))

        t = min(days, events.days)
        s = min(days + EVENT_BASE, events.days) - t
        e, f = (n + m) * t / (t + s), (n + m) * s / (t + s)
        z = math.sqrt(max(2 * (_term(n, e) + _term(m, f)), 0)) if n >= 2 and n > e else 0.0
        found["more_often"].append((z, days, n, m * t / s if s else 0.0))

        values = [value for age, value in events.deferrals if age < days]
        values_before = [value for age, value in events.deferrals if days <= age < days + EVENT_BASE]
        y, k = sum(1 - value for value in values), len(values)
        x, j = sum(1 - value for value in values_before) + 0.25, len(values_before) + 0.5
        share = (x + y) / (j + k)
        z = 0.0
        if values_before and y > k * share:
            parts = ((y, k * share), (k - y, k * (1 - share)), (x, j * share), (j - x, j * (1 - share)))
            z = math.sqrt(max(2 * sum(_term(*part) for part in parts), 0))
        means = [fmean(some) if some else None for some in (values, values_before)]
        found["judged_worse"].append((z, days, *means))
    every = [(kind, *one) for kind, ones in found.items() for one in ones]
    kind, z, days, now, before = max(every, key=lambda one: one[1])
    columns = ("episode_z", "episode_kind", "episode_days", "episode_now", "episode_before")
    some = (z, kind, days, now, before) if z > 0 else (z, kind, days, None, None)
    return dict(zip(columns, some, strict=True))
