"""Measure how often unchanged agents raise an alert, and after how many days a change is detected."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from benchmarks.coverage.alarms import Raised, watched
from benchmarks.coverage.behaviour import RATES, Behaviour, DayEffects, Facts, only_traces
from benchmarks.coverage.cases import CORROBORATED, MOST_ICC, WINDOWS, more_of, plausible
from benchmarks.coverage.events import EventRates, draw_events
from benchmarks.coverage.surroundings import BUSY
from benchmarks.coverage.truth import truth
from benchmarks.coverage.year import error_of_share
from ciris_scoring.windows.arrays import Booleans, Floats

DAYS_WATCHED = 28
BEFORE = 353
"""Days before the first as-of: 350 days, the lookback horizon of the alert ``episode``, and three more days."""

DAYS = BEFORE + DAYS_WATCHED
FLEET = 100
EPISODES_A_DAY, DEFERRALS_A_DAY = 1 / 7, 3 / 7


class Agents(NamedTuple):
    """Behaviour and events of agents over all days."""

    behaviour: Behaviour
    rates: EventRates
    facts: Facts


def _agents(n: int, rng: np.random.Generator) -> Agents:
    """Draw a fleet of plausible agents with n traces in 7 days and random events."""
    n_traces = rng.poisson(n / 7 * rng.gamma(8.0, 1 / 8, (FLEET, DAYS)))
    every = np.ones((FLEET, DAYS))
    return Agents(
        plausible(FLEET, DAYS, 0, rng),
        EventRates(
            EPISODES_A_DAY * every,
            10.0 ** rng.uniform(-1.5, 0.5, (FLEET, 1)) * every,
            DEFERRALS_A_DAY * every,
            rng.uniform(0.6, 1.0, (FLEET, 1)) * every,
        ),
        only_traces(n_traces, rng.binomial(n_traces, CORROBORATED)),
    )


def _raised(of: Agents, effects: DayEffects, rng: np.random.Generator) -> Raised:
    happened = draw_events(of.rates, rng)
    *_, raised = watched(of.behaviour, happened, of.facts, effects, BEFORE + 1, rng)
    return raised


def _together(fleets: list[Raised]) -> Raised:
    return Raised(*map(np.concatenate, zip(*fleets, strict=True)))


PLAIN, DIFFERING, UNEVEN, RARE = "plain", "differing", "differing, uneven traffic", "rare events"
KINDS = (PLAIN, DIFFERING, UNEVEN, RARE)
SIZES = (100, 600)
RARE_EVENTS = {"overridden": 1 / 1500, "chain_broken": 1 / 1500, "unsafe": 1 / 1000, "replay_failed": 1 / 300}


def unchanged(kind: str, n: int, agents: int, seed: int) -> dict[str, Any]:
    """Return the shares of agent-days with an alert, for plausible agents that do not change.

    :param kind: one of ``KINDS``: how behaviour varies from day to day.
    """
    rng = np.random.default_rng([seed, n, *kind.encode()])
    found = _together([_kind_of_days(kind, n, rng) for _ in range(0, agents, FLEET)])
    return {
        "unchanged, days": kind,
        "traces": n,
        "agent-days": found.episode.size,
        "falling": np.mean(found.falling),
        "±": _error(found.falling),
        "episode": np.mean(found.episode),
        "± of episode": _error(found.episode),
    }


def _error(raised: Booleans) -> float:
    """Return the standard error of the share of agent-days with an alert."""
    return error_of_share(raised.ravel(), np.repeat(np.arange(len(raised)), raised.shape[1]))


def _kind_of_days(kind: str, n: int, rng: np.random.Generator) -> Raised:
    of = _agents(n, rng)
    behaviour = of.behaviour
    if kind == RARE:
        for name, p in RARE_EVENTS.items():
            behaviour = behaviour.with_rate(name, p)
    if kind == UNEVEN:  # a few days have most of the traces
        n_traces = rng.poisson(n / 7 * rng.gamma(BUSY, 1 / BUSY, of.facts.n_traces.shape))
        of = of._replace(facts=only_traces(n_traces, rng.binomial(n_traces, CORROBORATED)))
    icc = rng.uniform(0, MOST_ICC, FLEET) if kind in (DIFFERING, UNEVEN) else np.zeros(FLEET)
    return _raised(of._replace(behaviour=behaviour), DayEffects(icc), rng)


Change = Callable[[Agents, Floats], Agents]
"""Function of agents and the progress of their change on each day, from 0 to 1. It returns the changed agents."""


def rate(name: str, before: float, after: float) -> Change:
    """Return a change of the rate ``name`` from ``before`` to ``after``."""
    return lambda of, extent: of._replace(behaviour=of.behaviour.with_rate(name, before + (after - before) * extent))


def a_little_worse(of: Agents, extent: Floats) -> Agents:
    """Increase several error rates slightly, and decrease the success rates by 0.03."""
    more = more_of(overridden=0.01, chain_broken=0.03, poor=0.03, unsafe=0.02, incoherent=0.05)
    rates = np.minimum(of.behaviour.rates + more * extent[:, None], 1)
    success = np.clip(of.behaviour.success - 0.03 * extent[:, None], 0.02, 0.99)
    return of._replace(behaviour=of.behaviour._replace(rates=rates, success=success))


def broken_links(of: Agents, extent: Floats) -> Agents:
    """Break links so that the score falls by 0.2, but not below a tenth of its value."""
    score = truth(of.behaviour, of.facts, WINDOWS[7], BEFORE).capacity
    left = np.maximum(score - 0.2, 0.1 * score) / score
    kept = 1 - of.behaviour.rates[..., RATES.index("chain_broken")]
    broken = 1 - kept * (1 + (left[:, None] - 1) * extent)
    return of._replace(behaviour=of.behaviour.with_rate("chain_broken", broken))


def events(**times: float) -> Change:
    """Return a change that multiplies each given event rate by its factor. The mean value of
    deferrals is set to 0.9 before the change, so that ``good=0.4 / 0.9`` lowers it to 0.4."""

    def change(of: Agents, extent: Floats) -> Agents:
        rates = of.rates._replace(good=np.full_like(of.rates.good, 0.9))
        for name, factor in times.items():
            rates = rates._replace(**{name: getattr(rates, name) * (1 + (factor - 1) * extent)})
        return of._replace(rates=rates)

    return change


class Planted(NamedTuple):
    """A change that begins on the first observed day."""

    name: str
    n: int
    change: Change
    slowly: bool = False
    """Whether the change takes four weeks."""


PLANTED = (
    Planted("0.2 lost by broken links", 600, broken_links),
    Planted("overrides 1 to 3 %", 600, rate("overridden", 0.01, 0.03)),
    Planted("everything a little worse", 600, a_little_worse),
    Planted("overrides 1 to 5 %", 100, rate("overridden", 0.01, 0.05)),
    Planted("overrides 1 to 5 %, over four weeks", 100, rate("overridden", 0.01, 0.05), slowly=True),
    Planted("episodes 6 times as long", 600, events(mean_hours=6)),
    Planted("episodes 5 times as often", 600, events(episodes=5)),
    Planted("deferrals 0.9 to 0.4", 600, events(good=0.4 / 0.9)),
)


def seen(planted: Planted, days_differ: bool, agents: int, seed: int) -> dict[str, Any]:
    """Return the shares of agents with an alert within 7, 14 and 28 days of a change, and the median delay."""
    rng = np.random.default_rng([seed, planted.n, days_differ, *planted.name.encode()])
    done = np.linspace(1 / DAYS_WATCHED, 1, DAYS_WATCHED) if planted.slowly else np.ones(DAYS_WATCHED)
    extent = np.concatenate([np.zeros(BEFORE), done])
    fleets = []
    for _ in range(0, agents, FLEET):
        changed = planted.change(_agents(planted.n, rng), extent)
        icc = rng.uniform(0, MOST_ICC if days_differ else 0.0, FLEET)
        fleets.append(_raised(changed, DayEffects(icc), rng))
    found = _together(fleets)
    raised = found.falling | found.episode
    first = np.argmax(raised, axis=1)[raised.any(axis=1)] + 1
    return {
        "seen": planted.name,
        "traces": planted.n,
        "days": "differ" if days_differ else "alike",
        "agents": len(raised),
        **{f"in {days} days": np.mean(raised[:, :days].any(axis=1)) for days in (7, 14, 28)},
        "median day": np.median(first) if first.size else np.nan,
    }
