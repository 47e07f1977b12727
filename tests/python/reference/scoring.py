"""Reference implementation of ``docs/scoring.md``, written from the text alone, section by section.

It uses the standard library only. Sums, means, bins and roundings are exact (``Fraction``). Floats are used only for
exp, log, roots and decayed sums. Times are integers, microseconds since 1970-01-01 UTC (``_us``), so that floors and
half-open comparisons are exact; public functions take and return datetimes with a time zone.

Where the text leaves a choice, a comment that begins with ``Reading:`` says which choice is made.
"""

from __future__ import annotations

import hashlib
import itertools
import math
import re
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # the module imports this one
    from reference.bounds import FleetBounds

# --------------------------------------------------------------------------------------------------------
# Parameters (the published ones; scoring.md §8)
# --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Window:
    """scoring.md §1: a row of the table of windows."""

    window_days: int
    baseline_days: int
    coherence_days: int


REFERENCE_WINDOWS = (Window(7, 23, 30), Window(30, 30, 30))

DEFAULT_PARAMETERS: dict[str, Any] = {
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
    "steady_days": 90,
    "chain_gap_share": 0.01,
    "chain_gap_z": 3.09,
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
    "low_capacity_threshold": 0.3,
    "falling_threshold": 0.15,
    "falling_z_together": 2.8,
    "falling_z_alone": 3.8,
    "falling_ratio": 8.5,
    "episode_z": 3.3,
    "silent_days": 2,
    "silent_min_traces": 30,
}

# Ranges from the text.
PARAMETER_RANGES = {
    "lambda_c": (2, 10),
    "mu_c": (5, 20),
    "decay_per_day": (0.02, 0.10),
    "w_corroborated": (0.5, 2.0),
    "w_uncorroborated": (0.5, 2.0),
}

# scoring.md §6: correctness of a resolved deferral by status. None: a deferral of this status is not evaluated.
DEFERRAL_OUTCOMES: dict[str, int | None] = {
    "RESOLVED": 1,
    "ESCALATED": 1,
    "REJECTED": 0,
    "WITHDRAWN": 0,
    "PENDING": None,
    "UNDER_REVIEW": None,
}


def _parameters(overrides: Mapping[str, Any] | None) -> dict[str, Any]:
    """scoring.md §8: return the default parameters with overrides. A value outside its range raises an error."""
    parameters = dict(DEFAULT_PARAMETERS)
    for name, value in (overrides or {}).items():
        if name not in parameters:
            raise ValueError(f"unknown parameter {name}")
        parameters[name] = value
    for name, (low, high) in PARAMETER_RANGES.items():
        if not _exact(low) <= _exact(parameters[name]) <= _exact(high):
            raise ValueError(f"parameter {name} = {parameters[name]} is outside [{low}, {high}]")
    total = sum(_exact(parameters[name]) for name in parameters if name.startswith("weight_"))
    if abs(total - 1) > Fraction(1, 10**9):
        raise ValueError(f"parameters weight_*: their sum is {float(total)}, not 1 (tolerance 1e-9)")
    return parameters


# --------------------------------------------------------------------------------------------------------
# Exact numbers
# --------------------------------------------------------------------------------------------------------


def _exact(value: Any) -> Fraction:
    """Return the exact value of a finite number. A float is read as its printed decimal number."""
    if isinstance(value, float):
        return Fraction(repr(value))
    return Fraction(value)


def _finite(value: Any) -> bool:
    """Return whether a number is neither NaN nor infinite."""
    if isinstance(value, Decimal):
        return value.is_finite()
    if isinstance(value, float):
        return math.isfinite(value)
    return True


def _round(value: Fraction, places: int) -> Fraction:
    """scoring.md §4: round like PostgreSQL ``numeric``, half away from zero."""
    scaled = math.floor(abs(value) * 10**places + Fraction(1, 2))
    return Fraction(scaled if value >= 0 else -scaled, 10**places)


def _ten_bin(value: Fraction) -> int:
    """scoring.md §5, histograms: ``bin = min(floor(10 x), 9)`` in exact arithmetic."""
    return min(math.floor(10 * value), 9)


# --------------------------------------------------------------------------------------------------------
# scoring.md §1: time
# --------------------------------------------------------------------------------------------------------

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_HOUR = 3_600_000_000
_DAY = 24 * _HOUR
_PERIODS = {"day": _DAY, "hour": _HOUR}
_TRACES_FROM = (datetime(2020, 1, 1, tzinfo=UTC) - _EPOCH) // timedelta(
    microseconds=1
)  # scoring.md §2, traces_from


def _us(moment: datetime) -> int:
    """Convert a datetime with a time zone to microseconds since the epoch."""
    return (moment - _EPOCH) // timedelta(microseconds=1)


def _datetime(us: int) -> datetime:
    """Convert microseconds since the epoch to a datetime."""
    return _EPOCH + timedelta(microseconds=us)


def _infinite(moment: datetime) -> bool:
    """Return whether a time is PostgreSQL's ``infinity`` or ``-infinity``, which arrive as datetime.max and
    datetime.min."""
    return moment.replace(tzinfo=None) in (datetime.max, datetime.min)


def _cut_down(us: int, period_us: int) -> int:
    """scoring.md §1: return the last period end at or before a time. It is also the start of the time's period."""
    return us // period_us * period_us


def _run_end(run_as_of: datetime, period: str) -> int:
    """scoring.md §1: return the as-of of a run, the last period end at or before the given time."""
    return _cut_down(_us(run_as_of), _PERIODS[period])


# --------------------------------------------------------------------------------------------------------
# scoring.md §2: cleaning
# --------------------------------------------------------------------------------------------------------

_TEXT_COLUMNS = (
    "trace_id",
    "thought_id",
    "agent_id_hash",
    "agent_name",
    "signature",
    "signature_key_id",
    "audit_entry_hash",
    "idma_phase",
    "selected_action",
)
_UNIT_COLUMNS = ("csdma_plausibility_score", "dsdma_domain_alignment", "coherence_level", "entropy_level")
_PLAIN_COLUMNS = (
    "signature_verified",
    "audit_sequence_number",
    "idma_fragility_flag",
    "conscience_passed",
    "action_was_overridden",
    "coherence_passed",
    "action_success",
    "thought_start",
    "dma_results",
    "conscience_result",
    "action_result",
)


@dataclass
class Trace:
    """A cleaned row of ``covenant_traces``. ``at`` is its timestamp in microseconds."""

    at: int
    infinite: bool
    trace_id: str | None
    thought_id: str | None
    agent_id_hash: str | None
    agent_name: str | None
    signature: str | None
    signature_key_id: str | None
    audit_entry_hash: str | None
    idma_phase: str | None
    selected_action: str | None
    csdma_plausibility_score: Fraction | None
    dsdma_domain_alignment: Fraction | None
    coherence_level: Fraction | None
    entropy_level: Fraction | None
    idma_k_eff: Fraction | None
    signature_verified: bool | None
    audit_sequence_number: int | None
    idma_fragility_flag: bool | None
    conscience_passed: bool | None
    action_was_overridden: bool | None
    coherence_passed: bool | None
    action_success: bool | None
    thought_start: Any
    dma_results: Any
    conscience_result: Any
    action_result: Any
    repairs: list[str] = field(default_factory=list)


