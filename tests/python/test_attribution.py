"""Tests of attribution and changes on extreme states, compared with the reference implementation.

`differences_from_reference` makes the same comparison on the sample, random fleets and real traces.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from datetime import timedelta
from decimal import Decimal, localcontext
from typing import Any

import numpy as np
import psycopg
import pytest
from psycopg import sql
from psycopg.types.json import Jsonb

from ciris_scoring.lab.embedded import SCHEMA
from ciris_scoring.statistics.attribution import Components, losses
from ciris_scoring.statistics.inputs import Parameters
from conftest import Database
from nasty_fleet import START
from pipeline import attribution_differences
from reference import attribution
from reference.scoring import DEFAULT_PARAMETERS

WINDOW = timedelta(days=7)
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

# components whose best value is 0
RATES = ("d_identity", "k_contradiction", "delta_drift", "rho_regression", "ece", "u_unsafe")
SHARES = ("i_chain", "i_coverage", "i_replay", "q_deferral", "s_score")  # components whose best value is 1


def rate(rng: random.Random) -> float:
    """Return a random rate. It is often 0 or 1, or next to them."""
    roll = rng.random()
    if roll < 0.35:
        return 0.0
    if roll < 0.42:
        return rng.choice([1.0, 1.0, 1 - 2**-53, 0.5])
    if roll < 0.55:
        return 10 ** rng.uniform(-17, -2)
    return rng.random() if roll < 0.8 else rng.random() / 10


def value(rng: random.Random, name: str) -> float:
    if name == "mttr_hours":
        return rng.choice([0.0, 0.0, 10 ** rng.uniform(-12, 5), 2 * rng.random()])
    return 1 - rate(rng) if name in SHARES else rate(rng)


def next_state(rng: random.Random, state: dict[str, float], exchanges: bool) -> dict[str, float]:
    """Return a random next state: most components are unchanged, some differ minimally.

    :param exchanges: instead of minimal differences, exchange drift and relapse, so that R stays the same. If they
    are only nearly exchanged, the reference implementation is not exact enough; a separate test covers this.
    """
    changed = dict(state)
    for name in state:
        if rng.random() < 0.3:
            changed[name] = value(rng, name)
        elif not exchanges and rng.random() < 0.1 and 1e-3 < state[name] < 0.9:
            changed[name] = nearly(rng, state[name])
    if exchanges and rng.random() < 0.3:
        exchanged = {"delta_drift": state["rho_regression"], "rho_regression": state["delta_drift"]}
        changed |= {**exchanged, "mttr_hours": state["mttr_hours"]}
    return changed


def nearly(rng: random.Random, x: float) -> float:
    return x * (1 + rng.choice([-1, 1]) * 10 ** rng.uniform(-15, -5))


def publish(
    connection: psycopg.Connection, states: dict[tuple[str, int], tuple[dict[str, float], str, float | None]]
) -> None:
    """Replace the sample's scores, by agent and day: components, losses, parameter_set_id and capacity_score."""
    rows = [
        {
            "agent_id_hash": agent,
            "as_of": START + timedelta(days=day),
            "parameter_set_id": name,
            "capacity_score": composite,
            **state,
            **losses_of(state, PARAMETER_SETS[name]),
        }
        for (agent, day), (state, name, composite) in states.items()
    ]
    columns = list(rows[0])
    types = {"agent_id_hash": "text", "as_of": "timestamptz", "parameter_set_id": "text"}
    connection.execute("drop table if exists template.states")
    connection.execute(
        sql.SQL("create table template.states ({})").format(
            sql.SQL(", ").join(
                sql.SQL("{} {}").format(sql.Identifier(c), sql.SQL(types.get(c, "double precision")))
                for c in columns
            )
        )
    )
    with connection.cursor().copy("copy template.states from stdin") as copy:
        for row in rows:
            copy.write_row([row[c] for c in columns])
    connection.execute(
        f"insert into {SCHEMA}.fct_capacity_scores"
        " select (jsonb_populate_record(t, to_jsonb(s) || '{\"window_days\": 7}')).*"
        " from template.states as s cross join template.scores as t"
    )
    connection.execute(f"analyze {SCHEMA}.fct_capacity_scores")


def losses_of(state: dict[str, float], overrides: dict[str, float]) -> dict[str, float | None]:
    """Return the losses as the Python model writes them."""
    components = Components(**{name: np.array([state[name]]) for name in Components._fields})
    found = {part: float(loss[0]) for part, loss in losses(components, Parameters(**overrides)).items()}
    return {f"{part}_loss": None if math.isinf(loss) else loss for part, loss in found.items()}


def random_states(
    seed: int, agents: int
) -> dict[tuple[str, int], tuple[dict[str, float], str, float | None]]:
    rng = random.Random(seed)
    states: dict[tuple[str, int], tuple[dict[str, float], str, float | None]] = {}
    for n in range(agents):
        name = rng.choice(list(PARAMETER_SETS))
        state = {part: value(rng, part) for part in (*RATES, *SHARES, "mttr_hours")}
        exchanges = rng.random() < 0.3
        for day in range(DAYS):
            if rng.random() < 0.03:
                name = rng.choice(list(PARAMETER_SETS))
            composite = (
                attribution.level(state, PARAMETER_SETS[name]).capacity if rng.random() < 0.95 else None
            )
            if rng.random() < 0.97:
                states[f"agent {n}", day] = (state, name, composite)
            state = next_state(rng, state, exchanges)
    return states


