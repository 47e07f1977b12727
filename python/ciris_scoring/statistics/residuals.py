"""How much days differ: residual sums of squares of daily counts, beside what chance alone would give.

For a part of the memory (the window, or the baseline) with days d, n_d traces of which y_d are events, N = Σ n_d and
p = Σ y_d / N, the residual sum of squares is Σ (y_d − n_d p)² = Σ y² − 2p Σ yn + p² Σ n². Were all traces independent,
its expectation would be p(1 − p) Σ n_d (1 − n_d/N); a correlation ρ of the traces of a day adds about
ρ · p(1 − p) Σ n_d(n_d − 1)(1 − 1/days). Everything is a sum over days, so it rolls. Both parts are taken around their
own mean and added up.

Rates have one such count a day; calibration has its successes, expected bin by bin; a histogram has ten counts, whose
residuals make a 10 × 10 matrix.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ciris_scoring.basics.components import COMPONENT_ROWS
from ciris_scoring.statistics.inputs import METRICS, Booleans, Floats, Integers, PeriodSums
from ciris_scoring.statistics.resilience import N_BINS
from ciris_scoring.statistics.rolling import RunningTotals, day_sums, running_totals

RATES = tuple(one.component for one in COMPONENT_ROWS if one.is_rate)
"""The components that are rates, in the order of the arrays; events are what lowers the score."""

EFFECTS = (*RATES, "ece", *(f"delta_{metric}" for metric in METRICS))
"""Everything that has a design effect: the rates, calibration, and the histograms of the three metrics."""

FIELDS_PER_TRACE = 10

PAIR_ROWS, PAIR_COLUMNS = np.triu_indices(N_BINS)
"""The 55 pairs of bins of a symmetric 10 × 10 matrix, in the order in which its products are stored."""

PAIR_WEIGHTS: Floats = np.where(PAIR_ROWS == PAIR_COLUMNS, 1.0, 2.0)
DIAGONAL: NDArray[np.intp] = np.flatnonzero(PAIR_ROWS == PAIR_COLUMNS)


class Residuals(NamedTuple):
    """How much days differ, of n rows and q quantities; every array is (n, q), 0 without information."""

    observed: Floats
    """Residual sum of squares."""
    expected: Floats
    """Its expectation with independent traces; in a histogram times (bins used − 1)."""
    clustering: Floats
    """What a correlation of 1 between the traces of a day would add to it."""
    degrees: Floats
    """Days less means, over the parts in which both outcomes occur."""
    mean_per_day: Floats
    """Σ n_d² / Σ n_d in the window: among how many traces a trace shares its day, itself included."""


class HistogramResiduals(NamedTuple):
    """The residuals of one metric's histogram, (n, 1) each, and its design-effect matrix V, the mean of both parts."""

    residuals: Residuals
    trace: Floats
    """(n,) tr V."""
    squared_trace: Floats
    """(n,) tr V²."""


def _ratio(numerator: Floats, denominator: Floats) -> Floats:
    """Quotient that is 0 where the denominator is."""
    return np.divide(
        numerator,
        denominator,
        out=np.zeros(np.broadcast(numerator, denominator).shape),
        where=denominator > 0,
    )


def _joined(parts: list[Residuals]) -> Residuals:
    """The window's and the baseline's residuals together; the first part is the window."""
    sums = [np.sum([part[i] for part in parts], axis=0) for i in range(4)]
    return Residuals._make([*sums, parts[0].mean_per_day])


# --- Rates ---------------------------------------------------------------------------------------------------------


class RateTotals(NamedTuple):
    """Running totals of the 7 rates' daily events and trials, their squares and products, and days with trials."""

    totals: RunningTotals

    def counts(self, agent: Integers, start: Integers, end: Integers) -> tuple[Floats, Floats]:
        """Events and trials, each (n, 7), in [start, end); coverage counts fields, so its events are tenths."""
        sums = self.totals.between(agent, start, end)
        return sums[:, :7], sums[:, 7:14]

    def residuals(self, agent: Integers, edges: tuple[Integers, Integers, Integers]) -> Residuals:
        """Residuals of n rows.

        :param edges: period ends at which the baseline begins, the window begins, and the window ends.
        """
        baseline_start, start, end = edges
        parts = [
            _rate_residuals(self.totals.between(agent, first, last))
            for first, last in ((start, end), (baseline_start, start))
        ]
        return _joined(parts)


