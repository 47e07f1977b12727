"""The steady score: the expected score of a window under the agent's present behaviour (certainty.md §4b).

Each component is estimated by :mod:`change_points` from the sums of nested windows that end at the as-of. The losses of
the components are added, and the loss beyond the fixed cost of R is taken as log-normal. Drift is not part of it, as it
describes a difference between two windows. Sums are int64, so a result does not depend on where the arrays begin.
"""

import math
from typing import NamedTuple

import numpy as np
from numpy.polynomial.hermite_e import hermegauss

from ciris_scoring.certainty.change_points import PresentValue, frequencies, means, rates
from ciris_scoring.certainty.events import days_observed, deferral_sums, episode_sums, variance_of_log_hours
from ciris_scoring.certainty.inputs import EVENT_UNITS, RATES, Counts, Present, nested
from ciris_scoring.certainty.intervals import QUALITY_EVENTS, QUALITY_MEAN, RATE_EVENTS, RATE_MEAN
from ciris_scoring.certainty.losses import OF_FACTOR, Part, loss_of_norm, part_of_rate, total_loss
from ciris_scoring.windows.arrays import Booleans, Floats, ratio
from ciris_scoring.windows.run import Parameters
from ciris_scoring.windows.sums import CONFIDENCE_UNITS, Events

TRACE_WINDOWS = (3, 7, 14, 28, 56, 90, 132)
"""Lengths in days of the nested windows of traces. The last length is the lookback horizon. With twelve windows, the
error of the steady score in the simulated year (docs/measuring.md, "A year") changed by less than 0.001."""
EVENT_WINDOWS = (7, 14, 28, 56, 112, 224, 364)
"""Lengths in days of the nested windows of episodes and deferrals. In the simulated year, the error of the steady score
for the window of 30 days was 0.055 with these lengths, and 0.059 with lengths up to 132 days."""
EVENT_WEIGHT, EPISODES_PER_DAY, DEFERRALS_PER_DAY = 1.0, 0.03, 0.3
"""Priors of the frequencies of episodes and deferrals: weight of one event, means of one episode a month and two
deferrals a week. With the weight of half an event, agents that saw no outage in 364 days get a probability that is too
high (docs/measuring.md, "Priors of events")."""
LOG_HOURS_MEAN, LOG_HOURS_VARIANCE = -1.0, 2.0
"""Prior of the mean logarithm of the hours of an episode: about 20 minutes, 95 % from 1.3 minutes to 6 hours."""
GAP_MEAN, GAP_VARIANCE = 0.03, 0.01
"""Prior of confidence minus success rate of a bin: mean 0.03, standard deviation 0.1."""
SAME_MODE, MODE_PAIRS = 1.0, 4.0
"""Prior of the share of episodes that repeat the previous episode's failure mode: one in four."""
SHARE_WINDOW = TRACE_WINDOWS.index(14)
"""Index in ``TRACE_WINDOWS`` of the window for the shares of the bins of ECE."""
LEAST_VARIANCE = 0.02
"""Smallest variance of an outcome in a bin of confidence: the variance at a success rate of 98 % or 2 %."""
SPREAD = (1.0, 2.2)
"""Factors of the σ of the log-normal distribution of the loss: it is multiplied by SPREAD[0] + SPREAD[1] · y², where y
is the probability that any component changed in the last 14 days. Set by simulation, so that intervals contain the long
run on 92 to 97 % of agent-days, and on 87 % or more in the 14 days after a change (docs/measuring.md, "A year")."""
MOST_EPISODES = 12
"""Largest number of episodes in a window for which R is computed. A larger number counts as this number."""
NODES, NODE_WEIGHTS = (values / scale for values, scale in zip(hermegauss(5), (1.0, np.sqrt(2 * np.pi)), strict=True))
"""Gauss-Hermite quadrature for a standard normal distribution (certainty.md §4b, "R")."""


class LongRun(NamedTuple):
    """Steady score of n pairs of an agent and an as-of, for one length of window; (n,) each."""

    factors: Floats
    """(n, 5) C, I_int, R, I_inc and S."""
    beyond: Floats
    """Loss beyond the fixed cost of R; infinite without a signal, where the score is 0."""
    log_sd: Floats
    """Standard deviation of the logarithm of this loss; 0 if the score is 0."""

    def at(self, z: float, fixed_loss: float) -> Floats:
        """Return the score z standard deviations of the loss away from the steady score, which is at 0."""
        return np.exp(-(fixed_loss + self.beyond * np.exp(z * self.log_sd)))


