"""Tests of the reference implementation of the intervals where certainty.md §3 can be computed by hand.

`differences_from_reference` compares the published intervals with it to 1e-9, so the results hold for the package.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest

from reference.intervals import Facts, Period, bounds, fleet
from reference.scoring import DEFAULT_PARAMETERS

DAYS, WINDOW = 60, (30, 30, 30)
BEST = 1 / (1 + math.exp(-2.5))
LAST_BIN = [*[0] * 9, 100]
GOOD_DAY = Period(
    n=100,
    chain_valid=100,
    fields=1000,
    sampled=30,
    replayed=30,
    signals=(100, 0),
    coherent=(100, 0),
    judged=LAST_BIN,
    confidence=LAST_BIN,
    successes=LAST_BIN,
    histograms=[LAST_BIN] * 3,
)
"""100 perfect traces with all values in the last bin."""


def good_days(**changes: Any) -> list[Period]:
    """Return the days of a perfect agent with the given changes on each day."""
    return [replace(GOOD_DAY, **changes)] * DAYS


def bounds_of(days: list[Period], window: tuple[int, int, int] = WINDOW, **parameters: float) -> dict:
    """Return the bounds of a single agent without episodes and deferrals."""
    shared = fleet([days], DAYS, window, 1)
    return bounds(days, Facts(0.0, 0, 0.0, 1.0, 0), DAYS, window, *shared, DEFAULT_PARAMETERS | parameters)


def test_the_perfect_agents_interval_ends_at_its_score():
    found = bounds_of(good_days())
    value, low, high = found["capacity"]
    assert value == high == pytest.approx(BEST, abs=1e-15)
    assert 0.85 < low < BEST
    for name in ("i_chain", "i_coverage", "i_replay", "s_score"):
        assert found["components"][name][2] == 1, name
    for name in ("d_identity", "k_contradiction", "u_unsafe", "ece"):
        assert found["components"][name][1] == 0, name


def test_intervals_of_deferrals_and_episodes_have_no_width_without_events():
    found = bounds_of(good_days())
    assert found["components"]["q_deferral"] == (1, 1, 1)
    assert found["components"]["mttr_hours"] == (0, 0, 0)
    assert not {"q_deferral", "mttr_hours"} & found["effects"].keys()


def test_upper_bound_with_an_invalid_chain_is_that_of_the_chain():
    found = bounds_of(good_days(chain_valid=0))
    # Wilson bound at 0 of 3,000: z²/(n + z²). On the better side only the fixed cost remains.
    upper = 1.96**2 / (3000 + 1.96**2)
    assert found["components"]["i_chain"][2] == pytest.approx(upper, rel=1e-12)
    assert found["capacity"] == (0, 0, pytest.approx(upper * BEST, rel=0.02))
    assert found["drivers"] == {"i_chain"}


def test_score_without_signals_is_0_without_width():
    assert bounds_of(good_days(signals=(0, 0), coherent=(0, 0)))["capacity"] == (0, 0, 0)


def test_an_agent_without_a_baseline_has_bounds():
    found = bounds_of([Period()] * (DAYS - 3) + good_days()[:3], (7, 23, 30))
    assert found["components"]["delta_drift"] == (0, 0, 0)  # unmeasured, so without width
    value, low, _ = found["capacity"]
    assert 0 < low < value


def test_below_min_traces_only_the_score_is_null():
    found = bounds_of(good_days(), min_traces=3001)
    assert found["capacity"] is None
    assert all(math.isfinite(limit) for factor in found["factors"].values() for limit in factor)


def test_days_that_differ_widen_the_interval():
    alike = bounds_of(good_days(overridden=10))
    differ = bounds_of([replace(GOOD_DAY, overridden=0 if day % 10 else 100) for day in range(DAYS)])
    effects = [found["effects"]["k_contradiction"] for found in (alike, differ)]
    assert effects[0] < 2 < 20 < effects[1]
    widths = [high - low for _, low, high in (found["factors"]["C"] for found in (alike, differ))]
    assert widths[1] > 3 * widths[0]


def test_published_bounds_are_at_1_96_on_both_sides():
    found = bounds_of([GOOD_DAY] * 30 + good_days(unsafe=10)[:30])
    rate, n, z = 0.1, 3000 / found["effects"]["u_unsafe"], 1.96
    spread = z * math.sqrt(rate * (1 - rate) / n + z * z / (4 * n * n))
    expected = [(rate + z * z / (2 * n) + side * spread) / (1 + z * z / n) for side in (-1, 1)]
    assert found["components"]["u_unsafe"][1:] == pytest.approx(expected, rel=1e-12)


def test_published_upper_bound_of_ece_is_wider_by_its_factor():
    """All 3,000 traces are in one bin and confidence is 10 % too high: centre sqrt(g² - s²), distance 1.6 *
    1.96 * s.
    """
    found = bounds_of(good_days(successes=[*[0] * 9, 90]))
    success = (2700 + 2 + 2 * 2702 / 3004) / (3000 + 4 + 2)
    variance = found["effects"]["ece"] * success * (1 - success) / 3000
    expected = math.sqrt(0.01 - variance) + 1.6 * 1.96 * math.sqrt(variance)
    value, _, high = found["components"]["ece"]
    assert (value, high) == (pytest.approx(0.1), pytest.approx(expected, rel=1e-12))