_EVENT_UNITS: Floats = np.array([1.0 / FIELDS_PER_TRACE if rate == "i_coverage" else 1.0 for rate in RATES])


def rate_counts(sums: PeriodSums) -> tuple[Integers, Integers]:
    """Events and trials of each rate, (agents, periods, 7); a coverage event is a missing field."""
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


def rate_totals(sums: PeriodSums, periods_per_day: int) -> RateTotals:
    """Running totals of what the rates' design effects need."""
    events, trials = (day_sums(counts, periods_per_day) for counts in rate_counts(sums))
    quantities = (events, trials, events * events, events * trials, trials * trials, trials > 0)
    return RateTotals(running_totals(np.concatenate(quantities, axis=-1), periods_per_day))


def _rate_residuals(sums: Floats) -> Residuals:
    y, n, yy, yn, nn, days = np.split(sums, 6, axis=-1)
    rate = _ratio(y, n)
    variance = _EVENT_UNITS * rate * (1 - _EVENT_UNITS * rate)
    varies: Booleans = variance > 0
    observed = _EVENT_UNITS**2 * (yy - 2 * rate * yn + rate * rate * nn)
    return Residuals(
        observed=np.where(varies, np.maximum(observed, 0), 0.0),
        expected=variance * (n - _ratio(nn, n)),
        clustering=variance * (nn - n) * (1 - _ratio(np.ones_like(days), days)),
        degrees=np.where(varies, days - 1, 0.0),
        mean_per_day=_ratio(nn, n),
    )


# --- Calibration ---------------------------------------------------------------------------------------------------


class CalibrationTotals(NamedTuple):
    """Running totals of daily judged traces and successes by bin, and of their products."""

    totals: RunningTotals

    def counts(self, agent: Integers, start: Integers, end: Integers) -> tuple[Floats, Floats]:
        """Judged traces and successes by bin, each (n, 10), in [start, end)."""
        sums = self.totals.between(agent, start, end)
        return sums[:, :N_BINS], sums[:, N_BINS : 2 * N_BINS]

    def residuals(self, agent: Integers, edges: tuple[Integers, Integers, Integers]) -> Residuals:
        """Residuals of n rows, (n, 1); see :meth:`RateTotals.residuals`."""
        baseline_start, start, end = edges
        parts = [
            _calibration_residuals(self.totals.between(agent, first, last))
            for first, last in ((start, end), (baseline_start, start))
        ]
        return _joined(parts)


def calibration_totals(sums: PeriodSums, periods_per_day: int) -> CalibrationTotals:
    """Running totals of what calibration's design effect needs."""
    n = day_sums(sums.n_judged, periods_per_day)
    y = day_sums(sums.n_successes, periods_per_day)
    all_y = y.sum(axis=-1, keepdims=True)
    quantities = (
        n,
        y,
        all_y * n,
        n[..., PAIR_ROWS] * n[..., PAIR_COLUMNS],
        all_y * all_y,
        n.sum(axis=-1, keepdims=True) > 0,
    )
    return CalibrationTotals(running_totals(np.concatenate(quantities, axis=-1), periods_per_day))


