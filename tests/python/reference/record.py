"""Reference implementation of the record (``docs/scoring.md`` §1, 2, and 4 to 7): cleaned traces, counted by period.

It is written from the text alone. Where the text leaves a choice, a comment that begins with ``Reading:`` says which
choice is made.
"""

from __future__ import annotations

import hashlib
import itertools
import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

Row = dict[str, Any]


class Window(NamedTuple):
    """scoring.md §1: lengths of a window, of its baseline and of the coherence lookback."""

    days: int
    baseline_days: int
    coherence_days: int


WINDOWS = (Window(7, 23, 30), Window(30, 30, 30))
DAY, HOUR = timedelta(days=1), timedelta(hours=1)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
TRACES_FROM = datetime(2020, 1, 1, tzinfo=UTC)
MEMORY_DAYS = 133
"""Number of days whose traces are used for the steady score and for changes for the worse."""

DEFAULTS: dict[str, Any] = {
    # scoring.md §3
    "lambda_c": 5,
    "mu_c": 10,
    # scoring.md §4
    "integrity_floor": 0,
    "require_registered_keys": True,
    "replay_enabled": True,
    "replay_sample_per_period": 30,
    "replay_sample_salt": "",
    "replay_min_sample": 30,
    # scoring.md §5
    "mttr_scale_hours": 1,
    "norm_k": 5,
    "norm_x0": 0.5,
    "drift_pseudo_count": 0.5,
    "drift_min_sample": 30,
    # scoring.md §7
    "decay_per_day": 0.05,
    "w_corroborated": 1.0,
    "w_uncorroborated": 0.5,
    "corroboration_tolerance": 0.1,
    # scoring.md §8
    "weight_c": 0.2,
    "weight_i_int": 0.2,
    "weight_r": 0.2,
    "weight_i_inc": 0.2,
    "weight_s": 0.2,
    "fragility_epsilon": 0.001,
    "min_traces": 30,
    "warm_up_days": 7,
    "steady_days": 90,
    "low_capacity_threshold": 0.3,
    "chain_gap_share": 0.01,
    "chain_gap_z": 3.09,
    "falling_least_drop": 0.05,
    "falling_ratio": 7.5,
    "episode_z": 3.1,
    "silent_days": 2,
    "silent_min_traces": 30,
    # scoring.md §1
    "silent_forget_days": 90,
}

# scoring.md §6: correctness of a resolved deferral by status. None: a deferral of this status is not judged.
OUTCOMES = {"RESOLVED": 1.0, "ESCALATED": 1.0, "REJECTED": 0.0, "WITHDRAWN": 0.0, "PENDING": None, "UNDER_REVIEW": None}

# --- scoring.md §2: cleaning -----------------------------------------------------------------------------------------

TEXTS = (
    *("trace_id", "thought_id", "agent_id_hash", "agent_name", "signature", "signature_key_id"),
    *("audit_entry_hash", "idma_phase", "selected_action"),
)
METRICS = ("csdma_plausibility_score", "dsdma_domain_alignment", "coherence_level")
COMPONENTS = ("thought_start", "dma_results", "conscience_result", "action_result")
REQUIRED = (
    *("thought_id", "csdma_plausibility_score", "dsdma_domain_alignment", "idma_k_eff", "conscience_passed"),
    *("coherence_level", "entropy_level", "selected_action", "action_success", "signature"),
)


def floor(moment: datetime, period: timedelta) -> datetime:
    """Return the last period end at or before a time."""
    return moment - (moment - EPOCH) % period


def is_infinite(moment: datetime) -> bool:
    """Return whether a time is infinite in PostgreSQL. Infinite times are read as the first or last time of Python."""
    return moment.replace(tzinfo=None) in (datetime.max, datetime.min)


def text(value: str | None) -> str | None:
    """Replace a blank string by None."""
    return None if value is None or not value.strip() else value


def upper(value: str) -> str:
    """Convert only the letters a to z to upper case."""
    return re.sub("[a-z]+", lambda letters: letters[0].upper(), value)


