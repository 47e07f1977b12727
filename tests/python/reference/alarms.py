"""Reference implementation of the alerts ``falling`` (since a day) and ``episode`` (``docs/certainty.md`` §4), one
agent and as-of at a time.

It uses the standard library only, and follows the text: lists of days, no running totals, no arrays.
"""

from __future__ import annotations

import itertools
import math
from typing import Any, NamedTuple

from reference.intervals import RATES, Period, _daily
from reference.long_run import Events, _effect

RECENT, BASE = 42, 90


class Change(NamedTuple):
    ratio: float
    days: int
    kept_before: float
    kept_now: float
    component: str


class Worse(NamedTuple):
    z: float
    kind: str
    days: int
    now: float | None
    before: float | None


def change(periods: list[Period], as_of: int, icc: dict[str, float], p: Any, per_day: int) -> Change:
    """Return the most likely change for the worse in the last 42 days."""
    days = [
        [periods[i] for i in range(as_of - (d + 1) * per_day, as_of - d * per_day) if i >= 0]
        for d in range(RECENT + BASE)
    ]
    weight = {"d_identity": p["lambda_c"], "k_contradiction": p["mu_c"]}
    alone: list[list[float]] = []
    doubled = [0.0] * RECENT
    counts = {name: [_daily(day, name) for day in days] for name in RATES}
    for name, of in counts.items():
        daily = _effect(
            _ninety_one(periods, as_of, per_day, name), icc[name], 0.1 if name == "i_coverage" else 1.0
        )
        effect = _with_weeks(daily, of)
        y, n = (math.fsum(day[k] for day in of[RECENT:]) / effect for k in (0, 1))
        if not n or (name == "i_replay" and not p["replay_enabled"]):
            continue
        since = [[math.fsum(day[k] for day in of[:d]) for k in (0, 1)] for d in range(1, RECENT + 1)]
        before = min((y + 0.7 * math.sqrt(y) + 0.5) / n, 0.9)
        for times in (2, 3, 6):
            after = min(times * before, 0.95)
            ratios = [
                (bad * math.log(after / before) + (trials - bad) * math.log((1 - after) / (1 - before)))
                / effect
                for bad, trials in since
            ]
            if times == 2:
                doubled = [a + b for a, b in zip(doubled, ratios, strict=True)]
            if (after - before) * weight.get(name, 1) > 0.02:
                alone.append(ratios)
    found = [*alone, doubled]
    checked = [sum(sum(q.judged) for q in day) for day in days]
    good = [sum(sum(q.successes) for q in day) for day in days]
    excess = [math.fsum(math.fsum(q.confidence) for q in day) - good[d] for d, day in enumerate(days)]
    n = sum(checked[RECENT:])
    if n:
        share = sum(good[RECENT:]) / n
        counted = [(float(y), trials) for y, trials in zip(good, checked, strict=True)]
        effect = _with_weeks(_effect(counted[:91], icc["ece"], 1.0), counted)
        variance = max(share * (1 - share), 0.02) * effect
        gap_before = math.fsum(excess[RECENT:]) / n
        for gap in (0.05, 0.1):
            for sign in (1, -1):
                level = gap_before + sign * 0.7 * math.sqrt(variance / n)
                if abs(level + sign * gap) <= abs(level) + 0.02:
                    continue
                ratios = [
                    gap
                    * (sign * (math.fsum(excess[:d]) - sum(checked[:d]) * level) - sum(checked[:d]) * gap / 2)
                    / variance
                    for d in range(1, RECENT + 1)
                ]
                found.append(ratios)
                if gap == 0.05:
                    found.append([a + b for a, b in zip(doubled, ratios, strict=True)])
    best = [max(ratios[d] for ratios in found) for d in range(RECENT)]
    d = max(range(RECENT), key=best.__getitem__) + 1

    losses: dict[str, tuple[float, float]] = {}
    for name, of in counts.items():
        sides = [[sum(day[k] for day in some) for k in (0, 1)] for some in (of[RECENT:], of[:d])]
        if all(n for _, n in sides) and (name != "i_replay" or p["replay_enabled"]):
            rates = [min(y / n, 0.95) for y, n in sides]
            losses[name] = tuple(  # type: ignore[assignment]
                weight[name] * rate if name in weight else -math.log(1 - rate) for rate in rates
            )
    if n and sum(checked[:d]):
        gaps = (math.fsum(excess[RECENT:]) / n, math.fsum(excess[:d]) / sum(checked[:d]))
        losses["ece"] = tuple(-math.log(1 - min(abs(gap), 0.95)) for gap in gaps)  # type: ignore[assignment]
    kept = [math.exp(-math.fsum(loss[side] for loss in losses.values())) for side in (0, 1)]
    rises = {name: losses[name][1] - losses[name][0] if name in losses else 0.0 for name in (*RATES, "ece")}
    return Change(max(best[d - 1], 0.0), d, *kept, max(rises, key=rises.__getitem__))


