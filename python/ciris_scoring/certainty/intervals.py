"""95 % interval of the capacity score (certainty.md §3): the range that chance alone explains.

A score is exp(−loss), and its loss is a sum over components. Each component has an expected loss and a variance, from
counts that are divided by the agent's design effects. The loss beyond the fixed cost of R is taken as log-normal with
the mean and variance of the sum. Unmeasured components have no variance, so they do not widen an interval.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ciris_scoring.certainty.inputs import EVENT_UNITS, RATES, Counts, Scores
from ciris_scoring.certainty.losses import Part, loss_of_r, part_of_rate, r_ceiling_loss, total_loss
from ciris_scoring.kinds.components import COMPONENT_ROWS
from ciris_scoring.long_run import NORMAL_TO_95
from ciris_scoring.windows.arrays import Floats, Integers, between, ratio, running_total
from ciris_scoring.windows.drift import smoothed
from ciris_scoring.windows.run import Parameters, Window
from ciris_scoring.windows.sums import CONFIDENCE_UNITS

COMPONENTS = tuple(one.component for one in COMPONENT_ROWS if one.has_interval)
"""Components that widen an interval. ``rho_regression`` does not: its observed value is used as if it were exact."""
RATE_EVENTS, RATE_MEAN = 0.5, 0.02
"""Prior of a rate: weight of half an event (Jeffreys 1946, Proc. R. Soc. A 186, 453–461), mean 2 %."""
QUALITY_EVENTS, QUALITY_MEAN = 0.5, 0.2
"""Prior of the lost value of a deferral: weight of half an event, mean 0.2."""
SPREAD = 1.1
"""Factor of the standard deviation of the logarithm of the loss. Set by simulation, so that 95 % intervals contain the
truth in 92 to 97 % of cases (docs/measuring.md, "Intervals")."""
MEMORY_OF_SIGNALS = 0.8
"""Effective share of the signals in the memory of S: older signals weigh less."""


class Intervals(NamedTuple):
    """Confidence bounds of n rows, which contain the published value; NaN without a score."""

    capacity_score_low: Floats
    capacity_score_high: Floats
    interval_driver: NDArray[np.int64]
    """Index in ``COMPONENTS`` of the component with the largest variance; −1 without a score or a variance."""


def compute_intervals(
    counts: Counts,
    rows: Scores,
    windows: tuple[Window, ...],
    effect: Floats,
    episode_cv: Floats,
    parameters: Parameters,
    per_day: int = 1,
) -> Intervals:
    """Compute the confidence bounds of n scores, from counts over the lookback horizon, the design effects of the
    agents, (n, 8), and the fleet's coefficient of variation of episode durations, (n,)."""
    days, baseline, memory = (
        np.array([getattr(window, f"{name}_days") for window in windows])[rows.window] * per_day
        for name in ("window", "baseline", "coherence")
    )
    start = rows.as_of - days

    def within(per_period: Integers, first: Integers, last: Integers = rows.as_of) -> Floats:
        return between(running_total(per_period), rows.agent, first, last).astype(np.float64)

    bad, trials = within(counts.events, start) * EVENT_UNITS / effect, within(counts.trials, start) / effect
    at = RATES.index("s_score")
    trials[:, at] = MEMORY_OF_SIGNALS * within(counts.trials[..., at], rows.as_of - memory) / effect[:, at]
    bad[:, at] = (1 - rows.of("s_score")) * trials[:, at]
    parts = {name: _rate(name, bad[:, i], trials[:, i], parameters) for i, name in enumerate(RATES)}
    parts["i_replay"] = parts["i_replay"].where(rows.is_replay_measured > 0)
    # An unmeasured S is 0, and so is the score.
    loss = np.where(rows.is_s_measured, parts["s_score"].loss, np.inf)
    parts["s_score"] = parts["s_score"].where(rows.is_s_measured > 0)._replace(loss=loss)
    judged, successes, confidence = (within(one, start) for one in (counts.judged, counts.successes, counts.confidence))
    parts["ece"] = _calibration(judged, successes, confidence / CONFIDENCE_UNITS, effect[:, -1])
    histograms = within(counts.histograms, start), within(counts.histograms, start - baseline, start)
    r = _resilience(rows, *histograms, effect.mean(axis=-1), episode_cv, parameters)
    parts |= dict(zip(("delta_drift", "mttr_hours"), r, strict=True))
    deferrals = rows.n_judged_deferrals.astype(np.float64)
    total = deferrals + QUALITY_EVENTS / QUALITY_MEAN
    lost = _share((1 - rows.of("q_deferral")) * deferrals, total, QUALITY_EVENTS)
    parts["q_deferral"] = part_of_rate("q_deferral", *lost, parameters).where(deferrals > 0)

    loss_of_row = total_loss(parts, parameters)
    spread = NORMAL_TO_95 * SPREAD * loss_of_row.log_sd
    fixed = r_ceiling_loss(parameters)
    low, high = (np.exp(-(fixed + loss_of_row.beyond * np.exp(side * spread))) for side in (1, -1))
    by_component = np.stack([loss_of_row.variances[name] for name in COMPONENTS], axis=-1)
    has_driver = ~np.isnan(rows.capacity_score) & (by_component.max(axis=-1) > 0)
    return Intervals(
        np.minimum(low, rows.capacity_score),
        np.maximum(high, rows.capacity_score),
        np.where(has_driver, by_component.argmax(axis=-1), -1),
    )


