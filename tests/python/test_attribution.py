"""Test of attribution and changes on extreme states, compared with the reference implementation.

`differences_from_reference` makes the same comparison on fleets, which hardly ever have such states.
"""

from __future__ import annotations

import random
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import numpy as np
from psycopg.types.json import Jsonb

from ciris_scoring.certainty.losses import losses
from ciris_scoring.lab.embedded import SCHEMA
from ciris_scoring.windows.run import Parameters
from conftest import Database
from nasty_fleet import START
from pipeline import attribution_differences
from reference import attribution

PARAMETER_SETS: dict[str, dict[str, float]] = {
    "defaults": {},
    "floored": {"integrity_floor": 0.1, "norm_k": 0.1, "lambda_c": 2, "mu_c": 20},
    "no integrity": {"integrity_floor": 1, "norm_x0": 0},
    "steep": {"norm_k": 50, "norm_x0": 0, "mttr_scale_hours": 0.001},
    "steep at the end": {"norm_k": 50, "norm_x0": 1, "mttr_scale_hours": 8760, "lambda_c": 10},
    "flat": {"norm_k": 0.1, "norm_x0": 1, "integrity_floor": 1e-9},
}
"""Parameters by parameter_set_id. They include the lowest and the highest value of each parameter."""

SHARES = ("i_chain", "i_coverage", "i_replay", "q_deferral", "s_score")
"""Components whose best value is 1. The best value of the other components is 0."""


def value(rng: random.Random, name: str) -> float:
    """Return a random value of a component. Often it is the best or the worst value, or very near to one of them."""
    if name == "mttr_hours":
        return rng.choice([0.0, 0.0, 10 ** rng.uniform(-12, 5), 2 * rng.random()])
    lost = [0.0] * 5 + [1.0, 1 - 2**-53, 0.5, 10 ** rng.uniform(-17, -2), rng.random(), rng.random() / 10]
    return 1 - rng.choice(lost) if name in SHARES else rng.choice(lost)


def next_state(rng: random.Random, state: dict[str, float]) -> dict[str, float]:
    """Return a random next state, in which most components are unchanged and some differ minimally.

    Sometimes the values of drift and relapse are exchanged: both change much, but R hardly changes.
    """
    changed = dict(state)
    for name, old in state.items():
        nearly = old * (1 + 10 ** rng.uniform(-15, -5))
        changed[name] = rng.choice([*[old] * 6, *[value(rng, name)] * 3, nearly if old < 0.9 else old])
    if rng.random() < 0.2:
        changed["delta_drift"], changed["rho_regression"] = state["rho_regression"], state["delta_drift"]
        changed["mttr_hours"] = state["mttr_hours"]
    return changed


def random_rows(seed: int, agents: int) -> list[dict[str, Any]]:
    """Return rows of scores at nine as-ofs: components, losses, parameter_set_id and capacity_score."""
    rng = random.Random(seed)
    rows = []
    for n in range(agents):
        name = rng.choice(list(PARAMETER_SETS))
        state = {part: value(rng, part) for part in attribution.PARTS if part != "r_ceiling"}
        for day in range(9):
            if rng.random() < 0.03:
                name = rng.choice(list(PARAMETER_SETS))
            row = {"agent_id_hash": f"agent {n}", "as_of": str(START + timedelta(days=day)), "window_days": 7}
            row |= {"parameter_set_id": name, "capacity_score": None, **state}
            if rng.random() < 0.95:
                row["capacity_score"] = float(attribution.level(state, PARAMETER_SETS[name]).capacity)
            components = {part: np.array([number]) for part, number in state.items()}
            for part, [loss] in losses(
                SimpleNamespace(of=components.__getitem__), Parameters(**PARAMETER_SETS[name])
            ).items():
                row[f"{part}_loss"] = None if np.isinf(loss) else float(loss)
            if rng.random() < 0.97:
                rows.append(row)
            state = next_state(rng, state)
    return rows


def test_attribution_of_extreme_states_equals_the_reference(sample_copy: Database) -> None:
    """The sample's scores are replaced by random states with several parameter sets."""
    with sample_copy.connect() as connection:
        connection.execute(f"set search_path to {SCHEMA}")
        connection.execute(
            """
            -- The primary key allows only one parameter set.
            alter table dim_scoring_parameters drop constraint dim_scoring_parameters_pkey;
            create temporary table scores as select * from fct_capacity_scores limit 1;
            create temporary table parameters as select * from dim_scoring_parameters;
            create temporary table losses as select * from fct_score_certainty limit 1;
            truncate fct_capacity_scores, fct_score_certainty, dim_scoring_parameters
            """
        )
        for name, overrides in PARAMETER_SETS.items():
            connection.execute(
                "insert into dim_scoring_parameters"
                " select parameter_name, coalesce(%s::jsonb ->> parameter_name, default_value) as parameter_value,"
                " default_value, allowed_range, meaning, specification_section, %s from parameters",
                [Jsonb(overrides), name],
            )
        states = [list(map(Jsonb, random_rows(7, 120)))]
        for mart, row in (("fct_capacity_scores", "scores"), ("fct_score_certainty", "losses")):
            connection.execute(
                f"insert into {mart} select (jsonb_populate_record({row}, state)).*"
                f" from unnest(%s::jsonb[]) as state cross join {row}",
                states,
            )
            connection.execute(f"analyze {mart}")
        parameters_of = PARAMETER_SETS.__getitem__
        assert attribution_differences(connection, timedelta(days=1), parameters_of) == []
        reasons = connection.execute(
            "select array_agg(distinct not_comparable_because order by not_comparable_because)"
            " from fct_score_comparisons"
        ).fetchone()
        assert reasons == (["no_earlier_score", "no_score", "other_parameter_set", None],)