def _clean_text(value: str | None) -> str | None:
    """scoring.md §2: replace empty and blank strings by None."""
    return None if value is None or value.strip() == "" else value


_SMALL_TO_CAPITAL = {letter: letter - 32 for letter in range(ord("a"), ord("z") + 1)}


def _upper(text: str) -> str:
    """scoring.md §2: convert only the letters a to z to upper case."""
    return text.translate(_SMALL_TO_CAPITAL)


def _clean_action(value: str | None) -> str | None:
    """scoring.md §2: trim ``selected_action``, convert it to upper case and remove a leading ``HANDLERACTIONTYPE.``

    Reading: a value that is blank after the prefix was removed becomes null and is counted as blank.
    """
    if value is None:
        return None
    return _clean_text(_upper(value.strip()).removeprefix("HANDLERACTIONTYPE."))


def _clean_number(value: Any, highest: int | None) -> Fraction | None:
    """scoring.md §2: replace NaN, infinite, negative and too large numbers by None."""
    if value is None or not _finite(value) or value < 0 or (highest is not None and value > highest):
        return None
    return _exact(value)


def _oversized(value: str | None) -> bool:
    """scoring.md §2: return whether an identifier has more than 512 bytes. One that is only white space is blank
    instead."""
    return _clean_text(value) is not None and len(value.encode("utf-8")) > 512


def _readable(value: Any) -> bool:
    """scoring.md §2: return whether ``jsonb`` can store a value.

    Reading: JSON that ``jsonb`` cannot store counts as absent. It contains U+0000, half of a surrogate pair, or a
    number with more than 131072 digits before the decimal point or 16383 after it.
    """
    waiting = [value]
    while waiting:
        item = waiting.pop()
        if isinstance(item, Mapping):
            waiting += [*item.keys(), *item.values()]
        elif isinstance(item, list):
            waiting += item
        elif (
            isinstance(item, str)
            and re.search("[\0\ud800-\udfff]", item)
            or isinstance(item, Decimal)
            and not (item.as_tuple().exponent >= -16383 and (item == 0 or item.adjusted() < 131072))
        ):
            return False
    return True


def _clean_trace(row: Mapping[str, Any]) -> Trace:
    """scoring.md §2: clean a source row and record the repairs."""
    cleaned: dict[str, Any] = {column: row.get(column) for column in _PLAIN_COLUMNS}
    repairs = []
    for column in _TEXT_COLUMNS:
        clean = _clean_action if column == "selected_action" else _clean_text
        cleaned[column] = clean(row.get(column))
        if row.get(column) is not None and cleaned[column] is None:
            repairs.append(f"blank_{column}")
    if row.get("agent_id_hash") is None:
        repairs.append("blank_agent_id_hash")  # reading: a missing agent counts as blank
    for column in ("agent_id_hash", "trace_id"):
        if _oversized(cleaned[column]):
            cleaned[column] = None
            repairs.append("oversized_id")
    # Reading: a sequence number that is not a 64-bit integer, which a numeric column can store, becomes null.
    number = cleaned["audit_sequence_number"]
    if isinstance(number, Decimal):
        whole = number.is_finite() and abs(number) < 2**64 and number == int(number)
        cleaned["audit_sequence_number"] = int(number) if whole and -(2**63) <= number < 2**63 else None
        if cleaned["audit_sequence_number"] is None:
            repairs.append("out_of_range_audit_sequence_number")
    for column in ("thought_start", "dma_results", "conscience_result", "action_result"):
        if not _readable(cleaned[column]):
            cleaned[column] = None
            repairs.append(f"unreadable_{column}")
    for column in (*_UNIT_COLUMNS, "idma_k_eff"):
        cleaned[column] = _clean_number(row.get(column), None if column == "idma_k_eff" else 1)
        if row.get(column) is not None and cleaned[column] is None:
            repairs.append(f"out_of_range_{column}")
    moment = row["timestamp"]
    return Trace(at=_us(moment), infinite=_infinite(moment), repairs=repairs, **cleaned)


def _order_key(trace: Trace) -> tuple:
    """scoring.md §2: sort key of timestamp, audit_sequence_number (nulls last), trace_id (bytewise, nulls last)."""
    number, name = trace.audit_sequence_number, trace.trace_id
    return (
        trace.at,
        number is None,
        0 if number is None else number,
        name is None,
        b"" if name is None else name.encode("utf-8"),
    )


@dataclass
class Source:
    """scoring.md §2: the cleaned rows, divided into those that are scored and those that are only counted."""

    traces: dict[str, list[Trace]]  # by agent, ordered as in scoring.md §2, without duplicates
    duplicates: list[Trace]
    future: list[Trace]  # at or after the run's as-of, or infinite; not scored
    implausible: list[Trace]  # before traces_from; not scored
    no_agent: list[Trace]  # blank agent_id_hash


def _read(rows: Iterable[Mapping[str, Any]], run_end: int) -> Source:
    """scoring.md §1 and 2: clean the rows, set future rows and duplicates aside, and sort the others."""
    source = Source({}, [], [], [], [])
    per_agent: dict[str, list[Trace]] = defaultdict(list)
    for row in rows:
        trace = _clean_trace(row)
        if trace.infinite or trace.at >= run_end:
            source.future.append(trace)
        elif trace.at < _TRACES_FROM:
            source.implausible.append(trace)
        elif trace.agent_id_hash is None:
            source.no_agent.append(trace)
        else:
            per_agent[trace.agent_id_hash].append(trace)
    for agent in sorted(per_agent):
        delivered = set()
        kept = []
        # In the order of time, so that the first of several deliveries is kept.
        for trace in sorted(per_agent[agent], key=_order_key):
            delivery = (trace.trace_id, trace.audit_sequence_number)
            if trace.trace_id is not None and delivery in delivered:
                source.duplicates.append(trace)
            else:
                delivered.add(delivery)
                kept.append(trace)
        source.traces[agent] = kept
    return source


# --------------------------------------------------------------------------------------------------------
# scoring.md §4: replay of one trace
# --------------------------------------------------------------------------------------------------------

_FACULTY_VERDICTS = (
    "entropy_passed",
    "coherence_passed",
    "optimization_veto_passed",
    "epistemic_humility_passed",
)
_BYPASS_GUARDRAILS = ("thought_depth_triggered", "updated_status_detected")


def _key(container: Any, name: str) -> Any:
    """Return the value of a JSON key. None if the key is absent, the value is null or the
    container is not an object.
    """
    return container.get(name) if isinstance(container, dict) else None


def _first_present(*alternatives: Any) -> Any:
    """scoring.md §4: return the first alternative that is present."""
    return next((value for value in alternatives if value is not None), None)


def _json_number(value: Any) -> Fraction | None:
    """Return the exact value of a JSON number, or None for any other JSON type. A boolean is not a number."""
    if isinstance(value, bool) or not isinstance(value, (int, float, Decimal)) or not _finite(value):
        return None
    return _exact(value)


def _same_number(column: Fraction | int | None, recorded: Any, places: int) -> bool | None:
    """Comparison 3 for a score. None if it is not made."""
    if column is None or recorded is None:
        return None
    number = _json_number(recorded)
    return number is not None and _round(Fraction(column), places) == _round(number, places)


