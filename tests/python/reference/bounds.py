"""Confidence bounds of rows, computed from traces by the two reference implementations together.

``scoring`` checks the traces, this module counts them by period, and ``intervals`` computes the bounds.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import datetime
from fractions import Fraction
from statistics import NormalDist
from typing import Any

from reference import alarms, intervals, long_run
from reference.scoring import (
    _DAY,
    _DRIFT_METRICS,
    _HOUR,
    DEFERRAL_OUTCOMES,
    REFERENCE_WINDOWS,
    Agent,
    Fleet,
    Window,
    _category,
    _corroborated,
    _cut_down,
    _datetime,
    _exact,
    _hourly_means,
    _present_fields,
    _ten_bin,
    _us,
)

FACTOR_COLUMNS = {
    "C": "c_score",
    "I_int": "i_int_score",
    "R": "r_score",
    "I_inc": "i_inc_score",
    "S": "s_score",
}


STEADY_SCORES = (
    *("capacity_score_steady", "capacity_score_steady_low", "capacity_score_steady_high", "category_steady"),
    *("category_steady_low", "category_steady_high", "grant_score", "withhold_score"),
    *("mttr_hours_steady_minus_weekly", "q_deferral_steady_minus_weekly"),
)
"""Columns of the steady score that are null where the score is."""


def period_of(
    fleet: Fleet, name: str, agent: Agent, start: int, hourly_means: Mapping[int, Mapping[str, Any]]
) -> intervals.Period:
    """Return the counts of an agent's traces in a period."""
    p = fleet.parameters
    positions = agent.between(start, start + fleet.period_us)
    traces = [agent.traces[i] for i in positions]
    period = intervals.Period(n=len(traces))
    if not traces:
        return period
    period.renamed = sum(agent.identity_change[i] for i in positions)
    period.overridden = sum(trace.action_was_overridden is True for trace in traces)
    period.chain_valid = sum(
        agent.traces[i].signature is not None
        and agent.traces[i].signature_verified is True
        and (agent.key_registered[i] or not p["require_registered_keys"])
        and agent.link_valid[i]
        for i in positions
    )
    period.fields = sum(_present_fields(trace) for trace in traces)
    if p["replay_enabled"]:
        _, period.sampled, period.replayed = agent.replay_of_period(
            start, p["replay_sample_per_period"], p["replay_sample_salt"]
        )
    period.unsafe = sum(
        trace.entropy_level is not None
        and trace.entropy_level > Fraction(1, 2)
        and trace.action_success is False
        for trace in traces
    )
    signals, coherent = [0, 0], [0, 0]
    for trace in traces:
        if trace.coherence_passed is not None:
            means = hourly_means.get(_cut_down(trace.at, _HOUR), {})
            alone = 0 if _corroborated(name, means, _exact(p["corroboration_tolerance"])) else 1
            signals[alone] += 1
            coherent[alone] += trace.coherence_passed and trace.signature_verified is True
        if trace.csdma_plausibility_score is not None and trace.action_success is not None:
            bin_ = _ten_bin(trace.csdma_plausibility_score)
            period.judged[bin_] += 1
            period.confidence[bin_] += float(trace.csdma_plausibility_score)
            period.successes[bin_] += trace.action_success
        for index, metric in enumerate(_DRIFT_METRICS):
            value = getattr(trace, metric)
            if value is not None:
                period.histograms[index][_ten_bin(value)] += 1
    period.signals, period.coherent = (signals[0], signals[1]), (coherent[0], coherent[1])
    period.episode_hours = [
        (episode.recovered - episode.detected) / _HOUR
        for episode in agent.episodes
        if episode.recovered is not None and start <= episode.recovered < start + fleet.period_us
    ]
    return period


