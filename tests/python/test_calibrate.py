"""Calibration: what-if scores against the published ones, AUC and its covariance against pairs, and the command."""

from __future__ import annotations

import csv
import itertools
import json
import math
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import numpy as np
import psycopg
import pytest
from click.testing import Result

from ciris_scoring.basics import as_of as as_of_time
from ciris_scoring.basics.errors import InputError
from ciris_scoring.basics.terminal import width
from ciris_scoring.calibration import published
from ciris_scoring.calibration.discrimination import auc_estimate, difference_estimate, discrimination
from ciris_scoring.calibration.effects import category_counts, drivers, judge, scores_with, settings_of
from ciris_scoring.calibration.formulas import (
    WEIGHTS,
    capacity_score,
    capacity_score_geometric,
    category_numbers,
    reweighted,
    without_part,
)
from ciris_scoring.calibration.labels import Label, read_labels
from ciris_scoring.calibration.parameters import COVERED, Range, covered_ranges, not_covered, values_to_try
from ciris_scoring.calibration.report import COLUMNS, Findings, as_text, verdict
from ciris_scoring.reading.marts import read_only
from ciris_scoring.trial.embedded import SCHEMA
from ciris_scoring.trial.simulation.sample import load_sample, sample_info
from command_line import at, invoke, refused
from conftest import Database, copy_of, fresh_database
from pipeline import EXACT, MARTS, score

MOMENT = as_of_time.parse_time(sample_info()["as_of"], "sample")


@pytest.fixture(scope="module")
def scored(
    scored_sample: Database, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Database, psycopg.Connection]]:
    """The sample, scored."""
    with (
        copy_of(scored_sample, tmp_path_factory.mktemp("calibrate")) as database,
        database.connect() as connection,
    ):
        yield database, connection


@pytest.fixture(scope="module")
def ranges(scored) -> dict[str, Range]:
    return covered_ranges(published.read_parameters(scored[1], MARTS))


@pytest.fixture(scope="module")
def today(ranges) -> dict[str, float]:
    return {name: allowed.value for name, allowed in ranges.items()}


@pytest.fixture(scope="module")
def fleet(scored) -> published.Scores:
    return published.read_fleet(scored[1], MARTS, MOMENT, 7)


@pytest.fixture(scope="module")
def history(scored) -> published.Scores:
    """Every score of the 7-day window, as one label per agent."""
    agents = [agent for agent, _ in published.read_agents(scored[1], MARTS)]
    labels = [label("x", MOMENT - timedelta(days=99), MOMENT)] * len(agents)
    return published.read_spans(scored[1], MARTS, labels, agents, 7)


def label(agent, first, last, is_good=True):
    return Label(2, agent, first, last, is_good)


def calibrate(database: Database, *arguments: str | Path) -> Result:
    return invoke("calibrate", *at(database), *arguments)


def write_labels(path: Path, rows, header=("agent_id_hash", "from", "to", "label")) -> Path:
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([header, *rows])
    return path


# --- what-if formulas ------------------------------------------------------------------------------------------------


def test_the_values_in_force_give_the_published_scores(scored, history, today):
    [(n_scored,)] = scored[1].execute(
        f"select count(*) from {SCHEMA}.fct_capacity_scores where window_days = 7 and capacity_score is not null"
    )
    assert history.capacity_score.size == n_scored > 300
    assert np.abs(capacity_score(history.components, today) - history.capacity_score).max() <= EXACT
    geometric = capacity_score_geometric(history.components, today)
    assert np.abs(geometric - history.capacity_score_geometric).max() <= EXACT