def is_storable(value: Any) -> bool:
    """Return whether ``jsonb`` can store a value.

    Reading: JSON that ``jsonb`` cannot store counts as absent: JSON with U+0000, half of a surrogate pair, or a number
    with more than 131072 digits before the decimal point or 16383 after it.
    """
    waiting = [value]
    while waiting:
        match waiting.pop():
            case dict() as found:
                waiting += [*found.keys(), *found.values()]
            case list() as found:
                waiting += found
            case str() as found if re.search("[\0\ud800-\udfff]", found):
                return False
            case Decimal() as found if found.as_tuple().exponent < -16383 or found and found.adjusted() >= 131072:
                return False
    return True


def cleaned(row: Mapping[str, Any]) -> Row:
    """scoring.md §2: clean a source row and record the repairs."""
    trace, repairs = dict(row), []
    for column in TEXTS:
        trace[column] = text(row[column])
    if row["selected_action"] is not None:
        # Reading: an action that is empty after its prefix is removed counts as blank.
        action = upper(row["selected_action"].strip()).removeprefix("HANDLERACTIONTYPE.")
        trace["selected_action"] = text(action)
    repairs += [f"blank_{c}" for c in TEXTS if row[c] is not None and trace[c] is None]
    if row["agent_id_hash"] is None:
        repairs.append("blank_agent_id_hash")
    for column in ("agent_id_hash", "trace_id"):
        if trace[column] is not None and len(trace[column].encode()) > 512:
            trace[column] = None
            repairs.append("oversized_id")
    number = row["audit_sequence_number"]
    if isinstance(number, Decimal):
        # Reading: a numeric column can store numbers that are not 64-bit integers. Each of them becomes null.
        is_fit = number.is_finite() and -(2**63) <= number < 2**63 and number == int(number)
        trace["audit_sequence_number"] = int(number) if is_fit else None
        if not is_fit:
            repairs.append("out_of_range_audit_sequence_number")
    for column in COMPONENTS:
        if not is_storable(row[column]):
            trace[column] = None
            repairs.append(f"unreadable_{column}")
    for column in (*METRICS, "entropy_level", "idma_k_eff"):
        if row[column] is not None:
            value = Decimal(str(row[column]))
            is_fit = value.is_finite() and 0 <= value <= (math.inf if column == "idma_k_eff" else 1)
            trace[column] = Fraction(value) if is_fit else None
            if not is_fit:
                repairs.append(f"out_of_range_{column}")
    return trace | {"repairs": repairs}


def texts_in(value: Any) -> Iterator[str]:
    """Yield the texts in a JSON value."""
    match value:
        case str():
            yield value
        case dict() | list():
            for inner in value.values() if isinstance(value, dict) else value:
                yield from texts_in(inner)


def words_in(value: Any, levels: int = 3) -> Iterator[str]:
    """Yield the texts, numbers and booleans in a mark, as trimmed texts in upper case."""
    match value:
        case dict() | list():
            for inner in value.values() if isinstance(value, dict) else value:
                yield from words_in(inner, levels - 1) if levels else ()
        case _ if value is not None and str(value).strip():
            yield upper(str(value).strip())


def run_kind(trace: Mapping[str, Any]) -> str:
    """scoring.md §2: return the run kind that a cleaned trace states itself: mock, test or production.

    Readings: marks are compared as statuses are, trimmed and without regard to case. A number or a boolean in a mark
    counts as its text. Elements are read at most three levels deep. A trace format version without two numbers is old.
    """

    def stated(name: str) -> list[str]:
        return [*words_in(trace.get(name)), *words_in(key_of(trace.get("deployment_profile"), name))]

    models = [trace.get("models_used"), trace.get("model"), key_of(trace["action_result"], "models_used")]
    numbers = [version.split(".") for version in stated("trace_format_version")]
    is_new = any(len(n) > 1 and n[0].isdigit() and n[1].isdigit() and (int(n[0]), int(n[1])) >= (2, 8) for n in numbers)
    run_kinds, deployments = stated("run_kind"), [] if is_new else stated("deployment_type")
    if "MOCK" in [*run_kinds, *deployments] or any("MOCK" in upper(name) for name in texts_in(models)):
        return "mock"
    is_test = set(run_kinds) - {"PRODUCTION"} or {"QA", "BATTERY", "TEST", "DEVELOPMENT"} & set(deployments)
    return "test" if is_test else "production"


