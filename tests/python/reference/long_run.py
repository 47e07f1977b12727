"""Reference implementation of the steady score (``docs/certainty.md`` §4b), one agent and as-of at a time.

It uses the standard library only, and follows the text: lists of days, no running totals, no arrays.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any

from reference.intervals import BINS, RATES, Period, _daily

TRACE_WINDOWS = (3, 7, 14, 28, 56, 90, 132)
EVENT_WINDOWS = (7, 14, 28, 56, 112, 224, 364)
NODES = (
    (0.0, 16 / 35),
    *((side * 1.1544053947399682, 0.2401231786050127) for side in (-1, 1)),
    *((side * 2.3667594107345416, 0.03075712396758651) for side in (-1, 1)),
    *((side * 3.750439717725742, 0.0005482688559722185) for side in (-1, 1)),
)
"""Gauss-Hermite quadrature with seven nodes."""


@dataclass
class Events:
    """Episodes and deferrals of an agent that are known at the as-of; ages in days, 0 for the last 24 hours."""

    episodes: list[tuple[float, float, str]]
    """Age in whole days, ln hours and failure mode of the episodes that ended, the oldest first."""
    open_log_hours: float | None
    """ln hours of the open episode, if there is one."""
    deferrals: list[tuple[float, float]]
    """Age in whole days of the outcome, and value."""
    days: float
    """Days since the agent's first period."""


@dataclass
class Estimate:
    """Present value of a quantity, or a list of values that change together."""

    mean: Any
    variance: Any
    recent: float


@dataclass
class LongRun:
    factors: dict[str, float]
    q_deferral: float
    score: float
    low: float
    high: float


def change_points(
    windows: tuple[int, ...],
    evidence: Callable[[int, int], float],
    present: Callable[[int], tuple[float, float]],
) -> Estimate:
    """Estimate one value; see :func:`weights`.

    :param present: mean and variance, if the present behaviour began at the start of a window.
    """
    found = [present(k) for k in range(len(windows))]
    near, wide = (weights(windows, evidence, per_day) for per_day in (1 / 600, 1 / 100))
    mean = math.fsum(w * m for w, (m, _) in zip(near, found, strict=True))
    variance = math.fsum(w * (v + (m - mean) ** 2) for w, (m, v) in zip(wide, found, strict=True))
    return Estimate(mean, variance, math.fsum(w for w, days in zip(near, windows, strict=True) if days <= 14))


def weights(windows: tuple[int, ...], evidence: Callable[[int, int], float], per_day: float) -> list[float]:
    """Return the probability that the present behaviour began at the start of each window.

    All histories are enumerated: each subset of the starts, without the last one, may be the changes.

    :param evidence: log probability of the days between two starts, 0 being the as-of.
    """
    bounds = (0, *windows)
    inner = range(1, len(windows))
    logs: list[tuple[float, int]] = []
    for n in range(len(inner) + 1):
        for changes in itertools.combinations(inner, n):
            total = 0.0
            for k in range(1, len(bounds)):
                days = bounds[k] - bounds[k - 1]
                stays = days * math.log(1 - per_day)
                total += math.log(1 - (1 - per_day) ** days) if k in changes else stays
            spans = itertools.pairwise((0, *changes, len(windows)))
            logs.append((total + math.fsum(evidence(i, j) for i, j in spans), (*changes, len(windows))[0]))
    most = max(log for log, _ in logs)
    share = [
        math.fsum(math.exp(log - most) for log, first in logs if first == k) for k in range(1, len(bounds))
    ]
    return [one / math.fsum(share) for one in share]


def _log_beta(a: float, b: float) -> float:
    return math.lgamma(a) + math.lgamma(b) - math.lgamma(a + b)


def rate(y: list[float], n: list[float], events: float, mean: float, windows: tuple[int, ...]) -> Estimate:
    """Estimate a rate from bad events and trials of the windows."""
    a, b = events, events / mean - events
    ys, ns = [0.0, *y], [0.0, *n]

    def evidence(i: int, j: int) -> float:
        bad, all_ = ys[j] - ys[i], ns[j] - ns[i]
        return _log_beta(a + bad, b + all_ - bad) - _log_beta(a, b)

    def present(k: int) -> tuple[float, float]:
        total = a + b + n[k]
        m = (a + y[k]) / total
        return m, m * (1 - m) / (total + 1)

    return change_points(windows, evidence, present)