def _same_boolean(column: bool | None, recorded: Any) -> bool | None:
    """Comparison 3 for a boolean. None if it is not made."""
    if column is None or recorded is None:
        return None
    return isinstance(recorded, bool) and recorded == column


def _faculty_verdict(passed: Any, score: Any, threshold: Any, at_most: bool) -> bool | None:
    """Comparison 1, exact. None if it is not made."""
    if passed is None or score is None or threshold is None:
        return None
    left, right = _json_number(score), _json_number(threshold)
    if not isinstance(passed, bool) or left is None or right is None:
        return False
    return passed == (left <= right if at_most else left >= right)


def _conscience_verdict(result: Any) -> bool | None:
    """Comparison 2. None if it is not made, because no faculty result or no conscience_passed is recorded."""
    recorded = [_key(result, name) for name in _FACULTY_VERDICTS]
    recorded = [value for value in recorded if value is not None]
    passed = _key(result, "conscience_passed")
    if not recorded or passed is None:
        return None
    fired = [_key(result, name) for name in _BYPASS_GUARDRAILS]
    fired = [value for value in fired if value is not None]
    if not all(isinstance(value, bool) for value in [*recorded, *fired, passed]):
        return False
    return passed == (all(recorded) and not any(fired))


def _replay_comparisons(trace: Trace) -> list[bool]:
    """scoring.md §4: return the results of comparisons 1 to 3 that are made."""
    conscience, dma, action = trace.conscience_result, trace.dma_results, trace.action_result
    outcomes: list[bool | None] = [
        # comparison 1
        _faculty_verdict(
            _key(conscience, "entropy_passed"),
            _key(conscience, "entropy_score"),
            _key(conscience, "entropy_threshold"),
            at_most=True,
        ),
        _faculty_verdict(
            _key(conscience, "coherence_passed"),
            _key(conscience, "coherence_score"),
            _key(conscience, "coherence_threshold"),
            at_most=False,
        ),
        # comparison 2
        _conscience_verdict(conscience),
        # comparison 3
        _same_number(
            trace.csdma_plausibility_score,
            _first_present(
                _key(_key(dma, "csdma"), "plausibility_score"), _key(dma, "csdma_plausibility_score")
            ),
            2,
        ),
        _same_number(
            trace.dsdma_domain_alignment,
            _first_present(_key(_key(dma, "dsdma"), "domain_alignment"), _key(dma, "dsdma_domain_alignment")),
            2,
        ),
        _same_number(trace.entropy_level, _key(conscience, "entropy_level"), 4),
        _same_number(trace.coherence_level, _key(conscience, "coherence_level"), 4),
        _same_boolean(trace.coherence_passed, _key(conscience, "coherence_passed")),
        _same_boolean(trace.conscience_passed, _key(conscience, "conscience_passed")),
        _same_boolean(trace.action_was_overridden, _key(conscience, "action_was_overridden")),
        _same_boolean(
            trace.action_success, _first_present(_key(action, "execution_success"), _key(action, "success"))
        ),
    ]
    number, recorded = trace.audit_sequence_number, _key(action, "audit_sequence_number")
    outcomes.append(None if number is None or recorded is None else _json_number(recorded) == number)
    text, recorded = trace.audit_entry_hash, _key(action, "audit_entry_hash")
    outcomes.append(
        None if text is None or recorded is None else isinstance(recorded, str) and recorded == text
    )
    return [outcome for outcome in outcomes if outcome is not None]


def _replayable(trace: Trace) -> bool:
    """scoring.md §4: return whether at least one of comparisons 1 to 3 is made, all of them hold, and comparison 4
    holds."""
    ran = _replay_comparisons(trace)
    return len(ran) > 0 and all(ran) and isinstance(trace.thought_start, dict)


def _replay_sample(traces: list[Trace], size: int, salt: str) -> list[Trace]:
    """scoring.md §4: return the replay sample of an agent in a period, the traces with the smallest md5(salt ||
    trace_id).

    A null trace_id is last. Ties are ordered by audit_sequence_number (nulls last), then as in the list.
    """

    def key(trace: Trace) -> tuple:
        name, number = trace.trace_id, trace.audit_sequence_number
        return (
            name is None,
            "" if name is None else hashlib.md5((salt + name).encode("utf-8")).hexdigest(),
            number is None,
            0 if number is None else number,
        )

    return sorted(traces, key=key)[:size]


# --------------------------------------------------------------------------------------------------------
# One agent's history
# --------------------------------------------------------------------------------------------------------


@dataclass
class Episode:
    """scoring.md §5: a fragile episode."""

    detected: int
    recovered: int | None
    mode: str


class Agent:
    """An agent's traces in order, with the values that depend on previous traces."""

    def __init__(self, traces: list[Trace], registry: Mapping[str, tuple], period_us: int) -> None:
        self.traces = traces
        self.period_us = period_us
        self.times = [trace.at for trace in traces]
        self.names = self._names()
        self.identity_change = self._identity_changes()
        self.sequence = self._sequence_steps()
        self.key_registered = [_key_registered(trace, registry) for trace in traces]
        self.link_valid = [
            trace.audit_entry_hash is not None and step in ("first", "next")
            for trace, step in zip(traces, self.sequence, strict=True)
        ]
        self.episodes = _episodes(traces)
        self._replays: dict[int, tuple[int, int, int]] = {}

    def between(self, start: int, end: int) -> range:
        """Return the positions of the traces with ``start <= timestamp < end``."""
        return range(bisect_left(self.times, start), bisect_left(self.times, end))

    def _names(self) -> list[str | None]:
        """scoring.md §1: return, for each trace, the last name that is not null up to this trace."""
        names: list[str | None] = []
        last = None
        for trace in self.traces:
            last = trace.agent_name if trace.agent_name is not None else last
            names.append(last)
        return names

    def _identity_changes(self) -> list[bool]:
        """scoring.md §3: return whether each trace has a name that differs from the previous name that is not null."""
        changes = []
        last = None
        for trace in self.traces:
            name = trace.agent_name
            changes.append(name is not None and last is not None and name != last)
            last = name if name is not None else last
        return changes

    def _sequence_steps(self) -> list[str]:
        """scoring.md §4: compare each sequence number with that of the previous trace that has one."""
        steps = []
        last = None
        for trace in self.traces:
            number = trace.audit_sequence_number
            if number is None:
                steps.append("none")
                continue
            if last is None:
                steps.append("first")
            elif number == last + 1:
                steps.append("next")
            elif number > last + 1:
                steps.append("gap")
            elif number < last:
                steps.append("rewind")
            else:
                steps.append("duplicate")
            last = number
        return steps

    def replay_of_period(self, start: int, size: int, salt: str) -> tuple[int, int, int]:
        """scoring.md §4: return the number of traces in a period, the size of the sample, and the number of
        replayable traces."""
        if start not in self._replays:
            traces = [self.traces[i] for i in self.between(start, start + self.period_us)]
            sample = _replay_sample(traces, size, salt)
            self._replays[start] = (len(traces), len(sample), sum(_replayable(trace) for trace in sample))
        return self._replays[start]