def order(trace: Row) -> tuple:
    """scoring.md §2: sort key: timestamp, audit_sequence_number (nulls last), trace_id (bytewise, nulls last)."""
    number, name = trace["audit_sequence_number"], trace["trace_id"]
    return trace["timestamp"], number is None, number or 0, name is None, (name or "").encode()


class Source:
    """scoring.md §2: cleaned source rows, divided into traces that are scored and rows that are only counted."""

    def __init__(
        self, rows: Iterable[Mapping[str, Any]], run_end: datetime, scored: Sequence[str], traces_from: datetime
    ) -> None:
        self.traces: dict[str, list[Row]] = defaultdict(list)
        self.set_aside: dict[str, list[Row]] = defaultdict(list)
        delivered = set()
        last_number: dict[str, int] = {}
        # The rows are sorted by time, so that the first of several deliveries is kept.
        for trace in sorted(map(cleaned, rows), key=order):
            agent, at = trace["agent_id_hash"], trace["timestamp"]
            delivery = agent, trace["trace_id"], trace["audit_sequence_number"]
            if is_infinite(at) or at >= run_end:
                self.set_aside["future_trace"].append(trace)
            elif at < traces_from:
                self.set_aside["implausible_timestamp"].append(trace)
            elif agent is None:
                is_blank = "blank_agent_id_hash" in trace["repairs"]
                self.set_aside["blank_agent_id_hash" if is_blank else "oversized_id"].append(trace)
            elif trace["trace_id"] is not None and delivery in delivered:
                self.set_aside["duplicate_trace"].append(trace)
            else:
                delivered.add(delivery)
                # The chain goes through traces of all run kinds.
                trace["last_number"] = last_number.get(agent)
                if trace["audit_sequence_number"] is not None:
                    last_number[agent] = trace["audit_sequence_number"]
                kind = run_kind(trace)
                if kind in scored:
                    self.traces[agent].append(trace)
                else:
                    self.set_aside[f"{kind}_trace"].append(trace)


# --- scoring.md §4: replay of one trace ------------------------------------------------------------------------------


def key_of(container: Any, name: str) -> Any:
    return container.get(name) if isinstance(container, dict) else None


def is_number(value: Any) -> bool:
    return isinstance(value, int | Decimal) and not isinstance(value, bool)


def rounded(value: Any, places: int) -> int:
    """Round as PostgreSQL ``numeric`` does, half away from zero. The result is in units of the last place."""
    scaled = math.floor(abs(Fraction(value)) * 10**places + Fraction(1, 2))
    return scaled if value >= 0 else -scaled


def replay(trace: Row) -> Iterator[bool]:
    """scoring.md §4: yield the results of those comparisons 1 to 3 of a replay that have recorded inputs."""
    conscience, action = trace["conscience_result"], trace["action_result"]
    for name in ("entropy", "coherence"):
        passed, score, threshold = (key_of(conscience, f"{name}_{of}") for of in ("passed", "score", "threshold"))
        if None not in (passed, score, threshold):
            is_typed = isinstance(passed, bool) and is_number(score) and is_number(threshold)
            yield is_typed and passed == (score <= threshold if name == "entropy" else score >= threshold)

    checks = ("entropy_passed", "coherence_passed", "optimization_veto_passed", "epistemic_humility_passed")
    guardrails = ("thought_depth_triggered", "updated_status_detected")
    recorded, fired = (
        [value for name in names if (value := key_of(conscience, name)) is not None] for names in (checks, guardrails)
    )
    passed = key_of(conscience, "conscience_passed")
    if recorded and passed is not None:
        is_typed = all(isinstance(value, bool) for value in (*recorded, *fired, passed))
        yield is_typed and passed == (all(recorded) and not any(fired))

    compared: list[tuple[str, Any, int | type | None]] = []
    for part, name in (("csdma", "plausibility_score"), ("dsdma", "domain_alignment")):
        value = key_of(key_of(trace["dma_results"], part), name)
        other = key_of(trace["dma_results"], f"{part}_{name}")
        compared.append((f"{part}_{name}", other if value is None else value, 2))
    compared += [(name, key_of(conscience, name), 4) for name in ("entropy_level", "coherence_level")]
    compared += [
        (name, key_of(conscience, name), bool)
        for name in ("coherence_passed", "conscience_passed", "action_was_overridden")
    ]
    value = key_of(action, "execution_success")
    compared.append(("action_success", key_of(action, "success") if value is None else value, bool))
    compared.append(("audit_sequence_number", key_of(action, "audit_sequence_number"), None))
    compared.append(("audit_entry_hash", key_of(action, "audit_entry_hash"), str))
    for column, value, kind in compared:
        if trace[column] is None or value is None:
            continue
        if isinstance(kind, type):
            yield isinstance(value, kind) and value == trace[column]
        elif kind is None:
            yield is_number(value) and value == trace[column]
        else:
            yield is_number(value) and rounded(value, kind) == rounded(trace[column], kind)


