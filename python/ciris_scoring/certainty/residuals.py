"""Variation between days: residual sums of squares of daily counts, and their expectation by chance alone.

Take a window or a baseline with days d, on which y_d of n_d traces are events, N = Σ n_d and p = Σ y_d / N. The
residual sum of squares is Σ (y_d − n_d p)² = Σ y² − 2p Σ yn + p² Σ n². With independent traces its expectation is p(1 −
p) Σ n_d (1 − n_d/N). A correlation ρ of the traces of a day adds about ρ · p(1 − p) Σ n_d(n_d − 1)(1 − 1/days). All of
these terms are sums over days, so they can be computed from running totals. The residual sums of squares of window and
baseline are added. Each is computed with the mean p of its days.

A rate has one count of events y_d per day. Calibration has one count per day, the successes, with an expectation for
each bin. A histogram has ten counts per day, whose residuals form a 10 × 10 matrix.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ciris_scoring.basics.components import COMPONENT_ROWS
from ciris_scoring.basics.source_schema import REQUIRED_FIELDS
from ciris_scoring.windows.drift import N_BINS
from ciris_scoring.windows.inputs import METRICS, Booleans, Floats, Integers, PeriodSums, ratio
from ciris_scoring.windows.rolling import day_sums, running_totals

RATES = tuple(one.component for one in COMPONENT_ROWS if one.is_rate)
"""The components that are rates, in the order of the rates in all arrays. Events of a rate are the outcomes that lower
the score."""

EFFECTS = (*RATES, "ece", *(f"delta_{metric}" for metric in METRICS))
"""The 11 quantities that have a design effect: the rates, calibration, and the histograms of the three metrics."""

FIELDS_PER_TRACE = len(REQUIRED_FIELDS)
"""Number of fields that coverage counts in each trace (scoring.md §4)."""

EVENT_UNITS: Floats = np.array([1.0 / FIELDS_PER_TRACE if rate == "i_coverage" else 1.0 for rate in RATES])
"""Traces per event of each rate: a missing field is a tenth of a trace."""

PAIR_ROWS, PAIR_COLUMNS = np.triu_indices(N_BINS)
"""Row and column indices of the upper triangle of a symmetric 10 × 10 matrix, with its diagonal: the 55 pairs of bins.
``DaySums`` stores the products of the counts of two bins in this order."""

PAIR_WEIGHTS: Floats = np.where(PAIR_ROWS == PAIR_COLUMNS, 1.0, 2.0)
"""Number of elements of the symmetric 10 × 10 matrix that each of the 55 pairs of bins stands for: 1 or 2."""
DIAGONAL: NDArray[np.intp] = np.flatnonzero(PAIR_ROWS == PAIR_COLUMNS)
"""Positions of the diagonal elements among the 55 pairs of bins."""


N_PAIRS = len(PAIR_ROWS)
OF_RATES = {name: len(RATES) for name in ("events", "trials", "events²", "products", "trials²", "days")}
OF_BINS = {"products": N_BINS, "pairs": N_PAIRS, "sum²": 1, "days": 1}
OF_CALIBRATION = {"judged": N_BINS, "successes": N_BINS, **OF_BINS}
OF_HISTOGRAM = {"counts": N_BINS, **OF_BINS}
"""Widths of the quantities of :class:`DaySums`, by name and in their order."""
WIDTHS = {
    "rates": sum(OF_RATES.values()),
    "calibration": sum(OF_CALIBRATION.values()),
    "histograms": len(METRICS) * sum(OF_HISTOGRAM.values()),
}
"""Widths of the fields of :class:`DaySums`, by name and in their order."""


def _split(sums: Floats, widths: dict[str, int]) -> list[Floats]:
    """Divide the last axis into parts of the given widths."""
    return np.split(sums, np.cumsum(list(widths.values()))[:-1], axis=-1)


class Residuals(NamedTuple):
    """Variation between days, of n rows and q quantities; every array is (n, q), and 0 where no day has a trial."""

    observed: Floats
    """Residual sum of squares; for a histogram, the sum of the diagonal of the residual matrix."""
    expected: Floats
    """Expectation of ``observed`` with independent traces."""
    clustering: Floats
    """Amount that a correlation of 1 between the traces of a day would add to ``observed``."""
    degrees: Floats
    """Degrees of freedom: number of days minus number of means. The days of a window or baseline in which only one
    outcome occurs do not count."""
    mean_per_day: Floats
    """Σ n_d² / Σ n_d in the window: mean number of traces on the same day as a trace, including the trace."""


class DaySums(NamedTuple):
    """Sums over the days of the window or the baseline of each of n rows. :func:`day_totals` defines the quantities."""

    rates: Floats
    """(n, 6, 7), for each of the 7 rates: sums of y, t, y², yt and t² over days with y events in t trials, and the
    number of days with trials."""
    calibration: Floats
    """(n, 87): 10 numbers of judged traces, by bin; 10 of successes; 10 products of a bin's judged traces and the day's
    successes; 55 products of the judged traces of two bins; the square of the day's successes; days with judged
    traces."""
    histograms: Floats
    """(n, 3, 77): 10 counts, by bin; 10 products of a bin's count and the day's sum over all bins; 55 products of the
    counts of two bins; the square of the day's sum; days with values."""

    @property
    def judged(self) -> Floats:
        """(n, 10) judged traces by bin of confidence."""
        return self.calibration[:, :N_BINS]

    @property
    def successes(self) -> Floats:
        """(n, 10) successes among the judged traces, by bin of confidence."""
        return self.calibration[:, N_BINS : 2 * N_BINS]

    @property
    def histogram(self) -> Floats:
        """(n, 3, 10) counts by bin, in the order of ``METRICS``."""
        return self.histograms[..., :N_BINS]