def _registry(keys: Iterable[Mapping[str, Any]]) -> dict[str, tuple[int | None, int | None]]:
    """scoring.md §4: return revoked_at and expires_at by key_id. If a key occurs twice, the earliest times apply."""
    registry: dict[str, tuple[int | None, int | None]] = {}
    for row in keys:
        key_id = _clean_text(row.get("key_id"))
        if key_id is None:
            continue
        ends = []
        for column, known in zip(
            ("revoked_at", "expires_at"), registry.get(key_id, (None, None)), strict=True
        ):
            moment = row.get(column)
            candidates = [end for end in (known, None if moment is None else _us(moment)) if end is not None]
            ends.append(min(candidates, default=None))
        registry[key_id] = (ends[0], ends[1])
    return registry


def _key_registered(trace: Trace, registry: Mapping[str, tuple]) -> bool:
    """scoring.md §4: return whether the key is in the registry and neither revoked nor expired at the trace's time."""
    if trace.signature_key_id is None or trace.signature_key_id not in registry:
        return False
    return all(end is None or end > trace.at for end in registry[trace.signature_key_id])


def _episodes(traces: list[Trace]) -> list[Episode]:
    """scoring.md §5: return the fragile episodes among the traces that have a flag."""
    episodes: list[Episode] = []
    fragile = False
    for trace in traces:
        if trace.idma_fragility_flag is None:
            continue
        if trace.idma_fragility_flag and not fragile:
            episodes.append(
                Episode(trace.at, None, trace.idma_phase if trace.idma_phase is not None else "unknown")
            )
        if not trace.idma_fragility_flag and fragile:
            episodes[-1].recovered = trace.at
        fragile = trace.idma_fragility_flag
    return episodes


# --------------------------------------------------------------------------------------------------------
# scoring.md §3: C
# --------------------------------------------------------------------------------------------------------


def _core_identity(agent: Agent, window: range, p: Mapping[str, Any]) -> dict[str, Any]:
    """scoring.md §3: C = exp(-lambda D) exp(-mu K)."""
    n = len(window)
    traces = [agent.traces[i] for i in window]
    d_identity = Fraction(sum(agent.identity_change[i] for i in window), n)
    k_contradiction = Fraction(sum(trace.action_was_overridden is True for trace in traces), n)
    failures = Fraction(sum(trace.conscience_passed is False for trace in traces), n)
    c_score = math.exp(-float(_exact(p["lambda_c"]) * d_identity)) * math.exp(
        -float(_exact(p["mu_c"]) * k_contradiction)
    )
    return {
        "c_score": c_score,
        "d_identity": float(d_identity),
        "k_contradiction": float(k_contradiction),
        "conscience_failure_rate": float(failures),
    }


# --------------------------------------------------------------------------------------------------------
# scoring.md §4: I_int
# --------------------------------------------------------------------------------------------------------


def _present_fields(trace: Trace) -> int:
    """scoring.md §4, I_coverage: return how many of the ten required fields are not null after cleaning."""
    return sum(
        value is not None
        for value in (
            trace.thought_id,
            trace.csdma_plausibility_score,
            trace.dsdma_domain_alignment,
            trace.idma_k_eff,
            trace.conscience_passed,
            trace.coherence_level,
            trace.entropy_level,
            trace.selected_action,
            trace.action_success,
            trace.signature,
        )
    )


def _replay(agent: Agent, start: int, end: int, p: Mapping[str, Any]) -> tuple[Fraction | None, int]:
    """scoring.md §4: return I_replay in a window, stratified by period (None if unmeasured), and the sample size."""
    if not p["replay_enabled"]:
        return None, 0
    periods = sorted({_cut_down(agent.times[i], agent.period_us) for i in agent.between(start, end)})
    weighted, n, n_sampled = Fraction(0), 0, 0
    for period_start in periods:
        count, sampled, replayed = agent.replay_of_period(
            period_start, p["replay_sample_per_period"], p["replay_sample_salt"]
        )
        weighted += count * Fraction(replayed, sampled)
        n += count
        n_sampled += sampled
    if n_sampled == 0 or n_sampled < p["replay_min_sample"]:
        return None, n_sampled
    return weighted / n, n_sampled


def _integrity(agent: Agent, window: range, start: int, end: int, p: Mapping[str, Any]) -> dict[str, Any]:
    """scoring.md §4: I_int = I_chain I_coverage I_replay. An unmeasured I_replay is 1 (scoring.md §7)."""
    n = len(window)
    chain_valid = sum(
        agent.traces[i].signature is not None
        and agent.traces[i].signature_verified is True
        and (agent.key_registered[i] or not p["require_registered_keys"])
        and agent.link_valid[i]
        for i in window
    )
    steps = Counter(agent.sequence[i] for i in window)
    i_chain = Fraction(chain_valid, n)
    i_coverage = Fraction(sum(_present_fields(agent.traces[i]) for i in window), 10 * n)
    measured, n_replayed = _replay(agent, start, end, p)
    i_replay = Fraction(1) if measured is None else measured
    return {
        "i_int_score": float(i_chain * i_coverage * i_replay),
        "i_chain": float(i_chain),
        "signature_rate": float(Fraction(sum(agent.traces[i].signature_verified is True for i in window), n)),
        "key_rate": float(Fraction(sum(agent.key_registered[i] for i in window), n)),
        "link_rate": float(Fraction(sum(agent.link_valid[i] for i in window), n)),
        "chain_gaps": steps["gap"],
        "chain_rewinds": steps["rewind"],
        "chain_duplicates": steps["duplicate"],
        "i_coverage": float(i_coverage),
        "i_replay": float(i_replay),
        "n_replayed": n_replayed,
        "replay_measured": measured is not None,
    }


# --------------------------------------------------------------------------------------------------------
# scoring.md §5: R
# --------------------------------------------------------------------------------------------------------

_DRIFT_METRICS = ("csdma_plausibility_score", "dsdma_domain_alignment", "coherence_level")


def _histogram(agent: Agent, positions: range, metric: str) -> list[int]:
    """scoring.md §5: return the counts of ten equal bins on [0, 1]."""
    counts = [0] * 10
    for i in positions:
        value = getattr(agent.traces[i], metric)
        if value is not None:
            counts[_ten_bin(value)] += 1
    return counts


def _drift(recent: list[int], baseline: list[int], p: Mapping[str, Any]) -> float | None:
    """scoring.md §5: return delta = 1 - exp(-KL') of a metric, or None if it is unmeasured."""
    n_r, n_b = sum(recent), sum(baseline)
    if min(n_r, n_b) < max(1, p["drift_min_sample"]):
        return None
    kappa = 10 * _exact(p["drift_pseudo_count"])
    terms = []
    for r, b in zip(recent, baseline, strict=True):
        pi = Fraction(r + b, n_r + n_b)
        if pi > 0:
            p_i = (r + kappa * pi) / (n_r + kappa)
            q_i = (b + kappa * pi) / (n_b + kappa)
            terms.append(float(p_i) * math.log(p_i / q_i))
    kl = math.fsum(terms)
    m = sum(r + b > 0 for r, b in zip(recent, baseline, strict=True))
    bias = Fraction(m - 1, 2) * (Fraction(1, n_r) + Fraction(1, n_b))
    return 1 - math.exp(-max(0.0, kl - float(bias)))