def frequency(y: list[float], days: list[float], mean: float) -> Estimate:
    """Estimate events per day."""
    a, b = 0.5, 0.5 / mean
    ys, ds = [0.0, *y], [0.0, *days]

    def evidence(i: int, j: int) -> float:
        k, t = ys[j] - ys[i], ds[j] - ds[i]
        return math.lgamma(a + k) - math.lgamma(a) + a * math.log(b) - (a + k) * math.log(b + t)

    return change_points(
        EVENT_WINDOWS, evidence, lambda k: ((a + y[k]) / (b + days[k]), (a + y[k]) / (b + days[k]) ** 2)
    )


def _log_normal(p: float, h: float, m: float, v: float) -> float:
    return ((m / v + h) ** 2 / (1 / v + p) - m * m / v - math.log(1 + p * v)) / 2


def long_run(
    periods: list[Period],
    events: Events,
    as_of: int,
    icc: dict[str, float],
    cv: float,
    w: int,
    p: Any,
    per_day: int,
) -> LongRun:
    """Return the long run for windows of ``w`` days."""
    days = [
        [periods[i] for i in range(as_of - (d + 1) * per_day, as_of - d * per_day) if i >= 0]
        for d in range(133)
    ]
    losses, variances, recents = {}, {}, []
    for name in RATES:
        losses[name], variances[name], recent = _rate(days, name, icc[name], p)
        recents.append(recent)
    losses["ece"], variances["ece"], recent = _ece(days, icc["ece"])
    recents.append(recent)

    r, q = _episodes(events, cv, w, p), _deferrals(events, w)
    losses["r"], variances["r"] = r[:2]
    losses["q"], variances["q"] = q[:2]
    recents += [*r[2], *q[2]]

    integrity = ("i_chain", "i_coverage", "i_replay")
    of_integrity = sum(losses[name] for name in integrity)
    most = -math.log(p["integrity_floor"]) if p["integrity_floor"] else math.inf
    others = [name for name in losses if name not in integrity]
    loss = sum(losses[name] for name in others) + min(of_integrity, most)
    variance = sum(variances[name] for name in others)
    if of_integrity <= most:
        variance += sum(variances[name] for name in integrity)
    factors = {
        "C": math.exp(-losses["d_identity"] - losses["k_contradiction"]),
        "I_int": math.exp(-of_integrity),
        "R": math.exp(-losses["r"]),
        "I_inc": math.exp(-losses["ece"] - losses["u_unsafe"] - losses["q"]),
        "S": math.exp(-losses["s_score"]),
    }
    fixed = math.log(1 + math.exp(-p["norm_k"] * (1 - p["norm_x0"])))
    if math.isinf(losses["s_score"]):
        return LongRun(factors, math.exp(-losses["q"]), 0.0, 0.0, 0.0)
    beyond = max(loss - fixed, 1e-9)
    y = 1 - math.prod(1 - recent for recent in recents)
    sd = math.sqrt(math.log(1 + variance / beyond**2)) * (SPREAD[0] + SPREAD[1] * y * y)
    score, low, high = (math.exp(-fixed - beyond * math.exp(z * sd)) for z in (0, 1.96, -1.96))
    return LongRun(factors, math.exp(-losses["q"]), score, low, high)


SPREAD = (0.63, 2.2)


def _effect(counts: list[tuple[float, int]], icc: float, least: float) -> float:
    """Return the design effect of the last 90 days, from (bad events, trials) of each day, the last one first."""
    squares, pairs = 0.0, 0
    for (y, n), (y_before, n_before) in itertools.pairwise(counts[:91]):
        if n and n_before:
            squares += n * n_before / (n + n_before) * (y / n - y_before / n_before) ** 2
            pairs += 1
    in_window = counts[:90]
    trials = sum(n for _, n in in_window)
    share = math.fsum(y for y, _ in in_window) / trials if trials else 0.0
    variance = share * (1 - share)
    per_day = sum(n * n for _, n in in_window) / trials if trials else 0.0
    fleet = max(0.1, 1 + (per_day - 1) * icc)
    if variance <= 1e-15:
        return max(least, fleet)
    return max(least, (squares / 1.5 + 10 * fleet * variance) / ((pairs / 1.5 + 10) * variance))