def _calibration_residuals(sums: Floats) -> Residuals:
    """Residuals of daily successes over all bins, around each day's expectation Σ_b n_bd p_b."""
    n, y, yn, nn, yy, days = np.split(sums, [10, 20, 30, 85, 86], axis=-1)
    rate = _ratio(y, n)
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
    one_day = 1 - _ratio(np.ones_like(days), days)[:, 0]
    parts = (
        np.where(varies, np.maximum(observed, 0), 0.0),
        np.sum(variance * (n - _ratio(nn[:, DIAGONAL], n)), axis=-1),
        np.maximum(shared - np.sum(variance * n, axis=-1), 0) * one_day,
        np.where(varies, days[:, 0] - 1, 0.0),
        _ratio(np.sum(weighted, axis=-1), np.sum(n, axis=-1)),
    )
    return Residuals(*(part[:, None] for part in parts))


# --- Histograms ----------------------------------------------------------------------------------------------------


class HistogramTotals(NamedTuple):
    """Running totals of one metric's daily histograms and of their products."""

    totals: RunningTotals

    def counts(self, agent: Integers, start: Integers, end: Integers) -> Floats:
        """Histogram, (n, 10), of [start, end)."""
        return self.totals.between(agent, start, end)[:, :N_BINS]

    def residuals(self, agent: Integers, edges: tuple[Integers, Integers, Integers]) -> HistogramResiduals:
        """Residuals and design-effect matrix of n rows; see :meth:`RateTotals.residuals`."""
        baseline_start, start, end = edges
        parts, matrix, weight = [], np.zeros((len(agent), len(PAIR_ROWS))), np.zeros(len(agent))
        for first, last in ((start, end), (baseline_start, start)):
            residuals, part_matrix, part_weight = _histogram_residuals(
                self.totals.between(agent, first, last)
            )
            parts.append(residuals)
            matrix += part_matrix
            weight += part_weight
        matrix = _ratio(matrix, weight[:, None])
        return HistogramResiduals(
            _joined(parts),
            np.sum(matrix[:, DIAGONAL], axis=-1),
            np.sum(PAIR_WEIGHTS * matrix * matrix, axis=-1),
        )


def histogram_totals(sums: PeriodSums, metric: int, periods_per_day: int) -> HistogramTotals:
    """Running totals of what one metric's drift needs.

    :param metric: index into ``METRICS``.
    """
    h = day_sums(sums.histograms[:, :, metric], periods_per_day)
    n = h.sum(axis=-1, keepdims=True)
    quantities = (h, n * h, h[..., PAIR_ROWS] * h[..., PAIR_COLUMNS], n * n, n > 0)
    return HistogramTotals(running_totals(np.concatenate(quantities, axis=-1), periods_per_day))


def _histogram_residuals(sums: Floats) -> tuple[Residuals, Floats, Floats]:
    """Residuals of a part, its residual matrix in units of multinomial variance (n, 55), and that unit's size (n,).

    The matrix is Σ_d e_d e_dᵀ with e_d = h_d − n_d p, divided by √(p_b p_c); independent traces give it the
    expectation (I − √p √pᵀ) · Σ n_d (1 − n_d/N).
    """
    h, nh, hh, nn, days = np.split(sums, [10, 20, 75, 76], axis=-1)
    n = np.sum(h, axis=-1, keepdims=True)
    p = _ratio(h, n)
    p_row, p_column = p[:, PAIR_ROWS], p[:, PAIR_COLUMNS]
    residual = hh - p_row * nh[:, PAIR_COLUMNS] - p_column * nh[:, PAIR_ROWS] + p_row * p_column * nn
    free_bins = np.maximum(np.count_nonzero(h, axis=-1) - 1, 0)
    varies: Booleans = free_bins > 0
    size = np.where(varies, (n - _ratio(nn, n))[:, 0], 0.0)
    matrix = np.where(varies[:, None], _ratio(residual, np.sqrt(p_row * p_column)), 0.0)
    n_days = days[:, 0]
    parts = (
        np.maximum(np.sum(matrix[:, DIAGONAL], axis=-1), 0),
        free_bins * size,
        free_bins * (nn - n)[:, 0] * (1 - _ratio(np.ones_like(n_days), n_days)),
        np.where(varies, n_days - 1, 0.0),
        _ratio(nn, n)[:, 0],
    )
    return Residuals(*(part[:, None] for part in parts)), matrix, size
