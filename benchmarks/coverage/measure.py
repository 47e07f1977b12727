"""Simulate a case and compare every interval with its truth."""

from typing import NamedTuple

import numpy as np

from benchmarks.coverage.behaviour import Behaviour, Facts, draw, realised
from benchmarks.coverage.cases import FLEET, Case, bad_days, on_a_bad_day, simulated
from benchmarks.coverage.events import WORTH, durations
from benchmarks.coverage.truth import Truth, truth
from ciris_scoring.steps.intervals import (
    Intervals,
    Parameters,
    PeriodSums,
    Rows,
    compute_intervals,
    fleet_values,
    sum_fleet,
)
from ciris_scoring.steps.intervals.inputs import Floats
from ciris_scoring.steps.resilience import sigmoid

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
    expected = truth(behaviour, facts, case.window, PARAMETERS, days)
    of_days = truth(real, facts, case.window, PARAMETERS, days)
    return _compare(case.name, _limits(sums, facts, case, rng), expected, of_days)


def _on_days(case: Case, behaviour: Behaviour, facts: Facts, rng: np.random.Generator) -> Behaviour:
    """Behaviour of good and bad days, where the case has bad ones; their mean is ``behaviour``."""
    if case.change is not bad_days:
        return behaviour
    bad = (rng.random(facts.n_traces.shape) < BAD_DAY)[..., None]
    extra = on_a_bad_day(np.zeros_like(behaviour.rates))
    good = np.clip(behaviour.rates - BAD_DAY * extra, 0, 1)
    return behaviour._replace(rates=np.where(bad, np.minimum(good + extra, 1), good))


def _limits(sums: PeriodSums, facts: Facts, case: Case, rng: np.random.Generator) -> Intervals:
    """Intervals at the end of the days, in fleets; all episodes have ended on the last day."""
    agents, days = facts.n_traces.shape
    happened = np.arange(max(int(facts.n_episodes.max()), 1)) < facts.n_episodes[:, None]
    hours, logs = durations(np.broadcast_to(facts.mean_hours[:, None], happened.shape), rng)
    worth = rng.multinomial(facts.n_deferrals, facts.deferral_outcomes) @ WORTH
    q_deferral = np.where(facts.n_deferrals > 0, worth / np.maximum(facts.n_deferrals, 1), 1.0)
    mttr_hours = np.where(happened, hours, 0).sum(axis=1) / np.maximum(facts.n_episodes, 1)
    for name, values in (
        ("n_recoveries", facts.n_episodes),
        ("log_recovery_hours", np.where(happened, logs, 0).sum(axis=1)),
        ("log_recovery_hours_squared", np.where(happened, logs**2, 0).sum(axis=1)),
    ):
        sums = sums._replace(**{name: np.pad(values[:, None], ((0, 0), (days - 1, 0)))})
    events = [mttr_hours, facts.n_episodes, q_deferral, facts.n_deferrals]
    rows = Rows(
        np.arange(agents) % case.fleet,
        np.full(agents, days),
        np.zeros(agents, dtype=np.int64),
        *(mttr_hours, facts.n_episodes, facts.rho_regression, q_deferral, facts.n_deferrals),
        *events,  # nobody looks at the steady score of these rows
    )
    results = []
    for first in range(0, agents, case.fleet):
        fleet = slice(first, first + case.fleet)
        part = PeriodSums._make(values[fleet] for values in sums)
        mine = Rows._make(values[fleet] for values in rows)
        shared = fleet_values(sum_fleet(part, mine, (case.window,)))
        results.append(compute_intervals(part, mine, (case.window,), PARAMETERS, shared))
    return Intervals(*(np.concatenate(values) for values in zip(*results, strict=True)))


def _compare(name: str, result: Intervals, expected: Truth, of_days: Truth) -> Measured:
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
    )