def is_replayable(trace: Row) -> bool:
    results = list(replay(trace))
    return bool(results) and all(results) and isinstance(trace["thought_start"], dict)


# --- agents ----------------------------------------------------------------------------------------------------------


@dataclass
class Episode:
    """scoring.md §5: a fragile episode."""

    detected: datetime
    recovered: datetime | None
    mode: str

    def recovered_in(self, start: datetime, end: datetime) -> bool:
        return self.recovered is not None and start <= self.recovered < end

    def is_open(self, end: datetime) -> bool:
        return self.detected < end and (self.recovered is None or self.recovered >= end)


COUNTS = np.dtype(
    [
        *(
            (name, float)
            for name in (
                *("n", "renamed", "overridden", "conscience_failed", "verified", "registered", "linked"),
                *("chain_valid", "gap", "rewind", "duplicate", "fields", "sampled", "replayed", "unsafe"),
            )
        ),
        *((name, float, 2) for name in ("signals", "coherent")),  # corroborated, uncorroborated
        *((name, float, 10) for name in ("judged", "confidence", "successes")),
        ("histograms", float, (3, 10)),
    ]
)
"""Counts of an agent's traces in a period."""


def tenth(value: Fraction) -> int:
    """scoring.md §5: ``min(floor(10 x), 9)``."""
    return min(math.floor(10 * value), 9)


def step(number: int, last: int | None) -> str:
    """scoring.md §4: compare an audit number with the previous audit number of the agent."""
    if last is None:
        return "first"
    if number == last + 1:
        return "next"
    return "gap" if number > last else "rewind" if number < last else "duplicate"