@pytest.fixture(scope="module")
def published(sample_copy: Database) -> Iterator[Any]:
    """Replace the sample's scores by random states. Return a connection and the published rows.

    The views run on PostgreSQL 15.
    """
    with sample_copy.connect() as connection:
        connection.execute(
            f"""
            create schema template;
            -- The key would forbid rows of several parameter sets.
            alter table {SCHEMA}.dim_scoring_parameters drop constraint dim_scoring_parameters_pkey;
            create table template.scores as select * from {SCHEMA}.fct_capacity_scores limit 1;
            create table template.parameters as select * from {SCHEMA}.dim_scoring_parameters;
            truncate {SCHEMA}.fct_capacity_scores, {SCHEMA}.dim_scoring_parameters
            """
        )
        for name, overrides in PARAMETER_SETS.items():
            connection.execute(
                f"insert into {SCHEMA}.dim_scoring_parameters"
                " select parameter_name, coalesce(%s::jsonb ->> parameter_name, default_value) as parameter_value,"
                " default_value, allowed_range, meaning, specification_section, %s from template.parameters",
                [Jsonb(overrides), name],
            )
        states = random_states(7, 700)
        publish(connection, states)
        yield connection, states


def test_attribution_equals_the_reference(published):
    connection, _ = published
    assert attribution_differences(connection, SCHEMA, timedelta(days=1), PARAMETER_SETS.__getitem__) == []


def test_random_states_cover_every_case(published):
    """Checks that the comparison covers all cases."""
    connection, states = published
    [reasons] = connection.execute(
        f"select array_agg(distinct coalesce(not_comparable_because, '-')) from {SCHEMA}.fct_score_comparisons"
    ).fetchone()
    assert set(reasons) == {"-", "no_earlier_score", "other_parameter_set", "no_score"}
    composites = [composite for _, _, composite in states.values() if composite is not None]
    assert 0 < sum(composite == 0 for composite in composites) < len(composites) / 2
    turned = f"from {SCHEMA}.fct_score_changes where loss_change is null"
    [[became, ceased]] = connection.execute(
        f"select count(*) filter (where points < 0), count(*) filter (where points > 0) {turned}"
    ).fetchall()
    assert min(became, ceased) > 50
    floored = [
        composite
        for state, name, composite in states.values()
        if name == "floored" and state["i_chain"] * state["i_coverage"] * state["i_replay"] == 0
    ]
    assert any(floored)


def test_unchanged_component_has_positive_zero(published):
    """dbt's test that an unchanged component has 0 does not distinguish -0."""
    connection, _ = published
    minus = f"select count(*) from {SCHEMA}.fct_score_changes where '-0' in (loss_change::text, points::text)"
    assert connection.execute(minus).fetchone() == (0,)


def exact_changes_of_r(
    earlier: dict[str, float], later: dict[str, float], overrides: dict[str, float]
) -> dict[str, Decimal]:
    """certainty.md §2: exact changes, with 60 digits, of the components of R with a finite change of u above 1e-9."""
    parameters = DEFAULT_PARAMETERS | overrides
    p = {name: Decimal(parameters[name]) for name in ("mttr_scale_hours", "norm_k", "norm_x0")}
    with localcontext(prec=60):

        def amounts(state: dict[str, float]) -> list[Decimal]:
            return [
                -(1 - Decimal(state["delta_drift"])).ln(),
                (1 + Decimal(state["mttr_hours"]) / p["mttr_scale_hours"]).ln(),
                -(1 - Decimal(state["rho_regression"])).ln(),
            ]

        def loss(u: Decimal) -> Decimal:
            return (1 + (-p["norm_k"] * ((-u).exp() - p["norm_x0"])).exp()).ln()

        before, after = amounts(earlier), amounts(later)
        quotient = (loss(sum(after)) - loss(sum(before))) / (sum(after) - sum(before))
        steps = [(now - then) * quotient for then, now in zip(before, after, strict=True)]
    return dict(zip(attribution.WITHIN_R, steps, strict=True))


def test_nearly_offsetting_changes_of_r_are_exact(published):
    """Each component changes much and the sum hardly at all, so a difference quotient in floating point is inexact."""
    connection, _ = published
    rng = random.Random(8)
    states: dict[tuple[str, int], tuple[dict[str, float], str, float | None]] = {}
    for n in range(200):
        name = rng.choice(list(PARAMETER_SETS))
        state = {part: 0.9 if part in SHARES else 0.01 for part in (*RATES, *SHARES, "mttr_hours")}
        state |= {"delta_drift": rng.uniform(0.1, 0.9), "rho_regression": rng.uniform(0.1, 0.9)}
        exchanged = state | {
            "delta_drift": state["rho_regression"],
            "rho_regression": state["delta_drift"] * (1 + 10 ** rng.uniform(-8, -3)),
        }
        for day, each in enumerate((state, exchanged)):
            states[f"exchanged {n}", day] = (
                each,
                name,
                attribution.level(each, PARAMETER_SETS[name]).capacity,
            )
    with connection.transaction(force_rollback=True):
        publish(connection, states)
        rows = connection.execute(
            f"select agent_id_hash, loss_component, loss_change from {SCHEMA}.fct_score_changes"
            " where agent_id_hash like 'exchanged %%' and loss_component = any(%s)",
            [list(attribution.WITHIN_R)],
        ).fetchall()
    assert len(rows) == 600
    for agent, loss_component, loss_change in rows:
        (earlier, name, _), (later, _, _) = states[agent, 0], states[agent, 1]
        expected = float(exact_changes_of_r(earlier, later, PARAMETER_SETS[name])[loss_component])
        assert loss_change == pytest.approx(expected, rel=1e-12, abs=1e-12), (agent, loss_component)
