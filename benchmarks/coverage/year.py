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
from benchmarks.coverage.truth import PARAMETERS, truth
from ciris_scoring.basics.long_run import normal_shares
from ciris_scoring.certainty.episodes import excess
from ciris_scoring.certainty.losses import norm
from ciris_scoring.certainty.steady import LongRun, Present
from ciris_scoring.certainty.steady import long_run as estimate
from ciris_scoring.windows.inputs import Booleans, Floats, Integers, PeriodSums, Window
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
GRANT, WITHHOLD = 0.74, 0.45
"""Defaults of the variables ``ciris_grant_probability`` and ``ciris_withhold_probability``."""
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
    probability: Floats
    """Probability that the long run reaches the threshold; NaN if the score is not a steady score."""
    lost: Booleans
    """Whether lost traces raise a critical ``broken_chain``."""


def live(agents: int, days: int, rng: np.random.Generator) -> Lives:
    """Draw agents and their changes. At each change, some properties are drawn again."""
    drawn = plausible(agents * SEGMENTS, 1, 0, rng)
    n_changes = np.minimum(rng.poisson(CHANGES, agents), SEGMENTS - 1)
    day_of_change = np.where(
        np.arange(SEGMENTS - 1) < n_changes[:, None], rng.integers(1, days, (agents, SEGMENTS - 1)), days
    )
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
            lasting(rng.uniform(0.6, 1.0, n)),
        ),
    )


def long_run(lives: Lives, window: Window, rng: np.random.Generator) -> Floats:
    """Return the long run, the mean score of many windows, of each agent and segment, (agents, segments)."""
    shape = lives.rates.episodes.shape
    rates = EventRates(*(values.ravel() for values in lives.rates))
    n = len(rates.episodes)
    days = horizon_days(window)
    ones = np.ones((n, days), dtype=np.int64)
    facts = only_traces(ones, ones)
    flat = Behaviour(*(values.reshape(n, *values.shape[2:]) for values in lives.behaviour))
    every_day = Behaviour(*(np.repeat(values[:, None], days, axis=1) for values in flat))
    usual = truth(every_day, facts, window, days).factors

    episodes = rng.poisson(rates.episodes[:, None] * window.window_days, (n, WINDOWS_DRAWN))
    hours, modes = np.zeros(episodes.shape), np.zeros(episodes.shape, dtype=np.int64)
    for k in range(int(episodes.max())):
        lasted = durations(np.broadcast_to(rates.mean_hours[:, None], episodes.shape), rng)
        hours += np.where(k < episodes, lasted, 0.0)
        modes |= np.where(k < episodes, 1 << rng.integers(0, MODES, episodes.shape), 0)
    distinct = sum((modes >> mode) & 1 for mode in range(MODES))
    some = np.maximum(episodes, 1)
    no_drift, rho = np.zeros(episodes.shape), (episodes - distinct) / some
    r = resilience_score(no_drift, hours / some, rho, PARAMETERS).mean(axis=1)
    no_deferral = np.exp(-rates.deferrals * window.window_days)
    worth = no_deferral + (1 - no_deferral) * rates.good
    result: Floats = usual[:, 0] * usual[:, 1] * r * usual[:, 3] * worth * usual[:, 4]
    return result.reshape(shape)


def a_year(seed: int, number: int) -> dict[str, Standing]:
    """Simulate and score one fleet for a year. Return the values by kind of score, such as ``steady, 7 days``."""
    rng = np.random.default_rng([seed, number])
    lives = live(AGENTS, BEFORE + DAYS, rng)
    agent = np.arange(AGENTS)[:, None]
    of_day = (agent, lives.segment)
    behaviour = Behaviour(*(values[of_day] for values in lives.behaviour))
    events = draw_events(EventRates(*(values[of_day] for values in lives.rates)), rng)
    per_week = np.clip(600 * np.exp(rng.normal(size=(AGENTS, 1))), 60, 6000)
    n_traces = rng.poisson(per_week / 7 * rng.gamma(8.0, 1 / 8, lives.segment.shape))
    facts = only_traces(n_traces, rng.binomial(n_traces, CORROBORATED))
    effects = DayEffects(rng.uniform(0, MOST_ICC, AGENTS))
    sums, (week, month), present, raised = watched(behaviour, events, facts, effects, BEFORE + 1, rng)
    alarms = raised.reviews()
    segment = lives.segment[:, BEFORE:]
    expected = [long_run(lives, window, rng)[agent, segment] for window in WINDOWS.values()]
    lost = [_critical_gaps(n_traces, days, rng)[:, BEFORE:] for days in WINDOWS]
    steady, unknown = _steady(sums, events, present), np.full(segment.shape, np.nan)
    return {
        "7 days": Standing(*week[:3], expected[0], segment, alarms[0], unknown, lost[0]),
        "30 days": Standing(*month[:3], expected[1], segment, alarms[1], unknown, lost[1]),
        **{
            f"steady, {days} days": Standing(
                of.score, of.low, of.high, expected[at], segment, alarms[at], _probability(of), lost[at]
            )
            for at, (days, of) in enumerate(zip(WINDOWS, steady, strict=True))
        },
    }


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
    y, m = (
        within(values, as_ofs, window_days + GAP_DAYS, window_days).ravel() for values in (gaps, n_traces)
    )
    critical: Booleans = (x > GAP_SHARE * n) & (excess(x, n * 1.0, y, m * 1.0) >= GAP_Z)
    return critical.reshape(agents, days)


