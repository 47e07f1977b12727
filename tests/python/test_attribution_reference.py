"""What the reference implementation of attribution must keep: everything sums exactly, and nothing moves by itself."""

import math
import random

import pytest

from brute_force.attribution import DEFAULTS, PARTS, WITHIN_R, change, change_of_losses, level, losses

N_STATES = 60_000
EXACT = 1e-12

PARAMETERS = ({}, {"integrity_floor": 0.1}, {"norm_k": 50.0, "norm_x0": 1.0}, {"norm_k": 0.1, "norm_x0": 0.0})


def random_state(rng: random.Random) -> dict[str, float]:
    """Components at random, zeros and ones among them."""

    def share(*ends: float) -> float:
        return rng.choice(ends) if rng.random() < 0.15 else rng.random()

    return {
        "d_identity": share(0.0, 1.0) * rng.choice([0.01, 1.0]),
        "k_contradiction": share(0.0, 1.0) * rng.choice([0.1, 1.0]),
        "i_chain": share(0.0, 1.0),
        "i_coverage": share(0.0, 1.0),
        "i_replay": share(0.0, 1.0),
        "delta_drift": share(0.0, 1.0),
        "mttr_hours": share(0.0, 0.0) * rng.choice([0.1, 10.0, 1000.0]),
        "rho_regression": share(0.0, 1.0),
        "ece": share(0.0, 1.0),
        "u_unsafe": share(0.0, 1.0),
        "q_deferral": share(0.0, 1.0),
        "s_score": share(0.0, 1.0),
    }


def capacity(state: dict[str, float], p: dict[str, float]) -> float:
    """The score itself, by scoring.md."""
    x = (
        (1 - state["delta_drift"])
        / (1 + state["mttr_hours"] / p["mttr_scale_hours"])
        * (1 - state["rho_regression"])
    )
    r = 1 / (1 + math.exp(-p["norm_k"] * (x - p["norm_x0"])))
    c = math.exp(-p["lambda_c"] * state["d_identity"]) * math.exp(-p["mu_c"] * state["k_contradiction"])
    i_int = max(state["i_chain"] * state["i_coverage"] * state["i_replay"], p["integrity_floor"])
    return (
        c * i_int * r * (1 - state["ece"]) * state["q_deferral"] * (1 - state["u_unsafe"]) * state["s_score"]
    )


def test_losses_and_points_sum_to_the_score():
    rng = random.Random(1)
    zeros = floors = 0
    for i in range(N_STATES):
        overrides = PARAMETERS[i % len(PARAMETERS)]
        p = DEFAULTS | overrides
        state = random_state(rng)
        score = capacity(state, p)
        result = level(state, overrides)
        assert all(loss >= 0 for loss in result.loss.values())
        assert abs(math.fsum(result.points.values()) - (1 - score)) <= EXACT
        if score == 0:
            zeros += 1
            infinite = [part for part in PARTS if math.isinf(result.loss[part])]
            assert infinite and all((result.points[part] > 0) == (part in infinite) for part in PARTS)
        else:
            total = math.fsum(result.loss.values())
            assert abs(total + math.log(score)) <= EXACT * max(1.0, total)
        integrity = state["i_chain"] * state["i_coverage"] * state["i_replay"]
        if integrity < p["integrity_floor"]:
            floors += 1
            capped = math.fsum(result.loss[part] for part in ("i_chain", "i_coverage", "i_replay"))
            assert abs(capped + math.log(p["integrity_floor"])) <= EXACT
    assert zeros > 1000 and floors > 1000  # the corners were met


def test_changes_sum_and_turn_their_sign():
    rng = random.Random(2)
    for i in range(N_STATES):
        overrides = PARAMETERS[i % len(PARAMETERS)]
        before, after = random_state(rng), random_state(rng)
        kept = rng.sample(sorted(before), 6)
        after |= {component: before[component] for component in kept}
        p = DEFAULTS | overrides
        points = change(before, after, overrides)
        rise = capacity(after, p) - capacity(before, p)
        assert abs(math.fsum(points.values()) - rise) <= EXACT
        back = change(after, before, overrides)
        for part in PARTS:
            assert abs(points[part] + back[part]) <= EXACT
        assert points["r_ceiling"] == 0
        if not p["integrity_floor"]:  # a floor ties its three parts together
            assert all(points[component] == 0 for component in kept)


def test_a_small_step_within_r_is_shared_by_its_derivative():
    before = random_state(random.Random(3)) | {
        "delta_drift": 0.2,
        "mttr_hours": 0.5,
        "rho_regression": 0.0,
        "i_chain": 0.9,
        "i_coverage": 0.9,
        "i_replay": 1.0,
        "ece": 0.1,
        "u_unsafe": 0.0,
        "q_deferral": 1.0,
        "s_score": 0.8,
    }
    # Recovery slower by as much as drift is less: u stays, up to rounding.
    after = before | {"delta_drift": 0.1, "mttr_hours": 1.5 * 0.9 / 0.8 - 1}
    changes = change_of_losses(before, after)
    assert changes["delta_drift"] < 0 < changes["mttr_hours"]
    assert changes["delta_drift"] + changes["mttr_hours"] == pytest.approx(0, abs=1e-12)
    points = change(before, after)
    assert points["delta_drift"] == pytest.approx(-points["mttr_hours"], abs=1e-12)
    assert points["delta_drift"] > 0.001


def test_the_ceiling_is_what_no_agent_avoids():
    perfect = dict.fromkeys(
        ("i_chain", "i_coverage", "i_replay", "q_deferral", "s_score"), 1.0
    ) | dict.fromkeys(
        ("d_identity", "k_contradiction", "delta_drift", "mttr_hours", "rho_regression", "ece", "u_unsafe"),
        0.0,
    )
    loss = losses(perfect)
    assert loss.pop("r_ceiling") == pytest.approx(0.0789, abs=5e-5)
    assert set(loss.values()) == {0.0}


def test_infinite_parts_of_r_share_alone():
    state = random_state(random.Random(4)) | {"delta_drift": 0.5, "mttr_hours": 2.0, "rho_regression": 1.0}
    loss = losses(state)
    assert loss["delta_drift"] == loss["mttr_hours"] == 0
    assert loss["rho_regression"] == pytest.approx(math.log(0.9241418 / 0.0758582), abs=1e-6)
    assert not any(math.isinf(loss[part]) for part in WITHIN_R)