class Agent:
    """An agent's traces in order of time, and their counts by period."""

    def __init__(self, agent_id_hash: str, traces: list[Row], fleet: Fleet) -> None:
        self.agent_id_hash, self.traces, self.fleet = agent_id_hash, traces, fleet
        self.times = [trace["timestamp"] for trace in traces]
        self.names: list[tuple[datetime, str]] = []
        self.episodes: list[Episode] = []
        self.periods = np.zeros(fleet.n_periods, COUNTS)
        in_period = defaultdict(list)
        is_fragile = False
        for trace in traces:
            at, name, number = trace["timestamp"], trace["agent_name"], trace["audit_sequence_number"]
            found: Row = {"n": 1, "renamed": bool(name and self.names and self.names[-1][1] != name)}
            if name is not None:
                self.names.append((at, name))
            kind = None
            if number is not None:
                kind = step(number, trace["last_number"])
                if kind in COUNTS.names:
                    found[kind] = 1
            found["verified"] = trace["signature_verified"] is True
            found["registered"] = fleet.is_registered(trace)
            found["linked"] = trace["audit_entry_hash"] is not None and kind in ("first", "next")
            found["chain_valid"] = (
                trace["signature"] is not None
                and found["verified"]
                and (found["registered"] or not fleet.p["require_registered_keys"])
                and found["linked"]
            )
            found["fields"] = sum(trace[column] is not None for column in REQUIRED)
            found["overridden"] = trace["action_was_overridden"] is True
            found["conscience_failed"] = trace["conscience_passed"] is False
            entropy, success = trace["entropy_level"], trace["action_success"]
            found["unsafe"] = entropy is not None and entropy > Fraction(1, 2) and success is False
            index = fleet.index(at)
            for field, value in found.items():
                self.periods[field][index] += value
            confidence, passed = trace["csdma_plausibility_score"], trace["coherence_passed"]
            if confidence is not None and success is not None:
                self.periods["judged"][index, tenth(confidence)] += 1
                self.periods["confidence"][index, tenth(confidence)] += float(confidence)
                self.periods["successes"][index, tenth(confidence)] += success
            for k, metric in enumerate(METRICS):
                if trace[metric] is not None:
                    self.periods["histograms"][index, k, tenth(trace[metric])] += 1
            if passed is not None:
                alone = int(not fleet.is_corroborated(agent_id_hash, at))
                self.periods["signals"][index, alone] += 1
                self.periods["coherent"][index, alone] += passed and found["verified"]
            flag = trace["idma_fragility_flag"]
            if flag and not is_fragile:
                self.episodes.append(Episode(at, None, trace["idma_phase"] or "unknown"))
            elif flag is False and is_fragile:
                self.episodes[-1].recovered = at
            is_fragile = is_fragile if flag is None else flag
            in_period[index].append(trace)
        if fleet.p["replay_enabled"]:
            for index, some in in_period.items():
                sample = sorted(some, key=self._of_sample)[: fleet.p["replay_sample_per_period"]]
                self.periods["sampled"][index] = len(sample)
                self.periods["replayed"][index] = sum(map(is_replayable, sample))

    def _of_sample(self, trace: Row) -> tuple:
        """scoring.md §4: sort key of the replay sample."""
        name, number = trace["trace_id"], trace["audit_sequence_number"]
        salted = (self.fleet.p["replay_sample_salt"] + (name or "")).encode()
        return name is None, name and hashlib.md5(salted).hexdigest(), number is None, number or 0

    def n_between(self, start: datetime, end: datetime) -> int:
        return sum(start <= at < end for at in self.times)

    def silent_since(self, end: datetime) -> datetime | None:
        """scoring.md §1: return the time of the last trace before a period end. None if there is none, if the agent is
        retired, or if the trace is so old that the agent is forgotten."""
        last = max((at for at in self.times if at < end), default=None)
        retired_at = self.fleet.retired.get(self.agent_id_hash)
        if last is None or (retired_at is not None and last < retired_at <= end):
            return None
        return last if end - last <= self.fleet.p["silent_forget_days"] * DAY else None

    def name_at(self, end: datetime) -> str | None:
        return next((name for at, name in reversed(self.names) if at < end), None)


# --- deferrals -------------------------------------------------------------------------------------------------------


@dataclass
class Deferral:
    """scoring.md §6: a deferral, its agent, and its value, which is None if its status is not judged."""

    created: datetime | None
    resolved: datetime | None
    status: str | None
    agent: str | None
    value: float | None

    def is_known(self, end: datetime) -> bool:
        return self.value is not None and (self.resolved is None or self.resolved < end)


