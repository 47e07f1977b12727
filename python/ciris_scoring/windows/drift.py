"""Drift between the scoring window and its baseline (scoring.md §5).

A histogram is an array of counts whose last axis is the 10 bins on [0, 1]. Logarithms are natural, so divergences are
in nats.
"""

from typing import NamedTuple

import numpy as np

from ciris_scoring.windows.arrays import Floats, Integers, ratio

N_BINS = 10
"""Number of bins of a histogram of scores on [0, 1], and of confidence in ECE (scoring.md §5 and §6)."""
METRICS = ("csdma_plausibility_score", "dsdma_domain_alignment", "coherence_level")
"""The metrics whose histograms measure drift, in the order of the metrics in all arrays (scoring.md §5)."""


class Drift(NamedTuple):
    """Drift of n rows over the three metrics."""

    per_metric: Floats
    """(n, 3) drift of each metric, in [0, 1); NaN where a metric is not measurable."""
    mean: Floats
    """(n,) mean drift of the measurable metrics; 0 where no metric is measurable."""
    n_measured: Integers
    """(n,), number of measurable metrics, 0 to 3."""


def smoothed(recent: Floats, baseline: Floats, pseudo_count: float) -> tuple[Floats, Floats]:
    """Return the probabilities ``(count + κ π) / (n + κ)`` with κ = 10 α pseudo-counts (scoring.md §5).

    n is the sum of the counts of a window, and π the pooled distribution of both windows. Windows with equal
    distributions therefore have equal probabilities, whatever their sizes.

    :param recent: (..., 10) counts in the window.
    :param baseline: (..., 10) counts in the baseline.
    :param pseudo_count: α > 0; with 0, a bin that only one window uses would make the divergence infinite.
    :returns: probabilities in the window and in the baseline, (..., 10); 0 in a bin that neither uses.
    """
    kappa = N_BINS * pseudo_count
    together = recent + baseline
    shared_out = kappa * together / np.maximum(np.sum(together, axis=-1, keepdims=True), 1.0)
    p, q = ((counts + shared_out) / (np.sum(counts, axis=-1, keepdims=True) + kappa) for counts in (recent, baseline))
    return p, q


def drift(recent: Floats, baseline: Floats, pseudo_count: float, min_sample: int) -> Drift:
    """Compute δ_drift: the mean drift of the measurable metrics, ``1 − exp(−KL')`` each (scoring.md §5).

    KL is the divergence Σ p ln(p / q) of the smoothed probabilities. KL' is KL less its bias by sampling:
    ``max(0, KL − (m − 1)/2 · (1/n_r + 1/n_b))``. n_r and n_b are the sums of the counts, and m is the number of bins
    that either window uses. Without drift, ``2 KL / (1/n_r + 1/n_b)`` has about a chi-square distribution with m − 1
    degrees of freedom (Kullback 1959, Information Theory and Statistics), whose mean is m − 1.

    :param recent: (n, 3, 10) counts in the scoring window.
    :param baseline: (n, 3, 10) counts in the baseline window.
    :param pseudo_count: α of :func:`smoothed`.
    :param min_sample: smallest number of values in the window, and in the baseline, of a measurable metric; 1 or more.
    """
    p, q = smoothed(recent, baseline, pseudo_count)
    kl = np.sum(p * np.log(ratio(p, q, 1.0)), axis=-1)
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
