"""Random sums per agent and period, as arrays for the package and as lists for the reference implementation."""

import math

import numpy as np

from brute_force.intervals import Facts, Period
from ciris_scoring.statistics.inputs import LEAST_LOG_HOURS, PeriodSums, Rows, Window

WINDOWS = (Window(7, 23, 30), Window(30, 30, 30))


def random_sums(
    rng: np.random.Generator, agents: int, periods: int
) -> tuple[PeriodSums, list[list[list[float]]]]:
    """Sums of nasty agents: silent days, one busy day, all good, all bad, no verdicts, one bin; episode durations."""
    rate = rng.choice([0.0, 0.5, 3.0, 20.0, 90.0], size=(agents, 1)) * rng.gamma(2.0, 0.5, (agents, periods))
    n = rng.poisson(rate)
    n[rng.random((agents, periods)) < 0.2] = 0
    n[rng.random((agents, periods)) < 0.02] += 500

    def thinned(of: np.ndarray, *, spread: bool = True) -> np.ndarray:
        """Some of the traces, at a rate of the agent's own (0 and 1 among them), which may differ by day."""
        p = rng.choice([0.0, 1.0, 0.02, 0.5, 0.97], size=(agents, 1), p=[0.25, 0.25, 0.2, 0.1, 0.2])
        if spread:
            wobble = rng.normal(0, 0.5, (agents, periods)) * rng.integers(0, 2, (agents, 1))
            p = np.where(
                (p > 0) & (p < 1), 1 / (1 + np.exp(-(np.log(p / (1 - p + 1e-300) + 1e-300) + wobble))), p
            )
        return rng.binomial(of, np.clip(p, 0, 1))

    def binned(of: np.ndarray) -> np.ndarray:
        p = rng.dirichlet(np.full(10, 0.5), size=(agents, 1)) * np.ones((1, periods, 1))
        p = p * rng.gamma(3.0, 1.0, p.shape) ** rng.integers(0, 2, (agents, 1, 1))
        p[rng.random(agents) < 0.2] = np.eye(10)[9]
        return rng.multinomial(of, p / p.sum(axis=-1, keepdims=True))

    def logs(hours: list[float]) -> list[float]:
        return [max(math.log(h), LEAST_LOG_HOURS) for h in hours]

    signals = thinned(n)
    corroborated = thinned(signals)
    uncorroborated = signals - corroborated
    sampled = np.minimum(n, 30)
    judged = binned(thinned(n, spread=False))
    durations = [
        [list(rng.lognormal(-2, 2, rng.poisson(rng.choice([0.0, 0.3])))) for _ in range(periods)]
        for _ in range(agents)
    ]
    sums = PeriodSums(
        n_traces=n,
        n_identity_changes=rng.binomial(n, rng.choice([0.0, 0.001, 0.05], size=(agents, 1))),
        n_overridden=thinned(n),
        n_chain_valid=thinned(n),
        n_fields_present=rng.binomial(10 * n, rng.choice([0.0, 0.9, 0.99, 1.0], size=(agents, 1))),
        n_replay_sampled=sampled,
        n_replay_succeeded=thinned(sampled),
        n_unsafe=thinned(n),
        n_signals_corroborated=corroborated,
        n_signals_uncorroborated=uncorroborated,
        n_coherent_corroborated=thinned(corroborated),
        n_coherent_uncorroborated=thinned(uncorroborated),
        n_judged=judged,
        sum_confidence=judged * (np.arange(10) / 10 + rng.random((agents, periods, 10)) / 10),
        n_successes=rng.binomial(judged, rng.choice([0.0, 0.6, 1.0], size=(agents, 1, 10))),
        histograms=np.stack([binned(thinned(n, spread=False)) for _ in range(3)], axis=2),
        n_recoveries=np.array([[len(day) for day in agent] for agent in durations]),
        log_recovery_hours=np.array([[sum(logs(day)) for day in agent] for agent in durations]),
        log_recovery_hours_squared=np.array(
            [[sum(x * x for x in logs(day)) for day in agent] for agent in durations]
        ),
    )
    return sums, durations


def rows_of(
    rng: np.random.Generator,
    sums: PeriodSums,
    as_ofs: list[int],
    periods_per_day: int,
    windows: tuple = WINDOWS,
) -> Rows:
    """Every agent at every as-of and window where it has a trace, with random facts of episodes and deferrals."""
    keys = [
        (agent, as_of, index)
        for agent in range(sums.n_traces.shape[0])
        for as_of in as_ofs
        for index, window in enumerate(windows)
        if sums.n_traces[agent, max(0, as_of - window.window_days * periods_per_day) : as_of].sum() > 0
    ]
    agent, as_of, index = np.array(keys, dtype=np.int64).reshape(-1, 3).T
    n = len(agent)
    n_episodes, n_steady_episodes = rng.choice([0, 0, 1, 4, 20], size=(2, n))
    n_deferrals, n_steady_deferrals = rng.choice([0, 0, 1, 3, 40], size=(2, n))

    def hours(episodes: np.ndarray) -> np.ndarray:
        lasted = rng.lognormal(0, 1.2, n) * rng.choice([0.0, 1.0, 50.0], size=n)
        return np.where(episodes > 0, lasted, 0.0)

    def quality(deferrals: np.ndarray) -> np.ndarray:
        halves = np.rint(rng.choice([0.0, 0.5, 1.0, 0.75], size=n) * 2 * deferrals)
        return np.where(deferrals > 0, halves / (2 * np.maximum(deferrals, 1)), 1.0)

    return Rows(
        agent=agent,
        as_of=as_of,
        window=index,
        mttr_hours=hours(n_episodes),
        n_episodes=n_episodes,
        rho_regression=np.where(n_episodes > 0, rng.choice([0.0, 0.5, 1.0], size=n), 0.0),
        q_deferral=quality(n_deferrals),
        n_judged_deferrals=n_deferrals,
        mttr_hours_steady=hours(n_steady_episodes),
        n_steady_episodes=n_steady_episodes,
        q_deferral_steady=quality(n_steady_deferrals),
        n_steady_deferrals=n_steady_deferrals,
    )


def as_lists(sums: PeriodSums, durations: list[list[list[float]]]) -> list[list[Period]]:
    """The same sums for the reference implementation."""
    agents, periods = sums.n_traces.shape
    return [
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
                signals=(int(sums.n_signals_corroborated[a, t]), int(sums.n_signals_uncorroborated[a, t])),
                coherent=(int(sums.n_coherent_corroborated[a, t]), int(sums.n_coherent_uncorroborated[a, t])),
                judged=[int(x) for x in sums.n_judged[a, t]],
                confidence=[float(x) for x in sums.sum_confidence[a, t]],
                successes=[int(x) for x in sums.n_successes[a, t]],
                histograms=[[int(x) for x in histogram] for histogram in sums.histograms[a, t]],
                episode_hours=durations[a][t],
            )
            for t in range(periods)
        ]
        for a in range(agents)
    ]


def facts_of(rows: Rows, row: int, *, steady: bool = False) -> Facts:
    """A row's facts for the reference implementation, over the window or over the steady days."""
    hours, episodes = (
        (rows.mttr_hours_steady, rows.n_steady_episodes) if steady else (rows.mttr_hours, rows.n_episodes)
    )
    quality, judged = (
        (rows.q_deferral_steady, rows.n_steady_deferrals)
        if steady
        else (rows.q_deferral, rows.n_judged_deferrals)
    )
    return Facts(
        float(hours[row]),
        int(episodes[row]),
        float(rows.rho_regression[row]),
        float(quality[row]),
        int(judged[row]),
    )