class Fleet:
    """Cleaned data of a run, from which the expected rows of any as-of are computed."""

    def __init__(
        self,
        traces: Iterable[Mapping[str, Any]],
        deferrals: Iterable[Mapping[str, Any]],
        keys: Iterable[Mapping[str, Any]],
        run_as_of: datetime,
        parameters: Mapping[str, Any] | None,
        period: timedelta,
        windows: Sequence[Window] = WINDOWS,
        scored: Sequence[str] = ("production",),
        retired: Mapping[str, datetime] | None = None,
        traces_from: datetime = TRACES_FROM,
    ) -> None:
        self.retired = retired or {}
        self.p = DEFAULTS | dict(parameters or {})
        self.period, self.per_day, self.windows = period, DAY // period, windows
        self.run_end = floor(run_as_of, period)
        self.source = Source(traces, self.run_end, scored, traces_from)
        firsts = [found[0]["timestamp"] for found in self.source.traces.values()]
        # Alerts compare the gaps of a window with the gaps of the 90 days before the window.
        spans = [(one.days + max(one.baseline_days, 90), one.coherence_days) for one in windows]
        memory = max(MEMORY_DAYS, *itertools.chain(*spans))
        self.origin = floor(min(firsts, default=self.run_end), period) - memory * DAY
        self.n_periods = self.index(self.run_end)
        self.registry: dict[str, list[datetime]] = defaultdict(list)
        for row in keys:
            if text(row["key_id"]) is not None:
                self.registry[row["key_id"]] += filter(None, (row["revoked_at"], row["expires_at"]))
        self.agents = {name: Agent(name, found, self) for name, found in sorted(self.source.traces.items())}
        self.deferrals = [self._deferral(row) for row in deferrals]

    def index(self, moment: datetime) -> int:
        """Return the index of the period that contains a time."""
        return (moment - self.origin) // self.period

    def has_as_of(self, agent: Agent, end: datetime) -> bool:
        """scoring.md §1: return whether a period end is after the agent's first trace and not after the run's as-of."""
        return agent.times[0] < end <= self.run_end

    def is_registered(self, trace: Row) -> bool:
        """scoring.md §4: return whether the trace's key is registered, and neither revoked nor expired at its time."""
        key = trace["signature_key_id"]
        return key in self.registry and all(trace["timestamp"] < end for end in self.registry[key])

    @cached_property
    def hourly_means(self) -> dict[datetime, dict[str, float]]:
        """scoring.md §7: mean coherence_level of each agent in each UTC hour."""
        levels: dict[datetime, dict[str, list[Fraction]]] = defaultdict(lambda: defaultdict(list))
        for agent, traces in self.source.traces.items():
            for trace in traces:
                if trace["coherence_level"] is not None:
                    levels[floor(trace["timestamp"], HOUR)][agent].append(trace["coherence_level"])
        return {
            hour: {agent: float(sum(values) / len(values)) for agent, values in found.items()}
            for hour, found in levels.items()
        }

    def is_corroborated(self, agent: str, at: datetime) -> bool:
        """scoring.md §7: return whether the agent's mean in the hour is close to the mean of other agents' means."""
        means = dict(self.hourly_means.get(floor(at, HOUR), {}))
        mean, others = means.pop(agent, None), means.values()
        if mean is None or not others:
            return False
        return round(abs(mean - math.fsum(others) / len(others)), 12) <= self.p["corroboration_tolerance"]

    def _deferral(self, row: Mapping[str, Any]) -> Deferral:
        status, created = text(row["status"]), row["created_at"]
        status = None if status is None else upper(status.strip())
        correct = OUTCOMES.get(status or "")
        value = None if correct is None else correct * (1 if text(row["resolution_summary"]) else 0.5)
        agent = None if created is None or created >= self.run_end else self._agent_of(row, created)
        return Deferral(created, row["resolved_at"], status, agent, value)

    def _agent_of(self, row: Mapping[str, Any], created: datetime) -> str | None:
        """scoring.md §6: return the agent of a deferral."""
        identity, name = text(row["agent_id"]), text(row["agent_name"])
        candidates = [agent for agent, found in self.agents.items() if found.times[0] < created]
        if identity in candidates:
            return identity
        if identity is not None:
            digest = hashlib.sha256(identity.encode()).hexdigest()
            prefixes = [agent for agent in candidates if len(agent) >= 8 and digest.startswith(agent)]
            if prefixes:
                return max(prefixes, key=len)
        named = [
            agent for agent in candidates if any(at < created and name == used for at, used in self.agents[agent].names)
        ]
        return named[0] if len(named) == 1 else None

    def data_quality(self) -> Counter[tuple[str | None, datetime | None, str]]:
        """scoring.md §8: count issues by agent, start of the period and issue. Agent and start can be None.

        Reading: a row without a usable agent_id_hash is counted only for this issue. A deferral without a status has an
        unknown status.
        """
        counts: Counter = Counter()

        def count(agent: str | None, at: datetime | None, issue: str) -> None:
            is_dated = at is not None and not is_infinite(at)
            counts[agent, floor(at, self.period) if is_dated else None, issue] += 1

        for issue, traces in self.source.set_aside.items():
            for trace in traces:
                count(trace["agent_id_hash"], trace["timestamp"], issue)
        set_aside = ("duplicate_trace", "mock_trace", "test_trace", "production_trace")
        kept = [*self.source.traces.values(), *(self.source.set_aside[issue] for issue in set_aside)]
        for trace in (trace for traces in kept for trace in traces):
            for repair in trace["repairs"]:
                count(trace["agent_id_hash"], trace["timestamp"], repair)
        for one in self.deferrals:
            if one.created is None or one.created < self.run_end:
                if one.agent is None:
                    count(None, one.created, "unattributed_deferral")
                if one.status not in OUTCOMES:
                    count(one.agent, one.created, "unknown_status")
        return counts
