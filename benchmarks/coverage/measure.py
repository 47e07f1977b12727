"""Simulate a case and compare every interval with its truth."""

from typing import NamedTuple

import numpy as np

from benchmarks.coverage.behaviour import (
    Behaviour,
    Facts,
    RowFacts,
    draw,
    draw_facts,
    realised,
)
from benchmarks.coverage.cases import FLEET, Case, bad_days, on_a_bad_day, simulated
from benchmarks.coverage.long_run import long_run
from benchmarks.coverage.truth import Truth, truth
from ciris_scoring.statistics.design_effects import fleet_values
from ciris_scoring.statistics.inputs import Floats, Parameters, PeriodSums, Rows, Window
from ciris_scoring.statistics.intervals import Intervals, compute_intervals, sum_fleet
from ciris_scoring.statistics.resilience import sigmoid

PARAMETERS = Parameters()
ROUNDING = 1e-9
"""A limit that misses the truth by no more than this holds it: an end that is exactly the truth is a limit too."""

BEST = float(sigmoid(1.0, PARAMETERS.norm_k, PARAMETERS.norm_x0))

BAD_DAY = 0.1


class Measured(NamedTuple):
    """What a case came to; shares are of the rows."""

    name: str
    rows: int
    coverage: float
    """Share of intervals of the score that hold the truth."""
    coverage_of_days: float
    """The same for the truth of the days as they were, where days differ; else equal to ``coverage``."""
    too_low: float
    """Share whose upper limit is below the truth."""
    too_high: float
    """Share whose lower limit is above the truth."""
    factor_coverage: tuple[float, ...]
    """In the order of ``FACTORS``."""
    component_coverage: tuple[float, ...]
    """In the order of ``COMPONENTS``."""
    median_width: float
    median_score: float
    ends_at_best: float
    """Share of intervals that end at norm(1), the best score there is."""
    weekly: "Decided"
    steady: "Decided"
    """The same of the steady score."""


class Decided(NamedTuple):
    """What a score with its interval is good for: whoever decides asks for the long run."""

    coverage: float
    median_width: float
    error: float
    """Root mean square distance from the truth."""
    right_category: float
    """Share in the category of the truth."""
    trusted: float
    """Share whose lower limit is ``DECIDED_AT`` or more."""
    decided: float
    """Share whose interval lies on one side of it."""


DECIDED_AT = 0.6
CATEGORY_BOUNDS = (0.3, 0.6, 0.85)


def measure(case: Case, rows: int, seed: int) -> Measured:
    """Simulate at least ``rows`` agents of a case, in whole fleets.

    :param seed: the same seed and case give the same agents.
    """
    rng = np.random.default_rng([seed, *case.name.encode()])
    size = max(rows, case.fleet) if case.fleet == 1 else max(-(-rows // FLEET) * FLEET, case.fleet)
    behaviour, facts, effects = simulated(case, size, rng)
    days = facts.n_traces.shape[1]
    real = realised(_on_days(case, behaviour, facts, rng), effects, rng)
    sums = draw(real, facts, effects, rng)
    given = draw_facts(facts, case.window.window_days, rng)
    expected = truth(behaviour, facts, case.window, PARAMETERS, days)
    of_days = truth(real, facts, case.window, PARAMETERS, days)
    result = limits_of_fleets(sums, given, case.window, [days], case.fleet)
    return _compare(case.name, result, expected, of_days, long_run(case, expected, facts, PARAMETERS, rng))


def _on_days(case: Case, behaviour: Behaviour, facts: Facts, rng: np.random.Generator) -> Behaviour:
    """Behaviour of good and bad days, where the case has bad ones; their mean is ``behaviour``."""
    if case.change is not bad_days:
        return behaviour
    bad = (rng.random(facts.n_traces.shape) < BAD_DAY)[..., None]
    extra = on_a_bad_day(np.zeros_like(behaviour.rates))
    good = np.clip(behaviour.rates - BAD_DAY * extra, 0, 1)
    return behaviour._replace(rates=np.where(bad, np.minimum(good + extra, 1), good))


def limits_of_fleets(
    sums: PeriodSums, given: RowFacts, window: Window, as_ofs: list[int], fleet: int
) -> Intervals:
    """Intervals of all agents at all as-ofs (agent by agent), in fleets of ``fleet`` agents.

    :param given: facts of every agent and as-of.
    """
    sums = sums._replace(
        n_recoveries=given.n_recoveries,
        log_recovery_hours=given.log_hours,
        log_recovery_hours_squared=given.log_hours_squared,
    )
    results = []
    for first in range(0, len(sums.n_traces), fleet):
        members = slice(first, first + fleet)
        part = PeriodSums._make(values[members] for values in sums)
        n = len(part.n_traces)
        rows = Rows._make(
            [
                np.repeat(np.arange(n), len(as_ofs)),
                np.tile(np.array(as_ofs, dtype=np.int64), n),
                np.zeros(n * len(as_ofs), dtype=np.int64),
                *(values[members].ravel() for values in given[:9]),
            ]
        )
        fleet_of = fleet_values(sum_fleet(part, rows, (window,)))
        results.append(compute_intervals(part, rows, (window,), PARAMETERS, fleet_of))
    return Intervals(*(np.concatenate(values) for values in zip(*results, strict=True)))


def _compare(
    name: str, result: Intervals, expected: Truth, of_days: Truth, in_the_long_run: Floats
) -> Measured:
    low, high = result.capacity_score_low, result.capacity_score_high

    def held(value: np.ndarray) -> float:
        return float(np.mean((low <= value + ROUNDING) & (value <= high + ROUNDING)))

    def shares(low: Floats, value: Floats, high: Floats) -> tuple[float, ...]:
        inside = (low <= value + ROUNDING) & (value <= high + ROUNDING)
        return tuple(float(share) for share in np.mean(inside, axis=0))

    return Measured(
        name=name,
        rows=len(low),
        coverage=held(expected.capacity),
        coverage_of_days=held(of_days.capacity),
        too_low=float(np.mean(expected.capacity > high + ROUNDING)),
        too_high=float(np.mean(expected.capacity < low - ROUNDING)),
        factor_coverage=shares(result.factor_low, expected.factors, result.factor_high),
        component_coverage=shares(result.component_low, expected.components, result.component_high),
        median_width=float(np.median(high - low)),
        median_score=float(np.median(result.capacity_score)),
        ends_at_best=float(np.mean(np.abs(high - BEST) <= ROUNDING)),
        weekly=_decided(result.capacity_score, low, high, in_the_long_run),
        steady=_decided(
            result.capacity_score_steady,
            result.capacity_score_steady_low,
            result.capacity_score_steady_high,
            in_the_long_run,
        ),
    )


def _decided(score: Floats, low: Floats, high: Floats, expected: Floats) -> Decided:
    category = np.digitize(score, CATEGORY_BOUNDS) == np.digitize(expected, CATEGORY_BOUNDS)
    return Decided(
        coverage=float(np.mean((low <= expected + ROUNDING) & (expected <= high + ROUNDING))),
        median_width=float(np.median(high - low)),
        error=float(np.sqrt(np.mean((score - expected) ** 2))),
        right_category=float(np.mean(category)),
        trusted=float(np.mean(low >= DECIDED_AT)),
        decided=float(np.mean((low >= DECIDED_AT) | (high < DECIDED_AT))),
    )
