"""Find when an agent's behaviour became worse, for the alert ``falling`` (certainty.md §4, which defines all constants;
docs/measuring.md, "Alarms", was measured with them).

The method is a window-limited CUSUM (Page 1954, Biometrika 41, 100–115; Lai 1995, Journal of the Royal Statistical
Society B 57, 613–658). For each of the last ``RECENT_DAYS``, it computes the log likelihood ratio of a change on that
day against no change. The behaviour without a change is that of the base: up to ``BASE_DAYS`` before the recent days.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from ciris_scoring.certainty.design_effects import effect_of_steps, squared_steps
from ciris_scoring.certainty.inputs import (
    COUNTED,
    EVENT_UNITS,
    RATES,
    Counts,
    Present,
    Sides,
    day_sums,
    nested,
    totals_of_days,
)
from ciris_scoring.certainty.losses import loss_of_rate, penalty
from ciris_scoring.certainty.steady import LEAST_VARIANCE
from ciris_scoring.windows.arrays import Booleans, Floats, Integers, between, ratio
from ciris_scoring.windows.run import Parameters
from ciris_scoring.windows.sums import CONFIDENCE_UNITS

RECENT_DAYS, BASE_DAYS = 42, 90
"""Number of days in which a change is searched for, and number of earlier days, the base, with which they are compared.
Their sum of 132 days is the lookback horizon of traces."""
TIMES, GAPS = (2, 3, 6), (0.05, 0.10)
"""Sizes of changes that are tried: factors by which the odds of a bad event grow, and amounts by which the gap between
confidence and success rate grows."""
ABOVE = 0.7
"""Number of standard errors added to the rate or gap of the base, because the estimate may be too small."""
MOST_BEFORE, MOST_AFTER = 0.9, 0.95
"""Largest rate before a change, and largest rate or gap from which losses are computed."""
LEAST_GROWTH, DECIMALS = 0.02, 12
"""Smallest growth, after rounding to some decimals, that counts as a change: of the loss of a rate that changes alone,
or of the gap between confidence and success rate."""
EFFECT_WEIGHT = 0.5
"""Weight, in degrees of freedom, of the design effect of days when the design effect of weeks is shrunk towards it. Set
by simulation (docs/measuring.md, "Alarms")."""


class Change(NamedTuple):
    """The most likely change for the worse of n pairs of an agent and an as-of; (n,) each: its log likelihood ratio
    against constant behaviour, 0 if that is likelier; days from it to the as-of; the scores in the base and since it,
    if only the components in ``COUNTED`` lowered them; and the component whose loss grew most."""

    ratio: Floats
    days: Integers
    kept_before: Floats
    kept_now: Floats
    component: Integers


def behaviour_changes(counts: Counts, present: Present, parameters: Parameters, per_day: int) -> Change:
    """Find the most likely change for the worse in the last ``RECENT_DAYS`` before the as-of of each pair, from counts
    over ``RECENT_DAYS + BASE_DAYS`` before it."""
    both = len(COUNTED)
    confidence = counts.confidence.sum(axis=-1, keepdims=True)
    per_period = np.concatenate([counts.events, counts.trials, confidence], axis=-1)
    recent, weeks = range(1, RECENT_DAYS + 1), range(RECENT_DAYS + 7, RECENT_DAYS + BASE_DAYS + 1, 7)
    since = nested(per_period, present.pairs, (*recent, *weeks, RECENT_DAYS + BASE_DAYS), per_day)
    sides = Sides(since[:, :RECENT_DAYS], since[:, -1] - since[:, RECENT_DAYS - 1])
    bad = Sides(*(of[..., : both - 1] * EVENT_UNITS[:-1] for of in sides))
    trials = Sides(*(of[..., both : 2 * both - 1] for of in sides))
    if not parameters.replay_enabled:
        trials.before[:, RATES.index("i_replay")] = 0
    good, checked, confident = (Sides(*(of[..., at] for of in sides)) for at in (both - 1, 2 * both - 1, -1))
    excess = Sides(*(a / CONFIDENCE_UNITS - b for a, b in zip(confident, good, strict=True)))
    weights = np.array([penalty(rate, parameters) or 1.0 for rate in RATES])
    of_week = np.diff(since[:, RECENT_DAYS - 1 : -1], axis=1)
    effect = np.maximum(present.effect, _weekly_effects(of_week, present.effect))
    # The traces of a busy day are clustered more than those of other days.
    of_day, until = day_sums(counts.trials, per_day), present.pairs.as_of[:, None]
    squares = totals_of_days(of_day * of_day, per_day)
    squares = between(squares, present.pairs.agent[:, None], until - np.array(recent) * per_day, until)
    busy = ratio(ratio(squares, since[:, :RECENT_DAYS, both : 2 * both]), present.per_day[:, None], 1.0)
    effects = Sides(effect[:, None] + np.maximum(effect[:, None] - 1, 0) * np.maximum(busy - 1, 0), effect)

    alone, all_rates = _of_rates(bad, trials, Sides(*(of[..., :-1] for of in effects)), weights)
    best = np.maximum(alone, all_rates)
    for gap, gap_ratio in _of_gaps(excess, checked, good.before, Sides(*(of[..., -1] for of in effects))):
        best = np.maximum(best, gap_ratio)
        if gap == GAPS[0]:
            best = np.maximum(best, all_rates + gap_ratio)
    day = np.argmax(best, axis=1)
    pair = np.arange(len(day))

    before = _losses(bad.before, trials.before, excess.before, checked.before, parameters)
    bad_now, trials_now, excess_now, checked_now = (of.now[pair, day] for of in (bad, trials, excess, checked))
    now = _losses(bad_now, trials_now, excess_now, checked_now, parameters)
    measured = np.column_stack([trials.before, checked.before]) > 0
    measured &= np.column_stack([trials_now, checked_now]) > 0
    before, now = np.where(measured, before, 0.0), np.where(measured, now, 0.0)
    return Change(
        ratio=np.maximum(best[pair, day], 0.0),
        days=day + 1,
        kept_before=np.exp(-before.sum(axis=-1)),
        kept_now=np.exp(-now.sum(axis=-1)),
        component=np.argmax(now - before, axis=-1),
    )


def _weekly_effects(of_week: Floats, effect: Floats) -> Floats:
    """Return design effects of the base, (n, 8), from differences of neighbouring weeks, which contain the variation
    over several days, too. ``of_week`` has numbers of events, then of trials, (n, weeks, 17)."""
    y, n = of_week[..., : len(COUNTED)] * EVENT_UNITS, of_week[..., len(COUNTED) : 2 * len(COUNTED)]
    squares, both = squared_steps(ratio(y, n), n)
    share = ratio(y.sum(axis=1), n.sum(axis=1))
    return effect_of_steps(squares.sum(axis=1), both.sum(axis=1), effect, share * (1 - share), EFFECT_WEIGHT)


def _of_rates(bad: Sides, trials: Sides, effect: Sides, weights: Floats) -> tuple[Floats, Floats]:
    """Return the log likelihood ratios of a change on each day, (n, days): the largest ratio of a change of one rate
    alone, and the ratio of a doubling of all rates."""
    y, n = bad.before / effect.before, trials.before / effect.before
    rate = np.minimum(ratio(y + ABOVE * np.sqrt(y) + 0.5, n, MOST_BEFORE), MOST_BEFORE)
    y_now, n_now = bad.now / effect.now, trials.now / effect.now
    largest, all_rates = np.full(y_now.shape[:2], -np.inf), np.zeros(y_now.shape[:2])
    for times in TIMES:
        higher = times * rate / (1 + (times - 1) * rate)
        of_bad, of_good = np.log(higher / rate), np.log((1 - higher) / (1 - rate))
        found = y_now * (of_bad - of_good)[:, None] + n_now * of_good[:, None]
        found = np.where((n > 0)[:, None], found, 0.0)
        if times == TIMES[0]:
            all_rates = found.sum(axis=-1)
        matters = np.round((higher - rate) * weights, DECIMALS) > LEAST_GROWTH
        largest = np.maximum(largest, np.where(matters[:, None], found, -np.inf).max(axis=-1))
    return largest, all_rates


def _of_gaps(excess: Sides, checked: Sides, good_before: Floats, effect: Sides) -> Iterator[tuple[float, Floats]]:
    """Yield each size of ``GAPS``, once per direction, with the log likelihood ratio of a gap that changed by this size
    on each day, (n, days). The ratio is 0 where the change would not make the gap larger by ``LEAST_GROWTH``."""
    n = checked.before
    share = ratio(good_before, n)
    variance = np.maximum(share * (1 - share), LEAST_VARIANCE)
    before, error = ratio(excess.before, n), np.sqrt(ratio(variance * effect.before, n))
    for gap in GAPS:
        for sign in (1, -1):
            level = before + sign * ABOVE * error
            growth = np.round(np.abs(level + sign * gap) - np.abs(level), DECIMALS)
            grows: Booleans = (n > 0) & (growth > LEAST_GROWTH)
            found = sign * (excess.now - checked.now * level[:, None]) - checked.now * gap / 2
            yield gap, np.where(grows[:, None], gap * found / (variance[:, None] * effect.now), 0.0)


def _losses(bad: Floats, trials: Floats, excess: Floats, checked: Floats, parameters: Parameters) -> Floats:
    """Return the loss of each component in ``COUNTED``, (n, 8)."""
    shares = np.column_stack([ratio(bad, trials), np.abs(ratio(excess, checked))])
    of_parts = zip(COUNTED, np.minimum(shares, MOST_AFTER).T, strict=True)
    return np.column_stack([loss_of_rate(part, share, parameters) for part, share in of_parts])
