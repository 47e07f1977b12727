"""Expected rows of the marts: the reference implementation computes them from the traces."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime, timedelta
from decimal import Decimal
from functools import cache
from statistics import fmean, median, stdev
from typing import Any

from reference import attribution
from reference.intervals import bounds, design_effects, of_fleet
from reference.long_run import LongRun, behaviour_change, events_change, long_runs
from reference.record import DAY, METRICS, Agent, Fleet, Window, floor
from reference.scoring import COLUMNS, category, norm, score

SCORE_KEY = ("agent_id_hash", "as_of", "window_days")
KEYS = {
    "fct_capacity_scores": SCORE_KEY,
    "fct_factor_components": (*SCORE_KEY, "component"),
    "fct_capacity_alerts": (*SCORE_KEY, "kind"),
    "fct_fleet_capacity": ("as_of", "window_days"),
    "fct_fleet_coherence_hourly": ("hour_start",),
    "fct_score_attribution": (*SCORE_KEY, "loss_component"),
    "fct_score_comparisons": (*SCORE_KEY, "compared_with"),
    "fct_score_changes": (*SCORE_KEY, "compared_with", "loss_component"),
    "fct_score_certainty": SCORE_KEY,
    "dim_agents": ("agent_id_hash",),
}
"""Key columns of each mart that is compared. The rows of fct_capacity_scores also have the columns of
fct_score_certainty and fct_verdicts; the rows of fct_score_certainty have only the inputs of alerts."""

COMPONENTS = (
    *("d_identity", "k_contradiction", "conscience_failure_rate", "i_chain", "signature_rate", "key_rate"),
    *("link_rate", "chain_gaps", "chain_rewinds", "chain_duplicates", "i_coverage", "i_replay", "n_replayed"),
    *("delta_drift", *(f"delta_{metric}" for metric in METRICS), "mttr_hours", "n_episodes"),
    *("n_open_episodes",),
    *("rho_regression", "ece", "q_deferral", "n_judged_deferrals", "u_unsafe"),
    *("sigma", "sigma_max", "n_signals"),
)
LAST = ("last_traced_at", "last_scored_as_of", "last_capacity_score")
"""Columns of a silent agent's last trace and last score, which are null in other rows."""
NULL_IF_SILENT = (
    *COLUMNS.values(),
    *("capacity_score", "capacity_score_geometric", "fragility_index", "category", "weakest_factor"),
    *("unmeasured_components", "capacity_score_low", "capacity_score_high", "interval_driver"),
    *("category_low", "category_high", "category_certainty"),
    *("capacity_score_steady", "grant_score", "withhold_score", "probability_at_threshold"),
)
"""Columns besides the components that are null in the row of a silent agent."""
Rows = dict[str, dict[tuple, dict[str, Any]]]


