"""Simulate a year of agents that change at unknown times. Compare their scores, and decisions by these scores, with the
long run (certainty.md §4b).

The long run is the mean score of many windows under the present behaviour. The windows differ in their episodes and
deferrals.
"""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from benchmarks.coverage.alarms import watched
from benchmarks.coverage.behaviour import RATES, Behaviour, DayEffects, only_traces
from benchmarks.coverage.cases import CORROBORATED, MOST_ICC, WINDOWS, horizon_days, plausible
from benchmarks.coverage.events import MODES, EventRates, draw_events, durations, within
from benchmarks.coverage.published import resilience_score
from benchmarks.coverage.surroundings import (
    BUSY,
    POOR,
    SAME_MODE,
    TAKEN,
    UPGRADES,
    Surroundings,
    bursts,
    happening,
    surroundings,
)
from benchmarks.coverage.truth import PARAMETERS, truth
from ciris_scoring.certainty.events import excess
from ciris_scoring.certainty.inputs import Counts, Present
from ciris_scoring.certainty.losses import r_ceiling_loss
from ciris_scoring.certainty.steady import LongRun
from ciris_scoring.certainty.steady import long_run as estimate
from ciris_scoring.long_run import NORMAL_TO_95, probability_reached
from ciris_scoring.windows.arrays import Booleans, Floats, Integers
from ciris_scoring.windows.run import Window
from ciris_scoring.windows.sums import Events

AGENTS = 50
"""Agents in a fleet."""

DAYS = 365
BEFORE = 127
"""Days before the first observed day: 30 for the longest window, 90 for the steady score, and a week."""

CHANGES = 1.5
"""Mean number of changes of an agent over all days."""

SEGMENTS = 6
"""Maximum number of segments of an agent's life. Behaviour is constant within a segment."""

SHARE_CHANGED = 0.4
"""Probability that a change affects a given property of the agent."""

THRESHOLD = 0.6
FRAGILE = 0.3
"""Upper end of the category high_fragility."""
GRANT, WITHHOLD = 0.85, 0.45
"""Defaults of the variables ``ciris_grant_probability`` and ``ciris_withhold_probability``."""
FIXED, ENDS = r_ceiling_loss(PARAMETERS), (NORMAL_TO_95, -NORMAL_TO_95)
"""Loss that no agent avoids, and ends of a 95 % interval of the steady score."""
WINDOWS_DRAWN = 400
"""Number of simulated windows whose mean score is the long run."""


class Lives(NamedTuple):
    """Behaviour of agents by segment. Behaviour is constant within a segment."""

    segment: Integers
    """Index of the segment of each agent and day, (agents, days)."""
    behaviour: Behaviour
    """Behaviour, (agents, segments, ...)."""
    rates: EventRates
    """Event rates, (agents, segments)."""


class Standing(NamedTuple):
    """Values of one kind of score on every day; arrays of (agents, days)."""

    score: Floats
    low: Floats
    high: Floats
    long_run: Floats
    segment: Integers
    """Index of the agent's segment, within which its behaviour is constant."""
    alarm: Booleans
    """Whether ``falling``, ``episode`` or ``low_capacity`` is raised."""
    log_sd: Floats
    """Standard deviation of the logarithm of the loss; NaN if the score is not a steady score."""
    lost: Booleans
    """Whether lost traces raise a critical ``broken_chain``."""
    capacity: Floats
    """Capacity score of the window."""
    fragile_high: Floats
    """Smallest upper bound of the capacity score in the window or a shorter one in which the category is
    high_fragility; infinite if none is."""