class DayTotals(NamedTuple):
    """Running totals, in steps of a day, of the quantities of :class:`DaySums`."""

    totals: Integers
    """(agents, periods + 1, 360), as returned by :func:`running_totals`: 6 · 7 of rates, 87 of calibration, and 3 · 77
    of histograms."""
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
        rates, calibration, histograms = _split(sums, WIDTHS)
        return DaySums(
            rates.reshape(-1, len(OF_RATES), len(RATES)),
            calibration,
            histograms.reshape(-1, len(METRICS), sum(OF_HISTOGRAM.values())),
        )


def day_totals(sums: PeriodSums, first: int, periods_per_day: int) -> DayTotals:
    """Compute running totals of daily counts, of their squares and products, and of days with trials.

    :param first: number of periods in the arrays before the first period that counts.
    :param periods_per_day: 1 or 24.
    """
    sums = PeriodSums._make(values[:, first:] for values in sums)
    y, n = (day_sums(counts, periods_per_day) for counts in rate_counts(sums))
    judged = day_sums(sums.judged_by_bin, periods_per_day)
    successes = day_sums(sums.successes_by_bin, periods_per_day)
    all_successes = successes.sum(axis=-1, keepdims=True)
    h = day_sums(sums.histograms, periods_per_day)
    n_h = h.sum(axis=-1, keepdims=True)
    histograms = (h, n_h * h, h[..., PAIR_ROWS] * h[..., PAIR_COLUMNS], n_h * n_h, n_h > 0)
    quantities = (
        *(y, n, y * y, y * n, n * n, n > 0),
        *(judged, successes, all_successes * judged),
        judged[..., PAIR_ROWS] * judged[..., PAIR_COLUMNS],
        *(all_successes * all_successes, judged.sum(axis=-1, keepdims=True) > 0),
        np.concatenate(histograms, axis=-1).reshape(*n.shape[:2], WIDTHS["histograms"]),
    )
    return DayTotals(running_totals(np.concatenate(quantities, axis=-1), periods_per_day), first)


def rate_counts(sums: PeriodSums) -> tuple[Integers, Integers]:
    """Return the numbers of events and of trials of each rate, (agents, periods, 7). An event of coverage is a missing
    field."""
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
    }
    trials = {"i_replay": sums.n_replay_sampled, "s_score": signals}
    return (
        np.stack([events[rate] for rate in RATES], axis=-1).astype(np.int64),
        np.stack([trials.get(rate, sums.n_traces) for rate in RATES], axis=-1).astype(np.int64),
    )


class Variation(NamedTuple):
    """Variation between days of n rows."""

    residuals: Residuals
    """(n, 11) residuals, in the order of ``EFFECTS``."""
    trace: Floats
    """(n, 3) tr V of the design-effect matrix V of each metric's histogram, the weighted mean of window and
    baseline."""
    squared_trace: Floats
    """(n, 3) tr V² of the design-effect matrix V of each metric's histogram."""


def variation(window: DaySums, baseline: DaySums) -> Variation:
    """Compute the variation between days of n rows, added over window and baseline. The variation of the window is
    around the window's mean, the variation of the baseline around the baseline's mean."""
    (own, matrix, size), (earlier, earlier_matrix, earlier_size) = map(_of_part, (window, baseline))
    together = Residuals(*map(np.add, own, earlier))._replace(mean_per_day=own.mean_per_day)
    v = ratio(matrix + earlier_matrix, (size + earlier_size)[..., None])
    return Variation(together, np.sum(v[..., DIAGONAL], axis=-1), np.sum(PAIR_WEIGHTS * v * v, axis=-1))