def _steady(sums: PeriodSums, events: Events, present: Present) -> list[LongRun]:
    """Return the steady scores for 7 and for 30 days, each as arrays of (agents, as-ofs)."""
    agents = len(sums.n_traces)
    found = estimate(sums, events, present, tuple(WINDOWS), PARAMETERS, 1)
    return [LongRun(*(values.reshape(agents, -1, *values.shape[1:]) for values in one)) for one in found]


def _probability(of: LongRun) -> Floats:
    """Return for each steady score the probability that the long run reaches the threshold."""
    fixed = float(-np.log(norm(1.0, PARAMETERS)))
    at_threshold, at_score = (np.log(-np.log(value) - fixed) for value in (THRESHOLD, of.score))
    result: Floats = normal_shares((at_threshold - at_score) / of.log_sd)
    return result


def together(years: Sequence[dict[str, Standing]]) -> dict[str, Standing]:
    """Concatenate the results of several fleets, separately for each kind of score."""
    return {
        name: Standing(*map(np.concatenate, zip(*(year[name] for year in years), strict=True)))
        for name in years[0]
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
    soon = _days_since_change(of.segment)[there] < SOON
    return {
        "score": name,
        "coverage": np.mean(inside),
        "±": error_of_share(inside, agent),
        f"in {SOON} days after a change": np.mean(inside[soon]) if soon.any() else np.nan,
        "median width": np.median(high - low),
        "error": np.sqrt(np.mean((score - expected) ** 2)),
        "bias": np.mean(score - expected),
        "jumps": np.sqrt(np.mean(within**2)),
        "decided at 0.6": np.mean((low >= THRESHOLD) | (high < THRESHOLD)),
    }


def reviewed(name: str, of: Standing) -> dict[str, Any]:
    """Return the share of days with a due review, among days on which the permission would otherwise be granted."""
    granted = of.probability >= GRANT
    return {
        "would be granted": name,
        "agent-days": int(granted.sum()),
        "reviewed": np.mean((of.alarm | of.lost)[granted]),
        "for lost numbers alone": np.mean((of.lost & ~of.alarm)[granted]),
    }


SOON = 14
"""Days after a change in which coverage is stated separately."""


def _days_since_change(segment: Integers) -> Integers:
    """Return days since the agent's last change, (agents, days); a large number before the first change."""
    day = np.arange(segment.shape[1])
    changed = np.zeros(segment.shape, dtype=bool)
    changed[:, 1:] = segment[:, 1:] != segment[:, :-1]
    return day - np.maximum.accumulate(np.where(changed, day, -1_000_000), axis=1)


def error_of_share(values: Booleans, agent: Integers) -> float:
    """Return the standard error of a share of agent-days, from the variation between agents."""
    n, total = np.bincount(agent), np.bincount(agent, values)
    residual = total - n * np.mean(values)
    return float(np.sqrt(np.sum(residual**2) * len(n) / max(len(n) - 1, 1)) / np.sum(n))


def outcomes(name: str, of: Standing) -> Iterator[dict[str, Any]]:
    """Yield a row for each policy of permissions: wrong grants and denials, compared with the long run."""
    if np.isnan(of.probability).all():
        yield _outcome(f"{name}, score", of.score >= THRESHOLD, of.long_run)
        yield _outcome(f"{name}, range", held(of.low >= THRESHOLD, of.high < THRESHOLD), of.long_run)
        return
    grant, withhold = of.probability >= GRANT, of.probability < WITHHOLD
    review = of.alarm | of.lost
    yield _outcome(f"{name}, without reviews", held(grant, withhold), of.long_run)
    yield _outcome(f"{name}, verdict", held(grant & ~review, withhold), of.long_run)
    yield _outcome(f"{name}, revoked by a review", held(grant & ~review, withhold | review), of.long_run)


def held(grant: Booleans, withhold: Booleans) -> Booleans:
    """Return whether each agent has the permission on each day: from a day of ``grant`` until a day of ``withhold``."""
    result, now = np.zeros(grant.shape, dtype=bool), np.zeros(len(grant), dtype=bool)
    for day in range(grant.shape[1]):
        now = (now | grant[:, day]) & ~withhold[:, day]
        result[:, day] = now
    return result


def _outcome(policy: str, held: Booleans, expected: Floats) -> dict[str, Any]:
    deserved = expected >= THRESHOLD
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
    }