def _mttr(episodes: list[Episode], start: int, end: int) -> tuple[Fraction, int]:
    """scoring.md §5: return MTTR in hours and the number of episodes that are open at ``end``."""
    durations, n_open = [], 0
    for episode in episodes:
        if episode.detected >= end:
            continue
        if episode.recovered is None or episode.recovered >= end:
            n_open += 1
            durations.append(end - episode.detected)
        elif episode.recovered >= start:
            durations.append(episode.recovered - episode.detected)
    if not durations:
        return Fraction(0), n_open
    return Fraction(sum(durations), len(durations) * _HOUR), n_open


def _regression(episodes: list[Episode], start: int, end: int) -> Fraction:
    """scoring.md §5: return rho, the share of recoveries in the window that a later episode of
    the same mode follows.
    """
    recoveries = regressions = 0
    for i, episode in enumerate(episodes):
        if episode.recovered is not None and start <= episode.recovered < end:
            recoveries += 1
            regressions += any(
                later.mode == episode.mode and later.detected < end for later in episodes[i + 1 :]
            )
    return Fraction(regressions, recoveries) if recoveries else Fraction(0)


def _norm(delta_drift: float, mttr: Fraction, rho: Fraction, p: Mapping[str, Any]) -> float:
    """scoring.md §5: R = norm((1 - drift) / (1 + MTTR/tau) (1 - rho))."""
    x = (1 - delta_drift) * float(1 / (1 + mttr / _exact(p["mttr_scale_hours"]))) * float(1 - rho)
    return 1 / (1 + math.exp(-float(p["norm_k"]) * (x - float(p["norm_x0"]))))


def _ended(episodes: list[Episode], start: int, end: int) -> list[Episode]:
    """Return the episodes that ended in [start, end)."""
    return [e for e in episodes if e.recovered is not None and start <= e.recovered < end]


def _resilience(
    agent: Agent, window: range, baseline: range, start: int, end: int, p: Mapping[str, Any]
) -> dict[str, Any]:
    """Return R by scoring.md §5, and over steady_days by certainty.md §4b. An unmeasured drift is 0 (scoring.md §7)."""
    deltas = {
        metric: _drift(_histogram(agent, window, metric), _histogram(agent, baseline, metric), p)
        for metric in _DRIFT_METRICS
    }
    measurable = [delta for delta in deltas.values() if delta is not None]
    delta_drift = math.fsum(measurable) / len(measurable) if measurable else 0.0
    mttr, n_open = _mttr(agent.episodes, start, end)
    rho = _regression(agent.episodes, start, end)
    steady_start = min(start, end - p["steady_days"] * _DAY)
    steady, _ = _mttr(agent.episodes, steady_start, end)
    n_steady = len(_ended(agent.episodes, steady_start, end)) + n_open
    return {
        "r_score": _norm(delta_drift, mttr, rho, p),
        "mttr_hours_steady": float(steady),
        "n_steady_episodes": n_steady,
        "delta_drift": delta_drift,
        **{f"delta_{metric}": delta for metric, delta in deltas.items()},
        "mttr_hours": float(mttr),
        "n_open_episodes": n_open,
        "rho_regression": float(rho),
        "drift_measured": bool(measurable),
    }


# --------------------------------------------------------------------------------------------------------
# scoring.md §6: I_inc
# --------------------------------------------------------------------------------------------------------


@dataclass
class Deferral:
    """A cleaned row of ``wbd_deferrals`` with its agent."""

    deferral_id: Any
    agent_id: str | None
    agent_name: str | None
    status: str | None  # upper case, trimmed
    has_summary: bool
    resolved: int | None
    created: int | None
    created_infinite: bool
    agent: str | None = None


def _clean_deferral(row: Mapping[str, Any]) -> Deferral:
    """scoring.md §2 and 6: replace blank strings by None and normalize the status."""
    status = _clean_text(row.get("status"))
    resolved, created = row.get("resolved_at"), row.get("created_at")
    return Deferral(
        deferral_id=row.get("deferral_id"),
        agent_id=_clean_text(row.get("agent_id")),
        agent_name=_clean_text(row.get("agent_name")),
        status=None if status is None else _upper(status.strip()),
        has_summary=_clean_text(row.get("resolution_summary")) is not None,
        resolved=None if resolved is None else _us(resolved),
        created=None if created is None else _us(created),
        created_infinite=created is not None and _infinite(created),
    )


def _attributed(rows: Iterable[Mapping[str, Any]], source: Source, run_end: int) -> list[Deferral]:
    """scoring.md §6: return the deferrals with their agents. Deferrals created at or after the run's as-of have none
    yet."""
    first_trace = {agent: traces[0].at for agent, traces in source.traces.items()}
    first_used: dict[str, dict[str, int]] = {agent: {} for agent in source.traces}
    for agent, traces in source.traces.items():
        for trace in traces:  # in the order of time, so that the earliest trace decides
            if trace.agent_name is not None:
                first_used[agent].setdefault(trace.agent_name, trace.at)

    def belongs_to(deferral: Deferral) -> str | None:
        created = deferral.created
        if created is None or created >= run_end:
            return None
        candidates = [agent for agent in source.traces if first_trace[agent] < created]
        if deferral.agent_id is not None:
            if deferral.agent_id in candidates:
                return deferral.agent_id
            digest = hashlib.sha256(deferral.agent_id.encode("utf-8")).hexdigest()
            prefixes = [agent for agent in candidates if len(agent) >= 8 and digest.startswith(agent)]
            if prefixes:
                return max(prefixes, key=len)  # prefixes of equal length are equal
        if deferral.agent_name is not None:
            bearers = [
                agent
                for agent in candidates
                if deferral.agent_name in first_used[agent]
                and first_used[agent][deferral.agent_name] < created
            ]
            if len(bearers) == 1:
                return bearers[0]
        return None

    deferrals = [_clean_deferral(row) for row in rows]
    for deferral in deferrals:
        deferral.agent = belongs_to(deferral)
    return deferrals


def _calibration_error(traces: list[Trace]) -> Fraction | None:
    """scoring.md §6: return ECE, or None if it is unmeasured."""
    bins: dict[int, list[tuple[Fraction, bool]]] = defaultdict(list)
    n = 0
    for trace in traces:
        if trace.csdma_plausibility_score is not None and trace.action_success is not None:
            bins[_ten_bin(trace.csdma_plausibility_score)].append(
                (trace.csdma_plausibility_score, trace.action_success)
            )
            n += 1
    if n == 0:
        return None
    error = Fraction(0)
    for members in bins.values():
        mean_confidence = sum(confidence for confidence, _ in members) / len(members)
        success_rate = Fraction(sum(success for _, success in members), len(members))
        error += Fraction(len(members), n) * abs(mean_confidence - success_rate)
    return error


