"""Reference implementation of the score (``docs/scoring.md`` §3 to 8), written from the text alone."""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import datetime, timedelta
from statistics import fmean
from typing import Any

import numpy as np

from reference.record import DAY, HOUR, METRICS, Agent, Episode, Fleet, Window

FACTORS = ("C", "I_int", "R", "I_inc", "S")
COLUMNS = dict(zip(FACTORS, ("c_score", "i_int_score", "r_score", "i_inc_score", "s_score"), strict=True))


def norm(x: float, p: Mapping[str, Any]) -> float:
    """scoring.md §5: return the sigmoid function of R at x."""
    return 1 / (1 + math.exp(-p["norm_k"] * (x - p["norm_x0"])))


def smoothed(recent: np.ndarray, baseline: np.ndarray, p: Mapping[str, Any]) -> tuple[np.ndarray, np.ndarray]:
    """scoring.md §5: return the smoothed probabilities of window and baseline in the bins that are not empty."""
    used = recent + baseline > 0
    pi = (recent + baseline)[used] / (recent + baseline).sum()
    kappa = 10 * p["drift_pseudo_count"]
    one, other = ((counts[used] + kappa * pi) / (counts.sum() + kappa) for counts in (recent, baseline))
    return one, other


def divergence(one: np.ndarray, other: np.ndarray) -> float:
    return float(np.sum(one * np.log(one / other)))


def is_measurable(recent: np.ndarray, baseline: np.ndarray, p: Mapping[str, Any]) -> bool:
    return min(recent.sum(), baseline.sum()) >= max(1, p["drift_min_sample"])


def drift(recent: np.ndarray, baseline: np.ndarray, p: Mapping[str, Any]) -> float | None:
    """scoring.md §5: return delta = 1 − exp(−KL') of a metric, or None if it is unmeasured."""
    if not is_measurable(recent, baseline, p):
        return None
    m = np.count_nonzero(recent + baseline)
    bias = (m - 1) / 2 * (1 / recent.sum() + 1 / baseline.sum())
    return 1 - math.exp(-max(0.0, divergence(*smoothed(recent, baseline, p)) - bias))


def mttr(episodes: list[Episode], start: datetime, end: datetime) -> tuple[float, int]:
    """scoring.md §5: return the mean duration of episodes in hours, and the number of these episodes."""
    ended = [e.recovered - e.detected for e in episodes if e.recovered_in(start, end)]
    durations = ended + [end - e.detected for e in episodes if e.is_open(end)]
    total = sum(durations, timedelta())
    return total / HOUR / len(durations) if durations else 0.0, len(durations)


def relapses(episodes: list[Episode], start: datetime, end: datetime) -> float:
    """scoring.md §5: return rho, the share of recoveries that are followed by an episode of the same mode."""
    followed = [
        any(later.mode == episode.mode and later.detected < end for later in episodes[i + 1 :])
        for i, episode in enumerate(episodes)
        if episode.recovered_in(start, end)
    ]
    return fmean(followed) if followed else 0.0


def quality(fleet: Fleet, agent: str, start: datetime, end: datetime) -> tuple[float, int]:
    """scoring.md §6: return the mean value of the judged deferrals, and their number."""
    values = [
        one.value
        for one in fleet.deferrals
        if one.agent == agent and one.created and start <= one.created < end and one.is_known(end)
    ]
    return fmean(values) if values else 1.0, len(values)


def coherence(agent: Agent, coherence_days: int) -> np.ndarray:
    """scoring.md §7: return sigma and sigma_max at the end of each period."""
    p, per_day = agent.fleet.p, agent.fleet.per_day
    kept = (1 - p["decay_per_day"] / per_day) ** np.arange(coherence_days * per_day)
    weight = np.array([p["w_corroborated"], p["w_uncorroborated"]])
    both = (agent.periods[name] @ weight for name in ("coherent", "signals"))
    return np.array([np.convolve(one, kept)[: len(one)] for one in both])


def category(score: float) -> str:
    """scoring.md §8: high_fragility < 0.3 <= moderate < 0.6 <= healthy < 0.85 <= high_capacity."""
    names = ("high_fragility", "moderate", "healthy", "high_capacity")
    return names[sum(score >= bound for bound in (0.3, 0.6, 0.85))]


