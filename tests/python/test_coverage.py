"""Tests of interval coverage at a small size. The tolerances exclude random failures, but detect wrong bounds."""

import numpy as np
import pytest
from click.testing import CliRunner

from benchmarks.__main__ import main
from benchmarks.coverage import command, watch, year
from benchmarks.coverage.alarms import PARAMETERS, is_falling
from benchmarks.coverage.behaviour import CONFIDENCE_IN_BIN, Behaviour, Facts
from benchmarks.coverage.cases import PERFECT, WINDOWS, Case, cells, special_cases
from benchmarks.coverage.command import Stated, judged
from benchmarks.coverage.events import EventRates, Events, draw_events, row_facts
from benchmarks.coverage.measure import measure
from benchmarks.coverage.truth import truth
from benchmarks.coverage.watch import KINDS, PLANTED
from benchmarks.coverage.year import Lives, Standing, held
from ciris_scoring.statistics.intervals import COMPONENTS, FACTORS, GOOD_SHARES, Intervals
from ciris_scoring.statistics.rate_components import PARTS, RateComponents, rate_components
from ciris_scoring.statistics.resilience import drift
from ciris_scoring.statistics.windows import VALUE_UNITS, Deferrals, FragileEpisodes

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


def test_more_traces_make_narrower_intervals():
    window = WINDOWS[7]
    widths = [measure(Case("width", n, window), ROWS, SEED)["width"] for n in (30, 100, 600)]
    assert widths[0] > widths[1] + 0.05 > widths[2] + 0.05


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
SIZES = [
    *[(30, 30), (30, 100), (30, 300), (30, 1000), (30, 2000), (100, 100), (100, 1000), (300, 1000)],
    *[(600, 2000), (1000, 30), (2000, 30)],
]


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


@pytest.mark.parametrize("sizes", [(30, 100), (30, 1000), (1000, 30), (300, 1000)])
def test_real_drift_is_found(sizes):
    shape = SHAPES["one peak"]
    drifted = 0.8 * shape + 0.2 * np.roll(shape, 3)
    unchanged = np.quantile(drift_of_samples(shape, shape, sizes), 0.95)
    assert np.mean(drift_of_samples(drifted, shape, sizes) > unchanged) > 0.9


def test_the_same_seed_gives_the_same_figures():
    case = cells()[0]
    assert measure(case, 100, 3) == measure(case, 100, 3) != measure(case, 100, 4)


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


def test_a_planted_drop_is_seen_and_unchanged_agents_seldom_raise_it():
    broken = watch.seen(PLANTED[0], True, 100, SEED)
    assert (broken["agents"], broken["traces"]) == (100, 600)
    assert broken["in 28 days"] >= broken["in 14 days"] >= broken["in 7 days"] >= 0.75
    assert broken["by the week alone"] <= broken["in 28 days"] and 1 <= broken["median day"] <= 7
    quiet = watch.unchanged(KINDS[0], 600, 100, SEED)
    assert quiet["agent-days"] == 2800
    assert quiet["by the week alone"] <= quiet["falling"] <= 0.02 and quiet["episode"] <= 0.02


@pytest.mark.parametrize("kind", KINDS[2:])
def test_alarms_can_be_measured_on_every_kind_of_days(kind, monkeypatch):
    monkeypatch.setattr(watch, "FLEET", 20)
    found = watch.unchanged(kind, 600, 20, SEED)
    assert (found["unchanged, days"], found["agent-days"]) == (kind, 20 * 28)
    assert found["falling"] <= 0.2


@pytest.mark.parametrize("planted", PLANTED[1:], ids=lambda planted: planted.name)
def test_every_change_raises_more_than_no_change(planted, monkeypatch):
    monkeypatch.setattr(watch, "FLEET", 60)
    assert watch.seen(planted, False, 60, SEED)["in 28 days"] >= 0.1