def _deferral_quality(
    deferrals: list[Deferral], start: int, end: int, known_by: int | None = None
) -> tuple[Fraction, int]:
    """scoring.md §6: return Q_deferral of an agent and the number of deferrals whose outcome is known by
    ``known_by``."""
    worth, known_by = [], end if known_by is None else known_by
    for deferral in deferrals:
        if deferral.created is None or not start <= deferral.created < end:
            continue
        correctness = DEFERRAL_OUTCOMES.get(deferral.status or "")
        if correctness is None:
            continue  # status is not evaluated
        if deferral.resolved is not None and deferral.resolved >= known_by:
            continue  # outcome is not yet known
        worth.append(correctness * (Fraction(1) if deferral.has_summary else Fraction(1, 2)))
    return (sum(worth) / len(worth) if worth else Fraction(1)), len(worth)


def _incompleteness(
    traces: list[Trace], deferrals: list[Deferral], start: int, end: int, steady_days: int
) -> dict[str, Any]:
    """Return I_inc = (1 - ECE) Q (1 - U) by scoring.md §6, and by certainty.md §4b. An unmeasured ECE is 0 (§7)."""
    measured = _calibration_error(traces)
    ece = Fraction(0) if measured is None else measured
    q_deferral, n_judged = _deferral_quality(deferrals, start, end)
    steady_start = min(start, end - steady_days * _DAY)
    q_steady, n_steady = _deferral_quality(deferrals, steady_start, end)
    unsafe = sum(
        trace.entropy_level is not None
        and trace.entropy_level > Fraction(1, 2)
        and trace.action_success is False
        for trace in traces
    )
    u_unsafe = Fraction(unsafe, len(traces))
    return {
        "i_inc_score": float((1 - ece) * q_deferral * (1 - u_unsafe)),
        "q_deferral_steady": float(q_steady),
        "n_steady_deferrals": n_steady,
        "ece": float(ece),
        "q_deferral": float(q_deferral),
        "n_judged_deferrals": n_judged,
        "u_unsafe": float(u_unsafe),
        "ece_measured": measured is not None,
    }


# --------------------------------------------------------------------------------------------------------
# scoring.md §7: S
# --------------------------------------------------------------------------------------------------------


def _hourly_means(traces: Mapping[str, list[Trace]]) -> dict[int, dict[str, Fraction]]:
    """scoring.md §7: return the mean coherence_level of each agent in each UTC hour."""
    levels: dict[int, dict[str, list[Fraction]]] = defaultdict(lambda: defaultdict(list))
    for agent, agent_traces in traces.items():
        for trace in agent_traces:
            if trace.coherence_level is not None:
                levels[_cut_down(trace.at, _HOUR)][agent].append(trace.coherence_level)
    return {
        hour: {agent: sum(values) / len(values) for agent, values in per_agent.items()}
        for hour, per_agent in levels.items()
    }


def _corroborated(agent: str, means: Mapping[str, Fraction], tolerance: Fraction) -> bool:
    """scoring.md §7: return whether an agent's mean is within the tolerance of the mean of the other agents' means."""
    others = [mean for other, mean in means.items() if other != agent]
    if agent not in means or not others:
        return False
    return _round(abs(means[agent] - sum(others) / len(others)), 12) <= tolerance


