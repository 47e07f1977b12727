"""Simulate a case and compare each interval with the truth."""

from typing import Any

import numpy as np

from benchmarks.coverage.alarms import of_fleet_values
from benchmarks.coverage.behaviour import Facts, draw, realised
from benchmarks.coverage.cases import FLEET, Case, simulated
from benchmarks.coverage.events import WORTH, durations
from benchmarks.coverage.published import published
from benchmarks.coverage.truth import PARAMETERS, Truth, truth
from ciris_scoring.certainty.events import MICROSECONDS_PER_HOUR
from ciris_scoring.certainty.inputs import Counts, Pairs
from ciris_scoring.certainty.intervals import Intervals, compute_intervals
from ciris_scoring.windows.arrays import Booleans, Floats
from ciris_scoring.windows.reading import of_agents
from ciris_scoring.windows.sums import Deferrals, Events, FragileEpisodes, Places

ROUNDING = 1e-9
"""Tolerance of comparisons, because a bound may be exactly equal to the truth."""

NO_DEFERRALS = Deferrals(*np.zeros((len(Deferrals._fields), 0), dtype=np.int64))


def measure(case: Case, rows: int, seed: int) -> dict[str, Any]:
    """Simulate at least ``rows`` agents of a case, in whole fleets. Return figures by the names in docs/measuring.md,
    such as the share of intervals that contain the truth.

    :param seed: the same seed and case give the same agents.
    """
    rng = np.random.default_rng([seed, *case.name.encode()])
    behaviour, facts, effects = simulated(case, -(-rows // FLEET) * FLEET, rng)
    real = realised(behaviour, effects, rng)
    sums = draw(real, facts, rng)
    expected, of_days = (truth(doing, facts, case.window, facts.n_traces.shape[1]) for doing in (behaviour, real))
    of_case = {"case": case.name, "traces": case.n, "days": case.window.window_days}
    return of_case | _compare(*_limits(sums, facts, case, rng), expected, of_days)


def _limits(sums: Counts, facts: Facts, case: Case, rng: np.random.Generator) -> tuple[Intervals, Floats]:
    """Return the intervals and the scores at the end of the last day. All episodes end on that day."""
    agents, days = facts.n_traces.shape
    happened = np.arange(max(int(facts.n_episodes.max()), 1)) < facts.n_episodes[:, None]
    hours = durations(np.broadcast_to(facts.mean_hours[:, None], happened.shape), rng)
    worth = rng.multinomial(facts.n_deferrals, facts.deferral_outcomes) @ WORTH
    q_deferral = np.where(facts.n_deferrals > 0, worth / np.maximum(facts.n_deferrals, 1), 1.0)
    mttr_hours = np.where(happened, hours, 0).sum(axis=1) / np.maximum(facts.n_episodes, 1)
    agent, _ = np.nonzero(happened)
    last = np.full(len(agent), days - 1)
    microseconds = np.rint(hours[happened] * MICROSECONDS_PER_HOUR).astype(np.int64)
    episodes = FragileEpisodes(agent, last, last, last, last, microseconds)
    given = mttr_hours, facts.n_episodes, facts.rho_regression, q_deferral, facts.n_deferrals
    results, capacities = [], []
    for first in range(0, agents, FLEET):
        fleet = slice(first, first + FLEET)
        part = Counts._make(values[fleet] for values in sums)
        size = len(part.n_gaps)
        places = Places(np.arange(size), np.full(size, days), np.zeros(size, dtype=np.int64))
        of_fleet: list[Any] = [values[fleet] for values in given]
        mine = published(part, places, (case.window,), PARAMETERS, *of_fleet)
        capacities.append(mine.capacity_score)
        events = Events(NO_DEFERRALS, of_agents(episodes, range(first, first + FLEET)), places.window)
        effect, episode_cv = of_fleet_values(part, events, Pairs(places.agent, places.as_of))
        results.append(compute_intervals(part, mine, (case.window,), effect, episode_cv, PARAMETERS))
    intervals = Intervals(*(np.concatenate(values) for values in zip(*results, strict=True)))
    return intervals, np.concatenate(capacities)


def _compare(result: Intervals, capacity: Floats, expected: Truth, of_days: Truth) -> dict[str, Any]:
    low, high = result.capacity_score_low, result.capacity_score_high

    def held(low: Floats, value: Floats, high: Floats) -> Booleans:
        return (low <= value + ROUNDING) & (value <= high + ROUNDING)

    return {
        "rows": len(low),
        "score": held(low, expected.capacity, high).mean(),
        "of days": held(low, of_days.capacity, high).mean(),
        "above": np.mean(expected.capacity > high + ROUNDING),
        "below": np.mean(expected.capacity < low - ROUNDING),
        "width": np.median(high - low),
        "median": np.median(capacity),
    }
