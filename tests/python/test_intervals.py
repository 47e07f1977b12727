"""The intervals (certainty.md §3) against a naive implementation, and what must hold for any input."""

import numpy as np
import pytest

from brute_force import intervals as reference
from ciris_scoring.statistics.design_effects import empty_fleet_sums, fleet_values, joined_sums
from ciris_scoring.statistics.inputs import Parameters, PeriodSums, Rows
from ciris_scoring.statistics.intervals import COMPONENTS, FACTORS, compute_intervals, sum_fleet
from ciris_scoring.statistics.residuals import EFFECTS
from interval_inputs import WINDOWS, as_lists, facts_of, random_sums, rows_of

TOLERANCE = 1e-9

PARAMETER_SETS = {
    "default": {},
    "least": {
        "lambda_c": 2.0,
        "mu_c": 5.0,
        "integrity_floor": 0.1,
        "replay_min_sample": 1,
        "mttr_scale_hours": 0.001,
        "norm_k": 0.1,
        "norm_x0": 0.0,
        "drift_pseudo_count": 0.001,
        "drift_min_sample": 1,
        "decay_per_day": 0.02,
        "w_corroborated": 0.5,
        "w_uncorroborated": 2.0,
        "min_traces": 1,
    },
    "most": {
        "lambda_c": 10.0,
        "mu_c": 20.0,
        "integrity_floor": 1.0,
        "replay_enabled": False,
        "mttr_scale_hours": 8760.0,
        "norm_k": 50.0,
        "norm_x0": 1.0,
        "drift_pseudo_count": 10.0,
        "drift_min_sample": 1_000_000,
        "decay_per_day": 0.1,
        "w_corroborated": 2.0,
        "w_uncorroborated": 0.5,
        "min_traces": 1_000_000,
    },
    "floored": {"integrity_floor": 0.5, "replay_min_sample": 5, "drift_min_sample": 2, "min_traces": 2},
}


@pytest.fixture(autouse=True)
def numbers_that_warn_fail():
    with np.errstate(divide="raise", invalid="raise", over="raise"):
        yield


def computed(sums: PeriodSums, rows: Rows, parameters: Parameters, periods_per_day: int = 1, **options):
    fleet = fleet_values(sum_fleet(sums, rows, WINDOWS, periods_per_day=periods_per_day))
    return fleet, compute_intervals(
        sums, rows, WINDOWS, parameters, fleet, periods_per_day=periods_per_day, **options
    )


def assert_sound(result, rows: Rows, sums: PeriodSums) -> None:
    scored = ~np.isnan(result.capacity_score)
    for value, low, high in (
        (
            result.capacity_score[scored],
            result.capacity_score_low[scored],
            result.capacity_score_high[scored],
        ),
        (
            result.capacity_score_steady[scored],
            result.capacity_score_steady_low[scored],
            result.capacity_score_steady_high[scored],
        ),
        (result.factor, result.factor_low, result.factor_high),
        (result.component, result.component_low, result.component_high),
    ):
        assert np.isfinite(value).all() and np.isfinite(low).all() and np.isfinite(high).all()
        assert (low >= 0).all() and (low <= value).all() and (value <= high).all()
    assert (result.capacity_score_high[scored] <= 1).all() and (result.factor_high <= 1).all()
    assert np.array_equal(np.isnan(result.capacity_score_low), ~scored)
    assert np.array_equal(np.isnan(result.capacity_score_high), ~scored)
    assert np.all((result.interval_driver == -1) | scored)