def live(agents: int, days: int, rng: np.random.Generator, shared: bool = False) -> Lives:
    """Draw agents and their changes. At each change, some properties are drawn again.

    :param shared: whether upgrades change several agents on the same day.
    """
    drawn = plausible(agents * SEGMENTS, 1, 0, rng)
    n_changes = np.minimum(rng.poisson(CHANGES, agents), SEGMENTS - 1)
    day_of_change = np.where(
        np.arange(SEGMENTS - 1) < n_changes[:, None], rng.integers(1, days, (agents, SEGMENTS - 1)), days
    )
    if shared:
        upgraded = np.where(rng.random((agents, UPGRADES)) < TAKEN, rng.integers(1, days, UPGRADES), days)
        day_of_change[:, :UPGRADES] = upgraded
    segment = (day_of_change[:, :, None] <= np.arange(days)).sum(axis=1)

    def lasting(values: NDArray[Any]) -> NDArray[Any]:
        """Return the values as (agents, segments, ...). In each segment, most agents keep the value of the previous
        segment."""
        of_segment = values.reshape(agents, SEGMENTS, *values.shape[1:])
        for i in range(1, SEGMENTS):
            stays = rng.random(agents) >= SHARE_CHANGED
            of_segment[stays, i] = of_segment[stays, i - 1]
        return of_segment

    n = agents * SEGMENTS
    episodes = np.where(rng.random(n) < 0.2, 0.0, 10.0 ** rng.uniform(-2.3, -0.8, n))
    poor = rng.random(n) < (POOR if shared else 0.0)
    return Lives(
        segment,
        Behaviour(
            np.stack([lasting(drawn.rates[:, 0, i]) for i in range(len(RATES))], axis=-1),
            lasting(drawn.histograms[:, 0]),
            lasting(drawn.success[:, 0]),
        ),
        EventRates(
            lasting(episodes),
            lasting(10.0 ** rng.uniform(-1.5, 0.5, n)),
            lasting(10.0 ** rng.uniform(-1.2, -0.2, n)),
            lasting(np.where(poor, 0.45, 1.0) * rng.uniform(0.6, 1.0, n)),
        ),
    )


def long_run(lives: Lives, around: Surroundings, window: Window, rng: np.random.Generator) -> Floats:
    """Return the long run, the mean score of many windows, of each agent and segment, (agents, segments). A deferral
    counts in the window in which it was raised, whenever it is answered."""
    shape = lives.rates.episodes.shape
    rates = EventRates(*(values.ravel() for values in bursts(lives.rates, around)))
    n = len(rates.episodes)
    days = horizon_days(window)
    ones = np.ones((n, days), dtype=np.int64)
    facts = only_traces(ones, ones)
    flat = Behaviour(*(values.reshape(n, *values.shape[2:]) for values in lives.behaviour))
    every_day = Behaviour(*(np.repeat(values[:, None], days, axis=1) for values in flat))
    usual = truth(every_day, facts, window, days).factors

    followers, outages, outage_hours = (
        np.repeat(values, shape[1])[:, None] for values in (around.followers, around.outages, around.outage_hours)
    )
    first = rng.poisson(rates.episodes[:, None] * window.window_days, (n, WINDOWS_DRAWN))
    own = first + rng.poisson(followers * first)
    shared = rng.poisson(outages * window.window_days, first.shape)
    episodes = own + shared
    hours, modes = np.zeros(first.shape), np.where(shared > 0, 1 << MODES, 0)
    for of_kind, mean in ((own, rates.mean_hours[:, None]), (shared, outage_hours)):
        for k in range(int(of_kind.max())):
            hours += np.where(k < of_kind, durations(np.broadcast_to(mean, first.shape), rng), 0.0)
    for k in range(int(own.max())):
        is_new = (k < first) | ((k < own) & (rng.random(first.shape) >= SAME_MODE))
        modes |= np.where(is_new, 1 << rng.integers(0, MODES, first.shape), 0)
    distinct = sum((modes >> mode) & 1 for mode in range(MODES + 1))
    some = np.maximum(episodes, 1)
    no_drift, rho = np.zeros(episodes.shape), (episodes - distinct) / some
    r = resilience_score(no_drift, hours / some, rho, PARAMETERS).mean(axis=1)
    no_deferral = np.exp(-rates.deferrals * window.window_days)
    worth = no_deferral + (1 - no_deferral) * rates.good
    result: Floats = usual[:, 0] * usual[:, 1] * r * usual[:, 3] * worth * usual[:, 4]
    return result.reshape(shape)


