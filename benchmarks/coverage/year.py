"""A year of agents that change at times nobody knows: what each score says of the long run, and whom one trusts by it.

The long run is the mean score under an agent's present behaviour, over windows with and without episodes and deferrals
(certainty.md §4b).
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from benchmarks.coverage.alarms import PARAMETERS, Scored, episode, falling, scored
from benchmarks.coverage.behaviour import RATES, Behaviour, DayEffects, draw, only_traces, realised
from benchmarks.coverage.cases import CORROBORATED, MOST_ICC, WINDOWS, stationary
from benchmarks.coverage.events import MODES, EventRates, draw_events, durations
from benchmarks.coverage.truth import truth
from ciris_scoring.statistics.inputs import Booleans, Floats, Integers, Window
from ciris_scoring.statistics.resilience import resilience_score

AGENTS = 50
"""Of a fleet."""

DAYS = 365
BEFORE = 127
"""Days before the first one that is looked at: the longest window, the steady days before it, and a week."""

CHANGES = 1.5
"""Times that an agent changes, in all of these days, in the mean."""

STRETCHES = 6
"""Of unchanged behaviour, at most."""

SHARE_CHANGED = 0.4
"""Of what makes an agent's behaviour, at each change."""

BOUND = 0.6
WINDOWS_DRAWN = 400
"""Windows whose mean counts as the expected one."""


class Lives(NamedTuple):
    """Agents and what they do, stretch by stretch."""

    stretch: Integers
    """(agents, days), which one it is."""
    behaviour: Behaviour
    """(agents, stretches, ...)."""
    rates: EventRates
    """(agents, stretches)."""


class Standing(NamedTuple):
    """A score over the year, (agents, days), and its long run."""

    score: Floats
    low: Floats
    high: Floats
    long_run: Floats


class Outcome(NamedTuple):
    """What a way to decide comes to; shares are of agent-days."""

    policy: str
    wrong_grants: float
    wrong_denials: float
    changes: float
    """Of the permission, per agent and year."""
    days_to_take_away: float
    """Median, after the long run has fallen below the bound."""


class Year(NamedTuple):
    """A fleet's year."""

    standings: dict[str, Standing]
    """By name of the score."""
    stretch: Integers
    alarm: Booleans
    """(agents, days): ``falling`` or ``episode`` is raised."""


def live(agents: int, days: int, rng: np.random.Generator) -> Lives:
    """Draw agents and their changes: at each one some of what they do is drawn anew."""
    drawn = stationary(agents * STRETCHES, 1, rng)
    n_changes = np.minimum(rng.poisson(CHANGES, agents), STRETCHES - 1)
    day_of_change = np.where(
        np.arange(STRETCHES - 1) < n_changes[:, None], rng.integers(1, days, (agents, STRETCHES - 1)), days
    )
    stretch = (day_of_change[:, :, None] <= np.arange(days)).sum(axis=1)

    def lasting(values: NDArray[Any]) -> NDArray[Any]:
        """Values of (agents · stretches, ...), of which only some change from one stretch to the next."""
        of_stretch = values.reshape(agents, STRETCHES, *values.shape[1:])
        for i in range(1, STRETCHES):
            stays = rng.random(agents) >= SHARE_CHANGED
            of_stretch[stays, i] = of_stretch[stays, i - 1]
        return of_stretch

    n = agents * STRETCHES
    episodes = np.where(rng.random(n) < 0.2, 0.0, 10.0 ** rng.uniform(-2.3, -0.8, n))
    return Lives(
        stretch,
        Behaviour(
            np.stack([lasting(drawn.rates[:, 0, i]) for i in range(len(RATES))], axis=-1),
            lasting(drawn.histograms[:, 0]),
            lasting(drawn.success[:, 0]),
        ),
        EventRates(
            lasting(episodes),
            lasting(10.0 ** rng.uniform(-1.5, 0.5, n)),
            lasting(10.0 ** rng.uniform(-1.2, -0.2, n)),
            lasting(rng.uniform(0.6, 1.0, n)),
        ),
    )


def long_run(lives: Lives, window: Window, rng: np.random.Generator) -> Floats:
    """Mean score of each stretch if it went on for ever, (agents, stretches)."""
    shape = lives.rates.episodes.shape
    rates = EventRates(*(values.ravel() for values in lives.rates))
    n = len(rates.episodes)
    days = window.memory_days
    ones = np.ones((n, days), dtype=np.int64)
    facts = only_traces(ones, ones)
    flat = Behaviour(*(values.reshape(n, *values.shape[2:]) for values in lives.behaviour))
    every_day = Behaviour(*(np.repeat(values[:, None], days, axis=1) for values in flat))
    usual = truth(every_day, facts, window, PARAMETERS, days).factors

    episodes = rng.poisson(rates.episodes[:, None] * window.window_days, (n, WINDOWS_DRAWN))
    hours, modes = np.zeros(episodes.shape), np.zeros(episodes.shape, dtype=np.int64)
    for k in range(int(episodes.max())):
        lasted, _ = durations(np.broadcast_to(rates.mean_hours[:, None], episodes.shape), rng)
        hours += np.where(k < episodes, lasted, 0.0)
        modes |= np.where(k < episodes, 1 << rng.integers(0, MODES, episodes.shape), 0)
    distinct = sum((modes >> mode) & 1 for mode in range(MODES))
    some = np.maximum(episodes, 1)
    r = resilience_score(
        np.zeros(episodes.shape),
        hours / some,
        (episodes - distinct) / some,
        PARAMETERS.mttr_scale_hours,
        PARAMETERS.norm_k,
        PARAMETERS.norm_x0,
    ).mean(axis=1)
    no_deferral = np.exp(-rates.deferrals * window.window_days)
    worth = no_deferral + (1 - no_deferral) * rates.good
    result: Floats = usual[:, 0] * usual[:, 1] * r * usual[:, 3] * worth * usual[:, 4]
    return result.reshape(shape)