@pytest.mark.parametrize("periods_per_day", [1, 24])
@pytest.mark.parametrize("name", PARAMETER_SETS)
def test_equals_the_reference_implementation(name, periods_per_day):
    rng = np.random.default_rng([periods_per_day, *name.encode()])
    agents, days = (24, 75) if periods_per_day == 1 else (3, 9)
    sums, durations = random_sums(rng, agents, days * periods_per_day)
    as_ofs = [3, 31, 64, 75] if periods_per_day == 1 else [5, 201]
    rows = rows_of(rng, sums, as_ofs, periods_per_day)
    overrides = PARAMETER_SETS[name]
    fleet, result = computed(sums, rows, Parameters(**overrides), periods_per_day)
    assert_sound(result, rows, sums)
    lists = as_lists(sums, durations)
    shared = {}
    for row in range(len(rows.agent)):
        as_of, index = int(rows.as_of[row]), int(rows.window[row])
        window = tuple(WINDOWS[index])
        if (as_of, index) not in shared:
            members = rows.agent[(rows.as_of == as_of) & (rows.window == index)]
            shared[as_of, index] = reference.fleet(
                [lists[a] for a in members], as_of, window, periods_per_day
            )
            icc, cv = shared[as_of, index]
            assert fleet.icc[index, as_of] == pytest.approx(
                [icc[effect.removeprefix("delta_")] for effect in EFFECTS], abs=TOLERANCE
            )
            assert fleet.episode_cv[index, as_of] == pytest.approx(cv, abs=TOLERANCE)
        icc, cv = shared[as_of, index]
        expected = reference.limits(
            lists[rows.agent[row]], facts_of(rows, row), as_of, window, icc, cv, overrides, periods_per_day
        )
        got = (result.capacity_score[row], result.capacity_score_low[row], result.capacity_score_high[row])
        if expected["capacity"] is None:
            assert np.isnan(got).all()
        else:
            assert got == pytest.approx(expected["capacity"], abs=TOLERANCE)
        for i, factor in enumerate(FACTORS):
            got = (result.factor[row, i], result.factor_low[row, i], result.factor_high[row, i])
            assert got == pytest.approx(expected["factors"][factor], abs=TOLERANCE), factor
        for i, component in enumerate(COMPONENTS):
            got = (result.component[row, i], result.component_low[row, i], result.component_high[row, i])
            assert got == pytest.approx(expected["components"][component], abs=TOLERANCE, rel=1e-9), component
            effect = expected["effects"].get(component)
            if effect is None:
                assert np.isnan(result.design_effect[row, i]), component
            else:
                assert result.design_effect[row, i] == pytest.approx(effect, rel=1e-8), component
        steady = facts_of(rows, row, steady=True)
        expected_steady = reference.steady(
            lists[rows.agent[row]], steady, as_of, window, icc, cv, overrides, periods_per_day
        )
        got = (
            result.capacity_score_steady[row],
            result.capacity_score_steady_low[row],
            result.capacity_score_steady_high[row],
        )
        if expected_steady is None:
            assert np.isnan(got).all()
        else:
            assert got == pytest.approx(expected_steady, abs=TOLERANCE)
        driver = result.interval_driver[row]
        assert (None if driver < 0 else COMPONENTS[driver]) in expected["drivers"]


def arrays_of(result) -> list[np.ndarray]:
    return [np.asarray(values) for values in result]


def assert_same_bits(some, others) -> None:
    for one, other in zip(arrays_of(some), arrays_of(others), strict=True):
        assert one.tobytes() == other.tobytes()


@pytest.mark.parametrize("periods_per_day", [1, 24])
def test_neither_chunks_nor_the_arrays_beginning_change_a_bit(periods_per_day, monkeypatch):
    rng = np.random.default_rng(5)
    agents, days = (20, 100) if periods_per_day == 1 else (4, 70)
    sums, _ = random_sums(rng, agents, days * periods_per_day)
    end = days * periods_per_day
    rows = rows_of(rng, sums, [end - 1, end], periods_per_day)
    fleet, whole = computed(sums, rows, Parameters(), periods_per_day)
    assert_same_bits(whole, computed(sums, rows, Parameters(), periods_per_day)[1])

    # In chunks of agents and of rows, the agents the other way round.
    monkeypatch.setattr("ciris_scoring.statistics.intervals.CHUNK_ROWS", 3)
    chunks = [np.arange(agents)[::-1][first : first + 3] for first in range(0, agents, 3)]
    shared, parts = empty_fleet_sums(len(WINDOWS), end), []
    for members in chunks:
        kept = np.flatnonzero(np.isin(rows.agent, members))
        index_of = {agent: i for i, agent in enumerate(members)}
        part = Rows._make(values[kept] for values in rows)
        part = part._replace(agent=np.array([index_of[a] for a in part.agent], dtype=np.int64))
        parts.append((kept, PeriodSums._make(values[members] for values in sums), part))
        shared = joined_sums(shared, sum_fleet(*parts[-1][1:], WINDOWS, periods_per_day=periods_per_day))
    assert_same_bits(fleet_values(shared), fleet)
    for kept, part_sums, part in parts:
        result = compute_intervals(
            part_sums, part, WINDOWS, Parameters(), fleet, periods_per_day=periods_per_day
        )
        assert_same_bits(result, [values[kept] for values in whole])

    # From arrays that begin with the longest memory.
    cut = end - 1 - max(window.memory_days for window in WINDOWS) * periods_per_day
    late = PeriodSums._make(values[:, cut:] for values in sums)
    late_rows = rows._replace(as_of=rows.as_of - cut)
    assert_same_bits(whole, computed(late, late_rows, Parameters(), periods_per_day)[1])


