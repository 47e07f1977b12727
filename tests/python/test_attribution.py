"""Tests of attribution and changes on extreme states, compared with the reference implementation.

`differences_from_reference` makes the same comparison on the sample, random fleets and real traces.
"""

from __future__ import annotations

import math
import random
from datetime import timedelta
from typing import Any

import numpy as np
from psycopg.types.json import Jsonb

from ciris_scoring.lab.embedded import SCHEMA
from ciris_scoring.statistics.attribution import losses
from ciris_scoring.statistics.inputs import Parameters
from conftest import Database
from nasty_fleet import START
from pipeline import attribution_differences
from reference import attribution

DAYS = 9
"""As-ofs of each agent. They give eight comparisons with the previous as-of and two with one window earlier."""

PARAMETER_SETS: dict[str, dict[str, float]] = {
    "defaults": {},
    "floored": {"integrity_floor": 0.1, "norm_k": 0.1, "lambda_c": 2, "mu_c": 20},
    "no integrity": {"integrity_floor": 1, "norm_x0": 0},
    "steep": {"norm_k": 50, "norm_x0": 0, "mttr_scale_hours": 0.001},
    "steep at the end": {"norm_k": 50, "norm_x0": 1, "mttr_scale_hours": 8760, "lambda_c": 10},
    "flat": {"norm_k": 0.1, "norm_x0": 1, "integrity_floor": 1e-9},
}
"""Parameters by parameter_set_id, with both ends of each range."""

SHARES = ("i_chain", "i_coverage", "i_replay", "q_deferral", "s_score")  # components whose best value is 1


def value(rng: random.Random, name: str) -> float:
    """Return a random value of a component. It is often the best or the worst one, or next to them."""
    if name == "mttr_hours":
        return rng.choice([0.0, 0.0, 10 ** rng.uniform(-12, 5), 2 * rng.random()])
    lost = [0.0] * 5 + [1.0, 1 - 2**-53, 0.5, 10 ** rng.uniform(-17, -2), rng.random(), rng.random() / 10]
    return 1 - rng.choice(lost) if name in SHARES else rng.choice(lost)


def next_state(rng: random.Random, state: dict[str, float]) -> dict[str, float]:
    """Return a random next state: most components are unchanged, some differ minimally.

    Sometimes drift and relapse are exchanged: each changes much, and R hardly at all.
    """
    changed = dict(state)
    for name, old in state.items():
        nearly = old * (1 + 10 ** rng.uniform(-15, -5))
        changed[name] = rng.choice([*[old] * 6, *[value(rng, name)] * 3, nearly if old < 0.9 else old])
    if rng.random() < 0.2:
        changed["delta_drift"], changed["rho_regression"] = state["rho_regression"], state["delta_drift"]
        changed["mttr_hours"] = state["mttr_hours"]
    return changed


def losses_of(state: dict[str, float], overrides: dict[str, float]) -> dict[str, float | None]:
    """Return the losses as the Python model writes them."""
    components = {name: np.array([number]) for name, number in state.items()}
    found = {part: float(loss[0]) for part, loss in losses(components, Parameters(**overrides)).items()}
    return {f"{part}_loss": None if math.isinf(loss) else loss for part, loss in found.items()}


def random_rows(seed: int, agents: int) -> list[dict[str, Any]]:
    """Return rows of scores: components, losses, parameter_set_id and capacity_score."""
    rng = random.Random(seed)
    rows = []
    for n in range(agents):
        name = rng.choice(list(PARAMETER_SETS))
        state = {part: value(rng, part) for part in attribution.PARTS if part != "r_ceiling"}
        for day in range(DAYS):
            if rng.random() < 0.03:
                name = rng.choice(list(PARAMETER_SETS))
            level = attribution.level(state, PARAMETER_SETS[name])
            score = float(level.capacity) if rng.random() < 0.95 else None
            key = {"agent_id_hash": f"agent {n}", "as_of": str(START + timedelta(days=day)), "window_days": 7}
            if rng.random() < 0.97:
                losses = losses_of(state, PARAMETER_SETS[name])
                rows.append({**key, "parameter_set_id": name, "capacity_score": score, **state, **losses})
            state = next_state(rng, state)
    return rows


def test_attribution_of_extreme_states_equals_the_reference(sample_copy: Database) -> None:
    """The scores of the sample are replaced by random states of several parameter sets."""
    with sample_copy.connect() as connection:
        connection.execute(f"set search_path to {SCHEMA}")
        connection.execute(
            """
            -- The key would forbid rows of several parameter sets.
            alter table dim_scoring_parameters drop constraint dim_scoring_parameters_pkey;
            create temporary table scores as select * from fct_capacity_scores limit 1;
            create temporary table parameters as select * from dim_scoring_parameters;
            truncate fct_capacity_scores, dim_scoring_parameters
            """
        )
        for name, overrides in PARAMETER_SETS.items():
            connection.execute(
                "insert into dim_scoring_parameters"
                " select parameter_name, coalesce(%s::jsonb ->> parameter_name, default_value) as parameter_value,"
                " default_value, allowed_range, meaning, specification_section, %s from parameters",
                [Jsonb(overrides), name],
            )
        connection.execute(
            "insert into fct_capacity_scores select (jsonb_populate_record(scores, state)).*"
            " from unnest(%s::jsonb[]) as state cross join scores",
            [list(map(Jsonb, random_rows(7, 300)))],
        )
        connection.execute("analyze fct_capacity_scores")
        differences = attribution_differences(
            connection, SCHEMA, timedelta(days=1), PARAMETER_SETS.__getitem__
        )
        assert differences == []
        # Every case occurs, and an unchanged component has 0 and not -0, which the comparison does not distinguish.
        reasons = connection.execute(
            "select array_agg(distinct not_comparable_because order by not_comparable_because)"
            " from fct_score_comparisons"
        ).fetchone()
        assert reasons == (["no_earlier_score", "no_score", "other_parameter_set", None],)
        n_changes = connection.execute(
            "select count(*) filter (where loss_change is null and points < 0) > 20,"
            " count(*) filter (where loss_change is null and points > 0) > 20,"
            " count(*) filter (where '-0' in (loss_change::text, points::text)) from fct_score_changes"
        ).fetchone()
        assert n_changes == (True, True, 0)
