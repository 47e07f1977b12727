"""Reference implementation of the intervals (``docs/certainty.md`` §3), one row at a time.

It uses the standard library only and works on daily lists, without running totals, arrays or chunks. Where the text
leaves a choice, this module makes the choice that the docstring of ``ciris_scoring.statistics.intervals`` describes.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass, field

BINS = range(10)
RATES = ("d_identity", "k_contradiction", "i_chain", "i_coverage", "i_replay", "u_unsafe", "s_score")
METRICS = ("csdma_plausibility_score", "dsdma_domain_alignment", "coherence_level")
EFFECTS = (*RATES, "ece", *METRICS)


@dataclass
class Period:
    """Sums of an agent's traces in a period."""

    n: int = 0
    renamed: int = 0
    overridden: int = 0
    chain_valid: int = 0
    fields: int = 0
    sampled: int = 0
    replayed: int = 0
    unsafe: int = 0
    signals: tuple[int, int] = (0, 0)  # corroborated, uncorroborated
    coherent: tuple[int, int] = (0, 0)
    judged: list[int] = field(default_factory=lambda: [0] * 10)
    confidence: list[float] = field(default_factory=lambda: [0.0] * 10)
    successes: list[int] = field(default_factory=lambda: [0] * 10)
    histograms: list[list[int]] = field(default_factory=lambda: [[0] * 10 for _ in METRICS])
    # durations of the episodes that ended in the period
    episode_hours: list[float] = field(default_factory=list)


@dataclass
class Facts:
    """Published values that the intervals are computed from."""

    mttr_hours: float
    n_episodes: int
    rho: float
    q: float
    n_deferrals: int


def _days(periods: list[Period], start: int, end: int, per_day: int) -> list[list[Period]]:
    """Return the periods of [start, end) as a list for each day, the last day first. Days before the data are empty."""
    return [
        [periods[i] for i in range(first, first + per_day) if i >= 0]
        for first in range(end - per_day, start - 1, -per_day)
    ]


def _parts(periods: list[Period], as_of: int, window: tuple[int, int, int], per_day: int):
    start = as_of - window[0] * per_day
    return (
        _days(periods, start, as_of, per_day),
        _days(periods, start - window[1] * per_day, start, per_day),
    )


def _daily(day: list[Period], rate: str) -> tuple[float, int]:
    """Return the numbers of events and trials of a rate on a day."""
    n = sum(p.n for p in day)
    if rate == "i_replay":
        return sum(p.sampled - p.replayed for p in day), sum(p.sampled for p in day)
    if rate == "s_score":
        return sum(sum(p.signals) - sum(p.coherent) for p in day), sum(sum(p.signals) for p in day)
    events = {
        "d_identity": lambda p: p.renamed,
        "k_contradiction": lambda p: p.overridden,
        "i_chain": lambda p: p.n - p.chain_valid,
        "i_coverage": lambda p: (10 * p.n - p.fields) / 10,
        "u_unsafe": lambda p: p.unsafe,
    }[rate]
    return sum(events(p) for p in day), n


def _rate_spread(days, rate):
    """Return (num, den, cl, degrees) of the design effect of a rate."""
    counts = [(y, n) for y, n in (_daily(day, rate) for day in days) if n > 0]
    total = sum(n for _, n in counts)
    events = math.fsum(y for y, _ in counts)
    if not 0 < events < total - 1e-9:
        return 0.0, 0.0, 0.0, 0
    p = events / total
    num = math.fsum((y - n * p) ** 2 for y, n in counts)
    den = p * (1 - p) * math.fsum(n * (1 - n / total) for _, n in counts)
    cl = p * (1 - p) * sum(n * (n - 1) for _, n in counts) * (1 - 1 / len(counts))
    return num, den, cl, len(counts) - 1