def a_year(seed: int, number: int) -> Year:
    """Simulate and score one fleet."""
    rng = np.random.default_rng([seed, number])
    days = BEFORE + DAYS
    lives = live(AGENTS, days, rng)
    agent = np.arange(AGENTS)[:, None]
    of_day = (agent, lives.stretch)
    behaviour = Behaviour(*(values[of_day] for values in lives.behaviour))
    events = draw_events(EventRates(*(values[of_day] for values in lives.rates)), rng)
    per_week = np.clip(600 * np.exp(rng.normal(size=(AGENTS, 1))), 60, 6000)
    n_traces = rng.poisson(per_week / 7 * rng.gamma(8.0, 1 / 8, (AGENTS, days)))
    facts = only_traces(n_traces, rng.binomial(n_traces, CORROBORATED))
    effects = DayEffects(rng.uniform(0, MOST_ICC, AGENTS))
    sums = draw(realised(behaviour, effects, rng), facts, effects, rng)
    as_ofs = np.arange(BEFORE - 6, days + 1)
    fleet = scored(sums, events, as_ofs)
    against_week, against_month = falling(fleet)
    alarm = against_week | against_month | episode(fleet, events, as_ofs, 7)[:, 7:]
    stretch = lives.stretch[:, as_ofs[7:] - 1]
    return Year(_standings(fleet, lives, stretch, rng), stretch, alarm)


def _standings(
    fleet: Scored, lives: Lives, stretch: Integers, rng: np.random.Generator
) -> dict[str, Standing]:
    agent = np.arange(AGENTS)[:, None]
    weekly, monthly = (long_run(lives, window, rng)[agent, stretch] for window in WINDOWS.values())

    week, month = fleet.week, fleet.month
    steady = week.capacity_score_steady, week.capacity_score_steady_low, week.capacity_score_steady_high
    limits = {
        "week": (week.capacity_score, week.capacity_score_low, week.capacity_score_high, weekly),
        "30 days": (month.capacity_score, month.capacity_score_low, month.capacity_score_high, monthly),
        "steady": (*steady, weekly),
    }
    return {
        name: Standing(score[:, 7:], low[:, 7:], high[:, 7:], expected)
        for name, (score, low, high, expected) in limits.items()
    }


class Accuracy(NamedTuple):
    """What a score says of the long run."""

    name: str
    coverage: float
    """Share of agent-days whose interval holds it."""
    median_width: float
    error: float
    """Root mean square distance from it."""
    jumps: float
    """Standard deviation within unchanged behaviour."""
    decided: float
    """Share of agent-days whose interval lies on one side of the bound."""


def accuracies(years: list[Year]) -> Iterator[Accuracy]:
    """Each score against the long run."""
    for name in years[0].standings:
        standings = [year.standings[name] for year in years]
        score, low, high, expected = (np.concatenate(values) for values in zip(*standings, strict=True))
        stretch = np.concatenate([year.stretch for year in years])
        there = ~np.isnan(score)
        of_stretch = (np.arange(len(score))[:, None] * STRETCHES + stretch)[there]
        n, total = np.bincount(of_stretch), np.bincount(of_stretch, score[there])
        within = score[there] - (total / np.maximum(n, 1))[of_stretch]
        yield Accuracy(
            name,
            float(np.mean(((low <= expected) & (expected <= high))[there])),
            float(np.median((high - low)[there])),
            float(np.sqrt(np.mean((score - expected)[there] ** 2))),
            float(np.sqrt(np.mean(within**2))),
            float(np.mean(((low >= BOUND) | (high < BOUND))[there])),
        )


def outcomes(years: list[Year]) -> Iterator[Outcome]:
    """Six ways to decide about a permission, each against the long run of its own window."""
    for name in years[0].standings:
        standings = [year.standings[name] for year in years]
        score, low, high, expected = (np.concatenate(values) for values in zip(*standings, strict=True))
        alarm = np.concatenate([year.alarm for year in years])
        yield _outcome(f"{name}, point", score >= BOUND, expected)
        if name == "steady":
            yield _outcome(f"{name}, interval, review", held_by_interval(low, high, alarm), expected)
        else:
            yield _outcome(f"{name}, interval", held_by_interval(low, high), expected)


def held_by_interval(low: Floats, high: Floats, alarm: Booleans | None = None) -> Booleans:
    """Who holds the permission, day by day: kept while the bound lies inside the range.

    :param alarm: takes it away, until the lower limit is at the bound and nothing is raised.
    """
    held, now = np.zeros(low.shape, dtype=bool), np.zeros(len(low), dtype=bool)
    for day in range(low.shape[1]):
        now = (now | (low[:, day] >= BOUND)) & ~(high[:, day] < BOUND)
        if alarm is not None:
            now &= ~alarm[:, day]
        held[:, day] = now
    return held


def _outcome(policy: str, held: Booleans, expected: Floats) -> Outcome:
    deserved = expected >= BOUND
    days = []
    for agent, day in np.argwhere(deserved[:, :-1] & ~deserved[:, 1:]):
        if held[agent, day]:
            gone = ~held[agent, day + 1 :]
            days.append(int(np.argmax(gone)) if gone.any() else gone.size)
    return Outcome(
        policy,
        float(np.mean(held & ~deserved)),
        float(np.mean(~held & deserved)),
        float(np.mean(np.sum(held[:, 1:] != held[:, :-1], axis=1)) * 365 / held.shape[1]),
        float(np.median(days)) if days else float("nan"),
    )
