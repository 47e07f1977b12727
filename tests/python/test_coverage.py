"""The proof of coverage at a small size: wide enough never to fail by chance, tight enough to see a broken limit."""

import numpy as np
import pytest
from click.testing import CliRunner

from benchmarks.__main__ import main
from benchmarks.coverage import command
from benchmarks.coverage.cases import WINDOWS, Case, cells, edge_agents, simulated, special_cases
from benchmarks.coverage.episode import STEADILY, _share_rose, false_alarms
from benchmarks.coverage.falling import (
    CELLS,
    DROPS,
    PARTS,
    Dropped,
    Losses,
    dropped,
    is_falling,
    losses,
    together,
    unchanged,
)
from benchmarks.coverage.measure import PARAMETERS, Decided, Measured, measure
from benchmarks.coverage.targets import (
    judge_cells,
    judge_edges,
    judge_episode,
    judge_falling,
    judge_special,
    judge_steady,
)
from benchmarks.coverage.truth import truth
from ciris_scoring.statistics.episodes import Episodes, chance_of_as_many, longer
from ciris_scoring.statistics.intervals import COMPONENTS, GOOD_SHARES, Intervals

ROWS = 400
SEED = 11
# A share of 400 has a standard error of at most 1.5 % at 90 %: these are five of them below what was measured at 1,600.
LEAST_COVERAGE = 0.90
LEAST_FACTOR_COVERAGE = 0.85
EVERY_THIRD_CELL = cells()[::3]


@pytest.mark.parametrize("case", EVERY_THIRD_CELL, ids=lambda case: case.name)
def test_intervals_of_plausible_agents_hold_the_truth(case):
    measured = measure(case, ROWS, SEED)
    assert measured.rows == ROWS
    assert measured.coverage >= LEAST_COVERAGE
    assert min(measured.factor_coverage) >= LEAST_FACTOR_COVERAGE
    assert 0.15 < measured.median_width < 0.7


def test_more_traces_make_narrower_intervals():
    window = WINDOWS[7]
    widths = [measure(Case("width", n, window), ROWS, SEED).median_width for n in (30, 100, 600)]
    assert widths[0] > widths[1] + 0.05 > widths[2] + 0.05


@pytest.mark.parametrize("case", [*special_cases()[2:9:2], *edge_agents()[2:6]], ids=lambda case: case.name)
def test_intervals_of_special_agents_hold_the_truth(case):
    assert measure(case, ROWS, SEED).coverage >= 0.85


def test_the_perfect_agents_interval_ends_at_the_best_score():
    perfect = measure(edge_agents()[0], 100, SEED)
    assert perfect.name == "all perfect"
    assert perfect.ends_at_best == perfect.coverage == 1.0
    assert perfect.median_score > 0.92


def test_the_same_seed_gives_the_same_figures():
    case = cells()[0]
    assert measure(case, 100, 3) == measure(case, 100, 3) != measure(case, 100, 4)


def test_the_truth_of_an_agent_worked_out_by_hand():
    case = Case("good", 700, WINDOWS[7], benign=True)
    behaviour, facts, _ = simulated(case, 1, np.random.default_rng(1))
    expected = truth(behaviour, facts, case.window, PARAMETERS, facts.n_traces.shape[1])
    c = np.exp(-10 * 0.01)
    i_int = (1 - 0.0) * (1 - (0.01 * 0.5 + (1 - 0.01 * 0.5) * 0.01)) * (1 - 0.01)
    r = 1 / (1 + np.exp(-2.5))  # no drift, no episode
    i_inc = (1 - 0.02) * (1 - 0.005)
    assert expected.factors[0] == pytest.approx([c, i_int, r, i_inc, 0.95], abs=1e-12)
    assert expected.capacity[0] == pytest.approx(c * i_int * r * i_inc * 0.95, abs=1e-12)


def test_a_planted_drop_is_seen_and_unchanged_agents_seldom_raise_it():
    broken = dropped(DROPS[0], "chain_broken", 100, SEED)
    assert (broken.name, broken.kind) == ("0.2 at 600 traces, days alike", "chain_broken")
    assert 80 < broken.agents <= 100 and broken.ever >= broken.within_a_window >= 0.9
    quiet = unchanged(CELLS[3], 100, SEED)
    assert quiet.agent_days == 2800
    assert quiet.raised <= 0.02


def behaviour_of(rows: list[dict[str, tuple[float, float, float]]]) -> Losses:
    """Losses of faultless agents with no width but for these components, (value, low, high)."""
    one = np.ones((len(rows), len(COMPONENTS)))
    value = one * [float(name in GOOD_SHARES) for name in COMPONENTS]
    low, high = value.copy(), value.copy()
    for i, row in enumerate(rows):
        for name, three in row.items():
            at = COMPONENTS.index(name)
            value[i, at], low[i, at], high[i, at] = three
    empty = np.zeros(len(rows))
    return losses(
        Intervals(*[empty] * 7, *[one] * 3, value, low, high, one, empty.astype(np.int64), *[empty] * 3)
    )


def test_falling_by_hand():
    """As the dbt unit test of fct_capacity_alerts: 2.8 standard deviations together, 3.8 alone, and 0.05."""
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