def _ece_spread(days):
    bins = [[sum(p.judged[b] for p in day) for b in BINS] for day in days]
    wins = [[sum(p.successes[b] for p in day) for b in BINS] for day in days]
    kept = [(n, y) for n, y in zip(bins, wins, strict=True) if sum(n) > 0]
    totals = [sum(n[b] for n, _ in kept) for b in BINS]
    p = [sum(y[b] for _, y in kept) / totals[b] if totals[b] else 0.0 for b in BINS]
    v = [x * (1 - x) for x in p]
    if not any(x > 0 for x in v):
        return 0.0, 0.0, 0.0, 0
    num = math.fsum((sum(y) - math.fsum(n[b] * p[b] for b in BINS)) ** 2 for n, y in kept)
    den = math.fsum(v[b] * n[b] * (1 - n[b] / totals[b]) for n, _ in kept for b in BINS if totals[b])
    cl = 0.0
    for n, _ in kept:
        cl += math.fsum(n[b] * math.sqrt(v[b]) for b in BINS) ** 2 - math.fsum(v[b] * n[b] for b in BINS)
    return num, den, max(0.0, cl) * (1 - 1 / len(kept)), len(kept) - 1


def _histogram_spread(days, metric):
    """Return (num, den, cl, degrees) of the design effect of a histogram, and the residual matrix with its unit."""
    daily = [[sum(p.histograms[metric][b] for p in day) for b in BINS] for day in days]
    daily = [h for h in daily if sum(h) > 0]
    sums = [sum(h) for h in daily]
    totals = [sum(h[b] for h in daily) for b in BINS]
    n = sum(totals)
    used = [b for b in BINS if totals[b] > 0]
    empty = [[0.0] * 10 for _ in BINS]
    if len(used) < 2:
        return (0.0, 0.0, 0.0, 0), empty, 0.0
    p = [t / n for t in totals]
    matrix = empty
    residuals = {b: [h[b] - of_day * p[b] for h, of_day in zip(daily, sums, strict=True)] for b in used}
    for b in used:
        for c in used:
            products = (x * y for x, y in zip(residuals[b], residuals[c], strict=True))
            matrix[b][c] = math.fsum(products) / math.sqrt(p[b] * p[c])
    size = math.fsum(of_day * (1 - of_day / n) for of_day in sums)
    num = math.fsum(matrix[b][b] for b in used)
    cl = (len(used) - 1) * sum(of_day * (of_day - 1) for of_day in sums) * (1 - 1 / len(daily))
    return (num, (len(used) - 1) * size, cl, len(daily) - 1), matrix, size


def spreads(periods, as_of, window, per_day):
    """Return (num, den, cl, degrees) for each design effect, over window and baseline."""
    parts = _parts(periods, as_of, window, per_day)
    result = {}
    for effect in EFFECTS:
        if effect in RATES:
            of_parts = [_rate_spread(days, effect) for days in parts]
        elif effect == "ece":
            of_parts = [_ece_spread(days) for days in parts]
        else:
            of_parts = [_histogram_spread(days, METRICS.index(effect))[0] for days in parts]
        result[effect] = tuple(sum(part[i] for part in of_parts) for i in range(4))
    return result


def _weight(den, degrees):
    return 1 / (2 / degrees + 1 / den) if degrees > 0 and den > 0 else 0.0


def fleet(agents, as_of, window, per_day):
    """Return the intraclass correlation of each design effect and the variation of episodes, over agents with a row."""
    icc = {}
    all_spreads = [spreads(periods, as_of, window, per_day) for periods in agents]
    for effect in EFFECTS:
        top = bottom = 0.0
        for spread in all_spreads:
            num, den, cl, degrees = spread[effect]
            if cl > 0:
                weight = _weight(den, degrees)
                top += weight * min(1.0, max(-0.1, (num - den) / cl))
                bottom += weight
        icc[effect] = min(0.15, max(-0.05, top / bottom)) if bottom > 0 else 0.0
    top, bottom = 10 * math.log(1 + 1.8**2), 10
    for periods in agents:
        memory = range(max(0, as_of - (window[0] + window[1]) * per_day), as_of)
        logs = [math.log(max(h, 0.01)) for i in memory for h in periods[i].episode_hours]
        if len(logs) >= 3:
            mean = math.fsum(logs) / len(logs)
            degrees = min(len(logs), 1000) - 1
            top += degrees * math.fsum((x - mean) ** 2 for x in logs) / (len(logs) - 1)
            bottom += degrees
    return icc, math.sqrt(math.exp(min(9.0, top / bottom)) - 1)