def long_run(
    counts: Counts, events: Events, present: Present, window_days: tuple[int, ...], parameters: Parameters, per_day: int
) -> list[LongRun]:
    """Estimate the steady score of each pair in ``present``, for each length of window in days (certainty.md §4b), from
    counts of ``TRACE_WINDOWS[-1]`` and events of ``EVENT_WINDOWS[-1]`` days."""
    bad, trials, unmeasured = _rate_sums(counts, present, parameters, per_day)
    found = rates(bad, trials, RATE_EVENTS, RATE_MEAN, TRACE_WINDOWS)
    parts = {}
    for at, rate in enumerate(RATES):
        mean, variance, recent = (values[:, at] for values in found)
        parts[rate] = part_of_rate(rate, mean, variance, parameters, recent).where(~unmeasured[:, at])
    parts["ece"] = _calibration(counts, present, parameters, per_day)
    frequency, hours, variance, modes = _episodes(events, present, per_day)
    often, lost = _deferrals(events, present, per_day)
    no_signal = unmeasured[:, RATES.index("s_score")]
    result = []
    for days in window_days:
        parts["mttr_hours"] = _loss_of_episodes(frequency, hours, variance, modes, days, parameters)
        parts["q_deferral"] = _loss_of_deferrals(often, lost, days)
        result.append(_together(parts, no_signal, parameters))
    return result


def _together(parts: dict[str, Part], no_signal: Booleans, parameters: Parameters) -> LongRun:
    """Add the losses of the components, and return the factors, the score and its interval."""
    of_factor = [sum(parts[one].loss for one in components if one in parts) for components in OF_FACTOR.values()]
    factors = np.exp(-np.stack(of_factor, axis=-1))
    factors[:, 4] = np.where(no_signal, 0.0, factors[:, 4])
    loss = total_loss(parts, parameters)
    recent = 1 - math.prod(1 - part.recent for part in parts.values())
    log_sd = np.where(no_signal, 0.0, loss.log_sd * (SPREAD[0] + SPREAD[1] * recent**2))
    return LongRun(factors, np.where(no_signal, np.inf, loss.beyond), log_sd)


def _rate_sums(
    counts: Counts, present: Present, parameters: Parameters, per_day: int
) -> tuple[Floats, Floats, Booleans]:
    """Return the numbers of bad events and of trials of each rate in the nested windows, divided by the design effect,
    (n, windows, 7) each, and whether each rate is unmeasured, (n, 7)."""
    width = len(RATES)
    per_period = np.concatenate([counts.events[..., :width], counts.trials[..., :width], counts.signals], axis=-1)
    found = nested(per_period, present.pairs, TRACE_WINDOWS, per_day)
    bad, trials = found[..., :width] * EVENT_UNITS[:width], found[..., width : 2 * width]
    unmeasured = trials[:, -1] == 0
    unmeasured[:, RATES.index("i_replay")] |= not parameters.replay_enabled

    # Signals count with their weights. Unequal weights lower the effective number of signals.
    effect, at = present.effect[:, :width].copy(), RATES.index("s_score")
    high, low = parameters.w_corroborated, parameters.w_uncorroborated
    bad[..., at] = high * found[..., -4] + low * found[..., -3]
    trials[..., at] = high * found[..., -2] + low * found[..., -1]
    squares = high**2 * found[:, -1, -2] + low**2 * found[:, -1, -1]
    effect[:, at] *= ratio(squares, trials[:, -1, at], 1.0)
    return bad / effect[:, None], trials / effect[:, None], unmeasured


def _calibration(counts: Counts, present: Present, parameters: Parameters, per_day: int) -> Part:
    """Return the loss by ECE, the expected sum of absolute gaps."""
    per_period = np.concatenate([counts.judged, counts.successes, counts.confidence], axis=-1)
    found = nested(per_period, present.pairs, TRACE_WINDOWS, per_day)
    judged, successes, confident = np.split(found, 3, axis=-1)
    excess = confident / CONFIDENCE_UNITS - successes
    success = ratio(successes[:, -1] + 1, judged[:, -1] + 2)
    variance = (np.maximum(success * (1 - success), LEAST_VARIANCE) * present.effect[:, -1:])[:, None]
    mean, spread, recent = means(judged / variance, excess / variance, GAP_MEAN, GAP_VARIANCE, TRACE_WINDOWS)
    newest = judged[:, SHARE_WINDOW]
    newest = np.where(newest.sum(axis=-1, keepdims=True) > 0, newest, judged[:, -1])
    share = ratio(newest, newest.sum(axis=-1, keepdims=True))
    # Root mean square of a gap, with the factor that is right for a gap of mean 0.
    size = np.sqrt(mean**2 + 2 / np.pi * spread)
    gap = np.minimum(np.sum(share * size, axis=-1), 0.99)
    part = part_of_rate("ece", gap, np.sum(share**2 * spread, axis=-1), parameters, recent)
    return part.where(judged[:, -1].sum(axis=-1) > 0)