class Reference:
    """Expected rows of the marts for a fleet. Scores and bounds are computed only once."""

    def __init__(self, fleet: Fleet) -> None:
        self.fleet = fleet
        self.score, self.shared = cache(score), cache(self._shared)
        self.bounds = cache(self._bounds)

    def _shared(self, end: datetime) -> tuple[dict[Agent, dict[str, float]], float]:
        """Return the design effects of the agents that have a trace in a window, and the fleet's cv of durations."""
        every, windows = self.fleet.agents.values(), self.fleet.windows
        with_row = [agent for agent in every if any(self.score(agent, end, window) for window in windows)]
        correlations, cv = of_fleet(with_row, end)
        t = self.fleet.index(end)
        return {agent: design_effects(agent, t, correlations) for agent in with_row}, cv

    def _bounds(
        self, agent: Agent, end: datetime, window: Window
    ) -> tuple[float | None, float | None, set[str | None]]:
        effects, cv = self.shared(end)
        row = self.score(agent, end, window)
        return bounds(agent, row, self.fleet.index(end), window, effects[agent], cv)

    def rows(self, as_ofs: Iterable[datetime]) -> Rows:
        """Return the expected rows at the as-ofs by mart and key."""
        rows: Rows = defaultdict(dict)
        agents = self.fleet.agents.items()
        for end in as_ofs:
            changes: dict[str, dict[str, Any]] = {}
            lasting: dict[str, dict[Window, LongRun]] = {}
            effects, cv = self.shared(end)
            for agent, of_agent in effects.items():
                name = agent.agent_id_hash
                lasting[name] = long_runs(agent, end, of_agent, cv)
                changes[name] = behaviour_change(agent, end, of_agent) | events_change(agent, end, cv)
            for window in self.fleet.windows:
                for name, agent in agents:
                    key = (name, end, window.days)
                    for kind, severity, value in self._alerts(agent, end, window, changes.get(name, {})):
                        rows["fct_capacity_alerts"][*key, kind] = {"severity": severity, "value": value}
                    row = self.score(agent, end, window)
                    if row is None:
                        silent = self._silent_row(agent, end, window)
                        if silent is not None:
                            rows["fct_capacity_scores"][key] = silent
                        continue
                    rows["fct_score_certainty"][key] = changes[name]
                    columns = row.keys() - {*COMPONENTS, "n_episodes"}
                    rows["fct_capacity_scores"][key] = {
                        **{column: row[column] for column in columns},
                        **dict.fromkeys(LAST),
                        **bound_columns(row, *self.bounds(agent, end, window)),
                        **steady(lasting[name][window], row, self.fleet.p),
                    }
                    for component in COMPONENTS:
                        rows["fct_factor_components"][*key, component] = {"component_value": row[component]}
                self._of_fleet(rows, end, window)
        for name, agent in agents:
            names = [used for _, used in agent.names]
            rows["dim_agents"][name,] = {
                "agent_name": names[-1] if names else None,
                "former_names": sorted(set(names[:-1]) - set(names[-1:]), key=str.encode),
                "first_traced_at": agent.times[0],
                "last_traced_at": agent.times[-1],
            }
        for hour, means in self.fleet.hourly_means.items():
            rows["fct_fleet_coherence_hourly"][hour,] = {
                "n_agents": len(means),
                "fleet_coherence": fmean(means.values()),
                "cross_agent_divergence": stdev(means.values()) if len(means) > 1 else None,
            }
        return rows

    def _silent_row(self, agent: Agent, end: datetime, window: Window) -> dict[str, Any] | None:
        """scoring.md §1: return the row of an agent without a trace in the window, which had a score in it before."""
        last = agent.silent_since(end)
        if last is None:
            return None
        as_of = end
        while agent.times[0] < as_of - self.fleet.period:
            as_of -= self.fleet.period
            row = self.score(agent, as_of, window)
            if row is not None and row["capacity_score"] is not None:
                return {
                    **dict.fromkeys((*NULL_IF_SILENT, *COMPONENTS)),
                    "agent_name": agent.name_at(end),
                    "n_traces": 0,
                    "window_start": end - window.days * DAY,
                    "score_status": "no_traces",
                    "confidence": "insufficient",
                    **dict(zip(LAST, (last, as_of, row["capacity_score"]), strict=True)),
                }
        return None

    def _of_fleet(self, rows: Rows, end: datetime, window: Window) -> None:
        """Add the row of fct_fleet_capacity."""
        found = [
            row for (_, as_of, days), row in rows["fct_capacity_scores"].items() if (as_of, days) == (end, window.days)
        ]
        if not found:
            return
        named = Counter(row[column] for row in found for column in ("score_status", "category"))
        scores, lasting = (
            [row[column] for row in found if row[column] is not None]
            for column in ("capacity_score", "capacity_score_steady")
        )
        rows["fct_fleet_capacity"][end, window.days] = {
            **{
                f"n_{name}": named[name]
                for name in (
                    *("final", "provisional", "insufficient_data", "no_traces"),
                    *("high_fragility", "moderate", "healthy", "high_capacity"),
                )
            },
            "n_agents": len(found),
            "mean_capacity_score": fmean(scores) if scores else None,
            "median_capacity_score": median(scores) if scores else None,
            "min_capacity_score": min(scores, default=None),
            "median_capacity_score_steady": median(lasting) if lasting else None,
        }

    # --- alerts ------------------------------------------------------------------------------------------------------

    def _alerts(
        self, agent: Agent, end: datetime, window: Window, changes: Mapping[str, Any]
    ) -> Iterator[tuple[str, str, float]]:
        """certainty.md §4: yield kind, severity and value of the alerts of an agent."""
        p, length = self.fleet.p, window.days * DAY
        last = agent.silent_since(end)
        if last is not None and not agent.n_between(end - p["silent_days"] * DAY, end):
            # Reading: the silence begins with the first as-of after the last trace. The window before the silent days
            # has most traces at the first as-of at which the agent has been silent for silent_days.
            began = floor(last, self.fleet.period) + self.fleet.period
            if agent.n_between(began - length, began) >= p["silent_min_traces"]:
                yield "silent", "critical" if end - last >= 7 * DAY else "warning", (end - last) / DAY
        row = self.score(agent, end, window)
        if row is None:
            return
        capacity, threshold = row["capacity_score"], p["low_capacity_threshold"]
        if capacity is not None and capacity < threshold:
            is_sure = self.bounds(agent, end, window)[1] < threshold
            yield "low_capacity", "critical" if is_sure else "warning", capacity
        broken = sum(row[f"chain_{kind}"] for kind in ("gaps", "rewinds", "duplicates"))
        if broken:
            yield ("broken_chain", "critical" if self._is_rewritten(agent, row, end, window) else "warning", broken)
        untrusted = round((1 - row["key_rate"]) * row["n_traces"])
        if untrusted:
            yield "untrusted_key", "critical", untrusted
        is_old = agent.times[0] <= end - (42 + p["warm_up_days"]) * DAY
        drop = changes["change_kept_before"] - changes["change_kept_now"]
        is_likely = is_old and capacity is not None and changes["change_ratio"] >= p["falling_ratio"]
        if is_likely and reaches_threshold(drop, p):
            yield "falling", "warning", drop
        if changes["episode_z"] > 0 and changes["episode_z"] >= p["episode_z"]:
            yield "episode", "warning", changes["episode_now"]

    def _is_rewritten(self, agent: Agent, row: Mapping[str, Any], end: datetime, window: Window) -> bool:
        """Return whether a broken chain is critical: an audit number is repeated or is lower than the previous number,
        or gaps are significantly more frequent than in the 90 days before the window."""
        p, t = self.fleet.p, self.fleet.index(end - window.days * DAY)
        if row["chain_rewinds"] + row["chain_duplicates"]:
            return True
        before = agent.periods[t - 90 * self.fleet.per_day : t]
        x, n, y, m = row["chain_gaps"], row["n_traces"], before["gap"].sum(), before["n"].sum()
        if x <= p["chain_gap_share"] * n or m == 0:
            return False
        e, f = (x + y) * n / (n + m), (x + y) * m / (n + m)
        z = math.sqrt(2 * (x * math.log(x / e) + (y * math.log(y / f) if y else 0))) if x > e else 0.0
        return x > e and z >= p["chain_gap_z"]