def test_other_values_give_the_scores_of_a_run_with_them(scored, tmp_path, embedded_postgres, history, today):
    other = {"lambda_c": 2, "mu_c": 20, "integrity_floor": 0.5, "mttr_scale_hours": 24, "norm_k": 1}
    other |= {"norm_x0": 0.2, "weight_c": 0.6, "weight_i_int": 0.1, "weight_r": 0.1, "weight_i_inc": 0.1}
    other |= {"weight_s": 0.1}
    with (
        fresh_database(embedded_postgres, tmp_path) as database,
        database.connect() as connection,
    ):
        load_sample(connection)
        score(database.profiles_dir, sample_info()["as_of"], {"ciris_scoring_parameters": other})
        rescored = published.read_fleet(connection, MARTS, MOMENT, 7)
    before = published.read_fleet(scored[1], MARTS, MOMENT, 7)
    parameters = {**today, **other}
    assert np.abs(rescored.capacity_score - before.capacity_score).max() > 0.1
    assert np.abs(capacity_score(before.components, parameters) - rescored.capacity_score).max() <= EXACT
    geometric = capacity_score_geometric(before.components, parameters)
    assert np.abs(geometric - rescored.capacity_score_geometric).max() <= EXACT


def test_categories_are_the_published_ones_and_hold_their_lower_bound(scored, history):
    categories = published.read_categories(scored[1], MARTS)
    bounds = np.array([category.lower_bound for category in categories])
    numbers = category_numbers(history.capacity_score, bounds)
    assert [categories[number].name for number in numbers] == list(history.category)
    assert len(set(numbers)) == 4
    assert category_numbers(np.array([0.0, 0.3, np.nextafter(0.3, 0), 0.85, 1.0]), bounds).tolist() == [
        0,
        1,
        0,
        3,
        3,
    ]


def test_another_weight_leaves_the_others_in_proportion():
    weights = dict(zip(WEIGHTS, (0.4, 0.3, 0.2, 0.1, 0.0), strict=True))
    changed = reweighted(weights, "weight_c", 0.1)
    assert [changed[name] for name in WEIGHTS] == pytest.approx([0.1, 0.45, 0.3, 0.15, 0.0])
    alone = dict(zip(WEIGHTS, (1.0, 0.0, 0.0, 0.0, 0.0), strict=True))
    assert list(reweighted(alone, "weight_c", 0.2).values()) == pytest.approx([0.2] * 5)


def test_a_score_without_a_part():
    losses = np.array([[0.1, 0.2, 0.3], [math.inf, 0.2, 0.3], [math.inf, math.inf, 0.0]])
    assert without_part(losses, 0) == pytest.approx([math.exp(-0.5), math.exp(-0.5), 0.0])


@pytest.mark.parametrize(
    ("allowed", "values"),
    [
        (Range(5, 2, 10), [2, 3, 4, 5, 6.67, 8.33, 10]),
        (Range(1, 0.001, 8760), [0.001, 0.01, 0.1, 1, 20.6, 425, 8760]),
        (Range(0, 0, 1), [0, 0.167, 0.333, 0.5, 0.667, 0.833, 1]),
        (Range(1, 0, 1), [0, 0.167, 0.333, 0.5, 0.667, 0.833, 1]),
    ],
)
def test_the_values_to_try_hold_both_ends_and_the_one_in_force(allowed, values):
    assert values_to_try(allowed) == values


def test_every_parameter_is_covered_or_said_not_to_be_with_its_reason(scored):
    parameters = published.read_parameters(scored[1], MARTS)
    reasons = not_covered(parameters)
    assert set(parameters) == set(COVERED) | set(reasons)
    assert "not known to this command" not in reasons.values()


# --- what drives the ranking -----------------------------------------------------------------------------------------


def test_shares_of_the_variance_sum_to_one_without_scores_of_zero(fleet):
    found = drivers(fleet)
    positive = fleet.capacity_score > 0
    assert found.n_zero == np.count_nonzero(~positive) == 1
    assert len(found.shares) == 13
    assert sum(found.shares.values()) == pytest.approx(1, abs=EXACT)
    log_score = np.log(fleet.capacity_score[positive])
    for i, part in enumerate(fleet.parts):
        expected = -np.cov(fleet.losses[positive, i], log_score)[0, 1] / np.var(log_score, ddof=1)
        assert found.shares[part] == pytest.approx(expected, abs=1e-9)