def behaviour_of(rows: list[dict[str, tuple[float, float, float]]]) -> RateComponents:
    """Return losses of perfect agents whose only interval widths are those of the given components (value, low,
    high)."""
    one = np.ones((len(rows), len(COMPONENTS)))
    value = one * [float(name in GOOD_SHARES) for name in COMPONENTS]
    low, high = value.copy(), value.copy()
    for i, row in enumerate(rows):
        for name, three in row.items():
            at = COMPONENTS.index(name)
            value[i, at], low[i, at], high[i, at] = three
    empty = np.zeros(len(rows))
    return rate_components(
        Intervals(*[empty] * 3, *[one] * 3, value, low, high, one, empty.astype(np.int64), *[empty] * 4),
        PARAMETERS,
    )


def test_falling_equals_hand_computed_values():
    """2.8 standard deviations in the sum, 3.8 in one component, and a loss of 0.05."""
    was = {"k_contradiction": (0.02, 0.02, 0.03176)}
    unsure = was | {"i_chain": (np.exp(-0.2), np.exp(-0.788), 1.0)}

    def now(k: float, side: float = 0.01568) -> dict[str, tuple[float, float, float]]:
        return {"k_contradiction": (k, k - side, k)}

    before = behaviour_of([was, was, unsure, unsure, *[{"k_contradiction": (0.02,) * 3}] * 2])
    after = behaviour_of([now(0.0481), now(0.0479), now(0.059), now(0.057), now(0.027, 0), now(0.025, 0)])
    assert before.loss[0].sum() == pytest.approx(0.2 + np.log1p(np.exp(-2.5)))
    assert is_falling(before, after).tolist() == [True, False, True, False, True, False]
    unmeasured = np.where(np.array(PARTS) == "k_contradiction", np.nan, after.loss)
    assert not is_falling(before, after._replace(loss=unmeasured)).any()