def one_agent(days: int = 60, **changes: np.ndarray) -> PeriodSums:
    """An agent without fault: 100 traces a day, all good, every score in the last bin."""
    n = np.full((1, days), 100, dtype=np.int64)
    none = np.zeros_like(n)
    last_bin = np.zeros((1, days, 10), dtype=np.int64)
    last_bin[..., 9] = n
    sums = PeriodSums(
        n_traces=n,
        n_identity_changes=none,
        n_overridden=none,
        n_chain_valid=n,
        n_fields_present=10 * n,
        n_replay_sampled=np.minimum(n, 30),
        n_replay_succeeded=np.minimum(n, 30),
        n_unsafe=none,
        n_signals_corroborated=n,
        n_signals_uncorroborated=none,
        n_coherent_corroborated=n,
        n_coherent_uncorroborated=none,
        n_judged=last_bin,
        sum_confidence=last_bin.astype(np.float64),
        n_successes=last_bin,
        histograms=np.stack([last_bin] * 3, axis=2),
        n_recoveries=none,
        log_recovery_hours=np.zeros((1, days)),
        log_recovery_hours_squared=np.zeros((1, days)),
    )
    return sums._replace(**changes)


def one_row(window: int = 1, as_of: int = 60, **facts: float) -> Rows:
    values = {
        "mttr_hours": 0.0,
        "n_episodes": 0,
        "rho_regression": 0.0,
        "q_deferral": 1.0,
        "n_judged_deferrals": 0,
    } | facts
    steady = [values[name] for name in values if name != "rho_regression"]
    columns = [0, as_of, window, *values.values(), *steady]
    return Rows(*(np.array([value]) for value in columns))


def test_the_perfect_agents_interval_ends_at_its_score():
    sums, rows = one_agent(), one_row()
    _, result = computed(sums, rows, Parameters())
    best = 1 / (1 + np.exp(-2.5))
    assert result.capacity_score[0] == result.capacity_score_high[0] == pytest.approx(best, abs=1e-15)
    assert 0.85 < result.capacity_score_low[0] < best
    perfect = [
        COMPONENTS.index(name) for name in ("i_chain", "i_coverage", "i_replay", "q_deferral", "s_score")
    ]
    assert (result.component_high[0, perfect] == 1).all()
    faultless = [COMPONENTS.index(name) for name in ("d_identity", "k_contradiction", "u_unsafe", "ece")]
    assert (result.component_low[0, faultless] == 0).all()


def test_no_deferral_and_no_episode_have_no_width():
    _, result = computed(one_agent(), one_row(), Parameters())
    for name, value in (("q_deferral", 1.0), ("mttr_hours", 0.0)):
        index = COMPONENTS.index(name)
        limits = (result.component_low[0, index], result.component[0, index], result.component_high[0, index])
        assert limits == (value, value, value)
        assert np.isnan(result.design_effect[0, index])


def test_a_broken_chain_leaves_its_own_upper_limit():
    sums = one_agent(n_chain_valid=np.zeros((1, 60), dtype=np.int64))
    _, result = computed(sums, one_row(), Parameters())
    assert (result.capacity_score[0], result.capacity_score_low[0]) == (0.0, 0.0)
    # Wilson at 0 of 3,000: z²/(n + z²); nothing else of this agent takes anything on the better side but the ceiling.
    upper = 1.96**2 / (3000 + 1.96**2)
    assert result.component_high[0, COMPONENTS.index("i_chain")] == pytest.approx(upper, rel=1e-12)
    assert result.capacity_score_high[0] == pytest.approx(upper / (1 + np.exp(-2.5)), rel=0.02)
    assert COMPONENTS[result.interval_driver[0]] == "i_chain"


def test_without_signals_the_score_is_surely_0():
    none = np.zeros((1, 60), dtype=np.int64)
    sums = one_agent(n_signals_corroborated=none, n_coherent_corroborated=none)
    _, result = computed(sums, one_row(), Parameters())
    assert (result.capacity_score_low[0], result.capacity_score[0], result.capacity_score_high[0]) == (
        0,
        0,
        0,
    )