def only(scores: published.Scores, rows) -> published.Scores:
    return replace(
        scores,
        span=scores.span[rows],
        components=type(scores.components)(*(value[rows] for value in vars(scores.components).values())),
        capacity_score=scores.capacity_score[rows],
        capacity_score_geometric=scores.capacity_score_geometric[rows],
        category=[scores.category[row] for row in rows],
        losses=scores.losses[rows],
    )


def test_one_agent_or_equal_scores_have_no_shares(fleet):
    [best] = np.flatnonzero(fleet.capacity_score == fleet.capacity_score.max())
    assert drivers(only(fleet, [best])).shares is None
    assert drivers(only(fleet, [best, best])).shares is None


# --- AUC and its covariance ------------------------------------------------------------------------------------------


def pairs_auc(scores, is_good):
    pairs = list(itertools.product(np.flatnonzero(is_good), np.flatnonzero(~np.asarray(is_good))))
    return sum((scores[g] > scores[b]) + 0.5 * (scores[g] == scores[b]) for g, b in pairs) / len(pairs)


def pairs_covariance(versions, is_good):
    """DeLong's covariance, pair by pair, where every span is of another agent."""
    good, bad = np.flatnonzero(is_good), np.flatnonzero(~np.asarray(is_good))

    def wins(x, g, b):
        return float(x[g] > x[b]) + 0.5 * float(x[g] == x[b])

    of_good = [[sum(wins(x, g, b) for b in bad) / len(bad) for g in good] for x in versions]
    of_bad = [[sum(wins(x, g, b) for g in good) / len(good) for b in bad] for x in versions]
    return np.cov(of_good) / len(good) + np.cov(of_bad) / len(bad)


def test_a_case_worked_out_by_hand():
    # Good 0.9, 0.5; bad 0.5, 0.1: three pairs and a half of four. Shares of good: 1, 0.75; of bad: 0.75, 1.
    found = discrimination([[0.9, 0.5, 0.5, 0.1]], [True, True, False, False], range(4))
    assert found.auc.tolist() == [0.875]
    assert found.covariance[0, 0] == pytest.approx(0.03125 / 2 + 0.03125 / 2, abs=EXACT)
    estimate = auc_estimate(found, 0)
    assert estimate.low == pytest.approx(0.875 - 1.959963984540054 * math.sqrt(0.03125), abs=1e-9)
    assert estimate.high == 1


@pytest.mark.parametrize("seed", range(5))
def test_auc_and_covariance_are_those_of_all_pairs(seed):
    rng = np.random.default_rng(seed)
    is_good = np.arange(23) < 9
    versions = np.round(rng.random((3, 23)) + 0.2 * is_good, 1)  # rounded, so that there are ties
    found = discrimination(versions, is_good, rng.permutation(23))
    assert found.auc == pytest.approx([pairs_auc(version, is_good) for version in versions], abs=EXACT)
    assert found.covariance == pytest.approx(pairs_covariance(versions, is_good), abs=EXACT)
    difference = difference_estimate(found, 1, 0)
    variance = np.array([-1, 1, 0]) @ pairs_covariance(versions, is_good) @ np.array([-1, 1, 0])
    assert difference.high - difference.low == pytest.approx(
        2 * 1.959963984540054 * math.sqrt(variance), abs=1e-9
    )


def test_spans_of_one_agent_do_not_count_as_independent():
    rng = np.random.default_rng(1)
    is_good = np.arange(24) < 12
    scores = rng.random(24) + 0.3 * is_good
    apart = discrimination(scores, is_good, range(24))
    repeated = discrimination(np.tile(scores, 4), np.tile(is_good, 4), np.tile(np.arange(24), 4))
    assert repeated.auc == pytest.approx(apart.auc)
    assert repeated.covariance == pytest.approx(apart.covariance)