def _rate(days: list[list[Period]], name: str, icc: float, p: Any) -> tuple[float, float, float]:
    """Return loss, variance and the probability of a recent change of a rate."""
    counts = [_daily(day, name) for day in days]
    effect = _effect(counts, icc, 0.1 if name == "i_coverage" else 1.0)
    if name == "s_score":
        weight = (p["w_corroborated"], p["w_uncorroborated"])
        signals = [[sum(q.signals[k] for q in day) for k in (0, 1)] for day in days]
        coherent = [[sum(q.coherent[k] for q in day) for k in (0, 1)] for day in days]
        total = [sum(n[k] for n in signals[:90]) for k in (0, 1)]
        weighted = sum(weight[k] * total[k] for k in (0, 1))
        if weighted:
            effect *= sum(weight[k] ** 2 * total[k] for k in (0, 1)) / weighted
        counts = [
            (
                sum(weight[k] * (n[k] - g[k]) for k in (0, 1)),
                sum(weight[k] * n[k] for k in (0, 1)),
            )
            for n, g in zip(signals, coherent, strict=True)
        ]
    y, n = ([math.fsum(day[k] for day in counts[:d]) / effect for d in TRACE_WINDOWS] for k in (0, 1))
    if n[-1] == 0 or (name == "i_replay" and not p["replay_enabled"]):
        return (math.inf if name == "s_score" else 0.0), 0.0, 0.0
    found = rate(y, n, 0.5, 0.02, TRACE_WINDOWS)
    if name in ("d_identity", "k_contradiction"):
        weight_of = p["lambda_c"] if name == "d_identity" else p["mu_c"]
        return weight_of * found.mean, weight_of**2 * found.variance, found.recent
    kept = 1 - found.mean
    return -math.log(kept), found.variance / kept**2, found.recent


def _ece(days: list[list[Period]], icc: float) -> tuple[float, float, float]:
    """Return loss, variance and the probability of a recent change of calibration."""

    def total(count: str, d: int, b: int) -> float:
        return math.fsum(getattr(q, count)[b] for day in days[:d] for q in day)

    counts = [(sum(sum(q.successes) for q in day), sum(sum(q.judged) for q in day)) for day in days]
    if not sum(n for _, n in counts[:132]):
        return 0.0, 0.0, 0.0
    effect = _effect(counts, icc, 1.0)
    n, y = ([total(count, 56, b) for b in BINS] for count in ("judged", "successes"))
    overall = (sum(y) + 2) / (sum(n) + 4)
    share = [one / sum(n) if sum(n) else 0.0 for one in n]
    success = [(y[b] + 2 * share[b] + 2 * overall) / (n[b] + 4 * share[b] + 2) for b in BINS]
    unit = [max(s * (1 - s), 0.02) * effect for s in success]
    precision = [[0.0] * 10, *([total("judged", d, b) / unit[b] for b in BINS] for d in TRACE_WINDOWS)]
    weighted = [
        [0.0] * 10,
        *(
            [(total("confidence", d, b) - total("successes", d, b)) / unit[b] for b in BINS]
            for d in TRACE_WINDOWS
        ),
    ]

    def evidence(i: int, j: int) -> float:
        return math.fsum(
            _log_normal(precision[j][b] - precision[i][b], weighted[j][b] - weighted[i][b], 0.03, 0.01)
            for b in BINS
        )

    found = []
    for b in BINS:
        a = [1 / 0.01 + precision[k + 1][b] for k in range(len(TRACE_WINDOWS))]
        h = [0.03 / 0.01 + weighted[k + 1][b] for k in range(len(TRACE_WINDOWS))]
        found.append(change_points(TRACE_WINDOWS, evidence, lambda k, a=a, h=h: (h[k] / a[k], 1 / a[k])))
    newest = [total("judged", 14, b) for b in BINS]
    if not sum(newest):
        newest = [total("judged", 132, b) for b in BINS]
    gap = variance = 0.0
    for b, one in enumerate(found):
        m, s = abs(one.mean), math.sqrt(one.variance)
        folded = s * math.sqrt(2 / math.pi) * math.exp(-m * m / s / s / 2) + m * (
            2 * NormalDist().cdf(m / s) - 1
        )
        gap += newest[b] / sum(newest) * folded
        variance += (newest[b] / sum(newest)) ** 2 * max(m * m + s * s - folded**2, 0)
    gap = min(gap, 0.99)
    return -math.log(1 - gap), variance / (1 - gap) ** 2, found[0].recent


