"""The proof of coverage at a small size: wide enough never to fail by chance, tight enough to see a broken limit."""

import numpy as np
import pytest
from click.testing import CliRunner

from benchmarks.__main__ import main
from benchmarks.coverage import command
from benchmarks.coverage.cases import WINDOWS, Case, cells, edge_agents, simulated, special_cases
from benchmarks.coverage.falling import PLANTED, POPULATIONS, dropped, unchanged
from benchmarks.coverage.measure import PARAMETERS, Measured, measure
from benchmarks.coverage.targets import judge_cells, judge_edges, judge_falling, judge_special
from benchmarks.coverage.truth import truth

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
    overridden = dropped(PLANTED[0], 100, SEED)
    assert overridden.within_a_window >= 0.95
    quiet = unchanged(POPULATIONS[0], 600, WINDOWS[7], 100, SEED)
    assert quiet.agent_days == 2800
    assert quiet.raised <= 0.02


def measured_as(name: str, **changes) -> Measured:
    return Measured(name, 100, 0.95, 0.95, 0.03, 0.02, (0.95,) * 5, 0.3, 0.5, 1.0)._replace(**changes)


def test_what_is_missed_is_said():
    cell = cells()[0].name
    good = [verdict.met for verdict in judge_cells([measured_as(cell)])]
    assert good == [True] * 4
    for change in (
        {"coverage": 0.92},
        {"coverage": 0.99},
        {"factor_coverage": (0.95, 0.95, 0.91, 0.95, 0.95)},
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
    quiet = unchanged(POPULATIONS[0], 30, WINDOWS[7], 1, SEED)
    seen = dropped(PLANTED[0], 1, SEED)
    verdicts = judge_falling(
        [quiet._replace(raised=0.005), quiet._replace(raised=0.006)],
        [seen._replace(within_a_window=0.8, ever=0.95), seen._replace(within_a_window=0.8, ever=0.94)],
    )
    assert [verdict.met for verdict in verdicts] == [True, False, True, False]


def test_the_command_prints_tables_and_says_what_it_missed(monkeypatch):
    case = cells()[0]
    monkeypatch.setattr(command, "cells", lambda: [case])
    monkeypatch.setattr(command, "special_cases", lambda: [])
    monkeypatch.setattr(command, "edge_agents", lambda: edge_agents()[:1])
    monkeypatch.setattr(
        command,
        "all_unchanged",
        lambda agents, seed: [unchanged(POPULATIONS[0], 30, WINDOWS[7], agents, seed)],
    )
    never = dropped(PLANTED[0], 1, SEED)._replace(ever=0.5)
    monkeypatch.setattr(command, "all_dropped", lambda agents, seed: [never])
    monkeypatch.setattr(command, "AS_OFS_TIMED", 2)
    result = CliRunner().invoke(main, ["coverage", "--rows", "200"])
    assert result.exit_code == 1, result.output
    assert case.name in result.stdout and "all perfect" in result.stdout
    assert "falling, 12 % overridden, good agent" in result.stdout and "MISSED" in result.stdout
    assert "rows a second" in result.stdout and "Missed " in result.stdout.splitlines()[-1]


def test_options_of_the_benchmark_itself_do_not_go_with_coverage():
    result = CliRunner().invoke(main, ["--agents", "5", "coverage"])
    assert result.exit_code == 2
    assert "--agents belongs to the benchmark of scoring" in result.stderr