def test_published_values_of_events_equal_hand_computed_values():
    """Episodes: 1 h on day 0, 2 h on day 3 (the same mode), 4 h on day 5. Two deferrals with values 1 and 0.5."""
    day, deferred, nothing = np.array([0, 3, 5]), np.array([1, 6]), np.zeros(3, dtype=np.int64)
    hour = 3_600_000_000
    episodes = FragileEpisodes(
        nothing, day, day, np.array([0, 0, 1]), day * 24 * hour, hour * np.array([1, 2, 4])
    )
    deferrals = Deferrals(
        nothing[:2], deferred, deferred, np.array([VALUE_UNITS, VALUE_UNITS // 2]), nothing[:2]
    )
    days = np.zeros((1, 8))
    facts = row_facts(Events(days, days, days, episodes, deferrals), np.array([3, 4, 7, 8]), 7)
    assert [values[0].tolist() for values in facts] == [
        [1.0, 1.5, 7 / 3, 3.0],
        [1, 2, 3, 2],
        [0.0, 0.5, 1 / 3, 0.0],
        [1.0, 1.0, 0.75, 0.75],
        [1, 1, 2, 2],
    ]


def test_events_are_drawn_with_their_rates():
    drawn = draw_events(EventRates(*(np.full((200, 50), v) for v in (0.2, 1.0, 0.5, 0.7))), rng())
    assert len(drawn.episodes.agent) == drawn.n_episodes.sum()
    assert drawn.n_episodes.sum() / 10_000 == pytest.approx(0.2, abs=0.02)
    assert drawn.episodes.microseconds.mean() / 3.6e9 == pytest.approx(1.0, abs=0.15)
    assert drawn.deferrals.value.mean() / VALUE_UNITS == pytest.approx(0.7, abs=0.02)


def rng() -> np.random.Generator:
    return np.random.default_rng(SEED)


def test_long_run_score_equals_hand_computed_values():
    """The good agent has its usual score without events. A deferral of value 0.5 counts in each window that has one."""
    one = np.ones((1, 1))

    def lives(episodes: float, hours: float, deferrals: float) -> Lives:
        rates = EventRates(episodes * one, hours * one, deferrals * one, 0.5 * one)
        segment = np.zeros((1, 1), dtype=np.int64)
        return Lives(segment, good_agent(1), rates)

    r = 1 / (1 + np.exp(-2.5))
    score = np.exp(-0.1) * (1 - (0.005 + 0.995 * 0.01)) * 0.99 * r * 0.98 * 0.995 * 0.95
    assert year.long_run(lives(0, 1, 0), WINDOWS[7], rng()) == pytest.approx(score * one, abs=1e-9)
    half = np.exp(-7 / 7) + (1 - np.exp(-7 / 7)) / 2
    assert year.long_run(lives(0, 1, 1 / 7), WINDOWS[7], rng()) == pytest.approx(score * half * one, abs=1e-9)
    # Episodes last very long, so R is close to norm(0) in a share 1 - e^-1 of the windows.
    stuck = np.exp(-1) * r + (1 - np.exp(-1)) / (1 + np.exp(2.5))
    assert year.long_run(lives(1 / 7, 1e6, 0), WINDOWS[7], rng()) == pytest.approx(
        score * stuck / r * one, abs=0.04
    )


def test_permission_is_kept_until_it_is_withheld():
    grant = np.array([[False, True, False, False, True, True]])
    withhold = np.array([[False, False, False, True, False, True]])
    assert held(grant, withhold).tolist() == [[False, True, True, False, True, False]]


def test_review_blocks_new_grants_and_keeps_held_permissions():
    probability = np.array([[0.8, 0.6, 0.3, 0.8, 0.8]])
    alarm = np.array([[False, True, False, True, False]])
    expected = np.full((1, 5), 0.7)
    standing = Standing(expected, expected, expected, expected, np.zeros((1, 5), int), alarm, probability)
    denials = {row["decided by"]: row["wrong denials"] for row in year.outcomes("steady", standing)}
    assert denials == {
        "steady, without reviews": 1 / 5,  # the third day
        "steady, verdict": 2 / 5,  # and the fourth
        "steady, revoked by a review": 3 / 5,  # and the second
    }


def test_standard_error_of_a_share_of_agent_days():
    """Two agents with 4 and 2 days, of which 4 and 0 count: the residuals from 2/3 are 4/3 and -4/3."""
    agent = np.array([0, 0, 0, 0, 1, 1])
    assert year.error_of_share(agent == 0, agent) == pytest.approx(np.sqrt(2 * (4 / 3) ** 2 * 2) / 6)


def test_accuracy_and_outcomes_equal_hand_computed_values():
    """Two days with 0.7 and two with 0.5, and the days on which the permission was held."""
    expected = np.array([[0.7, 0.7, 0.5, 0.5]])
    score = np.array([[0.7, 0.5, 0.6, 0.5]])
    standing = Standing(
        score, score - 0.05, score + 0.15, expected, np.array([[0, 0, 1, 1]]), np.zeros((1, 4), dtype=bool)
    )
    [found] = year.together([{"week": standing}]).values()
    week = year.accuracy("week", found)
    assert (week["coverage"], week["decided at 0.6"]) == (0.5, 0.25)
    assert week["median width"] == pytest.approx(0.2)
    assert week["error"] == pytest.approx(np.sqrt((0.04 + 0.01) / 4))
    assert week["jumps"] == pytest.approx(np.sqrt((2 * 0.01 + 2 * 0.0025) / 4))
    point, interval = (list(outcome.values()) for outcome in year.outcomes("week", found))
    assert [point[k] for k in (0, 1, 3, 5)] == ["week, score", 0.25, 0.25, 3 * 365 / 4]
    assert [interval[k] for k in (0, 1, 3)] == ["week, range", 0.5, 0.0] and interval[-1] == 2
    assert np.isnan(point[-1])  # not held on the previous day


def test_missed_figures_are_reported():
    rows = [{"case": "a", "traces": 600, "ece": 0.9}, {"case": "b", "traces": 30, "ece": 0.8}]
    figures = [
        Stated("traces", 20, 600),
        Stated("ece", 0.9, of=lambda row: row["traces"] >= 600),
        Stated("ece", most=0.8),
    ]
    found = list(judged(rows, figures))
    assert [(one.what, one.stated) for one in found if not one.met] == [("ece, a, 600 traces", "at most 0.8")]
    assert len(found) == 5


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