def _share(bad: Floats, total: Floats, events: float) -> tuple[Floats, Floats]:
    """Return mean and variance of a share with a beta prior of a number of bad events; ``total`` includes the prior."""
    value = (bad + events) / total
    return value, value * (1 - value) / (total + 1)


def _rate(name: str, bad: Floats, trials: Floats, parameters: Parameters) -> Part:
    """Return the loss of a rate. The higher the observed share, the less the prior's good events weigh: with bad events
    only, the prior is Jeffreys'."""
    good = (RATE_EVENTS / RATE_MEAN - 2 * RATE_EVENTS) * (1 - ratio(bad, trials))
    return part_of_rate(name, *_share(bad, trials + 2 * RATE_EVENTS + good, RATE_EVENTS), parameters)


def _calibration(judged: Floats, successes: Floats, confidence: Floats, effect: Floats) -> Part:
    """Return the loss by ECE. Chance makes gaps larger, so the variance is taken off each squared gap."""
    n = np.maximum(judged.sum(axis=-1, keepdims=True), 1)
    success = (successes + 1) / (judged + 2)
    variance = success * (1 - success) * judged * effect[:, None] / n**2
    gap = np.abs(confidence - successes) / n
    ece = np.minimum(np.sqrt(np.maximum(gap**2 - variance, 0)).sum(axis=-1), 0.99)
    return Part(-np.log1p(-ece), variance.sum(axis=-1) / (1 - ece) ** 2)


def _resilience(
    rows: Scores, recent: Floats, baseline: Floats, effect: Floats, episode_cv: Floats, parameters: Parameters
) -> tuple[Part, Part]:
    """Return the loss of R, counted as the loss by drift, with the variance by drift, and the variance by the time to
    recovery, from histograms of window and baseline, (n, 3, 10).

    KL has the variance f(Σp(ln(p/q) − KL)²/n_r + Σ((p − q)²/q)/n_b) by drift, and (m − 1)e²/2 without drift, with e =
    f(1/n_r + 1/n_b), for the design effect f and m bins that are used.
    """
    n_r, n_b = recent.sum(axis=-1), baseline.sum(axis=-1)
    p, q = smoothed(recent, baseline, parameters.drift_pseudo_count)
    log_ratio = np.log(ratio(p, q, 1.0))
    kl = (p * log_ratio).sum(axis=-1)
    measured = np.minimum(n_r, n_b) >= parameters.drift_min_sample
    free = np.count_nonzero(recent + baseline, axis=-1) - 1
    f, one = effect[:, None], np.ones_like(n_r)
    e = f * (ratio(one, n_r) + ratio(one, n_b))
    of_recent = (p * (log_ratio - kl[..., None]) ** 2).sum(axis=-1)
    of_drift = ratio(of_recent, n_r) + ratio(ratio((p - q) ** 2, q).sum(axis=-1), n_b)
    corrected = np.where(measured, np.maximum(kl - free * e / 2, 0), 0.0)
    some = np.maximum(measured.sum(axis=-1), 1)
    variance = np.where(measured, f * of_drift + free * e**2 / 2, 0.0)
    sd = np.sqrt((np.exp(-2 * corrected) * variance).sum(axis=-1)) / some
    drift = -np.expm1(-corrected).sum(axis=-1) / some

    relapses, mttr = rows.of("rho_regression"), rows.of("mttr_hours")

    def loss(delta: Floats, hours: Floats) -> Floats:
        return loss_of_r(np.clip(delta, 0, 1), hours, relapses, parameters)

    down = np.minimum(drift, sd)
    slope = ratio(loss(drift + sd, mttr) - loss(drift - down, mttr), sd + down)
    of_hours = np.exp(np.sqrt(np.log1p(episode_cv**2 / np.maximum(rows.n_episodes, 1))))
    longer, shorter = (loss(drift, hours) for hours in (mttr * of_hours, mttr / of_hours))
    return (
        Part(loss(drift, mttr), (slope * sd) ** 2),
        Part(np.zeros(len(drift)), ((longer - shorter) / 2) ** 2),
    )
