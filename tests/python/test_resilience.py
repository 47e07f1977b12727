"""What must hold of drift and R for any input; their numbers are those of tests/cases/resilience.py (scoring.md §5)."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from ciris_scoring.statistics.resilience import (
    delta_metric,
    drift,
    kl_divergence,
    resilience_score,
    sigmoid,
    smoothed,
)

ALPHA = 0.5
MIN_SAMPLE = 30

histograms = hnp.arrays(np.int64, (10,), elements=st.integers(0, 5000))
filled_histograms = histograms.filter(lambda h: h.sum() >= MIN_SAMPLE)
fractions = st.floats(0, 1)


@pytest.mark.parametrize("alpha", [0, -1, math.nan])
def test_smoothing_refuses_a_pseudo_count_that_is_not_positive(alpha):
    with pytest.raises(ValueError, match="pseudo-count"):
        smoothed(np.full(10, 3), alpha)


def test_the_correction_removes_most_of_what_sampling_adds():
    """A stable agent with 30 recent and 100 baseline traces: about 0.02, where the raw divergence is 0.10 to 0.14."""
    generator = np.random.default_rng(1)
    shape = [0, 0, 0, 0, 0.02, 0.05, 0.13, 0.3, 0.3, 0.2]
    recent = generator.multinomial(30, shape, size=4000)
    baseline = generator.multinomial(100, shape, size=4000)
    raw = 1 - np.exp(-kl_divergence(smoothed(recent, ALPHA), smoothed(baseline, ALPHA)))
    assert raw.mean() > 0.08
    assert delta_metric(recent, baseline, ALPHA, MIN_SAMPLE).mean() < 0.03


@given(filled_histograms, filled_histograms)
def test_drift_of_a_metric_is_a_share(recent, baseline):
    assert 0 <= delta_metric(recent, baseline, ALPHA, MIN_SAMPLE) < 1


@given(filled_histograms)
def test_no_histogram_drifts_from_itself(histogram):
    assert delta_metric(histogram, histogram, ALPHA, MIN_SAMPLE) == 0


@given(filled_histograms, filled_histograms, st.permutations(range(10)))
def test_the_order_of_the_bins_does_not_matter(recent, baseline, order):
    there = delta_metric(recent, baseline, ALPHA, MIN_SAMPLE)
    assert delta_metric(recent[list(order)], baseline[list(order)], ALPHA, MIN_SAMPLE) == pytest.approx(there)


def test_no_rows_at_all():
    nothing = np.zeros((0, 3, 10), dtype=np.int64)
    result = drift(nothing, nothing, ALPHA, MIN_SAMPLE)
    assert (result.per_metric.shape, result.mean.shape, result.n_measured.shape) == ((0, 3), (0,), (0,))


@given(
    hnp.arrays(np.int64, (5, 3, 10), elements=st.integers(0, 60)),
    hnp.arrays(np.int64, (5, 3, 10), elements=st.integers(0, 60)),
)
def test_a_row_does_not_depend_on_its_neighbours(recent, baseline):
    together = drift(recent, baseline, ALPHA, MIN_SAMPLE)
    for row in range(len(recent)):
        alone = drift(recent[row : row + 1], baseline[row : row + 1], ALPHA, MIN_SAMPLE)
        assert alone.mean[0] == pytest.approx(together.mean[row], abs=1e-15)
        assert alone.n_measured[0] == together.n_measured[row]


@given(fractions, st.floats(0, 1e9), fractions)
def test_resilience_stays_between_its_limits(delta, mttr_hours, rho):
    low, high = sigmoid([0, 1], 5, 0.5)
    assert low <= resilience_score(delta, mttr_hours, rho, 1, 5, 0.5) <= high


@given(fractions, st.floats(0, 1e6), fractions, fractions)
def test_more_drift_slower_recovery_or_more_relapses_never_raise_resilience(delta, mttr, rho, more):
    score = resilience_score(delta, mttr, rho, 1, 5, 0.5)
    assert resilience_score(delta + more * (1 - delta), mttr, rho, 1, 5, 0.5) <= score + 1e-15
    assert resilience_score(delta, mttr + more, rho, 1, 5, 0.5) <= score + 1e-15
    assert resilience_score(delta, mttr, rho + more * (1 - rho), 1, 5, 0.5) <= score + 1e-15