def a_year(seed: int, number: int, shared: bool = False) -> dict[str, Standing]:
    """Simulate and score one fleet for a year. Return the values by kind of score, such as ``steady, 7 days``.

    :param shared: whether agents share outages and upgrades, and events come in bursts and batches.
    """
    rng = np.random.default_rng([seed, number, shared])
    lives = live(AGENTS, BEFORE + DAYS, rng, shared)
    around = surroundings(AGENTS, rng, shared)
    agent = np.arange(AGENTS)[:, None]
    of_day = (agent, lives.segment)
    behaviour = Behaviour(*(values[of_day] for values in lives.behaviour))
    rates = EventRates(*(values[of_day] for values in lives.rates))
    events = happening(draw_events(bursts(rates, around), rng), rates, around, rng)
    per_week = np.clip(600 * np.exp(rng.normal(size=(AGENTS, 1))), 60, 6000)
    busy = np.where(shared & (np.arange(AGENTS) % 2 > 0), BUSY, 8.0)[:, None]
    n_traces = rng.poisson(per_week / 7 * rng.gamma(busy, 1 / busy, lives.segment.shape))
    facts = only_traces(n_traces, rng.binomial(n_traces, CORROBORATED))
    effects = DayEffects(rng.uniform(0, MOST_ICC, AGENTS))
    sums, (week, month), present, raised = watched(behaviour, events, facts, effects, BEFORE + 1, rng)
    alarms = raised.reviews()
    segment = lives.segment[:, BEFORE:]
    expected = [long_run(lives, around, window, rng)[agent, segment] for window in WINDOWS.values()]
    lost = [_critical_gaps(n_traces, days, rng)[:, BEFORE:] for days in WINDOWS]
    steady, unknown = _steady(sums, events, present), np.full(segment.shape, np.nan)

    fragile = [np.where(score < FRAGILE, high, np.inf) for score, _, high in (week, month)]
    fragile_high = fragile[0], np.minimum(*fragile)

    def standing(at: int, score: Floats, low: Floats, high: Floats, log_sd: Floats) -> Standing:
        given = expected[at], segment, alarms[at]
        capacity = (week, month)[at][0]
        return Standing(score, low, high, *given, log_sd, lost[at], capacity, fragile_high[at])

    return {
        "7 days": standing(0, *week, unknown),
        "30 days": standing(1, *month, unknown),
        **{
            f"steady, {days} days": standing(
                at, of.at(0, FIXED), of.at(ENDS[0], FIXED), of.at(ENDS[1], FIXED), of.log_sd
            )
            for at, (days, of) in enumerate(zip(WINDOWS, steady, strict=True))
        },
    }


NEVER_CHANGED = 1_000_000
"""Number of days since a change that did not happen."""


LOSES = 0.5
"""Share of agents whose traces are sometimes lost on the way to the lens."""
LOST = (-4.0, -2.0)
"""Range of the share of traces that follow a gap, as powers of ten: from 0.01 to 1 %."""
GAP_SHARE, GAP_Z, GAP_DAYS = 0.01, 3.09, 90
"""Scoring parameters ``chain_gap_share`` and ``chain_gap_z``. Gaps are compared with the 90 days before the window."""


def _critical_gaps(n_traces: Integers, window_days: int, rng: np.random.Generator) -> Booleans:
    """Draw lost traces, and return for each day whether they make ``broken_chain`` critical, (agents, days)."""
    agents, days = n_traces.shape
    share = np.where(rng.random(agents) < LOSES, 10.0 ** rng.uniform(*LOST, agents), 0.0)
    gaps = rng.binomial(n_traces, share[:, None])
    as_ofs = np.arange(1, days + 1)
    x, n = (within(values, as_ofs, window_days).ravel() for values in (gaps, n_traces))
    y, m = (within(values, as_ofs, window_days + GAP_DAYS, window_days).ravel() for values in (gaps, n_traces))
    critical: Booleans = (x > GAP_SHARE * n) & (excess(x, n * 1.0, y, m * 1.0) >= GAP_Z)
    return critical.reshape(agents, days)