def _with_weeks(daily: float, counts: list[tuple[float, int]]) -> float:
    """Return the larger one of a design effect and that of the twelve weeks before the last 42 days."""
    weeks = []
    for first in range(RECENT, RECENT + 84, 7):
        days = counts[first : first + 7]
        weeks.append((math.fsum(y for y, _ in days), sum(n for _, n in days)))
    trials = sum(n for _, n in weeks)
    share = math.fsum(y for y, _ in weeks) / trials if trials else 0.0
    variance = share * (1 - share)
    if variance <= 1e-15:
        return daily
    squares, pairs = 0.0, 0
    for (y, n), (z, m) in itertools.pairwise(weeks):
        if n and m:
            squares += n * m / (n + m) * (y / n - z / m) ** 2
            pairs += 1
    return max(daily, (squares / 1.5 + 10 * daily * variance) / ((pairs / 1.5 + 10) * variance))


def _ninety_one(periods: list[Period], as_of: int, per_day: int, name: str) -> list[tuple[float, int]]:
    return [
        _daily([periods[i] for i in range(as_of - (d + 1) * per_day, as_of - d * per_day) if i >= 0], name)
        for d in range(91)
    ]


def _term(count: float, expected: float) -> float:
    return count * math.log(count / expected) if count > 0 else 0.0


def worse_events(events: Events, cv: float) -> Worse:
    """Return the most significant change for the worse of episodes and deferrals."""
    found: dict[str, list[Worse]] = {"longer": [], "more_often": [], "judged_worse": []}
    for days in (4, 7, 14, 28, 42):
        logs = [log for age, log, _ in events.episodes if age < days]
        if events.open_log_hours is not None:
            logs.append(events.open_log_hours)
        logs_before = [log for age, log, _ in events.episodes if days <= age < days + BASE]
        n, m = len(logs), len(logs_before)
        z = 0.0
        if n and m:
            mean, mean_before = math.fsum(logs) / n, math.fsum(logs_before) / m
            spread = math.fsum((log - mean_before) ** 2 for log in logs_before)
            variance = (10 * math.log(1 + cv * cv) + spread) / (10 + m - 1)
            t = max((mean - mean_before) / math.sqrt(variance * (1 / n + 1 / m)), 0.0)
            z = math.sqrt((10 + m - 1) * math.log(1 + t * t / (10 + m - 1)))
        typical = [math.exp(math.fsum(some) / len(some)) if some else 1.0 for some in (logs, logs_before)]
        found["longer"].append(Worse(z, "longer", days, *typical))

        t = min(days, events.days)
        s = min(days + BASE, events.days) - t
        e, f = (n + m) * t / (t + s), (n + m) * s / (t + s)
        z = math.sqrt(max(2 * (_term(n, e) + _term(m, f)), 0)) if n >= 2 and n > e else 0.0
        found["more_often"].append(Worse(z, "more_often", days, n, m * t / s if s else 0.0))

        values = [value for age, value in events.deferrals if age < days]
        values_before = [value for age, value in events.deferrals if days <= age < days + BASE]
        y, k = math.fsum(1 - value for value in values), len(values)
        x, j = math.fsum(1 - value for value in values_before) + 0.25, len(values_before) + 0.5
        share = (x + y) / (j + k)
        z = 0.0
        if y > k * share:
            parts = ((y, k * share), (k - y, k * (1 - share)), (x, j * share), (j - x, j * (1 - share)))
            z = math.sqrt(max(2 * math.fsum(_term(a, b) for a, b in parts), 0))
        means = [math.fsum(some) / len(some) if some else None for some in (values, values_before)]
        found["judged_worse"].append(Worse(z, "judged_worse", days, *means))
    best = max((one for ones in found.values() for one in ones), key=lambda one: one.z)
    return best if best.z > 0 else best._replace(now=None, before=None)