def test_the_interval_holds_the_truth_about_as_often_as_it_says():
    rng = np.random.default_rng(7)
    truth = 0.5 * (1 + math.erf(1 / 2))  # two normal distributions, one standard deviation apart
    held = 0
    for _ in range(1000):
        scores = rng.standard_normal(80) + (np.arange(80) < 40)
        estimate = auc_estimate(discrimination(scores, np.arange(80) < 40, range(80)), 0)
        held += estimate.low <= truth <= estimate.high
    assert 920 <= held <= 975


def test_the_interval_is_not_too_wide_when_agents_are_good_and_bad_in_turn():
    rng = np.random.default_rng(8)
    is_good, agents = np.arange(80) < 40, np.tile(np.arange(40), 2)
    between, within = (0.5 * (1 + math.erf(1 / math.sqrt(2 * variance))) for variance in (10, 2))
    truth = (39 * between + within) / 40  # one pair in forty is of one agent
    held = 0
    for _ in range(1000):
        agent = 2 * np.tile(
            rng.standard_normal(40), 2
        )  # what an agent keeps from its good span to its bad one
        scores = agent + is_good + rng.standard_normal(80)
        estimate = auc_estimate(discrimination(scores, is_good, agents), 0)
        held += estimate.low <= truth <= estimate.high
    assert 920 <= held <= 975


def test_chance_that_cannot_be_estimated_has_no_interval():
    separated = discrimination([[3, 4, 1, 2], [1, 2, 3, 4]], [True, True, False, False], range(4))
    assert separated.auc.tolist() == [1, 0]
    assert math.isnan(auc_estimate(separated, 0).low)
    difference = difference_estimate(separated, 1, 0)
    assert difference.value == -1 and math.isnan(difference.low) and not difference.excludes_zero
    one_agent = discrimination([[3, 1, 2], [3, 2, 1]], [True, False, False], range(3))
    assert math.isnan(difference_estimate(one_agent, 1, 0).low)
    assert not difference_estimate(separated, 0, 0).excludes_zero


# --- what may be concluded -------------------------------------------------------------------------------------------


def many_agents(fleet: published.Scores, n: int, rng: np.random.Generator) -> published.Scores:
    """A fleet of n agents like the best one, but for chance in S and overridden actions."""
    best = int(np.argmax(fleet.capacity_score))
    scores = only(fleet, [best] * n)
    components = replace(
        scores.components, s_score=rng.uniform(0.5, 1, n), k_contradiction=rng.uniform(0, 0.02, n)
    )
    return replace(scores, span=np.arange(n), components=components)


def with_scores(scores: published.Scores, today: dict[str, float]) -> published.Scores:
    """Scores, and the losses of the two parts that differ, of changed components."""
    losses = np.zeros_like(scores.losses)
    losses[:, scores.parts.index("s_score")] = -np.log(scores.components.s_score)
    losses[:, scores.parts.index("k_contradiction")] = today["mu_c"] * scores.components.k_contradiction
    return replace(
        scores,
        capacity_score=capacity_score(scores.components, today),
        capacity_score_geometric=capacity_score_geometric(scores.components, today),
        losses=losses,
    )


def test_labels_by_chance_recommend_nothing(fleet, ranges, today):
    rng = np.random.default_rng(3)
    scores = with_scores(many_agents(fleet, 60, rng), today)
    found = judge(settings_of(ranges), scores, rng.random(60) < 0.5, np.arange(60))
    assert found.is_judged
    assert "Nothing here is better than today's values by more than chance" in verdict(found)[-1]