def score(agent: Agent, end: datetime, window: Window) -> dict[str, Any] | None:
    """scoring.md §3 to 8: return the row of an agent, as-of and window, or None if the window has no trace."""
    fleet, p, t = agent.fleet, agent.fleet.p, agent.fleet.index(end)
    if not fleet.has_as_of(agent, end):
        return None
    start, length = end - window.days * DAY, window.days * fleet.per_day
    first = t - length
    part = agent.periods[first:t]
    count = {name: part[name].sum(axis=0) for name in part.dtype.names}
    n = count["n"]
    if n == 0:
        return None
    row: dict[str, Any] = {"unmeasured_components": []}

    # §3
    row["d_identity"], row["k_contradiction"] = count["renamed"] / n, count["overridden"] / n
    row["conscience_failure_rate"] = count["conscience_failed"] / n
    c = math.exp(-p["lambda_c"] * row["d_identity"]) * math.exp(-p["mu_c"] * row["k_contradiction"])

    # §4
    row["i_chain"], row["i_coverage"] = count["chain_valid"] / n, count["fields"] / (10 * n)
    row["i_replay"], row["n_replayed"] = 1.0, count["sampled"]
    if not p["replay_enabled"] or count["sampled"] < max(1, p["replay_min_sample"]):
        row["unmeasured_components"].append("i_replay")
    else:
        sampled = part[part["sampled"] > 0]
        row["i_replay"] = np.sum(sampled["n"] * (sampled["replayed"] / sampled["sampled"])) / n
    for rate, name in (("signature_rate", "verified"), ("key_rate", "registered"), ("link_rate", "linked")):
        row[rate] = count[name] / n
    row |= {f"chain_{kind}s": count[kind] for kind in ("gap", "rewind", "duplicate")}

    # §5
    baseline = agent.periods[first - window.baseline_days * fleet.per_day : first]["histograms"].sum(axis=0)
    deltas = [drift(*both, p) for both in zip(count["histograms"], baseline, strict=True)]
    row |= {f"delta_{metric}": delta for metric, delta in zip(METRICS, deltas, strict=True)}
    measured = [delta for delta in deltas if delta is not None]
    row["delta_drift"] = fmean(measured) if measured else 0.0
    if not measured:
        row["unmeasured_components"].append("delta_drift")
    row["mttr_hours"], row["n_episodes"] = mttr(agent.episodes, start, end)
    row["n_open_episodes"] = sum(episode.is_open(end) for episode in agent.episodes)
    row["rho_regression"] = rho = relapses(agent.episodes, start, end)
    r = norm((1 - row["delta_drift"]) / (1 + row["mttr_hours"] / p["mttr_scale_hours"]) * (1 - rho), p)

    # §6
    row["ece"] = 0.0
    if count["judged"].any():
        row["ece"] = np.abs(count["confidence"] - count["successes"]).sum() / count["judged"].sum()
    else:
        row["unmeasured_components"].append("ece")
    name = agent.agent_id_hash
    row["q_deferral"], row["n_judged_deferrals"] = quality(fleet, name, start, end)
    row["u_unsafe"] = count["unsafe"] / n

    # §7
    sigma, sigma_max = coherence(agent, window.coherence_days)[:, first:t]
    row["sigma"], row["sigma_max"], row["n_signals"] = sigma[-1], sigma_max[-1], count["signals"].sum()
    is_measured = sigma_max > 0
    s = 0.0
    if is_measured.any():
        s = fmean(sigma[is_measured] / sigma_max[is_measured])
    else:
        row["unmeasured_components"].append("s_score")

    # certainty.md §4b
    long_ago = min(start, end - p["steady_days"] * DAY)
    row["mttr_hours_steady"], row["n_steady_episodes"] = mttr(agent.episodes, long_ago, end)
    row["q_deferral_steady"], row["n_steady_deferrals"] = quality(fleet, name, long_ago, end)

    # §8
    i_int = row["i_chain"] * row["i_coverage"] * row["i_replay"]
    i_inc = (1 - row["ece"]) * row["q_deferral"] * (1 - row["u_unsafe"])
    values = (c, i_int, r, i_inc, s)
    row |= dict(zip(COLUMNS.values(), values, strict=True))
    row["weakest_factor"] = min(zip(values, range(5), FACTORS, strict=True))[2]
    row["agent_name"], row["n_traces"], row["window_start"] = agent.name_at(end), n, start
    names = ("insufficient", "low", "medium", "high")
    row["confidence"] = names[sum(n >= bound for bound in (10, 30, 100))]
    row |= dict.fromkeys(("capacity_score", "capacity_score_geometric", "fragility_index", "category"))
    row["score_status"] = "insufficient_data"
    if n >= p["min_traces"]:
        in_score = (c, max(i_int, p["integrity_floor"]), r, i_inc, s)
        weights = [p[f"weight_{factor.lower()}"] for factor in FACTORS]
        row["capacity_score"] = math.prod(in_score)
        row["capacity_score_geometric"] = math.prod(
            value**weight for value, weight in zip(in_score, weights, strict=True)
        )
        row["fragility_index"] = 1 / (p["fragility_epsilon"] + row["capacity_score"])
        row["category"] = category(row["capacity_score"])
        is_warm = agent.times[0] <= start - p["warm_up_days"] * DAY
        row["score_status"] = "final" if is_warm else "provisional"
    return row
