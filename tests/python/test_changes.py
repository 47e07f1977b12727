"""Changes for the worse (certainty.md §4), compared with the reference and with hand-computed values."""

import math
from typing import Any

import numpy as np
import pytest

from ciris_scoring.statistics import changes, episodes
from ciris_scoring.statistics.inputs import Floats, Integers, Parameters, TraceSums
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
) -> tuple[TraceSums, list[list[Period]]]:
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
    sums = TraceSums(
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


@pytest.mark.parametrize(("per_day", "days", "per_period"), [(1, 150, 40), (1, 60, 3), (24, 50, 4)])
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


@pytest.mark.parametrize("per_day", [1, 24])
def test_change_of_events_equals_reference(per_day: int) -> None:
    rng = np.random.default_rng([46, per_day])
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


def test_change_of_a_rate_equals_hand_computed_value() -> None:
    """100 traces a day for 132 days. Overrides: 90 in the 90 days before the last 42, then 1 a day, but 3 a day in the
    last 10 days.

    Without correlation, and with as many differences between days as chance gives, the design effect is near 1; it is
    set to 1 here. The rate before is (90 + 0.7 √90 + 0.5) / 9000 = 0.010793. Three times as high since 10 days: 30 ln 3
    + 970 ln((1 − 0.032380) / (1 − 0.010793)).
    """
    days = 132
    n = np.full((1, days), 100)
    zero, none = np.zeros_like(n), np.zeros((1, days, 10), dtype=np.int64)
    overridden = np.where(np.arange(days) >= days - 10, 3, 1)[None]
    sums = TraceSums(n, zero, overridden, n, zero, 10 * n, *[zero] * 7, none, none * 1.0, none)
    found = changes.behaviour_changes(sums, at(np.zeros(1, int), np.full(1, days)), PARAMETERS, 1)
    before = (90 + 0.7 * math.sqrt(90) + 0.5) / 9000
    ratio = 30 * math.log(3) + 970 * math.log((1 - 3 * before) / (1 - before))
    assert found.ratio[0] == pytest.approx(ratio) and found.days[0] == 10
    assert changes.PARTS[found.component[0]] == "k_contradiction"
    assert (found.kept_before[0], found.kept_now[0]) == pytest.approx((math.exp(-0.1), math.exp(-0.3)))


def test_signed_roots_equal_hand_computed_values() -> None:
    """3 events in 7 days after none in 90: √(2 · 3 ln(97/7)). Of 8 deferrals 6 are lost, after 2 of 20: pooled 2/7."""
    assert episodes.excess(*map(np.array, (3.0, 7.0, 0.0, 90.0))) == pytest.approx(
        math.sqrt(6 * math.log(97 / 7))
    )
    assert episodes.excess(*map(np.array, (1.0, 7.0, 20.0, 90.0))) == 0
    p = 2 / 7
    deviance = 6 * math.log(0.75 / p) + 2 * math.log(0.25 / (1 - p))
    deviance += 2 * math.log(0.1 / p) + 18 * math.log(0.9 / (1 - p))
    assert episodes.share_rose(*map(np.array, (6.0, 8.0, 2.0, 20.0))) == pytest.approx(
        math.sqrt(2 * deviance)
    )
    assert episodes.share_rose(*map(np.array, (1.0, 20.0, 2.0, 20.0))) == 0


def test_longer_episodes_equal_hand_computed_value() -> None:
    """Nine episodes of an hour, then three of seven: s² = 10 ln 2 / 18, t = ln 7 / √(s² (1/3 + 1/9))."""
    n = episodes.Sides(np.array([3.0, 3.0, 0.0, 2.0]), np.array([9.0, 9.0, 9.0, 0.0]))
    logs = episodes.Sides(np.array([3 * math.log(7), 0.0, 0.0, 2.0]), np.zeros(4))
    found = episodes.longer(n, logs, np.zeros(4), np.ones(4))
    t = math.log(7) / math.sqrt(10 * math.log(2) / 18 * (1 / 3 + 1 / 9))
    assert found == pytest.approx([math.sqrt(18 * math.log(1 + t * t / 18)), 0, 0, 0])