def test_a_part_that_only_disturbs_is_named(fleet, ranges, today):
    rng = np.random.default_rng(4)
    scores = many_agents(fleet, 200, rng)
    is_good = scores.components.k_contradiction < 0.01
    scores = with_scores(scores, today)
    found = judge(settings_of(ranges), scores, is_good, np.arange(200))
    assert found.without["s_score"].auc.value == 1
    assert found.without["k_contradiction"].difference.high < 0
    lines = verdict(found)
    incoherent, overridden = (
        "without incoherent signals (s_score)",
        "without overridden actions (k_contradiction)",
    )
    assert incoherent in lines[0] and overridden in lines[0]
    assert incoherent in lines[-1] and overridden not in lines[-1]


def test_few_agents_are_not_judged(fleet, ranges, today):
    rng = np.random.default_rng(4)
    scores = with_scores(many_agents(fleet, 18, rng), today)
    found = judge(settings_of(ranges), scores, np.arange(18) < 9, np.arange(18))
    assert verdict(found)[0].startswith("No difference is judged: that needs 10 agents")


def test_a_span_counts_with_the_mean_of_its_as_ofs(fleet, ranges, today):
    rng = np.random.default_rng(5)
    scores = replace(with_scores(many_agents(fleet, 60, rng), today), span=np.repeat(np.arange(20), 3))
    is_good = np.arange(20) < 8
    found = judge(settings_of(ranges), scores, is_good, np.arange(20))
    assert found.today["capacity_score"].value == pytest.approx(
        pairs_auc(scores.capacity_score.reshape(20, 3).mean(axis=1), is_good)
    )
    [(setting, told)] = [
        (setting, told)
        for setting, told in found.settings
        if setting.parameter == "mu_c" and setting.value == 20
    ]
    expected = pairs_auc(scores_with(setting, scores).reshape(20, 3).mean(axis=1), is_good)
    assert told.auc.value == pytest.approx(expected)


# --- labels ----------------------------------------------------------------------------------------------------------

GOOD_LINE = "abc,2026-06-01,2026-06-08,good"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "is empty"),
        ("agent_id_hash,from,to,label\n", "has a header and no labels"),
        ("agent,from,to,label\n" + GOOD_LINE, "line 1: the header is 'agent,from,to,label'"),
        ("agent_id_hash,name,from,to,label\n" + GOOD_LINE, "line 1: the header is"),
        (
            f"agent_id_hash,from,to,label\n{GOOD_LINE}\n\nabc,2026-06-09,good\n",
            "line 4: 3 values instead of 4",
        ),
        ("agent_id_hash,from,to,label\n,2026-06-01,2026-06-08,good", "line 2: agent_id_hash is empty"),
        (
            "agent_id_hash,from,to,label\nabc,June,2026-06-08,good",
            "line 2: from is 'June', which is not a time",
        ),
        (
            "name,from,to,label\nabc,2026-06-08,2026-06-08,bad",
            "line 2: to, 2026-06-08T00:00:00Z, is not later",
        ),
        (
            "name,from,to,label\nabc,2026-06-01,2026-06-08,Good",
            "line 2: label is 'Good'; allowed are good and bad",
        ),
        ('name,from,to,label\n"abc"d,2026-06-01,2026-06-08,good', "line 2: not CSV"),
        (b"name,from,to,label\n\xff,2026-06-01,2026-06-08,good", "is not text in UTF-8"),
    ],
)
def test_a_file_of_labels_that_is_not_in_order_is_refused(tmp_path, text, said):
    path = tmp_path / "labels.csv"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(InputError) as refusal:
        read_labels(path)
    assert said in refusal.value.message
    assert refusal.value.exit_code == 2


def test_labels_are_read_in_any_order_of_columns(tmp_path):
    path = tmp_path / "labels.csv"
    path.write_text("\ufefflabel,to,name,from\r\nbad, 2026-06-08T02:00:00+02:00 ,探索,2026-06-01\r\n")
    labels = read_labels(path)
    assert labels.by_name
    assert labels.labels[0] == label("探索", MOMENT - timedelta(days=14), MOMENT - timedelta(days=7), False)


# --- the command -----------------------------------------------------------------------------------------------------


