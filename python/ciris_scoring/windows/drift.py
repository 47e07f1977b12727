"""Drift between the scoring window and its baseline (scoring.md §5).

A histogram is an array of counts whose last axis is the 10 bins on [0, 1]. Logarithms are natural, so divergences are
in nats.
"""

from typing import NamedTuple

import numpy as np

from ciris_scoring.windows.inputs import (
    METRICS,
    Columns,
    Floats,
    Integers,
    Parameters,
    PeriodSums,
    Places,
    Window,
)
from ciris_scoring.windows.rolling import between, running_total

N_BINS = 10
"""Number of bins of a histogram of scores on [0, 1], and of confidence in ECE (scoring.md §5 and §6)."""


class Drift(NamedTuple):
    """Drift of n rows over the three metrics."""

    per_metric: Floats
    """(n, 3) drift of each metric, in [0, 1); NaN where a metric is not measurable."""
    mean: Floats
    """(n,) mean drift of the measurable metrics; 0 where no metric is measurable."""
    n_measured: Integers
    """(n,), number of measurable metrics, 0 to 3."""


class Smoothed(NamedTuple):
    """Probabilities of the bins in the window and in its baseline, each (..., 10); 0 in a bin that neither uses."""

    recent: Floats
    baseline: Floats

    @property
    def quotient(self) -> Floats:
        """Quotient of each bin's probabilities in window and baseline, (..., 10); 1 in a bin that neither uses."""
        used = self.baseline > 0
        return np.divide(self.recent, self.baseline, out=np.ones_like(self.recent), where=used)

    @property
    def kl_divergence(self) -> Floats:
        """Kullback-Leibler divergence ``Σ p ln(p / q)`` in nats: (...), 0 or more, up to rounding (scoring.md §5)."""
        result: Floats = np.sum(self.recent * np.log(self.quotient), axis=-1)
        return result


def smoothed(recent: Floats, baseline: Floats, pseudo_count: float) -> Smoothed:
    """Return the probabilities ``(count + κ π) / (n + κ)`` with κ = 10 α pseudo-counts (scoring.md §5).

    n is the sum of the counts of a window, and π the pooled distribution of both windows. Windows with equal
    distributions therefore have equal probabilities, whatever their sizes.

    :param recent: (..., 10) counts in the window.
    :param baseline: (..., 10) counts in the baseline.
    :param pseudo_count: α > 0; with 0, a bin that only one window uses would make the divergence infinite.
    """
    kappa = N_BINS * pseudo_count
    together = recent + baseline
    shared_out = kappa * together / np.maximum(np.sum(together, axis=-1, keepdims=True), 1.0)

    def probabilities(counts: Floats) -> Floats:
        result: Floats = (counts + shared_out) / (np.sum(counts, axis=-1, keepdims=True) + kappa)
        return result

    return Smoothed(probabilities(recent), probabilities(baseline))


def drift(recent: Floats, baseline: Floats, pseudo_count: float, min_sample: int) -> Drift:
    """Compute δ_drift: the mean drift of the measurable metrics, ``1 − exp(−KL')`` each (scoring.md §5).

    KL' is the divergence less its bias by sampling: ``max(0, KL − (m − 1)/2 · (1/n_r + 1/n_b))``. n_r and n_b are the
    sums of the counts, and m is the number of bins that either window uses. Without drift, ``2 KL / (1/n_r + 1/n_b)``
    has about a chi-square distribution with m − 1 degrees of freedom (Kullback 1959, Information Theory and
    Statistics), whose mean is m − 1.

    :param recent: (n, 3, 10) counts in the scoring window.
    :param baseline: (n, 3, 10) counts in the baseline window.
    :param pseudo_count: α of :func:`smoothed`.
    :param min_sample: smallest number of values in the window, and in the baseline, of a measurable metric; 1 or more.
    """
    kl = smoothed(recent, baseline, pseudo_count).kl_divergence
    bins_used = np.count_nonzero(recent + baseline, axis=-1)
    n_recent, n_baseline = recent.sum(axis=-1), baseline.sum(axis=-1)
    with np.errstate(divide="ignore", invalid="ignore"):  # an empty histogram is not measurable
        bias = (bins_used - 1) / 2 * (1 / n_recent + 1 / n_baseline)
        corrected = np.maximum(0.0, kl - bias)
    measurable = np.minimum(n_recent, n_baseline) >= min_sample
    per_metric = np.where(measurable, -np.expm1(-corrected), np.nan)
    n_measured = np.count_nonzero(measurable, axis=-1)
    mean = np.nansum(per_metric, axis=-1) / np.maximum(n_measured, 1)
    return Drift(per_metric, mean, n_measured)


def drift_columns(
    sums: PeriodSums,
    places: Places,
    windows: tuple[Window, ...],
    parameters: Parameters,
    periods_per_day: int,
) -> Columns:
    """Compute the drift of n rows from the histograms of ``int_agent_periods``, by the columns of ``int_windows``
    (scoring.md §5).

    :param periods_per_day: 1 or 24.
    :returns: (n,) drift of each metric, NaN where it is not measurable, their mean, and how many are measurable.
    """
    total = running_total(sums.histograms)
    columns: Columns = {
        **{f"delta_{metric}": np.zeros(len(places.agent)) for metric in METRICS},
        "delta_drift": np.zeros(len(places.agent)),
        "n_measured_metrics": np.zeros(len(places.agent), dtype=np.int64),
    }
    for index, window in enumerate(windows):
        at = np.flatnonzero(places.window == index)
        agent, as_of = places.agent[at], places.as_of[at]
        start = as_of - window.window_days * periods_per_day
        begin = start - window.baseline_days * periods_per_day
        found = drift(
            between(total, agent, start, as_of).astype(np.float64),
            between(total, agent, begin, start).astype(np.float64),
            parameters.drift_pseudo_count,
            parameters.drift_min_sample,
        )
        for name, values in zip(columns, (*found.per_metric.T, found.mean, found.n_measured), strict=True):
            columns[name][at] = values
    return columns
