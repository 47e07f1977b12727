"""Changes for the worse (certainty.md §4) equal the reference on many counts by day, and by hour."""

import math
from typing import Any

import numpy as np
import pytest

from ciris_scoring.statistics import changes, episodes
from ciris_scoring.statistics.inputs import Floats, Integers, Parameters, PeriodSums
from ciris_scoring.statistics.long_run import Present, design_effects
from ciris_scoring.statistics.windows import (
    MICROSECONDS_PER_HOUR,
    NEVER,
    VALUE_UNITS,
    Deferrals,
    FragileEpisodes,
)
from reference import alarms, long_run
from reference.intervals import RATES, Period
from reference.scoring import DEFAULT_PARAMETERS

PARAMETERS = Parameters()


def random_sums(
    agents: int, periods: int, per_period: float, rng: np.random.Generator
) -> tuple[PeriodSums, list[list[Period]]]:
    """Return random counts of agents whose rates grow at a random time, as arrays and as lists of periods."""
    shape = (agents, periods)
    worse = np.arange(periods) >= rng.integers(periods // 2, periods, (agents, 1))
    n = rng.poisson(per_period, shape) * (rng.random(shape) < 0.9)

    def some(of: Any, rate: float) -> Integers:
        values: Integers = rng.binomial(of, rate * np.where(worse, rng.uniform(1, 6, (agents, 1)), 1))
        return values

    signals = rng.binomial(n, 0.7), rng.binomial(n, 0.2)
    sampled = np.minimum(n, 3)
    judged = rng.multinomial(n, np.full(10, 0.1))
    successes = rng.binomial(judged, 0.7)
    sums = PeriodSums(
        n,
        some(n, 0.002),
        some(n, 0.01),
        n - some(n, 0.02),
        np.zeros(shape, dtype=np.int64),
        10 * n - some(10 * n, 0.03),
        sampled,
        sampled - some(sampled, 0.05),
        some(n, 0.01),
        *signals,
        *(of - some(of, 0.05) for of in signals),
        judged,
        judged * rng.choice([0.5, 0.75, 0.875], (agents, 1, 1)),
        successes,
        np.zeros((*shape, 3, 10), dtype=np.int64),
        *np.zeros((3, *shape)),
    )
    lists = [
        [
            Period(
                n=int(sums.n_traces[a, t]),
                renamed=int(sums.n_identity_changes[a, t]),
                overridden=int(sums.n_overridden[a, t]),
                chain_valid=int(sums.n_chain_valid[a, t]),
                fields=int(sums.n_fields_present[a, t]),
                sampled=int(sums.n_replay_sampled[a, t]),
                replayed=int(sums.n_replay_succeeded[a, t]),
                unsafe=int(sums.n_unsafe[a, t]),
                signals=(int(signals[0][a, t]), int(signals[1][a, t])),
                coherent=(int(sums.n_coherent_corroborated[a, t]), int(sums.n_coherent_uncorroborated[a, t])),
                judged=judged[a, t].tolist(),
                confidence=sums.sum_confidence[a, t].tolist(),
                successes=successes[a, t].tolist(),
            )
            for t in range(periods)
        ]
        for a in range(agents)
    ]
    return sums, lists


def at(agent: Integers, as_of: Integers, effect: Floats | None = None, cv: float = 1.8) -> Present:
    none = np.zeros(len(agent), dtype=np.int64)
    effects = np.ones((len(agent), 8)) if effect is None else effect
    return Present(agent, as_of, none, none * 1.0, effects, np.full(len(agent), cv))


@pytest.mark.parametrize(("per_day", "days", "per_period"), [(1, 150, 40), (24, 50, 4)])
def test_change_of_behaviour_equals_reference(per_day: int, days: int, per_period: float) -> None:
    sums, lists = random_sums(4, days * per_day, per_period, np.random.default_rng([45, per_day, days]))
    agent, as_of = (
        index.ravel()
        for index in np.meshgrid(np.arange(4), days * per_day - np.array([0, 1, 7]), indexing="ij")
    )
    icc = np.linspace(0, 0.03, 11) * np.ones((len(agent), 1))
    effect = design_effects(sums, agent, as_of, icc, per_day)
    found = changes.behaviour_changes(sums, at(agent, as_of, effect), PARAMETERS, per_day)
    by_name = dict(zip((*RATES, "ece"), icc[0], strict=False))
    for i, (a, end) in enumerate(zip(agent, as_of, strict=True)):
        expected = alarms.change(lists[a], int(end), by_name, DEFAULT_PARAMETERS, per_day)
        numbers = [float(of[i]) for of in found[:4]]
        assert numbers == pytest.approx(list(expected[:4]), rel=1e-9, abs=1e-9), (i, expected)
        assert changes.PARTS[found.component[i]] == expected.component


def test_change_of_events_by_hour_equals_reference() -> None:
    rng, per_day = np.random.default_rng(46), 24
    agents, periods, n = 5, 140 * per_day, 60
    agent = np.sort(rng.integers(0, agents, n))
    recovered = rng.integers(0, periods, n)
    hours = np.exp(rng.normal(0, 1, n) + 2 * (recovered > periods - 10 * per_day) * (agent == 1))
    happened = FragileEpisodes(
        agent,
        recovered,
        np.where(np.arange(n) % 20 == 0, NEVER, recovered),
        np.zeros(n, dtype=np.int64),
        np.arange(n),
        np.rint(hours * MICROSECONDS_PER_HOUR).astype(np.int64),
    )
    judged = rng.integers(0, periods, n)
    value = rng.choice([0, VALUE_UNITS // 2, VALUE_UNITS], n, p=[0.2, 0.2, 0.6])
    deferrals = Deferrals(agent, judged - 5, judged, value, np.zeros(n, dtype=np.int64))
    first = rng.integers(-20, periods // 2, agents)
    pairs = np.repeat(np.arange(agents), 2), np.tile([periods, periods - per_day - 1], agents)
    found = episodes.event_changes(happened, deferrals, first, at(*pairs), per_day)
    ended = happened.recovered < NEVER
    for i, (a, end) in enumerate(zip(*pairs, strict=True)):

        def age(period: int, end: int = int(end)) -> float:
            return (end - period - 1) / per_day

        events = long_run.Events(
            [
                (age(int(recovered[k])), math.log(hours[k]), "a")
                for k in np.flatnonzero(ended & (agent == a) & (recovered < end))
            ],
            None,
            [
                (age(int(judged[k])), value[k] / VALUE_UNITS)
                for k in np.flatnonzero((agent == a) & (judged < end))
            ],
            (end - first[a]) / per_day,
        )
        expected = alarms.worse_events(events, 1.8)
        assert (episodes.KINDS[found.kind[i]], found.days[i]) == (expected.kind, expected.days), i
        numbers = [float(of[i]) for of in (found.z, found.now, found.before)]
        wanted = [math.nan if one is None else one for one in (expected.z, expected.now, expected.before)]
        assert numbers == pytest.approx(wanted, rel=1e-8, abs=1e-9, nan_ok=True), (i, expected)