def test_an_agent_without_a_baseline_has_limits():
    sums = one_agent()
    young = PeriodSums._make(
        np.where(np.arange(60).reshape((1, 60) + (1,) * (v.ndim - 2)) < 57, 0, v) for v in sums
    )
    _, result = computed(young, one_row(window=0), Parameters())
    assert_sound(result, one_row(), young)
    index = COMPONENTS.index("delta_drift")
    assert (result.component_low[0, index], result.component_high[0, index]) == (0, 0)  # unmeasured: no width
    assert 0 < result.capacity_score_low[0] < result.capacity_score[0]


def test_below_min_traces_only_the_score_is_null():
    _, result = computed(one_agent(), one_row(), Parameters(min_traces=3001))
    assert np.isnan(result.capacity_score[0]) and np.isnan(result.capacity_score_low[0])
    assert np.isnan(result.capacity_score_high[0]) and result.interval_driver[0] == -1
    assert np.isfinite(result.factor_low).all() and np.isfinite(result.factor_high).all()


def test_days_that_differ_widen_the_interval():
    rng = np.random.default_rng(6)
    alike = one_agent(n_overridden=rng.binomial(100, 0.1, (1, 60)))
    differ = one_agent(n_overridden=np.where(np.arange(60) % 10 == 0, 100, 0)[None])
    effects, widths = [], []
    for sums in (alike, differ):
        _, result = computed(sums, one_row(), Parameters())
        effects.append(result.design_effect[0, COMPONENTS.index("k_contradiction")])
        widths.append(result.factor_high[0, 0] - result.factor_low[0, 0])
    assert effects[0] < 2 < 20 < effects[1]
    assert widths[1] > 3 * widths[0]


def test_published_limits_are_at_196_on_both_sides():
    unsafe = np.zeros((1, 60), dtype=np.int64)
    unsafe[0, -30:] = 10
    _, result = computed(one_agent(n_unsafe=unsafe), one_row(), Parameters())
    index = COMPONENTS.index("u_unsafe")
    rate, n, z = 0.1, 3000 / result.design_effect[0, index], 1.96
    spread = z * np.sqrt(rate * (1 - rate) / n + z * z / (4 * n * n))
    expected = (rate + z * z / (2 * n) + np.array([-1, 1]) * spread) / (1 + z * z / n)
    found = (result.component_low[0, index], result.component_high[0, index])
    assert found == pytest.approx(expected, rel=1e-12)


def test_the_published_worse_side_of_ece_is_wider_still():
    """All 3,000 traces in one bin, 10 % more confident than right: centre sqrt(g^2 - s^2), and 1.6 * 1.96 * s."""
    judged, confidence, successes = (np.zeros((1, 60, 10)) for _ in range(3))
    judged[..., 9], confidence[..., 9], successes[..., 9] = 100, 100, 90
    sums = one_agent(
        n_judged=judged.astype(np.int64), sum_confidence=confidence, n_successes=successes.astype(np.int64)
    )
    _, result = computed(sums, one_row(), Parameters())
    index = COMPONENTS.index("ece")
    success = (2700 + 2 + 2 * 2702 / 3004) / (3000 + 4 + 2)
    variance = result.design_effect[0, index] * success * (1 - success) / 3000
    assert result.component[0, index] == pytest.approx(0.1)
    assert result.component_high[0, index] == pytest.approx(
        np.sqrt(0.01 - variance) + 1.6 * 1.96 * np.sqrt(variance), rel=1e-12
    )


def test_limits_follow_the_fleet_values_that_are_given():
    rng = np.random.default_rng(8)
    sums, _ = random_sums(rng, 10, 60)
    rows = rows_of(rng, sums, [60], 1)
    fleet, result = computed(sums, rows, Parameters())
    stored = fleet._replace(icc=np.full_like(fleet.icc, 0.15))
    wider = compute_intervals(sums, rows, WINDOWS, Parameters(), stored)
    chain = COMPONENTS.index("i_chain")
    assert (wider.design_effect[:, chain] >= result.design_effect[:, chain]).all()
    assert (wider.design_effect[:, chain] > result.design_effect[:, chain] + 0.1).any()


def test_no_rows_give_no_limits():
    nothing = Rows._make(values[:0] for values in one_row())
    _, result = computed(one_agent(), nothing, Parameters())
    assert result.capacity_score.shape == (0,) and result.factor.shape == (0, 5)
