"""Agents whose truth is known: what each does in expectation, day by day, and how chance turns that into sums.

A generator of its own: it shares nothing with the simulated fleet but the names of the sums. Traces per day, episodes'
number and modes and judged deferrals are facts; everything else is drawn.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ciris_scoring.statistics.inputs import LEAST_LOG_HOURS, METRICS, Floats, Integers, PeriodSums
from ciris_scoring.statistics.resilience import N_BINS

REPLAY_SAMPLE = 30
FIELDS = 10
POOR_TRACE_FIELDS = 5
"""Fields that a trace lacks together, when it lacks them for a common reason."""

CONFIDENCE_IN_BIN: Floats = np.append((np.arange(N_BINS - 1) + 0.5) / N_BINS, 1.0)
"""Mean confidence of a bin; in the last one agents are certain."""

SPREAD_IN_BIN: Floats = np.append(np.full(N_BINS - 1, 0.029), 0.0)
"""Standard deviation of the confidence within its bin."""

RATES = (
    "renamed",
    "overridden",
    "chain_broken",
    "poor",
    "field_missing",
    "replay_failed",
    "unsafe",
    "incoherent",
)


class Behaviour(NamedTuple):
    """What agents do in expectation, per day; arrays begin with (agents, days)."""

    rates: Floats
    """(..., 8) probabilities per trace, in the order of ``RATES``; ``field_missing`` is per field."""
    histograms: Floats
    """(..., 3, 10) distributions of the three metrics; the first is the confidence."""
    success: Floats
    """(..., 10) probability of success by confidence bin."""


class Facts(NamedTuple):
    """What is given, not drawn; (agents,) unless noted."""

    n_traces: Integers
    """(agents, days)."""
    n_corroborated: Integers
    """(agents, days) of the signals, which are all traces."""
    n_episodes: Integers
    """Episodes in the window."""
    mean_hours: Floats
    """Expected duration of an episode."""
    rho_regression: Floats
    n_deferrals: Integers
    deferral_outcomes: Floats
    """(agents, 3) probabilities that a judged deferral is worth 1, 0.5, 0."""


class DayEffects(NamedTuple):
    """How days and traces depend on each other."""

    icc: Floats
    """(agents,) correlation of the traces of a day; 0 for days that are alike."""
    cluster: int = 1
    """Traces that come out alike."""
    autocorrelated: bool = False
    """Whether days follow a two-state chain with lag-one correlation 0.5, instead of being independent."""


EPISODE_SIGMA = 1.2
"""Of the log-normal durations; their coefficient of variation is 1.8."""


def realised(behaviour: Behaviour, effects: DayEffects, rng: np.random.Generator) -> Behaviour:
    """Rates and distributions as they were on each day, whose expectation over days is ``behaviour``."""
    icc = effects.icc[:, None]
    if not np.any(icc > 0):
        return behaviour
    if effects.autocorrelated:
        return _autocorrelated(behaviour, icc, rng)
    strength = (1 / np.maximum(icc, 1e-6) - 1)[..., None]

    def beta(p: Floats) -> Floats:
        inside = np.clip(p, 1e-9, 1 - 1e-9)
        drawn = rng.beta(inside * strength, (1 - inside) * strength)
        return np.where((icc[..., None] > 0) & (p > 0) & (p < 1), drawn, p)

    raised = np.maximum(behaviour.histograms * strength[..., None], 1e-12)
    gammas = rng.gamma(raised)
    gammas = np.where(behaviour.histograms > 0, np.maximum(gammas, 1e-300), 0.0)
    histograms = gammas / gammas.sum(axis=-1, keepdims=True)
    # Success has one effect a day over all bins: towards 1 or towards 0, so that its expectation stays.
    shift = rng.normal(0.0, 1.0, icc.shape[:1] + behaviour.success.shape[1:2]) * np.sqrt(icc)
    room = 2.0 * behaviour.success * (1 - behaviour.success)
    success = behaviour.success + np.clip(shift, -0.5, 0.5)[..., None] * room
    return Behaviour(
        beta(behaviour.rates), np.where(icc[..., None, None] > 0, histograms, behaviour.histograms), success
    )


def _autocorrelated(behaviour: Behaviour, icc: Floats, rng: np.random.Generator) -> Behaviour:
    """Days in one of two states, of which the next day keeps the one with probability 0.75."""
    agents, days = behaviour.rates.shape[:2]

    def chain(width: int) -> Floats:
        states = rng.choice([-1.0, 1.0], size=(agents, days, width))
        stays = rng.random((agents, days, width)) < 0.5  # else the state is drawn anew
        for day in range(1, days):
            states[:, day] = np.where(stays[:, day], states[:, day - 1], states[:, day])
        return states

    sd = np.sqrt(icc)[..., None]
    p = behaviour.rates
    rates = p + chain(len(RATES)) * np.minimum(sd * np.sqrt(p * (1 - p)), np.minimum(p, 1 - p))
    success = behaviour.success + chain(1) * sd * 2 * behaviour.success * (1 - behaviour.success)
    tilt = np.where(np.arange(N_BINS) % 2 == 0, 1.0, -1.0)
    pairs = np.minimum(behaviour.histograms, behaviour.histograms[..., np.arange(N_BINS) ^ 1])
    moved = chain(len(METRICS))[..., None] * np.minimum(2 * sd, 0.9)[..., None] * tilt * pairs
    return Behaviour(rates, behaviour.histograms + moved, success)


def draw(real: Behaviour, facts: Facts, effects: DayEffects, rng: np.random.Generator) -> PeriodSums:
    """Sums per agent and day, given each day's rates."""
    n = facts.n_traces
    size = effects.cluster

    def thinned(of: Integers, p: Floats) -> Integers:
        drawn: Integers = rng.binomial(of // size, p) * size + rng.binomial(of % size, p)
        return drawn

    def binned(of: Integers, p: Floats) -> Integers:
        drawn: Integers = rng.multinomial(of // size, p) * size + rng.multinomial(of % size, p)
        return drawn

    rate = dict(zip(RATES, np.moveaxis(real.rates, -1, 0), strict=True))
    sampled = np.minimum(n, REPLAY_SAMPLE)
    poor = thinned(n, rate["poor"])
    missing = POOR_TRACE_FIELDS * poor + rng.binomial(
        FIELDS * n - POOR_TRACE_FIELDS * poor, rate["field_missing"]
    )
    uncorroborated = n - facts.n_corroborated
    histograms = np.stack([binned(n, real.histograms[:, :, m]) for m in range(len(METRICS))], axis=2)
    judged = histograms[:, :, 0]
    noise = rng.normal(0.0, SPREAD_IN_BIN, judged.shape) * np.sqrt(judged)
    nothing = np.zeros_like(n)
    return PeriodSums(
        n_traces=n,
        n_identity_changes=thinned(n, rate["renamed"]),
        n_overridden=thinned(n, rate["overridden"]),
        n_chain_valid=n - thinned(n, rate["chain_broken"]),
        n_fields_present=FIELDS * n - missing,
        n_replay_sampled=sampled,
        n_replay_succeeded=sampled - thinned(sampled, rate["replay_failed"]),
        n_unsafe=thinned(n, rate["unsafe"]),
        n_signals_corroborated=facts.n_corroborated,
        n_signals_uncorroborated=uncorroborated,
        n_coherent_corroborated=facts.n_corroborated - thinned(facts.n_corroborated, rate["incoherent"]),
        n_coherent_uncorroborated=uncorroborated - thinned(uncorroborated, rate["incoherent"]),
        n_judged=judged,
        sum_confidence=np.clip(judged * CONFIDENCE_IN_BIN + noise, 0, judged),
        n_successes=thinned(judged, np.clip(real.success, 0, 1)),
        histograms=histograms,
        n_recoveries=nothing,
        log_recovery_hours=nothing.astype(np.float64),
        log_recovery_hours_squared=nothing.astype(np.float64),
    )


class RowFacts(NamedTuple):
    """What rows take as published, (agents, as-ofs) each; and the fleet's episodes by the day of their recovery."""

    mttr_hours: Floats
    n_episodes: Integers
    rho_regression: Floats
    q_deferral: Floats
    n_judged_deferrals: Integers
    mttr_hours_steady: Floats
    """The same over the steady days, as the next three."""
    n_steady_episodes: Integers
    q_deferral_steady: Floats
    n_steady_deferrals: Integers
    n_recoveries: Integers
    """(agents, days), as the next two."""
    log_hours: Floats
    log_hours_squared: Floats


def draw_facts(facts: Facts, window_days: int, rng: np.random.Generator) -> RowFacts:
    """Durations of the episodes, all recovered on the last day, and what the judged deferrals were worth.

    Before the window, in the rest of the steady days, the same agents have as many events a day as the fleet has in it.
    """
    days = facts.n_traces.shape[1]
    durations, logs = _durations(facts.n_episodes, facts.mean_hours, rng)
    worth = rng.multinomial(facts.n_deferrals, facts.deferral_outcomes) @ WORTH

    def last_day(values: NDArray[Any]) -> NDArray[Any]:
        return np.pad(values[:, None], ((0, 0), (days - 1, 0)))

    more = STEADY_DAYS / window_days - 1
    steady_episodes = facts.n_episodes + rng.poisson(more * facts.n_episodes.mean(), len(durations))
    steady_deferrals = facts.n_deferrals + rng.poisson(more * facts.n_deferrals.mean(), len(durations))
    earlier_hours, _ = _durations(steady_episodes - facts.n_episodes, facts.mean_hours, rng)
    earlier_worth = rng.multinomial(steady_deferrals - facts.n_deferrals, facts.deferral_outcomes) @ WORTH
    steady_hours = (durations.sum(axis=1) + earlier_hours.sum(axis=1)) / np.maximum(steady_episodes, 1)
    steady_worth = (worth + earlier_worth) / np.maximum(steady_deferrals, 1)
    return RowFacts(
        mttr_hours=(durations.sum(axis=1) / np.maximum(facts.n_episodes, 1))[:, None],
        n_episodes=facts.n_episodes[:, None],
        rho_regression=facts.rho_regression[:, None],
        q_deferral=np.where(facts.n_deferrals > 0, worth / np.maximum(facts.n_deferrals, 1), 1.0)[:, None],
        n_judged_deferrals=facts.n_deferrals[:, None],
        mttr_hours_steady=np.where(steady_episodes > 0, steady_hours, 0.0)[:, None],
        n_steady_episodes=steady_episodes[:, None],
        q_deferral_steady=np.where(steady_deferrals > 0, steady_worth, 1.0)[:, None],
        n_steady_deferrals=steady_deferrals[:, None],
        n_recoveries=last_day(facts.n_episodes),
        log_hours=last_day(logs.sum(axis=1)),
        log_hours_squared=last_day((logs**2).sum(axis=1)),
    )


def draw_events(
    episodes_per_day: float,
    deferrals_per_day: float,
    facts: Facts,
    as_ofs: list[int],
    window_days: int,
    rng: np.random.Generator,
) -> RowFacts:
    """Episodes and deferrals that come and go: facts of every as-of, from events of every day (Poisson).

    :param facts: gives the mean durations and what deferrals are worth; its own events play no part.
    """
    shape = facts.n_traces.shape
    n_recoveries = rng.poisson(episodes_per_day, shape)
    mean_hours = np.repeat(facts.mean_hours, shape[1])
    durations, logs = _durations(n_recoveries.ravel(), mean_hours, rng)
    hours = durations.sum(axis=1).reshape(shape)
    n_deferrals = rng.poisson(deferrals_per_day, shape)
    worth = rng.multinomial(n_deferrals, facts.deferral_outcomes[:, None]) @ WORTH

    def in_window(values: NDArray[Any]) -> NDArray[Any]:
        return np.stack([values[:, t - window_days : t].sum(axis=1) for t in as_ofs], axis=1)

    episodes, judged = in_window(n_recoveries), in_window(n_deferrals)
    mttr_hours = in_window(hours) / np.maximum(episodes, 1)
    q_deferral = np.where(judged > 0, in_window(worth) / np.maximum(judged, 1), 1.0)
    return RowFacts(
        mttr_hours=mttr_hours,
        n_episodes=episodes,
        rho_regression=np.zeros(episodes.shape),
        q_deferral=q_deferral,
        n_judged_deferrals=judged,
        mttr_hours_steady=mttr_hours,  # nobody looks at the steady score of these rows
        n_steady_episodes=episodes,
        q_deferral_steady=q_deferral,
        n_steady_deferrals=judged,
        n_recoveries=n_recoveries,
        log_hours=logs.sum(axis=1).reshape(shape),
        log_hours_squared=(logs**2).sum(axis=1).reshape(shape),
    )


STEADY_DAYS = 90
WORTH: Floats = np.array([1.0, 0.5, 0.0])
"""What a judged deferral is worth, in the order of ``deferral_outcomes``."""


def _durations(n: Integers, mean_hours: Floats, rng: np.random.Generator) -> tuple[Floats, Floats]:
    """Durations of n episodes and their logarithms, (len(n), most episodes), 0 where there is none."""
    most = max(int(n.max()), 1)
    drawn = rng.lognormal(-(EPISODE_SIGMA**2) / 2, EPISODE_SIGMA, (len(n), most)) * mean_hours[:, None]
    happened = np.arange(most) < n[:, None]
    return (
        np.where(happened, drawn, 0.0),
        np.where(happened, np.maximum(np.log(drawn), LEAST_LOG_HOURS), 0.0),
    )