def reaches_threshold(drop: float, p: Mapping[str, Any]) -> bool:
    """Return whether a drop of the score is large enough for the alert ``falling``."""
    last_digit = Decimal("1e-12")
    return Decimal(drop).quantize(last_digit) >= max(Decimal(str(p["falling_least_drop"])), last_digit)


def bound_columns(
    row: Mapping[str, Any], low: float | None, high: float | None, drivers: set[str | None]
) -> dict[str, Any]:
    """certainty.md §3: return the columns of the interval of a score."""
    columns = {"capacity_score_low": low, "capacity_score_high": high, "interval_driver": drivers}
    both = [None if bound is None else category(bound) for bound in (low, high)]
    columns["category_low"], columns["category_high"] = both
    columns["category_certainty"] = "certain" if both == [row["category"]] * 2 else "uncertain"
    return columns if low is not None else columns | {"category_certainty": None}


def below(z: float) -> float:
    """Return the share below z of Student's distribution with 4 degrees, median -0.05, scale 0.6 (Simpson's rule)."""
    x, n = abs(z + 0.05) / 0.6, 2000
    heights = [0.375 * (1 + (x * k / n) ** 2 / 4) ** -2.5 for k in range(n + 1)]
    area = x / n / 3 * (heights[0] + heights[-1] + 4 * sum(heights[1:-1:2]) + 2 * sum(heights[2:-1:2]))
    return 0.5 + math.copysign(area, z + 0.05)