class FleetBounds:
    """Confidence bounds of all rows of a fleet at any as-of. The periods are counted only once."""

    def __init__(self, fleet: Fleet) -> None:
        self.fleet = fleet
        self.per_day = _DAY // fleet.period_us
        hourly_means = _hourly_means(fleet.source.traces)
        starts = [_cut_down(agent.times[0], fleet.period_us) for agent in fleet.agents.values()]
        self.origin = min(starts, default=0)
        self.n_periods = (fleet.run_end - self.origin) // fleet.period_us
        self.periods = {
            name: [
                period_of(fleet, name, agent, self.origin + i * fleet.period_us, hourly_means)
                for i in range(self.n_periods)
            ]
            for name, agent in fleet.agents.items()
        }
        self._shared: dict[tuple[int, int], tuple[dict[str, float], float]] = {}
        self._rows: dict[tuple[str, int, Window], dict[str, Any]] = {}
        self._changes: dict[tuple[str, int], tuple[alarms.Change, alarms.Worse]] = {}

    def shared(self, end: int, window: Window) -> tuple[dict[str, float], float]:
        """Return intraclass correlations and variation of episodes over the agents with a row."""
        key = (end, window.window_days)
        if key not in self._shared:
            members = [
                periods
                for name, periods in self.periods.items()
                if len(self.fleet.agents[name].between(end - window.window_days * _DAY, end))
            ]
            self._shared[key] = intervals.fleet(members, self._index(end), _lengths(window), self.per_day)
        return self._shared[key]

    def row(self, name: str, end: int, window: Window, score: Mapping[str, Any]) -> dict[str, Any]:
        """Return the bounds of a row; see :func:`intervals.bounds`.

        :param score: the row's score, as ``Fleet.score`` returns it.
        """
        if (name, end, window) not in self._rows:
            self._rows[name, end, window] = self._row(name, end, window, score)
        return self._rows[name, end, window]

    def _row(self, name: str, end: int, window: Window, score: Mapping[str, Any]) -> dict[str, Any]:
        p, parts = self.fleet.parameters, score["components"]
        start = end - window.window_days * _DAY
        recovered = sum(
            episode.recovered is not None and start <= episode.recovered < end
            for episode in self.fleet.agents[name].episodes
        )
        facts = intervals.Facts(
            parts["mttr_hours"],
            recovered + parts["n_open_episodes"],
            parts["rho_regression"],
            parts["q_deferral"],
            parts["n_judged_deferrals"],
        )
        icc, episode_cv = self.shared(end, window)
        periods, place = self.periods[name], (self._index(end), _lengths(window))
        begun = intervals.counted(periods, *place, p, self.per_day)
        found = intervals.bounds(periods, facts, *place, icc, episode_cv, p, self.per_day, begun)
        fleet_icc, fleet_cv = self.shared(end, REFERENCE_WINDOWS[0])
        events, index = self._events(name, end), self._index(end)
        found["long_run"] = long_run.long_run(
            periods, events, index, fleet_icc, fleet_cv, window.window_days, p, self.per_day
        )
        return found

    def changes(self, name: str, end: int) -> tuple[alarms.Change, alarms.Worse]:
        """Return the changes for the worse of behaviour and of events, which are the same for all windows."""
        if (name, end) not in self._changes:
            icc, cv = self.shared(end, REFERENCE_WINDOWS[0])
            self._changes[name, end] = (
                alarms.change(self.periods[name], self._index(end), icc, self.fleet.parameters, self.per_day),
                alarms.worse_events(self._events(name, end), cv),
            )
        return self._changes[name, end]

    def _events(self, name: str, end: int) -> long_run.Events:
        """Return the episodes and deferrals of an agent that are known at an as-of, with their ages."""
        agent, period = self.fleet.agents[name], self.fleet.period_us

        def age(at: int) -> float:
            return (end - _cut_down(at, period) - period) / _DAY

        ended = sorted(
            (
                episode
                for episode in agent.episodes
                if episode.recovered is not None and episode.recovered < end
            ),
            key=lambda episode: (episode.recovered, episode.detected),
        )
        is_open = [
            episode
            for episode in agent.episodes
            if episode.detected < end and (episode.recovered is None or episode.recovered >= end)
        ]
        deferrals = []
        for deferral in self.fleet.deferrals_of[name]:
            correctness = DEFERRAL_OUTCOMES.get(deferral.status or "")
            if deferral.created is None or correctness is None:
                continue
            known = max(
                deferral.created, deferral.created if deferral.resolved is None else deferral.resolved
            )
            if known < end:
                deferrals.append((age(known), float(correctness) * (1 if deferral.has_summary else 0.5)))
        return long_run.Events(
            [(age(e.recovered), _log_hours(e.recovered - e.detected), e.mode) for e in ended],
            _log_hours(end - is_open[0].detected) if is_open else None,
            deferrals,
            (end - _cut_down(agent.times[0], period)) / _DAY,
        )

    def _index(self, end: int) -> int:
        return (end - self.origin) // self.fleet.period_us