def test_tables_fit_their_width_and_nothing_is_written(scored):
    database, connection = scored
    connection.execute("alter system set autovacuum to off")  # which writes, too
    connection.execute("select pg_reload_conf(), pg_sleep(0.2)")
    written = "select pg_snapshot_xmax(pg_current_snapshot())"  # the next transaction that writes
    before = connection.execute(written).fetchall()
    result = calibrate(database)
    assert result.exit_code == 0, result.output
    assert result.stdout.startswith(
        "Calibration at 2026-06-15T00:00:00Z, window of 7 days: 14 agents with a score, 0 without"
    )
    assert max(map(width, result.stdout.splitlines())) <= COLUMNS
    assert result.stdout.count(" today ") + result.stdout.count("  today") >= len(COVERED)
    assert "decay_per_day" in result.stdout and "--vars '{ciris_scoring_parameters:" in result.stdout
    assert connection.execute(written).fetchall() == before
    connection.execute("alter system reset autovacuum")
    connection.execute("select pg_reload_conf()")


def test_the_read_only_transaction_refuses_to_write(scored):
    _, connection = scored
    with pytest.raises(psycopg.errors.ReadOnlySqlTransaction), read_only(connection):
        connection.execute(f"delete from {SCHEMA}.fct_capacity_scores")


def agents_by_score(connection) -> list[str]:
    query = f"""
        select agent_id_hash from {SCHEMA}.fct_capacity_scores
        where as_of = %s and window_days = 7 order by capacity_score
    """
    return [agent for (agent,) in connection.execute(query, [MOMENT])]


def test_any_categories_fit_the_width_and_cannot_move_the_cursor(fleet, ranges):
    categories = [
        published.Category(f"\x1b[2Ja long name of category {i}", i / 9 if i else -math.inf) for i in range(9)
    ]
    counts = category_counts(settings_of(ranges), fleet, categories)
    findings = Findings(MOMENT, 7, 14, 0, counts, {}, drivers(fleet), None)
    text = as_text(findings)
    assert max(width(line) for line in text.splitlines()) <= COLUMNS
    assert "\x1b" not in text and "-0.0 %" not in text


def test_json_with_labels_says_the_same_as_the_marts(scored, tmp_path):
    database, connection = scored
    agents = agents_by_score(connection)
    rows = [(agent, "2026-06-14", "2026-06-15", "bad" if i < 6 else "good") for i, agent in enumerate(agents)]
    result = calibrate(database, "--json", "--labels", write_labels(tmp_path / "labels.csv", rows))
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    assert found["agents"] == {"scored": 14, "without_score": 0}
    assert all(sum(row["agents"].values()) == 14 for row in found["categories"])
    in_force = [row for row in found["categories"] if row["in_force"]]
    assert [row["parameter"] for row in in_force] == list(COVERED)
    assert all(row["share_changed"] == 0 for row in in_force)
    lambda_c = next(row for row in in_force if row["parameter"] == "lambda_c")
    query = f"""
        select category, count(*) from {SCHEMA}.fct_capacity_scores where as_of = %s and window_days = 7 group by 1
    """
    counts = dict(connection.execute(query, [MOMENT]).fetchall())
    assert {name: n for name, n in lambda_c["agents"].items() if n} == counts
    assert sum(found["drivers"]["shares"].values()) == pytest.approx(1)
    labels = found["labels"]
    assert labels["today"]["capacity_score"] == {"value": 1.0, "low": None, "high": None}
    assert labels["spans"] == {"good": 8, "bad": 6, "without_score": 0}
    assert labels["without"]["r_ceiling"]["difference"]["value"] == 0
    assert labels["is_judged"] is False