def _observed(events: Events) -> list[float]:
    return [min(d, events.days) for d in EVENT_WINDOWS]


def _episodes(events: Events, cv: float, w: int, p: Any) -> tuple[float, float, tuple[float, float]]:
    """Return −ln of the expected R, its variance, and the probabilities of recent changes."""
    within = [[e for e in events.episodes if e[0] < d] for d in EVENT_WINDOWS]
    longest = within[-1]
    logs = [log for _, log, _ in longest]
    spread = 0.0
    if logs:
        spread = math.fsum((log - math.fsum(logs) / len(logs)) ** 2 for log in logs)
    variance = (10 * math.log(1 + cv * cv) + spread) / (10 + max(len(logs) - 1, 0))
    again = sum(a[2] == b[2] for a, b in itertools.pairwise(longest))
    modes = (max(len(longest) - 1, 0) + 4) / (again + 1)
    n_open = events.open_log_hours is not None
    n = [len(found) + n_open for found in within]
    total = [math.fsum(log for _, log, _ in found) + (events.open_log_hours or 0.0) for found in within]
    often = frequency([float(k) for k in n], _observed(events), 0.03)
    p_sums, h_sums = [0.0, *(k / variance for k in n)], [0.0, *(t / variance for t in total)]
    hours = change_points(
        EVENT_WINDOWS,
        lambda i, j: _log_normal(p_sums[j] - p_sums[i], h_sums[j] - h_sums[i], -1.0, 2.0),
        lambda k: ((-0.5 + h_sums[k + 1]) / (0.5 + p_sums[k + 1]), 1 / (0.5 + p_sums[k + 1])),
    )
    s = math.sqrt(math.log(1 + often.variance / often.mean**2))

    def loss(i: float, j: float) -> float:
        mean = w * often.mean * math.exp(i * s - s * s / 2)
        return -math.log(expected_r(mean, hours.mean + j * math.sqrt(hours.variance), variance, modes, p))

    three, middle = math.sqrt(3), loss(0, 0)
    mean, spread = middle, 0.0
    for some in ((loss(-three, 0), loss(three, 0)), (loss(0, -three), loss(0, three))):
        shift = math.fsum(one - middle for one in some) / 6
        mean += shift
        spread += math.fsum((one - middle) ** 2 for one in some) / 6 - shift**2
    return mean, max(spread, 0.0), (often.recent, hours.recent)


def expected_r(n: float, log_mean: float, log_variance: float, modes: float, p: Any) -> float:
    """Return the expected R of a window whose number of episodes has a Poisson distribution with mean n."""

    def norm(x: float) -> float:
        return 1 / (1 + math.exp(-p["norm_k"] * (x - p["norm_x0"])))

    chances = [math.exp(-n) * n**k / math.factorial(k) for k in range(20)]
    chances.append(max(1 - math.fsum(chances), 0.0))
    result = chances[0] * norm(1)
    for k in range(1, 21):
        of_mean = math.log(1 + (math.exp(log_variance) - 1) / k)
        centre = log_mean + log_variance / 2 - of_mean / 2
        rho = 1 - modes * (1 - (1 - 1 / modes) ** k) / k
        result += chances[k] * math.fsum(
            weight
            * norm((1 - rho) / (1 + math.exp(centre + math.sqrt(of_mean) * node) / p["mttr_scale_hours"]))
            for node, weight in NODES
        )
    return result


def _deferrals(events: Events, w: int) -> tuple[float, float, tuple[float, float]]:
    """Return the loss by deferrals, its variance, and the probabilities of recent changes."""
    within = [[value for age, value in events.deferrals if age < d] for d in EVENT_WINDOWS]
    n = [float(len(values)) for values in within]
    often = frequency(n, _observed(events), 0.3)
    lost = rate([math.fsum(1 - value for value in values) for values in within], n, 1.0, 0.2, EVENT_WINDOWS)
    none = math.exp(-w * often.mean)
    kept = 1 - (1 - none) * lost.mean
    variance = (w * none * lost.mean / kept) ** 2 * often.variance + ((1 - none) / kept) ** 2 * lost.variance
    return -math.log(kept), variance, (often.recent, lost.recent)