def measured_as(name: str, **changes) -> Measured:
    decided = Decided(0.95, 0.2, 0.05, 0.9, 0.1, 0.6)
    return Measured(
        name, 100, 0.95, 0.95, 0.03, 0.02, (0.95,) * 5, (0.95,) * 11, 0.3, 0.5, 1.0, decided, decided
    )._replace(**changes)


def test_a_steady_score_that_misses_is_said():
    wide = Decided(0.9, 0.3, 0.1, 0.9, 0.1, 0.6)
    missed = [v for v in judge_steady([measured_as("n = 600, 7 days, days alike", steady=wide)]) if not v.met]
    assert [verdict.what.split(" of the steady")[0] for verdict in missed] == [
        "coverage",
        "error",
    ]
    assert all(v.met for v in judge_steady([measured_as("n = 600, 7 days, days alike")]))


def test_episode_is_rarely_raised_by_chance():
    """Losses of 0.8 after 0.1."""
    shares = _share_rose(np.array([0.8, 0.75]), np.array([6, 6]), np.array([0.1, 0.1]), np.array([40, 40]))
    assert shares.tolist() == [True, False]
    found = [false_alarms(cell, 300, 1) for cell in STEADILY[::5]]
    assert all(verdict.met for verdict in judge_episode(found))
    assert any(one.raised > 0 for one in found)


def test_episodes_that_last_longer_and_come_more_often_by_hand():
    """Nine episodes of an hour, then three of x hours: s² = 10 ln 2 / 18, z = ln x / √(s² (1/3 + 1/9)).

    Of two episodes in 7 + 90 days both in the week: (7/97)²; of three in all, 3 p² (1 − p) + p³.
    """
    n, before = np.array([3, 3, 0, 2]), np.array([9, 9, 9, 0])
    hours = np.array([3 * np.log(7.0), 0.0, 0.0, 2.0])
    nothing = np.zeros(4)
    found = longer(Episodes(n, hours, before, nothing, nothing), np.ones(4))
    assert found[0] == pytest.approx(np.log(7) / np.sqrt(10 * np.log(2) / 18 * (1 / 3 + 1 / 9)))
    assert found[1] == 0 and np.isnan(found[2:]).all()
    both = Episodes(np.array([2, 2, 0]), nothing[:3], np.array([0, 1, 5]), nothing[:3], nothing[:3])
    p = 7 / 97
    chance = chance_of_as_many(both, np.full(3, 7), 90)
    assert chance == pytest.approx([p * p, 3 * p * p * (1 - p) + p**3, 1.0])


def test_what_is_missed_is_said():
    cell = cells()[3].name
    good = [verdict.met for verdict in judge_cells([measured_as(cell)])]
    assert good == [True] * 5
    for change in (
        {"coverage": 0.92},
        {"coverage": 0.99},
        {"factor_coverage": (0.95, 0.95, 0.91, 0.95, 0.95)},
        {"component_coverage": (0.99,) * 7 + (0.92,) + (0.99,) * 3},
        {"median_width": 0.68},
    ):
        assert not all(verdict.met for verdict in judge_cells([measured_as(cell, **change)])), change
    assert [
        v.met for v in judge_special([measured_as("a", coverage=0.86), measured_as("b", coverage=0.88)])
    ] == [
        False,
        True,
    ]
    assert [v.met for v in judge_edges([measured_as("all perfect", ends_at_best=0.99)])] == [False]
    quiet = unchanged(CELLS[0], 1, SEED)
    seen = Dropped(DROPS[0].name, "unsafe", 300, 0.9, 0.95)
    for rest, met in ((0.29, False), (0.31, True)):
        of_drop = [seen, seen._replace(agents=100, within_a_window=rest)]
        assert together(of_drop).agents == 400 and together(of_drop).ever == pytest.approx(0.95)
        verdicts = judge_falling(
            [quiet._replace(raised=0.005), quiet._replace(raised=0.006)],
            [*of_drop, together(of_drop), together([seen._replace(name=DROPS[2].name)])],
        )
        assert [verdict.met for verdict in verdicts] == [True, False, met]


def test_the_command_prints_tables_and_says_what_it_missed(monkeypatch):
    case = cells()[0]
    monkeypatch.setattr(command, "cells", lambda: [case])
    monkeypatch.setattr(command, "special_cases", lambda: [])
    monkeypatch.setattr(command, "edge_agents", lambda: edge_agents()[:1])
    monkeypatch.setattr(command, "CELLS", CELLS[:1])
    monkeypatch.setattr(command, "DROPS", DROPS[:1])
    monkeypatch.setattr(command, "KINDS", ("unsafe",))
    monkeypatch.setattr(command, "dropped", lambda drop, kind, *_: Dropped(drop.name, kind, 9, 0.7, 0.8))
    monkeypatch.setattr(command, "AS_OFS_TIMED", 2)
    result = CliRunner().invoke(main, ["coverage", "--rows", "200"])
    assert result.exit_code == 1, result.output
    assert case.name in result.stdout and "all perfect" in result.stdout
    assert "found within 7 days, 0.2 at 600 traces" in result.stdout and "MISSED" in result.stdout
    assert "rows a second" in result.stdout and "Missed " in result.stdout.splitlines()[-1]


def test_options_of_the_benchmark_itself_do_not_go_with_coverage():
    result = CliRunner().invoke(main, ["--agents", "5", "coverage"])
    assert result.exit_code == 2
    assert "--agents belongs to the benchmark of scoring" in result.stderr
