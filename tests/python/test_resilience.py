"""The formulas of the resilience step, against numbers worked out by hand (scoring.md §5)."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from ciris_scoring.statistics.resilience import (
    bias_corrected,
    delta_metric,
    drift,
    kl_divergence,
    resilience_score,
    sigmoid,
    smoothed,
)

ALPHA = 0.5
MIN_SAMPLE = 30


def in_bins(**counts: int) -> np.ndarray:
    """A histogram from keywords such as ``bin9=30``."""
    histogram = np.zeros(10, dtype=np.int64)
    for name, count in counts.items():
        histogram[int(name.removeprefix("bin"))] = count
    return histogram


histograms = hnp.arrays(np.int64, (10,), elements=st.integers(0, 5000))
filled_histograms = histograms.filter(lambda h: h.sum() >= MIN_SAMPLE)
fractions = st.floats(0, 1)


# --- smoothing and divergence --------------------------------------------------------------------------------------


def test_smoothing_adds_half_a_count_to_each_bin():
    # n = 30, all in one bin: (30 + 0.5) / (30 + 5) and (0 + 0.5) / (30 + 5).
    assert smoothed(in_bins(bin9=30), ALPHA) == pytest.approx([0.5 / 35] * 9 + [30.5 / 35], abs=1e-15)


def test_smoothing_of_an_empty_histogram_is_uniform():
    assert smoothed(np.zeros(10), ALPHA) == pytest.approx([0.1] * 10)


@pytest.mark.parametrize("alpha", [0, -1, math.nan])
def test_smoothing_refuses_a_pseudo_count_that_is_not_positive(alpha):
    with pytest.raises(ValueError, match="pseudo-count"):
        smoothed(in_bins(bin9=30), alpha)


def test_divergence_of_two_coins():
    # p = (3/4, 1/4), q = (1/2, 1/2): 3/4 ln(3/2) + 1/4 ln(1/2) = 0.4054651 * 0.75 - 0.6931472 * 0.25.
    assert kl_divergence([0.75, 0.25], [0.5, 0.5]) == pytest.approx(0.1308120359, abs=1e-10)


# --- bias ----------------------------------------------------------------------------------------------------------


def test_bias_of_sampling_is_taken_off():
    # Bins 0 and 1 are used, m = 2: 1/2 * (1/30 + 1/60) = 1/2 * 3/60 = 0.025.
    recent, baseline = in_bins(bin0=10, bin1=20), in_bins(bin0=20, bin1=40)
    assert bias_corrected(0.1, recent, baseline) == pytest.approx(0.075)


def test_a_bin_used_by_either_window_counts_once():
    # m = 3 (bin 1 in both): 2/2 * (1/40 + 1/40) = 0.05.
    recent, baseline = in_bins(bin0=20, bin1=20), in_bins(bin1=20, bin2=20)
    assert bias_corrected(1.0, recent, baseline) == pytest.approx(0.95)


def test_bias_never_makes_drift_negative():
    assert bias_corrected(0.001, in_bins(bin0=15, bin1=15), in_bins(bin0=15, bin1=15)) == 0


def test_bias_of_an_empty_histogram_is_undefined():
    assert np.isnan(bias_corrected(0.1, np.zeros(10, dtype=int), in_bins(bin1=30)))


# --- one metric ----------------------------------------------------------------------------------------------------


def test_everything_moved_from_one_bin_to_another():
    # p = (30.5, 0.5, 0.5 * 8) / 35, q = (0.5, 30.5, 0.5 * 8) / 35, so all but two terms are 0:
    # KL = 30.5/35 ln 61 + 0.5/35 ln(1/61) = 30/35 * ln 61 = 0.857142857 * 4.110873864 = 3.523606169.
    # Bias: m = 2, 1/2 * (1/30 + 1/30) = 1/30. KL' = 3.490272836; 1 - exp(-KL') = 0.969507448.
    delta = delta_metric(in_bins(bin0=30), in_bins(bin9=30), ALPHA, MIN_SAMPLE)
    assert delta == pytest.approx(0.969507448, abs=1e-9)


def test_a_mild_shift():
    # recent (20, 20) of 40, baseline (30, 70) of 100, in bins 8 and 9.
    # p: 20.5/45 twice and 0.5/45 eight times; q: 30.5/105, 70.5/105 and 0.5/105 eight times.
    # KL = 20.5/45 [ln(20.5 * 105 / (45 * 30.5)) + ln(20.5 * 105 / (45 * 70.5))] + 8 * 0.5/45 * ln(105/45)
    #    = 0.4555556 * (0.4499961 - 0.3878900) + 0.0888889 * 0.8472979 = 0.0282928 + 0.0753154 = 0.1036081
    # Bias: m = 2, 1/2 * (1/40 + 1/100) = 0.0175. KL' = 0.0861081; 1 - exp(-KL') = 0.0825050.
    delta = delta_metric(in_bins(bin8=20, bin9=20), in_bins(bin8=30, bin9=70), ALPHA, MIN_SAMPLE)
    assert delta == pytest.approx(0.0825050, abs=1e-7)


@pytest.mark.parametrize(
    ("n_recent", "n_baseline", "measurable"),
    [(30, 30, True), (29, 30, False), (30, 29, False), (29, 5000, False), (0, 100, False), (100, 0, False)],
)
def test_a_metric_needs_thirty_values_in_each_window(n_recent, n_baseline, measurable):
    delta = delta_metric(in_bins(bin9=n_recent), in_bins(bin9=n_baseline), ALPHA, MIN_SAMPLE)
    assert np.isnan(delta) == (not measurable)


def test_an_empty_window_is_never_measurable():
    assert np.isnan(delta_metric(np.zeros(10, dtype=int), np.zeros(10, dtype=int), ALPHA, 0))


def test_identical_histograms_have_no_drift():
    histogram = in_bins(bin3=7, bin7=20, bin9=13)
    assert delta_metric(histogram, histogram, ALPHA, MIN_SAMPLE) == 0


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


# --- the mean over metrics -----------------------------------------------------------------------------------------


def test_unmeasurable_metrics_take_no_part_in_the_mean():
    moved = float(delta_metric(in_bins(bin0=30), in_bins(bin9=30), ALPHA, MIN_SAMPLE))
    recent = np.array([[in_bins(bin0=30), in_bins(bin5=30), in_bins(bin9=29)]])
    baseline = np.array([[in_bins(bin9=30), in_bins(bin5=30), in_bins(bin9=1000)]])
    result = drift(recent, baseline, ALPHA, MIN_SAMPLE)
    assert result.per_metric[0] == pytest.approx([moved, 0, np.nan], nan_ok=True)
    assert result.mean == pytest.approx([moved / 2])
    assert result.n_measured.tolist() == [2]


def test_without_a_baseline_drift_is_unmeasured_and_neutral():
    recent = np.full((2, 3, 10), 50)
    result = drift(recent, np.zeros_like(recent), ALPHA, MIN_SAMPLE)
    assert np.isnan(result.per_metric).all()
    assert result.mean.tolist() == [0, 0]
    assert result.n_measured.tolist() == [0, 0]


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


# --- the score -----------------------------------------------------------------------------------------------------


def test_sigmoid_by_hand():
    # 1/(1 + e^2.5) = 1/13.182494 and 1/(1 + e^-2.5).
    assert sigmoid([0, 0.5, 1], 5, 0.5) == pytest.approx([0.0758581800, 0.5, 0.9241418200], abs=1e-10)


@pytest.mark.parametrize(
    ("delta", "mttr_hours", "rho", "expected"),
    [
        (0, 0, 0, 0.9241418200),  # perfect: norm(1)
        (1, 0, 0, 0.0758581800),  # total drift: norm(0)
        (0, 0, 1, 0.0758581800),  # every recovery relapsed: norm(0)
        (0, 1, 0, 0.5),  # one hour to recover: norm(1/2)
        (0.2, 0.25, 0.5, 0.2890504974),  # 0.8 * 0.8 * 0.5 = 0.32: 1/(1 + e^0.9) = 1/3.459603111
    ],
)
def test_resilience_by_hand(delta, mttr_hours, rho, expected):
    assert resilience_score(delta, mttr_hours, rho, 1, 5, 0.5) == pytest.approx(expected, abs=1e-10)


def test_the_scale_of_recovery_is_a_parameter():
    # 24 hours with a scale of 24 hours: norm(1/2).
    assert resilience_score(0, 24, 0, 24, 5, 0.5) == pytest.approx(0.5)


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