@cache
def quantile(share: float) -> float:
    """Return the z below which the share lies, by bisection."""
    low, high = -50.0, 50.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if below(middle) < share else (low, middle)
    return low


def steady(found: LongRun, row: Mapping[str, Any], p: Mapping[str, Any]) -> dict[str, Any]:
    """certainty.md §4b: return the columns of the steady score."""
    columns: dict[str, Any] = {f"{COLUMNS[factor]}_steady": value for factor, value in found.factors.items()}
    z_of = {
        "capacity_score_steady": 0.0,
        "capacity_score_steady_low": 1.96,
        "capacity_score_steady_high": -1.96,
        "grant_score": quantile(0.85),
        "withhold_score": quantile(0.45),
    }
    columns |= dict.fromkeys((*z_of, "capacity_score_steady_log_sd", "probability_at_threshold"))
    columns["steady_missing_because"] = "too_few_traces"
    if row["capacity_score"] is None:
        return columns
    fixed, threshold = -math.log(norm(1, p)), 0.6
    columns["steady_missing_because"] = None
    columns["capacity_score_steady_log_sd"] = found.spread
    columns |= {name: math.exp(-fixed - found.x * math.exp(z * found.spread)) for name, z in z_of.items()}
    beyond = -math.log(threshold) - fixed
    is_possible = beyond > 0 and math.isfinite(found.x)
    columns["probability_at_threshold"] = (
        below((math.log(beyond) - math.log(found.x)) / found.spread) if is_possible else 0.0
    )
    return columns


def attribution_rows(
    scores: Mapping[tuple, Mapping[str, Any]],
    wanted: Iterable[datetime],
    period: timedelta,
    parameters_of: Callable[[str], Mapping[str, Any]],
) -> Rows:
    """Return the rows of attribution and changes that follow from published scores and components.

    :param scores: score, parameter_set_id and components by agent, as-of and window.
    :param wanted: as-ofs of the rows.
    :param parameters_of: function that returns the parameters of a parameter_set_id that are not defaults.
    """
    rows: Rows = defaultdict(dict)
    levels = {
        key: attribution.level(row["components"], parameters_of(row["parameter_set_id"]))
        for key, row in scores.items()
        if row["capacity_score"] is not None
    }

    def add(mart: str, key: tuple, values: Mapping[str, Mapping[str, Decimal]]) -> None:
        """Add the rows of the loss components. An infinite loss is null."""
        for part in attribution.PARTS:
            found = {column: float(of[part]) for column, of in values.items()}
            rows[mart][*key, part] = {column: None if math.isinf(value) else value for column, value in found.items()}

    for key, row in scores.items():
        agent, as_of, window = key
        if as_of not in wanted:
            continue
        if key in levels:
            values = {"loss": levels[key].loss, "points_lost": levels[key].points}
            add("fct_score_attribution", key, values)
        for name, length in (("window", window * DAY), ("as_of", period)):
            earlier = (agent, as_of - length, window)
            before = scores.get(earlier)
            reason = None
            if before is None:
                reason = "no_earlier_score"
            elif before["parameter_set_id"] != row["parameter_set_id"]:
                reason = "other_parameter_set"
            elif earlier not in levels or key not in levels:
                reason = "no_score"
            score_before, score_now = before and before["capacity_score"], row["capacity_score"]
            rows["fct_score_comparisons"][*key, name] = {
                "compared_as_of": as_of - length,
                "score_before": score_before,
                "score_now": score_now,
                "change": None if reason else score_now - score_before,
                "not_comparable_because": reason,
            }
            if reason is None:
                losses, points = attribution.change(levels[earlier], levels[key])
                add("fct_score_changes", (*key, name), {"loss_change": losses, "points": points})
    return rows
