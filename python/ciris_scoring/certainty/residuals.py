"""Variation between days: residual sums of squares of daily counts, and their expectation by chance alone.

Take a window or a baseline with days d, on which y_d of n_d traces are events, N = Σ n_d and p = Σ y_d / N. The
residual sum of squares is Σ (y_d − n_d p)² = Σ y² − 2p Σ yn + p² Σ n². With independent traces its expectation is p(1 −
p) Σ n_d (1 − n_d/N). A correlation ρ of the traces of a day adds about ρ · p(1 − p) Σ n_d(n_d − 1)(1 − 1/days). All of
these terms are sums over days, so they can be computed from running totals. The residual sums of squares of window and
baseline are added. Each is computed with the mean p of its days.

A rate has one count of events y_d per day, and so has calibration: the successes among the judged traces. A histogram
has ten counts per day.
"""

from typing import NamedTuple

import numpy as np

from ciris_scoring.basics.components import COMPONENT_ROWS
from ciris_scoring.basics.names import REQUIRED_FIELDS
from ciris_scoring.windows.drift import N_BINS
from ciris_scoring.windows.inputs import METRICS, Booleans, Floats, Integers, PeriodSums, ratio
from ciris_scoring.windows.rolling import day_sums, running_totals

RATES = tuple(one.component for one in COMPONENT_ROWS if one.is_rate)
"""The components that are rates, in the order of the rates in all arrays. Events of a rate are the outcomes that lower
the score."""

FIELDS_PER_TRACE = len(REQUIRED_FIELDS)
"""Number of fields that coverage counts in each trace (scoring.md §4)."""

COUNTED = (*RATES, "ece")
"""The eight quantities that are counted per day: events of the rates, and successes for calibration."""

EVENT_UNITS: Floats = np.array([1.0 / FIELDS_PER_TRACE if rate == "i_coverage" else 1.0 for rate in COUNTED])
"""Traces per event of each quantity in ``COUNTED``: a missing field is a tenth of a trace."""

EFFECTS = (*COUNTED, *(f"delta_{metric}" for metric in METRICS))
"""The 11 quantities that have a design effect: the rates, calibration, and the histograms of the three metrics."""

OF_COUNTS = {name: len(COUNTED) for name in ("events", "trials", "events²", "products", "trials²", "days")}
OF_HISTOGRAM = {"counts": N_BINS, "products": N_BINS, "squares": N_BINS, "sum²": 1, "days": 1}
"""Widths of the quantities of :class:`DaySums`, by name and in their order."""


def _split(sums: Floats, widths: dict[str, int]) -> list[Floats]:
    """Divide the last axis into parts of the given widths."""
    return np.split(sums, np.cumsum(list(widths.values()))[:-1], axis=-1)


class Residuals(NamedTuple):
    """Variation between days, of n rows and q quantities; every array is (n, q), and 0 where no day has a trial."""

    observed: Floats
    """Residual sum of squares; for a histogram, the sum over the bins of the sum of squares over the bin's share."""
    expected: Floats
    """Expectation of ``observed`` with independent traces."""
    clustering: Floats
    """Amount that a correlation of 1 between the traces of a day would add to ``observed``."""
    degrees: Floats
    """Degrees of freedom: number of days minus number of means. The days of a window or baseline in which only one
    outcome occurs do not count."""


class DaySums(NamedTuple):
    """Sums over the days of the window or the baseline of each of n rows. :func:`day_totals` defines the quantities."""

    counts: Floats
    """(n, 6, 8), for each quantity in ``COUNTED``: sums of y, t, y², yt and t² over days with y events in t trials, and
    the number of days with trials."""
    histograms: Floats
    """(n, 3, 32): 10 counts, by bin; 10 products of a bin's count and the day's sum over all bins; 10 squares of
    counts; the square of the day's sum; days with values."""

    @property
    def histogram(self) -> Floats:
        """(n, 3, 10) counts by bin, in the order of ``METRICS``."""
        return self.histograms[..., :N_BINS]

    @property
    def mean_per_day(self) -> Floats:
        """(n, 11) Σ n_d² / Σ n_d over the days with n_d traces: mean number of traces on the day of a trace, in the
        order of ``EFFECTS``."""
        _, n, _, _, nn, _ = np.moveaxis(self.counts, 1, 0)
        counts, _, _, squares, _ = _split(self.histograms, OF_HISTOGRAM)
        of_histograms = ratio(squares[..., 0], np.sum(counts, axis=-1))
        return np.concatenate([ratio(nn, n), of_histograms], axis=-1)


class DayTotals(NamedTuple):
    """Running totals, in steps of a day, of the quantities of :class:`DaySums`."""

    totals: Integers
    """(agents, periods + 1, 144), as returned by :func:`running_totals`: 6 · 8 of counts and 3 · 32 of histograms."""
    first: int
    """The period at which the totals begin."""

    def between(self, agent: Integers, start: Integers, end: Integers) -> DaySums:
        """Return sums over the days from ``start`` to ``end``, which are a whole number of days apart.

        :param agent: (n,) indices of agents.
        :param start: (n,) numbers of periods before the days; a number below ``first`` counts as ``first``.
        :param end: (n,) numbers of periods before the end of the days, likewise.
        """
        until, before = (self.totals[agent, np.maximum(at - self.first, 0)] for at in (end, start))
        sums = (until - before).astype(np.float64)
        counts, histograms = np.split(sums, [sum(OF_COUNTS.values())], axis=-1)
        return DaySums(
            counts.reshape(-1, len(OF_COUNTS), len(COUNTED)),
            histograms.reshape(-1, len(METRICS), sum(OF_HISTOGRAM.values())),
        )