def _of_part(sums: DaySums) -> tuple[Residuals, Floats, Floats]:
    """Return the residuals of a window or a baseline, (n, 11), and the residual matrix and unit of each histogram."""
    histograms, matrix, size = _histogram_residuals(sums.histograms)
    parts = (_rate_residuals(sums.rates), _calibration_residuals(sums.calibration), histograms)
    return Residuals(*(np.concatenate(arrays, axis=-1) for arrays in zip(*parts, strict=True))), matrix, size


def _rate_residuals(sums: Floats) -> Residuals:
    y, n, yy, yn, nn, days = np.moveaxis(sums, 1, 0)
    rate = ratio(y, n)
    variance = EVENT_UNITS * rate * (1 - EVENT_UNITS * rate)
    varies: Booleans = variance > 0
    observed = EVENT_UNITS**2 * (yy - 2 * rate * yn + rate * rate * nn)
    return Residuals(
        observed=np.where(varies, np.maximum(observed, 0), 0.0),
        expected=variance * (n - ratio(nn, n)),
        clustering=variance * (nn - n) * (1 - ratio(np.ones_like(days), days)),
        degrees=np.where(varies, days - 1, 0.0),
        mean_per_day=ratio(nn, n),
    )


def _calibration_residuals(sums: Floats) -> Residuals:
    """Return the residuals of daily successes over all bins, around each day's expectation Σ_b n_bd p_b. Day d has n_bd
    judged traces in bin b, whose success rate is p_b."""
    n, y, yn, nn, yy, days = _split(sums, OF_CALIBRATION)
    rate = ratio(y, n)
    variance = rate * (1 - rate)
    spread = np.sqrt(variance)
    weighted = PAIR_WEIGHTS * nn
    observed = (
        yy[:, 0]
        - 2 * np.sum(rate * yn, axis=-1)
        + np.sum(weighted * rate[:, PAIR_ROWS] * rate[:, PAIR_COLUMNS], axis=-1)
    )
    shared = np.sum(weighted * spread[:, PAIR_ROWS] * spread[:, PAIR_COLUMNS], axis=-1)
    varies: Booleans = np.any(variance > 0, axis=-1)
    one_day = 1 - ratio(np.ones_like(days), days)[:, 0]
    parts = (
        np.where(varies, np.maximum(observed, 0), 0.0),
        np.sum(variance * (n - ratio(nn[:, DIAGONAL], n)), axis=-1),
        np.maximum(shared - np.sum(variance * n, axis=-1), 0) * one_day,
        np.where(varies, days[:, 0] - 1, 0.0),
        ratio(np.sum(weighted, axis=-1), np.sum(n, axis=-1)),
    )
    return Residuals(*(part[:, None] for part in parts))


def _histogram_residuals(sums: Floats) -> tuple[Residuals, Floats, Floats]:
    """Return the residuals of each metric's histogram (n, 3), its residual matrix (n, 3, 55), and the matrix's unit
    (n, 3).

    Day d has the counts h_d by bin, with the sum n_d. N is the sum of n_d, and p_b the share of bin b over all days.
    With e_d = h_d − n_d p, the element (b, c) of the matrix is the element (b, c) of Σ_d e_d e_dᵀ over √(p_b p_c). With
    independent traces its expectation is (I − √p √pᵀ) times the unit Σ n_d (1 − n_d/N).
    """
    h, nh, hh, nn, days = _split(sums, OF_HISTOGRAM)
    n = np.sum(h, axis=-1, keepdims=True)
    p = ratio(h, n)
    p_row, p_column = p[..., PAIR_ROWS], p[..., PAIR_COLUMNS]
    residual = hh - p_row * nh[..., PAIR_COLUMNS] - p_column * nh[..., PAIR_ROWS] + p_row * p_column * nn
    n, nn, days = n[..., 0], nn[..., 0], days[..., 0]
    free_bins = np.maximum(np.count_nonzero(h, axis=-1) - 1, 0)
    varies: Booleans = free_bins > 0
    size = np.where(varies, n - ratio(nn, n), 0.0)
    matrix = np.where(varies[..., None], ratio(residual, np.sqrt(p_row * p_column)), 0.0)
    residuals = Residuals(
        observed=np.maximum(np.sum(matrix[..., DIAGONAL], axis=-1), 0),
        expected=free_bins * size,
        clustering=free_bins * (nn - n) * (1 - ratio(np.ones_like(days), days)),
        degrees=np.where(varies, days - 1, 0.0),
        mean_per_day=ratio(nn, n),
    )
    return residuals, matrix, size