def test_text_with_labels_by_name(scored, tmp_path):
    database, connection = scored
    names = [name for _, name in published.read_agents(connection, MARTS)]
    weeks = (("2026-06-01", "2026-06-08", "good"), ("2026-06-08", "2026-06-15", "bad"))
    rows = [(name, *week) for name in names for week in weeks]
    path = write_labels(tmp_path / "labels.csv", rows, ("name", "from", "to", "label"))
    result = calibrate(database, "--labels", path)
    assert result.exit_code == 0, result.output
    assert max(map(width, result.stdout.splitlines())) <= COLUMNS
    assert "Telling good from bad: AUC over" in result.stdout
    assert "than today's values" in result.stdout


def test_labels_of_nobody_or_of_one_class_are_refused(scored, tmp_path):
    database, connection = scored
    first, second, *_ = agents_by_score(connection)
    path = tmp_path / "labels.csv"

    def error(*rows):
        return refused(calibrate(database, "--labels", write_labels(path, rows)), 2)[0]

    assert "line 3: no agent has the agent_id_hash 'nobody'" in error(
        (first, "2026-06-01", "2026-06-08", "good"), ("nobody", "2026-06-01", "2026-06-08", "bad")
    )
    assert "of 2 spans 2 good and 0 bad ones have a score" in error(
        (first, "2026-06-01", "2026-06-08", "good"), (second, "2026-06-01", "2026-06-08", "good")
    )
    assert "of 2 spans 0 good and 0 bad ones have a score" in error(
        (first, "2020-06-01", "2020-06-08", "good"), (second, "2020-06-01", "2020-06-08", "bad")
    )
    assert "line 3: the span overlaps the one of the same agent in line 2" in error(
        (first, "2026-06-01", "2026-06-08", "good"), (first, "2026-06-07", "2026-06-09", "bad")
    )
    assert "cannot be read" in refused(calibrate(database, "--labels", tmp_path / "none.csv"), 2)[0]


def test_a_window_or_as_of_without_scores_is_refused(scored):
    database, _ = scored
    assert (
        "No score is published for a window of 8 days"
        in refused(calibrate(database, "--window-days", "8"), 2)[0]
    )
    assert (
        "an as-of up to 2020-01-01T00:00:00Z" in refused(calibrate(database, "--as-of", "2020-01-01"), 2)[0]
    )
    assert "--as-of is 'soon'" in refused(calibrate(database, "--as-of", "soon"), 2)[0]
    result = calibrate(database, "--as-of", "2026-06-14T12:00:00Z", "--window-days", "30")
    assert result.stdout.startswith("Calibration at 2026-06-14T00:00:00Z, window of 30 days")


def test_a_database_without_marts_says_what_to_do(database):
    assert "There is no ciris.fct_capacity_scores" in refused(calibrate(database), 1)[0]


@pytest.fixture
def changed(scored) -> Iterator[psycopg.Connection]:
    """The sample's database, given back as it was: scores are put away and put back."""
    _, connection = scored
    scores = f"{SCHEMA}.fct_capacity_scores"
    connection.execute(f"create table public.put_away as select * from {scores}")
    try:
        yield connection
    finally:
        connection.execute(f"delete from {scores}; insert into {scores} select * from public.put_away")
        connection.execute("drop table public.put_away")


def test_a_fleet_with_few_scores(scored, changed):
    database, _ = scored
    scores = f"{SCHEMA}.fct_capacity_scores"
    best = agents_by_score(changed)[-1]
    changed.execute(
        f"update {scores} set capacity_score = null, category = null where agent_id_hash <> %s", [best]
    )
    one = calibrate(database)
    assert one.exit_code == 0, one.output
    assert ": 1 agents with a score, 13 without" in one.stdout
    assert "No shares: at least two agents with a score above 0 are needed." in one.stdout
    changed.execute(f"update {scores} set capacity_score = null, category = null")
    assert "None of 14 agents has a score" in refused(calibrate(database), 1)[0]
    changed.execute(f"delete from {scores}")
    assert "No score is published in ciris.fct_capacity_scores" in refused(calibrate(database), 1)[0]