def _fleet_effect(window_days_n, icc):
    total = sum(window_days_n)
    spread = sum(n * n for n in window_days_n) / total if total else 0.0
    return max(0.1, 1 + (spread - 1) * icc)


def _design_effect(spread, window_days_n, icc, least):
    num, den, _, degrees = spread
    weight = _weight(den, degrees)
    own = num / den if weight else 0.0
    return max(least, (weight * own + 10 * _fleet_effect(window_days_n, icc)) / (weight + 10))


def _wilson(p, n, z, sign):
    return (p + z * z / (2 * n) + sign * z * math.sqrt(p * (1 - p) / n + z * z / (4 * n * n))) / (
        1 + z * z / n
    )


@functools.cache
def _gamma_quantile(share, shape):
    """Return a quantile of the gamma distribution, by bisection of the series of its distribution function."""

    def log_below(log_g):
        g, term, total = math.exp(log_g), 1.0, 1.0
        for k in range(1, 200):
            term *= g / (shape + k)
            total += term
        return shape * log_g - g - math.lgamma(shape + 1) + math.log(total)

    low, high = -1e4, math.log(10)
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if log_below(middle) < math.log(share) else (low, middle)
    return math.exp(low)


def _rate_bounds(p, n, z_worse, z_better):
    """Return lower and upper confidence bound of a rate of bad events."""
    if n <= 0:
        return 0.0 if p <= 0 else 0.0, 1.0
    low = 0.0 if p <= 0 else max(0.0, _wilson(p, n, z_better, -1))
    if 0 < p * n < 4:
        low = min(low, _gamma_quantile(0.05, p * n) / n)
    high = 1.0 if p >= 1 else min(1.0, _wilson(p, n, z_worse, 1))
    return min(low, p), max(high, p)


def _coherence(periods, as_of, window, per_day, p):
    """Return S and the effective number of signals, or None if S is unmeasured."""
    keep = 1 - p["decay_per_day"] / per_day
    memory = window[2] * per_day
    weights = (p["w_corroborated"], p["w_uncorroborated"])
    powers = [keep**age for age in range(memory)]
    remembered = range(max(0, as_of - window[0] * per_day + 1 - memory), as_of)
    good_of = {i: sum(w * c for w, c in zip(weights, periods[i].coherent, strict=True)) for i in remembered}
    top_of = {i: sum(w * n for w, n in zip(weights, periods[i].signals, strict=True)) for i in remembered}
    ends = []
    for t in range(as_of - window[0] * per_day + 1, as_of + 1):
        good = top = 0.0
        for i in range(max(0, t - memory), t):
            good += powers[t - i - 1] * good_of[i]
            top += powers[t - i - 1] * top_of[i]
        if top > 0:
            ends.append((t, good / top, top))
    if not ends:
        return None
    spread = 0.0
    for i in range(max(0, as_of - (window[0] + window[2]) * per_day), as_of):
        a = sum(powers[t - i - 1] / top for t, _, top in ends if t - memory <= i < t) / len(ends)
        spread += a * a * sum(w * w * n for w, n in zip(weights, periods[i].signals, strict=True))
    return sum(ratio for _, ratio, _ in ends) / len(ends), 1 / spread


def _smoothed(counts, pi, alpha):
    """Return the probabilities of bins with pi > 0. Pseudo-counts are distributed in proportion to pi (scoring.md
    §5)."""
    total, kappa = sum(counts), 10 * alpha
    return [(c + kappa * x) / (total + kappa) for c, x in zip(counts, pi, strict=True) if x > 0]