def day_totals(sums: PeriodSums, first: int, periods_per_day: int) -> DayTotals:
    """Compute running totals of daily counts, of their squares and products, and of days with trials.

    :param first: number of periods in the arrays before the first period that counts.
    :param periods_per_day: 1 or 24.
    """
    sums = PeriodSums._make(values[:, first:] for values in sums)
    y, n = (day_sums(counts, periods_per_day) for counts in daily_counts(sums))
    h = day_sums(sums.histograms, periods_per_day)
    n_h = h.sum(axis=-1, keepdims=True)
    of_histograms = np.concatenate([h, n_h * h, h * h, n_h * n_h, n_h > 0], axis=-1)
    flat = of_histograms.reshape(*n.shape[:2], len(METRICS) * of_histograms.shape[-1])
    quantities = *(y, n, y * y, y * n, n * n, n > 0), flat
    return DayTotals(running_totals(np.concatenate(quantities, axis=-1), periods_per_day), first)


def daily_counts(sums: PeriodSums) -> tuple[Integers, Integers]:
    """Return the numbers of events and of trials of each quantity in ``COUNTED``, (agents, periods, 8). An event of
    coverage is a missing field, and an event of calibration a success."""
    signals = sums.n_signals_corroborated + sums.n_signals_uncorroborated
    coherent = sums.n_coherent_corroborated + sums.n_coherent_uncorroborated
    events = {
        "d_identity": sums.n_identity_changes,
        "k_contradiction": sums.n_overridden,
        "i_chain": sums.n_traces - sums.n_chain_valid,
        "i_coverage": FIELDS_PER_TRACE * sums.n_traces - sums.n_fields_present,
        "i_replay": sums.n_replay_sampled - sums.n_replay_succeeded,
        "u_unsafe": sums.n_unsafe,
        "s_score": signals - coherent,
        "ece": sums.successes_by_bin.sum(axis=-1),
    }
    judged = sums.judged_by_bin.sum(axis=-1)
    trials = {"i_replay": sums.n_replay_sampled, "s_score": signals, "ece": judged}
    return (
        np.stack([events[one] for one in COUNTED], axis=-1).astype(np.int64),
        np.stack([trials.get(one, sums.n_traces) for one in COUNTED], axis=-1).astype(np.int64),
    )


def variation(window: DaySums, baseline: DaySums) -> Residuals:
    """Compute the variation between days of n rows, (n, 11), added over window and baseline. The window's variation is
    around the window's mean, the baseline's variation around the baseline's mean."""
    counts, histograms = (
        map(np.add, of_part(window), of_part(baseline)) for of_part in (_count_residuals, _histogram_residuals)
    )
    return Residuals(*(np.concatenate(both, axis=-1) for both in zip(counts, histograms, strict=True)))


def _count_residuals(sums: DaySums) -> Residuals:
    y, n, yy, yn, nn, days = np.moveaxis(sums.counts, 1, 0)
    rate = ratio(y, n)
    variance = EVENT_UNITS * rate * (1 - EVENT_UNITS * rate)
    varies: Booleans = variance > 0
    observed = EVENT_UNITS**2 * (yy - 2 * rate * yn + rate * rate * nn)
    return Residuals(
        observed=np.where(varies, np.maximum(observed, 0), 0.0),
        expected=variance * (n - ratio(nn, n)),
        clustering=variance * (nn - n) * (1 - ratio(np.ones_like(days), days)),
        degrees=np.where(varies, days - 1, 0.0),
    )


def _histogram_residuals(sums: DaySums) -> Residuals:
    """Return the residuals of each metric's histogram, (n, 3).

    Day d has the counts h_db by bin b, with the sum n_d. N is the sum of n_d, and p_b the share of bin b over all days.
    The residual sum of squares is Σ_d Σ_b (h_db − n_d p_b)²/p_b. With independent traces its expectation is the number
    of used bins less 1, times Σ n_d (1 − n_d/N).
    """
    h, nh, hh, nn, days = _split(sums.histograms, OF_HISTOGRAM)
    n = np.sum(h, axis=-1, keepdims=True)
    p = ratio(h, n)
    observed = np.sum(ratio(hh - 2 * p * nh + p * p * nn, p), axis=-1)
    n, nn, days = n[..., 0], nn[..., 0], days[..., 0]
    free_bins = np.maximum(np.count_nonzero(h, axis=-1) - 1, 0)
    varies: Booleans = free_bins > 0
    return Residuals(
        observed=np.where(varies, np.maximum(observed, 0), 0.0),
        expected=free_bins * (n - ratio(nn, n)),
        clustering=free_bins * (nn - n) * (1 - ratio(np.ones_like(days), days)),
        degrees=np.where(varies, days - 1, 0.0),
    )
