"""Outages, upgrades, bursts and batched answers, which the agents of a fleet share, for the simulated year."""

from typing import NamedTuple

import numpy as np

from benchmarks.coverage.events import MODES, EventRates, durations
from ciris_scoring.certainty.events import MICROSECONDS_PER_HOUR
from ciris_scoring.windows.arrays import Floats, Integers
from ciris_scoring.windows.sums import Events, FragileEpisodes

PROVIDERS = 2
REACHED = 0.8
"""Probability that an outage of its provider reaches an agent."""
OUTAGES_A_DAY = (-3.0, -2.0)
"""Range of the outages per day of a provider, as powers of ten: one outage in 100 to 1,000 days."""
OUTAGE_HOURS = (0.3, 1.3)
"""Range of the mean hours of an outage, as powers of ten: 2 to 20 hours."""
OWN_SIGMA = 0.3
"""Sigma of the log-normal factor between the hours of an outage and the hours of the episode that an agent has."""
UPGRADES, TAKEN = 2, 0.5
"""Number of upgrades of a fleet, and probability that an agent takes part in one. Each is a change of behaviour."""
FOLLOWERS, SAME_MODE = 1.5, 0.7
"""Mean number of episodes that follow the first episode of a burst on its day, and probability that a follower has the
failure mode of an earlier episode."""
POOR = 0.2
"""Probability that deferrals of a segment have 0.45 times their usual value, so that some changes are large."""
ANSWERED_EVERY = (7, 14, 28)
"""Days between the days on which an authority answers all deferrals, if it answers in batches."""
BUSY = 0.7
"""Shape of the gamma distribution of an agent's traces per day, if its traces come in bursts."""


class Surroundings(NamedTuple):
    """Surroundings of the agents of a fleet; (agents,) each."""

    provider: Integers
    outages: Floats
    """Outages per day that reach the agent."""
    outage_hours: Floats
    """Mean hours of an outage."""
    followers: Floats
    """Mean number of episodes that follow the first episode of a burst; 0 if episodes come one by one."""
    answered_every: Integers
    """Days between the days with answers; 0 if each deferral is answered on its day."""


def surroundings(agents: int, rng: np.random.Generator, shared: bool) -> Surroundings:
    """Draw the surroundings of a fleet. If they are not shared, nothing happens in them."""
    none = np.zeros(agents)
    if not shared:
        return Surroundings(none.astype(np.int64), none, none, none, none.astype(np.int64))
    provider = rng.integers(0, PROVIDERS, agents)
    outages, hours = (10.0 ** rng.uniform(*of, PROVIDERS) for of in (OUTAGES_A_DAY, OUTAGE_HOURS))
    batched = np.where(rng.random(agents) < 0.5, rng.choice(ANSWERED_EVERY, agents), 0)
    followers = np.where(rng.random(agents) < 0.5, FOLLOWERS, 0.0)
    return Surroundings(provider, REACHED * outages[provider], hours[provider], followers, batched)


def bursts(rates: EventRates, around: Surroundings) -> EventRates:
    """Return the event rates with the first episodes of bursts in place of all episodes."""
    followers = around.followers.reshape(-1, *(1,) * (rates.episodes.ndim - 1))
    return rates._replace(episodes=rates.episodes / (1 + followers))


def happening(events: Events, rates: EventRates, around: Surroundings, rng: np.random.Generator) -> Events:
    """Add followers of bursts and episodes by outages to the events, and delay batched answers.

    :param rates: event rates of each day, (agents, days).
    """
    first, deferrals = events.episodes, events.deferrals
    agents, days = rates.episodes.shape
    burst = np.repeat(np.arange(len(first.agent)), rng.poisson(around.followers[first.agent]))
    same = rng.random(len(burst)) < SAME_MODE
    modes = np.where(same, first.mode[burst], rng.integers(0, MODES, len(burst)))
    own = durations(rates.mean_hours[first.agent[burst], first.detected[burst]], rng)

    outage = np.zeros((PROVIDERS, days))
    for one in range(PROVIDERS):
        of = around.provider == one
        if of.any():
            chance = rng.random(days) < around.outages[of][0] / REACHED
            outage[one] = chance * durations(np.full(days, around.outage_hours[of][0]), rng)
    hours = outage[around.provider]
    agent, day = np.nonzero((hours > 0) & (rng.random(hours.shape) < REACHED))
    shared = hours[agent, day] * rng.lognormal(-(OWN_SIGMA**2) / 2, OWN_SIGMA, len(agent))

    of_agent = np.concatenate([first.agent, first.agent[burst], agent])
    of_day = np.concatenate([first.detected, first.detected[burst], day])
    mode = np.concatenate([first.mode, modes, np.full(len(agent), MODES)])
    more = np.rint(np.concatenate([own, shared]) * MICROSECONDS_PER_HOUR).astype(np.int64)
    order = np.lexsort((of_day, of_agent))
    episodes = FragileEpisodes(
        *(of_agent[order], of_day[order], of_day[order], mode[order], np.arange(len(order))),
        np.concatenate([first.microseconds, more])[order],
    )
    every = around.answered_every[deferrals.agent]
    known = (deferrals.created // np.maximum(every, 1) + 1) * every
    judged = np.where(every > 0, known, deferrals.judged)
    return events._replace(episodes=episodes, deferrals=deferrals._replace(judged=judged))