def _steady(sums: Counts, events: Events, present: Present) -> list[LongRun]:
    """Return the steady scores for 7 and for 30 days, each as arrays of (agents, as-ofs)."""
    agents = len(sums.n_gaps)
    found = estimate(sums, events, present, tuple(WINDOWS), PARAMETERS, 1)
    return [LongRun(*(values.reshape(agents, -1, *values.shape[1:]) for values in one)) for one in found]


def probability(of: Standing, threshold: float) -> Floats:
    """Return the probability that the long run reaches the threshold; NaN if the score is not a steady score."""
    result: Floats = probability_reached(threshold, of.score, of.log_sd, FIXED)
    return np.where(np.isnan(of.log_sd), np.nan, result)


def together(years: Sequence[dict[str, Standing]]) -> dict[str, Standing]:
    """Concatenate the results of several fleets, separately for each kind of score."""
    return {
        name: Standing(*map(np.concatenate, zip(*(year[name] for year in years), strict=True))) for name in years[0]
    }


def accuracy(name: str, of: Standing) -> dict[str, Any]:
    """Return the accuracy of a score as an estimate of the long run. Shares are of agent-days."""
    there = ~np.isnan(of.score)
    score, low, high, expected = (values[there] for values in of[:4])
    agent = np.broadcast_to(np.arange(len(of.score))[:, None], of.score.shape)[there]
    of_segment = agent * SEGMENTS + of.segment[there]
    n, total = np.bincount(of_segment), np.bincount(of_segment, score)
    within = score - (total / np.maximum(n, 1))[of_segment]
    inside = (low <= expected) & (expected <= high)
    since = _days_since_change(of.segment)
    fall = _fall(of.long_run, since)[there]
    since = since[there]

    def covered(days: Booleans) -> float:
        return float(np.mean(inside[days])) if days.any() else np.nan

    return {
        "score": name,
        "coverage": np.mean(inside),
        "±": error_of_share(inside, agent),
        f"in {SOON} days after a change": covered(since < SOON),
        **{
            f"{SOON_OF_FALLS} days after a fall of {least} to {most}": covered(
                (since < SOON_OF_FALLS) & (fall >= least) & (fall < most)
            )
            for least, most in zip(FALLS, FALLS[1:], strict=False)
        },
        "median width": np.median(high - low),
        "error": np.sqrt(np.mean((score - expected) ** 2)),
        "bias": np.mean(score - expected),
        "jumps": np.sqrt(np.mean(within**2)),
        "decided at 0.6": np.mean((low >= THRESHOLD) | (high < THRESHOLD)),
    }


def calibration(name: str, of: Standing, threshold: float) -> dict[str, Any]:
    """Return how often the long run reaches a threshold, by its probability in tenths, with standard errors."""
    found = probability(of, threshold)
    reached = of.long_run >= threshold
    agent = np.broadcast_to(np.arange(len(found))[:, None], found.shape)
    row: dict[str, Any] = {"probability": f"{name}, {threshold}", "Brier": np.mean((found - reached) ** 2)}
    for tenth in range(5, 10):
        some = (found >= tenth / 10) & ((found < (tenth + 1) / 10) | (tenth == 9))
        row[f".{tenth}"] = np.mean(found[some])
        row[f"reached, .{tenth}"] = np.mean(reached[some])
        row[f"± .{tenth}"] = error_of_share(reached[some], agent[some])
    return row


SOON = 14
"""Days after a change in which coverage is stated separately."""
SOON_OF_FALLS, FALLS = 28, (0.0, 0.05, 0.1, 1.0)
"""Days after a change in which coverage is stated by how far the long run fell, and the limits of the falls."""


def _days_since_change(segment: Integers) -> Integers:
    """Return days since the agent's last change, (agents, days); a large number before the first change."""
    day = np.arange(segment.shape[1])
    changed = np.zeros(segment.shape, dtype=bool)
    changed[:, 1:] = segment[:, 1:] != segment[:, :-1]
    return day - np.maximum.accumulate(np.where(changed, day, -NEVER_CHANGED), axis=1)