class Coherence:
    """scoring.md §7: sigma and sigma_max of an agent at any period end."""

    def __init__(
        self,
        name: str,
        traces: list[Trace],
        hourly_means: Mapping[int, Mapping[str, Fraction]],
        period_us: int,
        p: Mapping[str, Any],
    ) -> None:
        self.period_us = period_us
        self.keep = float(1 - _exact(p["decay_per_day"]) * Fraction(period_us, _DAY))  # 1 - d Delta
        self.traces = traces
        tolerance = _exact(p["corroboration_tolerance"])
        corroborated_in: dict[int, bool] = {}
        sums: dict[int, list[Fraction]] = defaultdict(lambda: [Fraction(0), Fraction(0)])
        for trace in traces:
            if trace.coherence_passed is None:
                continue
            hour = _cut_down(trace.at, _HOUR)
            if hour not in corroborated_in:
                corroborated_in[hour] = _corroborated(name, hourly_means.get(hour, {}), tolerance)
            weight = _exact(p["w_corroborated"] if corroborated_in[hour] else p["w_uncorroborated"])
            g_h = sums[trace.at // period_us]
            if trace.coherence_passed and trace.signature_verified is True:
                g_h[0] += weight
            g_h[1] += weight
        self.indices = sorted(sums)  # of periods with a signal
        self.g = [float(sums[index][0]) for index in self.indices]
        self.h = [float(sums[index][1]) for index in self.indices]
        self._states: dict[tuple[int, int], tuple[float, float]] = {}

    def state(self, t: int, coherence_days: int) -> tuple[float, float]:
        """scoring.md §7: return sigma(t) and sigma_max(t) over the periods in [t - coherence_days, t)."""
        if (t, coherence_days) not in self._states:
            t_index = t // self.period_us
            first = bisect_left(self.indices, (t - coherence_days * _DAY) // self.period_us)
            last = bisect_left(self.indices, t_index)
            decay = [self.keep ** (t_index - 1 - self.indices[j]) for j in range(first, last)]
            self._states[t, coherence_days] = (
                math.fsum(self.g[j] * x for j, x in zip(range(first, last), decay, strict=True)),
                math.fsum(self.h[j] * x for j, x in zip(range(first, last), decay, strict=True)),
            )
        return self._states[t, coherence_days]

    def score(self, start: int, end: int, coherence_days: int) -> float | None:
        """scoring.md §7: return the mean of sigma/sigma_max over the period ends in (start, end], or None if
        unmeasured."""
        ratios = []
        for t in range(start + self.period_us, end + 1, self.period_us):
            sigma, sigma_max = self.state(t, coherence_days)
            if sigma_max > 0:
                ratios.append(sigma / sigma_max)
        return math.fsum(ratios) / len(ratios) if ratios else None


# --------------------------------------------------------------------------------------------------------
# scoring.md §8: composite, status, categories
# --------------------------------------------------------------------------------------------------------

_FACTORS = ("C", "I_int", "R", "I_inc", "S")
_COMPONENTS = (
    "d_identity",
    "k_contradiction",
    "conscience_failure_rate",
    "i_chain",
    "signature_rate",
    "key_rate",
    "link_rate",
    "chain_gaps",
    "chain_rewinds",
    "chain_duplicates",
    "i_coverage",
    "i_replay",
    "n_replayed",
    "delta_drift",
    "delta_csdma_plausibility_score",
    "delta_dsdma_domain_alignment",
    "delta_coherence_level",
    "mttr_hours",
    "n_open_episodes",
    "rho_regression",
    "ece",
    "q_deferral",
    "n_judged_deferrals",
    "u_unsafe",
    "sigma",
    "sigma_max",
    "n_signals",
)


def _category(capacity: float) -> str:
    """scoring.md §8: high_fragility < 0.3 <= moderate < 0.6 <= healthy < 0.85 <= high_capacity."""
    if capacity < 0.3:
        return "high_fragility"
    if capacity < 0.6:
        return "moderate"
    return "healthy" if capacity < 0.85 else "high_capacity"


def _confidence(n: int) -> str:
    """scoring.md §8: insufficient < 10 <= low < 30 <= medium < 100 <= high."""
    if n < 10:
        return "insufficient"
    if n < 30:
        return "low"
    return "medium" if n < 100 else "high"


def _composite(factors: Mapping[str, float], p: Mapping[str, Any]) -> tuple[float, float]:
    """scoring.md §8: return the product and the weighted geometric mean. Only here the floor of scoring.md §4
    applies."""
    used = dict(factors)
    used["I_int"] = max(used["I_int"], float(p["integrity_floor"]))
    capacity = math.prod(used[name] for name in _FACTORS)
    geometric = math.prod(used[name] ** float(p[f"weight_{name.lower()}"]) for name in _FACTORS)
    return capacity, geometric


_STEADY = (
    "mttr_hours_steady",
    "n_steady_episodes",
    "q_deferral_steady",
    "n_steady_deferrals",
)


class Fleet:
    """The data of a run, from which rows at any period end are computed."""

    def __init__(self, traces, deferrals, keys, run_as_of, parameters, period) -> None:
        self.parameters = _parameters(parameters)
        self.period_us = _PERIODS[period]
        self.run_end = _run_end(run_as_of, period)
        self.source = _read(traces or [], self.run_end)
        self.deferrals = _attributed(deferrals or [], self.source, self.run_end)
        registry = _registry(keys or [])
        hourly_means = _hourly_means(self.source.traces)
        self.agents = {
            name: Agent(found, registry, self.period_us) for name, found in self.source.traces.items()
        }
        self.coherence = {
            name: Coherence(name, found, hourly_means, self.period_us, self.parameters)
            for name, found in self.source.traces.items()
        }
        self.deferrals_of: dict[str | None, list[Deferral]] = defaultdict(list)
        for deferral in self.deferrals:
            self.deferrals_of[deferral.agent].append(deferral)
        self._scores: dict[tuple[str, int, Window], dict[str, Any] | None] = {}

    def period_ends(self, name: str) -> range:
        """scoring.md §1: return the period ends from the agent's first trace up to the run's as-of."""
        first = _cut_down(self.agents[name].times[0], self.period_us) + self.period_us
        return range(first, self.run_end + 1, self.period_us)

    def score(self, name: str, end: int, window: Window) -> dict[str, Any] | None:
        """scoring.md §3 to 8: return the row of an agent, as-of and window, or None if the window has no trace."""
        if (name, end, window) not in self._scores:
            self._scores[name, end, window] = self._score(name, end, window)
        return self._scores[name, end, window]

    def _score(self, name: str, end: int, window: Window) -> dict[str, Any] | None:
        p, agent, coherence = self.parameters, self.agents[name], self.coherence[name]
        start = end - window.window_days * _DAY
        positions = agent.between(start, end)
        n = len(positions)
        if n == 0:
            return None
        traces = [agent.traces[i] for i in positions]
        baseline = agent.between(start - window.baseline_days * _DAY, start)

        values = {
            **_core_identity(agent, positions, p),
            **_integrity(agent, positions, start, end, p),
            **_resilience(agent, positions, baseline, start, end, p),
            **_incompleteness(traces, self.deferrals_of[name], start, end, p["steady_days"]),
            "sigma": coherence.state(end, window.coherence_days)[0],
            "sigma_max": coherence.state(end, window.coherence_days)[1],
            "n_signals": sum(trace.coherence_passed is not None for trace in traces),
        }
        s_measured = coherence.score(start, end, window.coherence_days)
        s_score = 0.0 if s_measured is None else s_measured
        unmeasured = [
            component
            for component, measured in (
                ("i_replay", values["replay_measured"]),
                ("delta_drift", values["drift_measured"]),
                ("ece", values["ece_measured"]),
                ("s_score", s_measured is not None),
            )
            if not measured
        ]

        factors = {
            "C": values["c_score"],
            "I_int": values["i_int_score"],
            "R": values["r_score"],
            "I_inc": values["i_inc_score"],
            "S": s_score,
        }
        capacity = geometric = fragility = category = None
        if n < p["min_traces"]:
            status = "insufficient_data"
        else:
            capacity, geometric = _composite(factors, p)
            fragility = 1 / (float(p["fragility_epsilon"]) + capacity)
            category = _category(capacity)
            warm = agent.times[0] <= start - p["warm_up_days"] * _DAY
            status = "final" if warm else "provisional"
        return {
            "agent_name": agent.names[positions[-1]],
            "n_traces": n,
            "window_start": _datetime(start),
            "c_score": values["c_score"],
            "i_int_score": values["i_int_score"],
            "r_score": values["r_score"],
            "i_inc_score": values["i_inc_score"],
            "s_score": s_score,
            "capacity_score": capacity,
            "capacity_score_geometric": geometric,
            "fragility_index": fragility,
            "category": category,
            "score_status": status,
            "confidence": _confidence(n),
            "weakest_factor": min(_FACTORS, key=factors.__getitem__),  # min returns the first of equal values
            "unmeasured_components": unmeasured,
            **{name: values[name] for name in _STEADY},
            "components": {component: values[component] for component in _COMPONENTS},
        }


# --------------------------------------------------------------------------------------------------------
# The public functions
# --------------------------------------------------------------------------------------------------------


def score_fleet(fleet: Fleet, as_ofs: list[datetime]) -> dict[tuple[str, datetime, int], dict]:
    """scoring.md §1 to 8: return the rows by agent_id_hash, as_of and window_days.

    The as-ofs must be period ends. As-ofs after the run's as-of have no rows.
    """
    wanted = sorted({_us(as_of) for as_of in as_ofs})
    for end in wanted:
        if end % fleet.period_us:
            raise ValueError(f"as-of {_datetime(end)} is not the end of a period")
    rows = {}
    for name in fleet.agents:
        period_ends = fleet.period_ends(name)
        for end in (end for end in wanted if end in period_ends):
            for window in REFERENCE_WINDOWS:
                row = fleet.score(name, end, window)
                if row is not None:
                    rows[name, _datetime(end), window.window_days] = row
    return rows


# certainty.md §4: components for which a higher value is better, then all components.
_GOOD = ("i_chain", "i_coverage", "i_replay", "s_score")
_BEHAVIOUR = ("d_identity", "k_contradiction", *_GOOD, "delta_drift", "ece", "u_unsafe")


def _fall(before, before_bounds, now, now_bounds, p) -> float | None:
    """certainty.md §4, ``falling``: return D if a window loses more than the one before it, otherwise None.

    :param before: row of the earlier window, as ``Fleet.score`` returns it; ``now`` is the later one.
    :param before_bounds: (value, low, high) by component.
    """

    def loss(part, value):
        if part in ("d_identity", "k_contradiction"):
            return float(p["lambda_c" if part == "d_identity" else "mu_c"]) * value
        if part == "delta_drift":
            exponent = -float(p["norm_k"]) * (1 - value - float(p["norm_x0"]))
            value = 1 / (1 + math.exp(exponent))
        elif part not in _GOOD:
            value = 1 - value
        return -math.log(max(value, 1e-9))

    if before["score_status"] == "provisional":
        return None
    sums, alone = [0.0, 0.0, 0.0], False
    for part in _BEHAVIOUR:
        if part in before["unmeasured_components"] or part in now["unmeasured_components"]:
            continue
        was, was_worse = (loss(part, before_bounds[part][i]) for i in (0, 1 if part in _GOOD else 2))
        now_is, now_better = (loss(part, now_bounds[part][i]) for i in (0, 2 if part in _GOOD else 1))
        variance = ((was_worse - was) / 1.96) ** 2 + ((now_is - now_better) / 1.96) ** 2
        change = now_is - was
        alone |= change > 0.02 and change >= float(p["falling_z_alone"]) * math.sqrt(variance)
        sums = [a + b for a, b in zip(sums, (was, now_is, variance), strict=True)]
    together = sums[1] - sums[0] >= float(p["falling_z_together"]) * math.sqrt(sums[2])
    fall = math.exp(-sums[0]) - math.exp(-sums[1])
    return fall if (together or alone) and fall >= float(p["falling_threshold"]) / 3 else None


def _is_rewritten(agent: Agent, row: Mapping[str, Any], end: int, length: int, p: Mapping[str, Any]) -> bool:
    """certainty.md §4: return whether a broken chain is critical."""
    counts = row["components"]
    if counts["chain_rewinds"] + counts["chain_duplicates"] > 0:
        return True
    before = agent.between(end - length - 90 * _DAY, end - length)
    x, n, m = counts["chain_gaps"], row["n_traces"], len(before)
    y = sum(agent.sequence[i] == "gap" for i in before)
    if x <= p["chain_gap_share"] * n or m == 0:
        return False
    e, f = (x + y) * n / (n + m), (x + y) * m / (n + m)
    if x <= e:
        return False
    z = math.sqrt(2 * (x * math.log(x / e) + (y * math.log(y / f) if y else 0)))
    return z >= p["chain_gap_z"]


def alerts(fleet_bounds: FleetBounds, as_ofs: list[datetime], windows=REFERENCE_WINDOWS) -> list[dict]:
    """scoring.md §8 and certainty.md §4: return the alerts of a fleet at the as-ofs.

    Reading of ``value``: the capacity_score (low_capacity); the number of gaps, rewinds and duplicates in the window
    (broken_chain); the number of traces whose key was not registered (untrusted_key); D (falling); hours, episodes or
    quality since the change (episode); the number of traces in the W before the silent days (silent).
    """
    fleet = fleet_bounds.fleet
    p = fleet.parameters
    ends = sorted({_us(as_of) for as_of in as_ofs})
    raised = []

    def alert(kind: str, severity: str, name: str, end: int, window: Window, value: float) -> None:
        raised.append(
            {
                "kind": kind,
                "severity": severity,
                "agent_id_hash": name,
                "as_of": _datetime(end),
                "window_days": window.window_days,
                "value": value,
            }
        )

    for name, end, window in itertools.product(fleet.agents, ends, windows):
        agent = fleet.agents[name]
        if end in fleet.period_ends(name):
            length = window.window_days * _DAY
            row = fleet.score(name, end, window)
            if row is not None:
                capacity = row["capacity_score"]
                found = fleet_bounds.row(name, end, window, row)
                bounds = found["capacity"]
                threshold = float(p["low_capacity_threshold"])
                if capacity is not None and capacity < threshold:
                    severity = "critical" if bounds[2] < threshold else "warning"
                    alert("low_capacity", severity, name, end, window, capacity)
                broken = sum(
                    row["components"][kind] for kind in ("chain_gaps", "chain_rewinds", "chain_duplicates")
                )
                if broken > 0:
                    severity = "critical" if _is_rewritten(agent, row, end, length, p) else "warning"
                    alert("broken_chain", severity, name, end, window, broken)
                untrusted = round((1 - row["components"]["key_rate"]) * row["n_traces"])
                if untrusted > 0:
                    alert("untrusted_key", "critical", name, end, window, untrusted)
                before = fleet.score(name, end - length, window)
                before_capacity = None if before is None else before["capacity_score"]
                fall = None
                if capacity is not None and before_capacity is not None:
                    earlier = fleet_bounds.row(name, end - length, window, before)["components"]
                    fall = _fall(before, earlier, row, found["components"], p)
                change, worse = fleet_bounds.changes(name, end)
                drop = change.kept_before - change.kept_now
                is_old = agent.times[0] <= end - (42 + p["warm_up_days"]) * _DAY
                if (
                    capacity is not None
                    and is_old
                    and change.ratio >= p["falling_ratio"]
                    and drop >= float(p["falling_threshold"]) / 3
                ):
                    fall = drop
                if fall is not None:
                    alert("falling", "warning", name, end, window, fall)
                if worse.z >= p["episode_z"]:
                    alert("episode", "warning", name, end, window, worse.now)
            silence = end - p["silent_days"] * _DAY
            n_before = len(agent.between(silence - length, silence))
            if len(agent.between(silence, end)) == 0 and n_before >= p["silent_min_traces"]:
                alert("silent", "warning", name, end, window, n_before)
    return raised


def data_quality(
    traces, deferrals, run_as_of: datetime, period: str = "day"
) -> dict[tuple[str | None, datetime | None, str], int]:
    """scoring.md §8: return the data quality counts by agent or None, start of the period or None, and issue.

    Reading: a row with a missing, blank or oversized agent_id_hash is counted only once, as such. A deferral without
    a status has an unknown status.
    """
    period_us, run_end = _PERIODS[period], _run_end(run_as_of, period)
    source = _read(traces or [], run_end)
    counts: Counter = Counter()

    def count(agent: str | None, at: int | None, issue: str) -> None:
        counts[agent, None if at is None else _datetime(_cut_down(at, period_us)), issue] += 1

    for trace in source.future:
        count(trace.agent_id_hash, None if trace.infinite else trace.at, "future_trace")
    for trace in source.implausible:
        count(trace.agent_id_hash, trace.at, "implausible_timestamp")
    for trace in source.no_agent:
        is_blank = "blank_agent_id_hash" in trace.repairs
        count(None, trace.at, "blank_agent_id_hash" if is_blank else "oversized_id")
    for trace in source.duplicates:
        count(trace.agent_id_hash, trace.at, "duplicate_trace")
    for trace in [*(trace for kept in source.traces.values() for trace in kept), *source.duplicates]:
        for repair in trace.repairs:
            count(trace.agent_id_hash, trace.at, repair)
    for deferral in _attributed(deferrals or [], source, run_end):
        created = deferral.created
        if created is not None and created >= run_end:
            continue  # not yet created
        at = None if deferral.created_infinite else created
        if deferral.agent is None:
            count(None, at, "unattributed_deferral")
        if deferral.status is None or deferral.status not in DEFERRAL_OUTCOMES:
            count(deferral.agent, at, "unknown_status")
    return dict(counts)


def fleet_coherence_hourly(traces, run_as_of: datetime) -> dict[datetime, dict]:
    """scoring.md §7: return, by UTC hour, mean and sample standard deviation over agents of their mean
    coherence_level, and the number of agents that have one.

    ``run_as_of`` is truncated to a whole hour.
    """
    view = {}
    for hour, means in sorted(_hourly_means(_read(traces or [], _run_end(run_as_of, "hour")).traces).items()):
        n = len(means)
        mean = sum(means.values()) / n
        divergence = None
        if n > 1:
            divergence = math.sqrt(sum((value - mean) ** 2 for value in means.values()) / (n - 1))
        view[_datetime(hour)] = {
            "n_agents": n,
            "fleet_coherence": float(mean),
            "cross_agent_divergence": divergence,
        }
    return view