def _kl(p, q):
    return math.fsum(a * math.log(a / b) for a, b in zip(p, q, strict=True))


def _drift(parts, window_parts, icc, p, z_worse, z_better):
    """Return drift as published, centre, upper bound, raw value, raw lower bound and mean design effect; None if
    unmeasured."""
    y = total_kl = null = slope_top = slope_limit = 0.0
    deltas, corrected, effects = [], [], []
    for m, metric in enumerate(METRICS):
        r, b = ([sum(q.histograms[m][i] for day in part for q in day) for i in BINS] for part in parts)
        nr, nb = sum(r), sum(b)
        if min(nr, nb) < max(1, p["drift_min_sample"]):
            continue
        bins_used = sum(i + j > 0 for i, j in zip(r, b, strict=True))
        free = bins_used - 1
        nh = 1 / (1 / nr + 1 / nb)
        pi = [(i + j) / (nr + nb) for i, j in zip(r, b, strict=True)]
        ps, qs = (_smoothed(counts, pi, p["drift_pseudo_count"]) for counts in (r, b))
        kl = max(0.0, _kl(ps, qs))
        # matrix V of both samples and its two moments
        pieces = [_histogram_spread(part, m) for part in parts]
        num, den, _, degrees = (sum(piece[0][i] for piece in pieces) for i in range(4))
        size = sum(piece[2] for piece in pieces)
        v = [[sum(piece[1][i][j] for piece in pieces) / size if size else 0.0 for j in BINS] for i in BINS]
        tr1 = sum(v[i][i] for i in BINS)
        tr2 = sum(v[i][j] ** 2 for i in BINS for j in BINS)
        if den <= 0:
            degrees = 0
        own = num / den if degrees else 0.0
        daily_n = [sum(sum(q.histograms[m]) for q in day) for day in window_parts]
        fl = _fleet_effect(daily_n, icc[metric])
        deff = max(1.0, (degrees * own + 4 * fl) / (degrees + 4))
        t1 = deff * free
        ratio = deff
        t2 = 0.0
        if free > 0:
            shape = 1 / free
            if degrees > 1 and tr1 > 0:
                unbiased = degrees**2 / ((degrees - 1) * (degrees + 2)) * (tr2 - tr1**2 / degrees)
                shape = min(1.0, max(1 / free, unbiased / tr1**2))
            own1 = own * free
            t2 = (degrees**2 * shape * own1**2 + 8 * degrees * fl * own1 + 16 * fl**2 * free) / (
                degrees + 4
            ) ** 2
            t2 = min(t1**2, max(t1**2 / free, t2))
            ratio = t2 / t1
        v1 = (
            math.fsum(a * math.log(a / c) ** 2 for a, c in zip(ps, qs, strict=True)) - _kl(ps, qs) ** 2
        ) / nr
        v1 += (math.fsum(a * a / c for a, c in zip(ps, qs, strict=True)) - 1) / nb
        excess = t1 / (2 * nh)
        y += kl - excess
        total_kl += kl
        null += 2 * t2 / (2 * nh) ** 2
        slope_top += ratio * v1
        slope_limit += ratio * 2 / nh
        corrected.append(max(0.0, kl - excess))
        deltas.append(1 - math.exp(-max(0.0, _kl(ps, qs) - free / 2 * (1 / nr + 1 / nb))))
        effects.append(deff)
    k = len(deltas)
    if not k:
        return None
    slope = slope_top / total_kl if total_kl > 1e-12 else slope_limit / k
    top = sum(1 - math.exp(-x) for x in corrected) / k
    bottom = 1 - math.exp(-sum(corrected) / k)
    r = top / bottom if bottom > 0 else 1.0

    def limit(z, sign):
        f = slope / 4
        return y + 2 * z * z * f + sign * z * math.sqrt(max(0.0, 4 * f * y + 4 * z * z * f * f + null))

    def delta(x):
        return r * (1 - math.exp(-x / k))

    centre = max(0.0, y)
    return (
        sum(deltas) / k,
        delta(centre),
        delta(max(limit(z_worse, 1), centre)),
        delta(y),
        delta(min(limit(z_better, -1), y)),
        sum(effects) / k,
    )