def _fall(long_run: Floats, since: Integers) -> Floats:
    """Return how far the long run fell at the last change before each day, (agents, days); negative if it rose."""
    agents, days = long_run.shape
    before = np.maximum(np.arange(days) - since - 1, 0)
    result: Floats = long_run[np.arange(agents)[:, None], before] - long_run
    return np.where(since < NEVER_CHANGED // 2, result, 0.0)


def error_of_share(values: Booleans, agent: Integers) -> float:
    """Return the standard error of a share of agent-days, from the variation between agents."""
    if not values.size:
        return np.nan
    n, total = np.bincount(agent), np.bincount(agent, values)
    residual = total - n * np.mean(values)
    return float(np.sqrt(np.sum(residual**2) * len(n) / max(len(n) - 1, 1)) / np.sum(n))


def outcomes(name: str, of: Standing) -> Iterator[dict[str, Any]]:
    """Yield a row for each policy of permissions: wrong grants and denials, compared with the long run."""
    if np.isnan(of.log_sd).all():
        yield _outcome(f"{name}, score", of.score >= THRESHOLD, of.long_run)
        yield _outcome(f"{name}, range", held(of.low >= THRESHOLD, of.high < THRESHOLD), of.long_run)
        return
    found = probability(of, THRESHOLD)
    grant, withhold = found >= GRANT, found < WITHHOLD
    is_fragile = np.isfinite(of.fragile_high)
    review = of.alarm | of.lost | is_fragile
    permitted = held(grant & ~review & (of.capacity >= THRESHOLD), withhold)
    yield _outcome(f"{name}, without reviews", held(grant, withhold), of.long_run)
    yield _outcome(f"{name}, without suspend", permitted, of.long_run)
    yield _outcome(f"{name}, verdict", permitted, of.long_run, suspended=of.fragile_high < THRESHOLD)
    yield _outcome(f"{name}, suspended by any High Fragility", permitted, of.long_run, suspended=is_fragile)
    yield _outcome(f"{name}, revoked by a review", held(grant & ~review, withhold | review), of.long_run)


def held(grant: Booleans, withhold: Booleans) -> Booleans:
    """Return whether each agent has the permission on each day: from a day of ``grant`` until a day of ``withhold``."""
    result, now = np.zeros(grant.shape, dtype=bool), np.zeros(len(grant), dtype=bool)
    for day in range(grant.shape[1]):
        now = (now | grant[:, day]) & ~withhold[:, day]
        result[:, day] = now
    return result


def _outcome(policy: str, held: Booleans, expected: Floats, suspended: Booleans | None = None) -> dict[str, Any]:
    """Return the wrong grants and denials of a policy. A suspension is a pause: when it ends, the permission is what it
    was."""
    deserved = expected >= THRESHOLD
    paused = np.zeros(held.shape, dtype=bool) if suspended is None else held & suspended
    held = held & ~paused
    agent = np.broadcast_to(np.arange(len(held))[:, None], held.shape).ravel()
    days = []
    for who, day in np.argwhere(deserved[:, :-1] & ~deserved[:, 1:]):
        if held[who, day]:
            gone = ~held[who, day + 1 :]
            days.append(int(np.argmax(gone)) if gone.any() else gone.size)
    granted, denied = held & ~deserved, ~held & deserved
    return {
        "decided by": policy,
        "wrong grants": np.mean(granted),
        "± grants": error_of_share(granted.ravel(), agent),
        "wrong denials": np.mean(denied),
        "± denials": error_of_share(denied.ravel(), agent),
        "changes a year": np.mean(np.sum(held[:, 1:] != held[:, :-1], axis=1)) * 365 / held.shape[1],
        "days to take away": np.median(days) if days else np.nan,
        "suspended": np.mean(paused),
        "of these undeserved": np.mean(deserved[paused]) if paused.any() else np.nan,
    }