def _log_hours(microseconds: int) -> float:
    return math.log(max(microseconds / _HOUR, 0.01))


def _lengths(window: Window) -> tuple[int, int, int]:
    return window.window_days, window.baseline_days, window.coherence_days


def limit_fleet(
    bounds: FleetBounds, as_ofs: list[datetime]
) -> tuple[dict[tuple[str, datetime, int], dict[str, Any]], dict[tuple[datetime, int], dict[str, float]]]:
    """Return the bounds of all rows at the as-ofs with the column names of the marts, and the values of the fleet."""
    fleet = bounds.fleet
    rows, values = {}, {}
    for end in sorted({_us(as_of) for as_of in as_ofs}):
        for window in REFERENCE_WINDOWS:
            for name in fleet.agents:
                score = fleet.score(name, end, window)
                if score is None or end not in fleet.period_ends(name):
                    continue
                found = bounds.row(name, end, window, score)
                rows[name, _datetime(end), window.window_days] = _published(found, score, fleet.parameters)
                icc, episode_cv = bounds.shared(end, window)
                values[_datetime(end), window.window_days] = {
                    **{
                        f"{'delta_' if effect in _DRIFT_METRICS else ''}{effect}_correlation": value
                        for effect, value in icc.items()
                    },
                    "episode_cv": episode_cv,
                }
    return rows, values


def _steady(found: long_run.LongRun, score: Mapping[str, Any], p: Mapping[str, Any]) -> dict[str, Any]:
    """Return the columns of the steady score (certainty.md §4b)."""
    is_scored, weekly = score["capacity_score"] is not None, score["capacity_score"]
    factors = {f"{FACTOR_COLUMNS[name]}_steady": value for name, value in found.factors.items()}
    row: dict[str, Any] = dict.fromkeys(STEADY_SCORES)
    row["steady_missing_because"] = None if is_scored else "too_few_traces"
    if not is_scored:
        return row | factors
    fixed = math.log(1 + math.exp(-p["norm_k"] * (1 - p["norm_x0"])))

    def reached(probability: float) -> float:
        """Return the score that the long run reaches with a probability."""
        if found.score == found.high:
            return found.score
        at, at_high = (math.log(-math.log(value) - fixed) for value in (found.score, found.high))
        sd = (at - at_high) / 1.96
        return math.exp(-fixed - math.exp(at + NormalDist().inv_cdf(probability) * sd))

    if weekly > 0 and found.score > 0:
        ratio = math.log(found.score / weekly)
        points = weekly if abs(ratio) < 1e-12 else (found.score - weekly) / ratio
        of_r = math.log(found.factors["R"] / score["r_score"]) * points
        of_q = math.log(found.q_deferral / score["components"]["q_deferral"]) * points
    else:
        of_r, of_q = 0.0, found.score - weekly if score["components"]["q_deferral"] == 0 else 0.0
    return (
        row
        | factors
        | {
            "capacity_score_steady": found.score,
            "capacity_score_steady_low": found.low,
            "capacity_score_steady_high": found.high,
            "category_steady": _category(found.score),
            "category_steady_low": _category(found.low),
            "category_steady_high": _category(found.high),
            "grant_score": reached(0.74),
            "withhold_score": reached(0.45),
            "mttr_hours_steady_minus_weekly": of_r,
            "q_deferral_steady_minus_weekly": of_q,
        }
    )


def _published(
    found: Mapping[str, Any], score: Mapping[str, Any], parameters: Mapping[str, Any]
) -> dict[str, Any]:
    capacity = found["capacity"]
    row: dict[str, Any] = {
        **_steady(found["long_run"], score, parameters),
        "capacity_score_low": None if capacity is None else capacity[1],
        "capacity_score_high": None if capacity is None else capacity[2],
        "drivers": found["drivers"],
        "category_certainty": None,
    }
    if capacity is not None:
        ends = {_category(capacity[1]), _category(capacity[2])}
        row["category_certainty"] = "certain" if ends == {score["category"]} else "uncertain"
    for factor, column in FACTOR_COLUMNS.items():
        _, row[f"{column}_low"], row[f"{column}_high"] = found["factors"][factor]
    row["components"] = {
        name: {"component_low": low, "component_high": high, "design_effect": found["effects"].get(name)}
        for name, (_, low, high) in found["components"].items()
        if name != "s_score"
    }
    return row