def _neg_log(x):
    return -math.log(x) if x > 0 else math.inf


def counted(periods, as_of, window, p, per_day=1):
    """Return the values that do not depend on the published values of a row."""
    spread = spreads(periods, as_of, window, per_day)
    return spread, _coherence(periods, as_of, window, per_day, p)


def bounds(periods, facts, as_of, window, icc, cv, p, per_day=1, begun=None):
    """Return scores, confidence bounds, components (value, low, high), design effects and interval driver of a row.

    The bounds of the score combine component bounds at 1.645 on the worse side. Published bounds of factors and
    components are at 1.96.
    """
    begun = begun or counted(periods, as_of, window, p, per_day)
    row = (periods, facts, as_of, window, icc, cv, p, per_day, begun)
    combined = _bounds(*row, 1.645)
    return _bounds(*row, 1.96) | {key: combined[key] for key in ("capacity", "drivers")}


def _bounds(periods, facts, as_of, window, icc, cv, p, per_day, begun, z_worse, z_better=1.96):
    parts = _parts(periods, as_of, window, per_day)
    in_window = [q for day in parts[0] for q in day]
    n = sum(q.n for q in in_window)
    spread, measured_s = begun

    rates, effect, components = {}, {}, {}
    for rate in RATES:
        daily = [_daily(day, rate) for day in parts[0]]
        least = 0.1 if rate == "i_coverage" else 1.0
        deff = _design_effect(spread[rate], [k for _, k in daily], icc[rate], least)
        events, trials = math.fsum(y for y, _ in daily), sum(k for _, k in daily)
        if rate == "i_replay":
            if not p["replay_enabled"] or trials < p["replay_min_sample"]:
                rates[rate] = (0.0, 0.0, 0.0)
                continue
            bad = math.fsum(q.n * (q.sampled - q.replayed) / q.sampled for q in in_window if q.sampled) / n
            bad = 0.0 if events == 0 else 1.0 if events == trials else bad
            effective = n * n / math.fsum(q.n**2 / q.sampled for q in in_window if q.sampled)
        elif rate == "s_score":
            if measured_s is None:
                rates[rate] = (1.0, 1.0, 1.0)
                continue
            start = as_of - (window[0] + window[2] - 1) * per_day
            memory = periods[max(0, start) : as_of]
            lost = sum(sum(q.signals) - sum(q.coherent) for q in memory)
            bad = (
                0.0 if lost == 0 else 1.0 if sum(sum(q.coherent) for q in memory) == 0 else 1 - measured_s[0]
            )
            effective = measured_s[1]
        else:
            bad, effective = events / n, n
        effect[rate] = deff
        rates[rate] = (bad, *_rate_bounds(bad, effective / deff, z_worse, z_better))

    # calibration
    judged = [sum(q.judged[b] for q in in_window) for b in BINS]
    wins = [sum(q.successes[b] for q in in_window) for b in BINS]
    conf = [math.fsum(q.confidence[b] for q in in_window) for b in BINS]
    total = sum(judged)
    ece = centre = raw = variance = variance_better = 0.0
    if total:
        effect["ece"] = _design_effect(
            spread["ece"], [sum(sum(q.judged) for q in day) for day in parts[0]], icc["ece"], 1.0
        )
        pbar = (sum(wins) + 2) / (total + 4)
        for b in BINS:
            if not judged[b]:
                continue
            gap = abs(conf[b] - wins[b]) / total
            w = judged[b] / total
            pm = (wins[b] + 2 * w + 2 * pbar) / (judged[b] + 4 * w + 2)
            s2 = effect["ece"] * judged[b] * pm * (1 - pm) / total**2
            q = math.exp(-((gap / (2.5 * math.sqrt(s2))) ** 4)) if gap < 25 * math.sqrt(s2) else 0.0
            ece += gap
            centre += math.sqrt(max(0.0, gap * gap - s2))
            raw += gap - 0.846 * math.sqrt(s2) * q
            variance += s2
            variance_better += s2 * (1 - 0.516 * q)
    ece_high = centre + z_worse * math.sqrt(variance)
    ece_low = raw - z_better * math.sqrt(variance_better)

    lost = 1 - facts.q
    deferral = (lost, lost, lost)
    if facts.n_deferrals:
        deferral = (lost, *_rate_bounds(lost, facts.n_deferrals, z_worse, z_better))

    drifted = _drift(parts, parts[0], icc, p, z_worse, z_better)
    delta, d_centre, d_high, d_raw, d_low, d_effect = drifted or (0.0,) * 5 + (None,)
    if drifted:
        effect["delta_drift"] = d_effect
    s2 = math.log(1 + cv**2 / max(1, facts.n_episodes))
    mttr_low = facts.mttr_hours * min(1.0, math.exp(s2 / 2 - z_better * math.sqrt(s2)))
    mttr_high = facts.mttr_hours * math.exp(s2 / 2 + z_worse * math.sqrt(s2))

    def resilience(d, hours):
        x = (1 - d) / (1 + hours / p["mttr_scale_hours"]) * (1 - facts.rho)
        return 1 / (1 + math.exp(-p["norm_k"] * (x - p["norm_x0"])))

    best, worst = (1 / (1 + math.exp(-p["norm_k"] * (x - p["norm_x0"]))) for x in (1.0, 0.0))

    # Losses by factor: lists of (name, L, L+, B, B-), and of (name, own upper bound) for components estimated as 0.
    def kept(name):
        bad, low, high = rates[name]
        return name, 1 - bad, 1 - high, 1 - bad, 1 - low

    lists = {
        "I_int": [kept("i_chain"), kept("i_coverage"), kept("i_replay")],
        "I_inc": [
            ("ece", 1 - centre, 1 - ece_high, 1 - raw, 1 - ece_low),
            ("q_deferral", 1 - deferral[0], 1 - deferral[2], 1 - deferral[0], 1 - deferral[1]),
            kept("u_unsafe"),
        ],
        "S": [kept("s_score")],
    }
    factors = {
        "C": (
            [
                (name, k * rates[name][0], k * rates[name][2], k * rates[name][0], k * rates[name][1])
                for name, k in (("d_identity", p["lambda_c"]), ("k_contradiction", p["mu_c"]))
            ],
            [],
        )
    }
    for factor, items in lists.items():
        zeros = [(name, min(1.0, up)) for name, v, _, w, up in items if v <= 0 or w <= 0]
        others = [
            (name, _neg_log(v), _neg_log(lo), _neg_log(w), _neg_log(up))
            for name, v, lo, w, up in items
            if v > 0 and w > 0
        ]
        factors[factor] = (others, zeros)
    l_r, b_r = _neg_log(resilience(d_centre, facts.mttr_hours)), _neg_log(resilience(d_raw, facts.mttr_hours))
    factors["R"] = (
        [
            (
                "delta_drift",
                l_r,
                _neg_log(resilience(d_high, facts.mttr_hours)),
                b_r,
                _neg_log(resilience(d_low, facts.mttr_hours)),
            ),
            (
                "mttr_hours",
                0.0,
                _neg_log(resilience(d_centre, mttr_high)) - l_r,
                0.0,
                _neg_log(resilience(d_raw, mttr_low)) - b_r,
            ),
        ],
        [],
    )

    def sides(factor):
        """Return [L, distance, B, distance], and the product of the upper bounds of components estimated as 0, or
        None."""
        others, zeros = factors[factor]
        l_sum, b_sum = sum(o[1] for o in others), sum(o[3] for o in others)
        worse = math.sqrt(sum((o[2] - o[1]) ** 2 for o in others))
        better = math.sqrt(sum((o[3] - o[4]) ** 2 for o in others))
        if factor == "R":
            worse = min(worse, max(0.0, _neg_log(worst) - l_sum))
        return [l_sum, worse, b_sum, better], math.prod(up for _, up in zeros) if zeros else None

    def to_limits(four, upper):
        l_sum, worse, b_sum, better = four
        high = math.exp(-max(0.0, b_sum - better))
        if upper is not None:
            return 0.0, upper * high
        return min(1.0, math.exp(-(l_sum + worse))), high

    good = {name: 1 - bad for name, (bad, _, _) in rates.items()}
    points = {
        "C": math.exp(-p["lambda_c"] * rates["d_identity"][0] - p["mu_c"] * rates["k_contradiction"][0]),
        "I_int": good["i_chain"] * good["i_coverage"] * good["i_replay"],
        "R": resilience(delta, facts.mttr_hours),
        "I_inc": (1 - ece) * facts.q * good["u_unsafe"],
        "S": good["s_score"],
    }
    result = {"factors": {}, "components": components, "effects": effect}
    for factor, point in points.items():
        low, high = to_limits(*sides(factor))
        if factor == "R":
            low, high = max(low, worst), min(high, best)
        result["factors"][factor] = (point, min(low, point), max(high, point))

    # The score combines the losses of all factors.
    floor = p["integrity_floor"]
    four, upper, driver = [0.0, 0.0, 0.0, 0.0], None, []
    for factor in points:
        own, own_upper = sides(factor)
        shrink = 1.0
        if factor == "I_int" and floor > 0:
            low, high = to_limits(own, own_upper)
            most = -math.log(floor)
            worse_centre = most if own_upper is not None else min(own[0], most)
            better_centre = most if own_upper is not None else min(own[2], most)
            floored = [
                worse_centre,
                -math.log(max(low, floor)) - worse_centre,
                better_centre,
                max(0.0, better_centre + math.log(max(high, floor))),
            ]
            shrink = floored[1] / own[1] if 0 < own[1] < math.inf else 1.0
            own, own_upper = floored, None
        four[0] += own[0]
        four[1] = math.hypot(four[1], own[1])
        four[2] += own[2]
        four[3] = math.hypot(four[3], own[3])
        if own_upper is not None:
            upper = own_upper * (1 if upper is None else upper)
        others, zeros = factors[factor]
        if shrink > 0:
            driver += [(name, math.inf) for name, _ in zeros]
            driver += [(o[0], (o[2] - o[1]) * shrink) for o in others]
    result["losses"] = (four, upper)
    capacity = math.prod(max(point, floor) if f == "I_int" else point for f, point in points.items())
    low, high = to_limits(four, upper)
    if n >= p["min_traces"]:
        result["capacity"] = (capacity, min(low, capacity), max(min(high, best), capacity))
        widest = max(width for _, width in driver)
        result["drivers"] = {
            name for name, width in driver if width == widest or width >= widest * (1 - 1e-9)
        }
        if widest <= 0:
            result["drivers"] = {None}
    else:
        result["capacity"] = None
        result["drivers"] = {None}

    for name in ("d_identity", "k_contradiction", "u_unsafe"):
        components[name] = rates[name]
    for name in ("i_chain", "i_coverage", "i_replay", "s_score"):
        bad, low, high = rates[name]
        components[name] = (1 - bad, 1 - high, 1 - low)
    components["delta_drift"] = (delta, max(0.0, d_low), d_high)
    components["mttr_hours"] = (facts.mttr_hours, mttr_low, mttr_high)
    wide = centre + 1.6 * (ece_high - centre)
    components["ece"] = (ece, min(1.0, max(0.0, ece_low)), min(1.0, wide))
    components["q_deferral"] = (facts.q, 1 - deferral[2], 1 - deferral[1])
    for name, (value, low, high) in components.items():
        components[name] = (value, min(low, value), max(high, value))
    return result