def _episodes(events: Events, present: Present, per_day: int) -> tuple[PresentValue, PresentValue, Floats, Floats]:
    """Return the frequency of episodes, the mean logarithm of their hours, the variance of this logarithm between
    episodes, and the effective number of failure modes."""
    at = present.pairs, EVENT_WINDOWS, per_day
    found, days = episode_sums(events.episodes, *at), days_observed(events.first_period, *at)
    longest = found.n[:, -1].astype(np.float64)
    modes = (np.maximum(longest - 1, 0) + MODE_PAIRS) / (found.repeats[:, -1] + SAME_MODE)
    of_all = longest, found.log_hours[:, -1], found.log_hours_squared[:, -1]
    variance, _ = variance_of_log_hours(*of_all, present.episode_cv)
    n = (found.n + present.n_open[:, None]).astype(np.float64)
    precision, weighted = n / variance[:, None], (found.log_hours + present.open_log_hours[:, None]) / variance[:, None]
    hours = means(precision, weighted, LOG_HOURS_MEAN, LOG_HOURS_VARIANCE, EVENT_WINDOWS)
    return frequencies(n, days, EVENT_WEIGHT, EPISODES_PER_DAY, EVENT_WINDOWS), hours, variance, modes


def _deferrals(events: Events, present: Present, per_day: int) -> tuple[PresentValue, PresentValue]:
    """Return the frequency of judged deferrals and their mean lost value. A deferral counts on the day on which its
    outcome became known."""
    at = present.pairs, EVENT_WINDOWS, per_day
    n, value = (values.astype(np.float64) for values in deferral_sums(events.deferrals, *at))
    often = frequencies(n, days_observed(events.first_period, *at), EVENT_WEIGHT, DEFERRALS_PER_DAY, EVENT_WINDOWS)
    return often, rates(n - value, n, QUALITY_EVENTS, QUALITY_MEAN, EVENT_WINDOWS)


def _loss_of_deferrals(often: PresentValue, lost: PresentValue, window_days: int) -> Part:
    """Return the loss by deferrals. At λ judged deferrals per day, the probability that a window of W days has a judged
    deferral is 1 − exp(−λW)."""
    none = np.exp(-window_days * often.mean)
    kept = 1 - (1 - none) * lost.mean
    variance = (window_days * none * lost.mean / kept) ** 2 * often.variance
    variance += ((1 - none) / kept) ** 2 * lost.variance
    return Part(0 - np.log(kept), variance, 1 - (1 - often.recent) * (1 - lost.recent))


def _loss_of_episodes(
    often: PresentValue, hours: PresentValue, variance: Floats, modes: Floats, window_days: int, parameters: Parameters
) -> Part:
    """Return −ln of the expected R, and its variance, to first order in the logarithms of frequency and hours."""
    sd_often, sd_hours = np.sqrt(np.log1p(often.variance / often.mean**2)), np.sqrt(hours.variance)

    def loss(i: int, j: int) -> Floats:
        n = window_days * often.mean * np.exp(i * sd_often)
        return 0 - np.log(expected_resilience(n, hours.mean + j * sd_hours, variance, modes, parameters))

    of_often, of_hours = (loss(1, 0) - loss(-1, 0)) / 2, (loss(0, 1) - loss(0, -1)) / 2
    return Part(loss(0, 0), of_often**2 + of_hours**2, 1 - (1 - often.recent) * (1 - hours.recent))


def expected_resilience(
    n: Floats, log_mean: Floats, log_variance: Floats, modes: Floats, parameters: Parameters
) -> Floats:
    """Return the expected R, (n,), of a window without drift whose number of episodes is a Poisson variable with the
    mean n (certainty.md §4b, "R").

    The mean duration of k log-normal episodes is taken as log-normal with the same mean and variance (Fenton 1960, IRE
    Transactions on Communications Systems 8, 57–67). The share of relapses is the expected share if ``modes`` failure
    modes are equally likely. ``log_mean`` and ``log_variance`` are those of ln hours.
    """
    share = np.exp(-n)
    left, result = 1 - share, share * np.exp(-loss_of_norm(1.0, parameters))
    for k in range(1, MOST_EPISODES + 1):
        of_mean = np.log1p(np.expm1(log_variance) / k)
        centre = log_mean + (log_variance - of_mean) / 2 - np.log(parameters.mttr_scale_hours)
        kept = modes * (1 - (1 - 1 / modes) ** k) / k
        hours = np.exp(centre + np.sqrt(of_mean) * NODES[:, None])
        # A sum, because the last digit of a matrix product depends on the number of rows.
        expected = np.sum(NODE_WEIGHTS[:, None] * np.exp(-loss_of_norm(kept / (1 + hours), parameters)), axis=0)
        share = share * n / k
        result += (share if k < MOST_EPISODES else np.maximum(left, 0)) * expected
        left = left - share
    return result
