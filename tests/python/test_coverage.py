"""Tests of interval coverage at a small size. The tolerances exclude random failures, but detect wrong bounds."""

import numpy as np
import pytest
from click.testing import CliRunner

from benchmarks.__main__ import main
from benchmarks.coverage import command, watch, year
from benchmarks.coverage.alarms import PARAMETERS
from benchmarks.coverage.behaviour import CONFIDENCE_IN_BIN, Behaviour, Facts
from benchmarks.coverage.cases import PERFECT, WINDOWS, cells, special_cases
from benchmarks.coverage.measure import measure
from benchmarks.coverage.truth import truth
from benchmarks.coverage.watch import KINDS, PLANTED
from ciris_scoring.statistics.intervals import FACTORS
from ciris_scoring.statistics.resilience import drift

ROWS = 400
SEED = 11
# The standard error of a share of 400 is at most 1.5 % at 90 %. The bounds are five standard errors below the shares
# that were measured with 1,600.
LEAST_COVERAGE = 0.90
LEAST_FACTOR_COVERAGE = 0.85
EVERY_THIRD_CELL = cells()[::3]


@pytest.mark.parametrize("case", EVERY_THIRD_CELL, ids=lambda case: case.name)
def test_intervals_of_plausible_agents_hold_the_truth(case):
    measured = measure(case, ROWS, SEED)
    assert measured["rows"] == ROWS
    assert measured["score"] >= LEAST_COVERAGE
    assert min(measured[factor] for factor in FACTORS) >= LEAST_FACTOR_COVERAGE
    assert 0.15 < measured["width"] < 0.7


@pytest.mark.parametrize(
    "case", [*special_cases()[2:9:2], *special_cases()[-3:-1]], ids=lambda case: case.name
)
def test_intervals_of_special_agents_hold_the_truth(case):
    assert measure(case, ROWS, SEED)["score"] >= 0.85


def test_the_perfect_agents_interval_ends_at_the_best_score():
    perfect = measure(special_cases()[-1], 100, SEED)
    assert perfect["case"] == PERFECT
    assert perfect["at best"] == perfect["score"] == 1.0
    assert perfect["median"] > 0.92


SHAPES = {
    "one bin": np.eye(10)[8],
    "two bins": np.array([0, 0, 0, 0, 0, 0, 0, 0, 0.5, 0.5]),
    "one peak": np.array([0, 0, 0, 0, 0, 0.02, 0.08, 0.2, 0.4, 0.3]),
    "two peaks": np.array([0.2, 0.1, 0.05, 0, 0, 0, 0.05, 0.1, 0.2, 0.3]),
    "even": np.full(10, 0.1),
}
SIZES = [(30, 30), (30, 300), (30, 2000), (100, 1000), (600, 2000), (2000, 30)]


def drift_of_samples(recent, baseline, sizes):
    """Return the drift of 2,000 pairs of windows with values from the two distributions."""
    rng = np.random.default_rng(SEED)
    counts = [
        rng.multinomial(n, shape, (2000, 1)).astype(float)
        for n, shape in zip(sizes, (recent, baseline), strict=True)
    ]
    return drift(*counts, PARAMETERS.drift_pseudo_count, PARAMETERS.drift_min_sample).mean


@pytest.mark.parametrize("sizes", SIZES)
@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_drift_is_small_without_drift_whatever_the_sizes_of_the_windows(shape, sizes):
    mean = drift_of_samples(shape, shape, sizes).mean()
    # The standard error is at most 0.001. With 40,000 pairs, 0.0366 was measured for 30 and 30 values in ten bins.
    assert mean <= (0.041 if shape.min() > 0 else 0.035)
    if shape.max() == 1:
        assert mean == 0


@pytest.mark.parametrize("sizes", [(30, 100), (1000, 30), (300, 1000)])
def test_real_drift_is_found(sizes):
    shape = SHAPES["one peak"]
    drifted = 0.8 * shape + 0.2 * np.roll(shape, 3)
    unchanged = np.quantile(drift_of_samples(shape, shape, sizes), 0.95)
    assert np.mean(drift_of_samples(drifted, shape, sizes) > unchanged) > 0.9


def good_agent(days: int) -> Behaviour:
    """Return a good agent that is the same on each day."""
    rates = np.array([0.0, 0.01, 0.0, 0.01, 0.01, 0.01, 0.005, 0.05])
    each = (rates, np.full((3, 10), 0.1), CONFIDENCE_IN_BIN - 0.02)
    return Behaviour(*(np.broadcast_to(values, (1, days, *values.shape)) for values in each))


def test_truth_equals_hand_computed_values():
    window = WINDOWS[7]
    n = np.full((1, window.horizon_days), 100)
    facts = Facts(n, n * 4 // 5, *np.zeros((4, 1)), np.zeros((1, 3)))
    expected = truth(good_agent(window.horizon_days), facts, window, PARAMETERS, window.horizon_days)
    c = np.exp(-10 * 0.01)
    i_int = (1 - 0.0) * (1 - (0.01 * 0.5 + (1 - 0.01 * 0.5) * 0.01)) * (1 - 0.01)
    r = 1 / (1 + np.exp(-2.5))  # no drift, no episode
    i_inc = (1 - 0.02) * (1 - 0.005)
    assert expected.factors[0] == pytest.approx([c, i_int, r, i_inc, 0.95], abs=1e-12)
    assert expected.capacity[0] == pytest.approx(c * i_int * r * i_inc * 0.95, abs=1e-12)


def test_command_prints_tables_and_missed_figures(monkeypatch):
    case = cells()[0]
    monkeypatch.setattr(command, "cells", lambda: [case])
    monkeypatch.setattr(command, "special_cases", lambda: special_cases()[-1:])
    monkeypatch.setattr(watch, "KINDS", KINDS[:1])
    monkeypatch.setattr(watch, "PLANTED", PLANTED[:1])
    monkeypatch.setattr(
        watch, "seen", lambda planted, *_: {"seen": planted.name, "days": "alike", "in 28 days": 0.7}
    )
    monkeypatch.setattr(year, "AGENTS", 5)
    monkeypatch.setattr(year, "DAYS", 30)
    result = CliRunner().invoke(main, ["coverage", "--rows", "100"])
    assert result.exit_code == 1, result.output
    for line in (case.name, PERFECT, "steady, 7 days, verdict", "plain", PLANTED[0].name):
        assert any(row.startswith(line) for row in result.stdout.splitlines()), line
    assert "Measuring the year." in result.stderr
    assert "Missed: in 28 days, 0.2 lost" in result.stdout
    assert result.stdout.splitlines()[-1].endswith(" stated figures are met.")
