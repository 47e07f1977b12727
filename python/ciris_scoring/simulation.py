"""A simulated fleet of agents, with named pathologies, in the shape of the `cirislens` source tables.

Every number is a pure function of (seed, agent, position in the agent's history): a counter-based generator
instead of one that is drawn from in turn. So a fleet can be produced in chunks of any size, all agents of a
day side by side, with the same bytes as in one piece; and only integer arithmetic, addition, multiplication and
division are used, which give the same result on every machine and with every version of numpy.

An agent works in *tasks* of three thoughts within minutes: a seed thought, a follow-up, the completion. A *day*
is a slice of 24 hours counted from the start of the simulation.
"""

from __future__ import annotations

import base64
import dataclasses
import functools
import hashlib
import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import IntEnum, auto
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd

from ciris_scoring.source_schema import BATCH_COLUMNS, DEFERRAL_COLUMNS, PUBLIC_KEY_COLUMNS, TRACE_COLUMNS

Ints = npt.NDArray[np.int64]
Bits = npt.NDArray[np.uint64]
Floats = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]
Texts = npt.NDArray[np.object_]

THOUGHTS_PER_TASK = 3
ROWS_PER_CHUNK = 40_000
NEVER = np.iinfo(np.int64).max
SECOND = 1_000_000
"""Times inside this module are integers, microseconds since 1970 UTC."""
MINUTE, HOUR, DAY = 60 * SECOND, 3_600 * SECOND, 86_400 * SECOND


@dataclass(frozen=True)
class Pathology:
    """How one kind of agent behaves: knobs, each neutral by default.

    Scores are means on [0, 1]; shares are of the traces they can apply to; `..._every` plants one event per
    that many traces (0: never); days count back from the fleet's end, and where a fleet is too short for them,
    as far as its length allows.
    """

    name: str
    names: tuple[str, str, str]
    """The name at first, from the middle of the simulated days on, and from 7 days before the end on."""

    plausibility: float = 0.90
    plausibility_spread: float = 0.05
    alignment: float = 0.88
    coherence: float = 0.87
    coherence_spread: float = 0.05
    success_gap: float = 0.0
    """Success has the probability plausibility − gap."""
    drift_days: int = 0
    drift: float = 0.0
    """What plausibility, alignment and (by half) coherence lose in the last `drift_days`."""

    gap_every: int = 0
    rewind_every: int = 0
    repeat_every: int = 0
    revoked_after: float = 2.0
    """Share of the simulated days after which the key is revoked (above 1: never)."""
    unsigned: float = 0.0
    unverified: float = 0.001
    overridden: float = 0.004
    inconsistent: float = 0.0
    """Share of traces whose components contradict the columns or themselves."""

    episodes_per_day: float = 0.03
    episode_traces: int = 2
    """Longest fragile episode in traces; 2 stays inside one task, so minutes; at most 8."""
    same_mode: bool = False
    stuck_days: int = 0

    first_days: int = 0
    """The first trace comes this many days before the end (0: at the start of the simulation)."""
    silent_days: int = 0
    batch_clock: bool = False
    """The installation stores the time of the batch (every 5 minutes), which ties many traces."""
    deferrals_rejected: float = 0.01


def _called(name: str) -> tuple[str, str, str]:
    return (name, name, name)


PATHOLOGIES: tuple[Pathology, ...] = (
    Pathology("healthy", _called("Harbor")),
    Pathology("healthy", _called("Haven"), batch_clock=True),
    Pathology("drifting", _called("Driftwood"), drift_days=10, drift=0.24),
    Pathology("broken_chain", _called("Link"), gap_every=9, rewind_every=31, repeat_every=23),
    Pathology("revoked_key", _called("Latch"), revoked_after=2 / 3),
    Pathology("stuck_fragile", _called("Mire"), stuck_days=6),
    Pathology("relapsing", _called("Echo"), episodes_per_day=3.0, episode_traces=8, same_mode=True),
    Pathology(
        "overconfident",
        _called("Bravo"),
        plausibility=0.95,
        plausibility_spread=0.03,
        success_gap=0.40,
        overridden=0.01,
        deferrals_rejected=0.5,
    ),
    # Shares its first name with another agent, so that the name alone attributes nothing.
    Pathology("renamed", ("Haven", "Proteus", "Morpheus")),
    Pathology("new", _called("Sprout"), first_days=5),
    Pathology("silent", _called("Hush"), silent_days=3),
    Pathology("contradictory", _called("Paradox"), unsigned=0.05, unverified=0.08, overridden=0.12),
    Pathology("out_of_tune", _called("Offkey"), coherence=0.68, coherence_spread=0.02),
    Pathology("unreplayable", _called("Fable"), inconsistent=0.05),
)
"""Agent k has pathology k mod len(PATHOLOGIES); from the second round on, names carry the round's number."""


@dataclass(frozen=True)
class Fleet:
    """A simulated fleet, one frame per source table, columns in the order of the table.

    Times are `datetime64[us, UTC]`; booleans `boolean` and integers `Int64`, both nullable; everything else
    is `object`: str or None. Scores are the text of the SQL value ("0.90"), because a NaN that production admits
    is a value and not a null; `astype(float)` turns them into floats. Components are JSON text.
    """

    traces: pd.DataFrame
    deferrals: pd.DataFrame
    public_keys: pd.DataFrame
    batches: pd.DataFrame


@dataclass(frozen=True)
class FleetStream:
    """A fleet whose traces are made while they are read: for fleets that do not fit in memory.

    `traces` can be read once. `expected_traces` is their number without duplicates (about 0.3 percent more).
    """

    traces: Iterator[pd.DataFrame]
    expected_traces: int
    deferrals: pd.DataFrame
    public_keys: pd.DataFrame
    batches: pd.DataFrame


def simulate_fleet(
    agents: int, days: int, traces_per_day: float, seed: int, end: datetime, *, wide: bool = False
) -> Fleet:
    """Simulate a fleet in memory.

    :param agents: number of agents; agent k behaves as ``PATHOLOGIES[k % len(PATHOLOGIES)]``.
    :param days: length of the simulation; every trace lies in ``[end - days, end)``.
    :param traces_per_day: traces per agent and day on average.
    :param seed: any integer from 0 on; the same arguments give the same bytes.
    :param end: an aware time on a whole UTC hour.
    :param wide: add what production's components carry and no score reads (reasoning, token accounts): a row
        takes 1.7 KB in the database instead of 1.5.
    :raises ValueError: an argument is out of range.
    """
    plan = _Plan.make(agents, days, traces_per_day, seed, end)
    return Fleet(
        traces=pd.concat(_chunks(plan, wide, ROWS_PER_CHUNK), ignore_index=True),
        deferrals=_deferrals(plan),
        public_keys=_public_keys(plan),
        batches=_batches(plan),
    )


def iter_traces(
    agents: int,
    days: int,
    traces_per_day: float,
    seed: int,
    end: datetime,
    *,
    wide: bool = False,
    rows_per_chunk: int = ROWS_PER_CHUNK,
) -> Iterator[pd.DataFrame]:
    """Yield the traces of `simulate_fleet`, the same rows in the same order, in frames of whole days.

    A chunk holds all agents of as many days as make about `rows_per_chunk` rows (at least one day), so rows
    come interleaved in time, as they reach a production table, and physical order follows `timestamp`, except
    for a trace delivered again, which stands in the day of its first delivery. Parameters and errors as in
    `simulate_fleet`; they are checked before the first frame is asked for.
    """
    return _chunks(_Plan.make(agents, days, traces_per_day, seed, end), wide, rows_per_chunk)


def stream_fleet(
    agents: int,
    days: int,
    traces_per_day: float,
    seed: int,
    end: datetime,
    *,
    wide: bool = False,
    rows_per_chunk: int = ROWS_PER_CHUNK,
) -> FleetStream:
    """Simulate a fleet of any size: as `simulate_fleet`, with the traces of `iter_traces`."""
    plan = _Plan.make(agents, days, traces_per_day, seed, end)
    return FleetStream(
        traces=_chunks(plan, wide, rows_per_chunk),
        expected_traces=int(plan.n_traces.sum()),
        deferrals=_deferrals(plan),
        public_keys=_public_keys(plan),
        batches=_batches(plan),
    )


def fleet_roster(agents: int, seed: int) -> pd.DataFrame:
    """Return who is who: agent (number), pathology, agent_id, agent_id_hash, agent_name (last), key_id."""
    roster = _roster(agents, seed)
    columns = ("agent", "pathology", "agent_id", "agent_id_hash", "agent_name", "key_id")
    return _frame(roster, columns)


# --- randomness ---------------------------------------------------------------------------------------------


class _Stream(IntEnum):
    """What is counted: each kind of thing draws from numbers of its own."""

    TRACE = auto()
    TASK = auto()
    BLOCK = auto()
    DAY = auto()
    DEFERRAL = auto()
    ODD_DEFERRAL = auto()
    BATCH = auto()


class _Draw(IntEnum):
    """The independent draws of one thing; those that need several words are spaced out."""

    ACTION = auto()
    PLAUSIBILITY = auto()
    ALIGNMENT = auto()
    COHERENCE = auto()
    ENTROPY = auto()
    K_EFF = auto()
    SUCCESS = auto()
    SIGNED = auto()
    OVERRIDDEN = auto()
    CAUSE = auto()
    INCONSISTENT = auto()
    DUPLICATE = auto()
    DELAY = auto()
    RESIGNED = auto()
    REPROCESSED = auto()
    ONLY_ACTION = auto()
    BLANK = auto()
    DIRTY = auto()
    ACCOUNT = auto()
    PROSE = auto()
    START = auto()
    PAUSE = auto()
    SECOND_PAUSE = auto()
    PRIORITY = auto()
    DURATION = auto()
    CONTRADICTION = auto()
    COUNT = auto()
    EPISODE = auto()
    EPISODE_SHAPE = auto()
    STATUS = auto()
    ATTRIBUTION = auto()
    IDENTIFIER = 100
    AUDIT_HASH = 110
    SIGNATURE = 120
    SECOND_SIGNATURE = 130


def _word(n: int) -> np.uint64:
    """Spread small integers over 64 bits (the increment of splitmix64)."""
    return np.uint64(n * 0x9E3779B97F4A7C15 & 0xFFFFFFFFFFFFFFFF)


def _mix(x: Bits) -> Bits:
    """Scramble 64-bit words: the finaliser of splitmix64."""
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


@dataclass(frozen=True)
class _Draws:
    """The generator of an array of things: a key each, from which draws can be had in any order."""

    keys: Bits

    @classmethod
    def of(cls, agent_keys: Bits, stream: _Stream, counters: npt.ArrayLike) -> _Draws:
        stream_keys = _mix(agent_keys ^ _word(stream))
        return cls(_mix(stream_keys + np.asarray(counters).astype(np.uint64) * _word(1)))

    def bits(self, draw: int) -> Bits:
        return _mix(self.keys + _word(draw))

    def below(self, draw: int, n: int | Ints) -> Ints:
        """Integers in [0, n), n up to 2³¹."""
        return ((self.bits(draw) >> np.uint64(33)).astype(np.int64) * n) >> 31

    def uniform(self, draw: int) -> Floats:
        """Numbers in [0, 1)."""
        return (self.bits(draw) >> np.uint64(11)).astype(np.float64) * 2.0**-53

    def chance(self, draw: int, share: float | Floats) -> Flags:
        return self.uniform(draw) < share

    def bell(self, draw: int) -> Floats:
        """Numbers with mean 0 and deviation 1 within ±3.47: four uniforms summed, near enough to normal."""
        lanes = self.bits(draw).view(np.uint16).reshape(-1, 4).sum(axis=1, dtype=np.int64)
        return (lanes - 131_070).astype(np.float64) / 37_837.0

    def octets(self, draw: int, words: int) -> npt.NDArray[np.uint8]:
        """Random bytes, 8 · words per thing."""
        fields = np.array([_word(draw + i) for i in range(words)])
        return _mix(self.keys[:, None] + fields).astype("<u8").view(np.uint8)

    def hexadecimal(self, draw: int, words: int, length: int) -> list[str]:
        return _slices(self.octets(draw, words).tobytes().hex(), 16 * words, length)

    def uuids(self) -> list[str]:
        digits = self.hexadecimal(_Draw.IDENTIFIER, 2, 32)
        return [f"{d[:8]}-{d[8:12]}-4{d[13:16]}-a{d[17:20]}-{d[20:]}" for d in digits]


def _slices(text: str, step: int, length: int) -> list[str]:
    return [text[i : i + length] for i in range(0, len(text), step)]


# --- the plan: everything about the agents, nothing about single traces -------------------------------------


# Relative activity by UTC hour: quiet nights, busy from 8 to 17.
_RHYTHM = np.array(
    [2, 1, 1, 1, 1, 2, 4, 7, 10, 12, 13, 12, 10, 11, 12, 12, 11, 9, 7, 6, 5, 4, 3, 2], dtype=np.int64
)


@dataclass(frozen=True)
class _Plan:
    """The agents: arrays of one value per agent, those per agent and day of the shape (agents, days)."""

    start: int
    end: int
    days: int
    traces_per_day: float
    fleet_key: Bits
    agent_keys: Bits
    roster: dict[str, Any]
    knobs: dict[str, npt.NDArray[Any]]
    newer: Flags
    """Agents of a newer version: the thought's id is the trace's, more keys in the components."""
    boundaries: dict[str, Ints]
    """Times that concern an agent: renamed_1, renamed_2, drift, stuck, revoked, last (exclusive)."""
    first_day: Ints
    last_day: Ints
    n_traces: Ints
    first_index: Ints
    """Number of the agent's traces before each day."""

    @classmethod
    def make(cls, agents: int, days: int, traces_per_day: float, seed: int, end: datetime) -> _Plan:
        if agents < 1 or days < 1 or not 0 < traces_per_day <= 10_000:
            raise ValueError("a fleet needs at least 1 agent, 1 day, and between 0 and 10,000 traces per day")
        if seed < 0:
            raise ValueError(f"the seed must not be negative, got {seed}")
        if end.tzinfo is None or end.timestamp() % 3600 != 0:
            raise ValueError(f"the end must be an aware time on a whole UTC hour, got {end.isoformat()}")

        end_us = int(end.timestamp()) * SECOND
        start_us = end_us - days * DAY
        roster = _roster(agents, seed)
        kind = np.arange(agents) % len(PATHOLOGIES)
        knobs = {
            field.name: np.array([getattr(pathology, field.name) for pathology in PATHOLOGIES])[kind]
            for field in dataclasses.fields(Pathology)
            if field.name not in ("name", "names")
        }
        digest = hashlib.sha256(f"fleet {seed}".encode()).hexdigest()
        fleet_key = np.array([int(digest[:16], 16)], dtype=np.uint64)
        agent_keys = _mix(fleet_key + np.arange(agents, dtype=np.uint64) * _word(1))

        first_day = np.where(knobs["first_days"] > 0, np.maximum(days - knobs["first_days"], 0), 0)
        last_day = np.maximum(days - knobs["silent_days"], 1)  # exclusive
        n_traces = _daily_traces(agent_keys, days, traces_per_day, first_day, last_day)

        def days_before_end(knob: str) -> Ints:
            return np.where(knobs[knob] > 0, np.maximum(end_us - knobs[knob] * DAY, start_us + DAY), NEVER)

        renamed = np.array([len(set(PATHOLOGIES[k].names)) > 1 for k in kind])
        revoked_on = start_us + (knobs["revoked_after"] * days).astype(np.int64) * DAY
        return cls(
            start=start_us,
            end=end_us,
            days=days,
            traces_per_day=traces_per_day,
            fleet_key=fleet_key,
            agent_keys=agent_keys,
            roster=roster,
            knobs=knobs,
            newer=(np.arange(agents) + np.arange(agents) // len(PATHOLOGIES)) % 2 == 0,
            boundaries={
                "renamed_1": np.where(renamed, start_us + days * DAY // 2, NEVER),
                "renamed_2": np.where(renamed, max(end_us - 7 * DAY, start_us + days * DAY // 2), NEVER),
                "drift": days_before_end("drift_days"),
                "stuck": days_before_end("stuck_days"),
                "revoked": np.where(knobs["revoked_after"] < 1, revoked_on, NEVER),
                "last": start_us + last_day * DAY,
            },
            first_day=first_day,
            last_day=last_day,
            n_traces=n_traces,
            first_index=np.cumsum(n_traces, axis=1) - n_traces,
        )

    def names_at(self, agent: Ints, time: Ints) -> Texts:
        """Return the name each agent bears at a time."""
        era = (time >= self.boundaries["renamed_1"][agent]).astype(np.int64)
        era += time >= self.boundaries["renamed_2"][agent]
        return self.roster["names"][agent, era]

    def time_of_day(self, bits: Bits) -> Ints:
        """Map random words to microseconds into a day of the plan, following the hours' activity."""
        weights = np.roll(_RHYTHM, -(self.start // HOUR % 24))
        ends = np.cumsum(weights) << 24
        position = (bits >> np.uint64(40)).astype(np.int64) * int(weights.sum())
        hour = np.searchsorted(ends, position, side="right")
        return hour * HOUR + (position - ends[hour] + (weights[hour] << 24)) * HOUR // (weights[hour] << 24)


def _roster(agents: int, seed: int) -> dict[str, Any]:
    """Return the columns of `fleet_roster`, and `names` (agents × 3) and `public_key` (bytes)."""
    roster: dict[str, Any] = {
        column: []
        for column in (
            "pathology",
            "agent_id",
            "agent_id_hash",
            "agent_name",
            "names",
            "public_key",
            "key_id",
        )
    }
    for k in range(agents):
        pathology, turn = PATHOLOGIES[k % len(PATHOLOGIES)], k // len(PATHOLOGIES)
        names = [name if turn == 0 else f"{name} {turn + 1}" for name in pathology.names]
        digest = hashlib.sha256(f"agent {seed} {k}".encode()).hexdigest()
        agent_id = f"{names[0].lower().replace(' ', '-')}-{digest[:6]}"
        public_key = hashlib.sha256(f"public key {seed} {k}".encode()).digest()
        roster["pathology"].append(pathology.name)
        roster["agent_id"].append(agent_id)
        roster["agent_id_hash"].append(hashlib.sha256(agent_id.encode()).hexdigest()[:16])
        roster["agent_name"].append(names[-1])
        roster["names"].append(names)
        roster["public_key"].append(public_key)
        # As agents do it: the key's name is the beginning of its own hash.
        roster["key_id"].append("agent-" + hashlib.sha256(public_key).hexdigest()[:12])
    return {
        "agent": np.arange(agents),
        **{column: np.array(values, dtype=object) for column, values in roster.items()},
    }


def _daily_traces(
    agent_keys: Bits, days: int, traces_per_day: float, first_day: Ints, last_day: Ints
) -> Ints:
    """Return how many traces each agent has on each day: whole tasks, ±30 percent around the mean."""
    day = np.arange(days)
    draws = _Draws.of(agent_keys[:, None], _Stream.DAY, day)
    mean = traces_per_day / THOUGHTS_PER_TASK
    tasks = (mean * (0.7 + 0.6 * draws.uniform(_Draw.COUNT)) + draws.uniform(_Draw.START)).astype(np.int64)
    # An agent exists from its first day on, so that what precedes its first trace is known.
    tasks = np.where(day == first_day[:, None], np.maximum(tasks, 1), tasks)
    active = (day >= first_day[:, None]) & (day < last_day[:, None])
    return np.where(active, tasks, 0) * THOUGHTS_PER_TASK


# --- the schedule: which trace of which agent when ----------------------------------------------------------


@dataclass(frozen=True)
class _Rows:
    """The rows of a chunk, in physical order, with what every later step needs to know about them."""

    agent: Ints
    index: Ints
    """Position in the agent's history, from 0."""
    time: Ints
    """When the thought was completed."""
    delivered: Ints
    """The row's timestamp; differs from `time` for duplicates and for installations with a batch clock."""
    duplicate: Flags
    draws: _Draws


def _chunks(plan: _Plan, wide: bool, rows_per_chunk: int) -> Iterator[pd.DataFrame]:
    per_day = plan.n_traces.sum(axis=0)
    first = 0
    while first < plan.days:
        last = first + 1
        while last < plan.days and per_day[first : last + 1].sum() <= rows_per_chunk:
            last += 1
        rows = _schedule(plan, first, last)
        yield _render(plan, rows, _live(plan, rows), wide)
        first = last


def _schedule(plan: _Plan, first_day: int, last_day: int) -> _Rows:
    """Return the rows of the days [first_day, last_day), a day after the other, by timestamp within each."""
    counts = plan.n_traces[:, first_day:last_day].T.ravel()
    group = np.repeat(np.arange(counts.size), counts)
    day, agent = first_day + group // len(plan.agent_keys), group % len(plan.agent_keys)
    index = (
        plan.first_index[agent, day] + np.arange(group.size) - np.repeat(np.cumsum(counts) - counts, counts)
    )
    draws = _Draws.of(plan.agent_keys[agent], _Stream.TRACE, index)

    # A task takes up to 8 minutes; the last one starts 10 minutes before the day ends.
    task = _Draws.of(plan.agent_keys[agent], _Stream.TASK, index // THOUGHTS_PER_TASK)
    start = plan.time_of_day(task.bits(_Draw.START)) * 143 // 144
    position = index % THOUGHTS_PER_TASK
    pause_1 = 4 * SECOND + task.below(_Draw.PAUSE, 86 * SECOND)
    pause_2 = 10 * SECOND + task.below(_Draw.SECOND_PAUSE, 390 * SECOND)
    moment = start + np.where(position > 0, pause_1, 0) + np.where(position > 1, pause_2, 0)
    # Tasks of a day come in no order; sorting inside each agent and day makes time follow the index.
    time = np.sort(group * (2 * DAY) + moment) - group * (2 * DAY) + plan.start + day * DAY

    tick = 5 * MINUTE
    delivered = np.where(plan.knobs["batch_clock"][agent], time // tick * tick + tick - SECOND, time)

    late = delivered + HOUR + draws.below(_Draw.DELAY, 9 * 3600) * SECOND + 7
    again = np.flatnonzero(draws.chance(_Draw.DUPLICATE, 0.003) & (late < plan.boundaries["last"][agent]))
    pick = np.concatenate([np.arange(index.size), again])
    delivered = np.concatenate([delivered, late[again]])
    duplicate = np.arange(pick.size) >= index.size
    order = np.lexsort((index[pick], agent[pick], delivered, day[pick]))
    pick = pick[order]
    return _Rows(
        agent[pick], index[pick], time[pick], delivered[order], duplicate[order], _Draws(draws.keys[pick])
    )


# --- the life: what each trace says -------------------------------------------------------------------------


class _Ethics(IntEnum):
    """How far the conscience looks at an action; each adds keys to its result."""

    EXEMPT = 0
    LEVELS = auto()
    COHERENCE = auto()
    FULL = auto()


# Action, its share among a task's thoughts before the last one, how far the conscience looks at it.
_ACTIONS = (
    ("SPEAK", 54, _Ethics.FULL),
    ("TOOL", 12, _Ethics.FULL),
    ("PONDER", 10, _Ethics.LEVELS),
    ("DEFER", 4, _Ethics.COHERENCE),
    ("MEMORIZE", 8, _Ethics.LEVELS),
    ("FORGET", 1, _Ethics.LEVELS),
    ("RECALL", 5, _Ethics.EXEMPT),
    ("OBSERVE", 4, _Ethics.EXEMPT),
    ("REJECT", 2, _Ethics.EXEMPT),
    ("TASK_COMPLETE", 0, _Ethics.EXEMPT),  # always the last one
)
_TASK_COMPLETE = len(_ACTIONS) - 1
_UP_TO_ACTION = np.cumsum([share for _, share, _ in _ACTIONS])
_ETHICS = np.array([ethics for *_, ethics in _ACTIONS], dtype=np.int64)

_ENTROPY_THRESHOLD, _COHERENCE_THRESHOLD = 4_000, 6_000  # in ten-thousandths, as agents have them
_BLOCK = 12
"""Traces per block of an agent's history; a block holds at most one fragile episode, and its end."""


@dataclass(frozen=True)
class _Lives:
    """What happened, one value per row: scores in thousandths, levels in ten-thousandths, verdicts."""

    action: Ints
    ethics: Ints
    plausibility: Ints
    alignment: Ints
    coherence: Ints
    entropy: Ints
    coherence_passed: Flags
    entropy_passed: Flags
    veto_passed: Flags
    conscience_passed: Flags
    success: Flags
    fragile: Flags
    mode: Ints
    sequence: Ints
    only_action: Flags


def _live(plan: _Plan, rows: _Rows) -> _Lives:
    draws, knob = rows.draws, {name: values[rows.agent] for name, values in plan.knobs.items()}

    working = np.searchsorted(_UP_TO_ACTION, draws.below(_Draw.ACTION, int(_UP_TO_ACTION[-1])), side="right")
    action = np.where(rows.index % THOUGHTS_PER_TASK == THOUGHTS_PER_TASK - 1, _TASK_COMPLETE, working)
    ethics = _ETHICS[action]

    drift = np.where(rows.time >= plan.boundaries["drift"][rows.agent], knob["drift"], 0.0)
    plausibility = knob["plausibility"] - drift + knob["plausibility_spread"] * draws.bell(_Draw.PLAUSIBILITY)
    alignment = knob["alignment"] - drift + 0.05 * draws.bell(_Draw.ALIGNMENT)
    coherence = knob["coherence"] - drift / 2 + knob["coherence_spread"] * draws.bell(_Draw.COHERENCE)
    entropy = 0.14 + 0.05 * draws.bell(_Draw.ENTROPY)

    # An override has a cause: too much entropy where that is checked, else the optimisation veto.
    overridden = draws.chance(_Draw.OVERRIDDEN, knob["overridden"]) & (ethics != _Ethics.EXEMPT)
    cause = draws.uniform(_Draw.CAUSE)
    entropic = overridden & (ethics == _Ethics.FULL) & (cause < 0.7)
    coherence_units = np.where(ethics == _Ethics.EXEMPT, 10_000, _units(coherence, 10_000))
    entropy_units = _units(np.where(entropic, 0.42 + 0.7 * cause, np.minimum(entropy, 0.39)), 10_000)
    entropy_units = np.where(ethics == _Ethics.EXEMPT, 0, entropy_units)
    veto_passed = ~(overridden & ~entropic)
    entropy_passed = entropy_units <= _ENTROPY_THRESHOLD
    coherence_passed = coherence_units >= _COHERENCE_THRESHOLD
    checks_coherence = ethics >= _Ethics.COHERENCE

    fragile, mode = _fragility(plan, rows, knob)
    return _Lives(
        action=action,
        ethics=ethics,
        plausibility=_units(plausibility, 1_000),
        alignment=_units(alignment, 1_000),
        coherence=coherence_units,
        entropy=entropy_units,
        coherence_passed=coherence_passed,
        entropy_passed=entropy_passed,
        veto_passed=veto_passed,
        conscience_passed=veto_passed & entropy_passed & (coherence_passed | ~checks_coherence),
        success=draws.chance(_Draw.SUCCESS, np.clip(plausibility - knob["success_gap"], 0.02, 0.995)),
        fragile=fragile,
        mode=mode,
        sequence=_sequence(rows.index, knob),
        only_action=plan.newer[rows.agent] & draws.chance(_Draw.ONLY_ACTION, 0.004),
    )


def _units(score: Floats, scale: int) -> Ints:
    """Round scores to integers of 1/scale within [0, 1]."""
    return np.floor(np.clip(score, 0.0, 1.0) * scale + 0.5).astype(np.int64)


def _fragility(plan: _Plan, rows: _Rows, knob: dict[str, npt.NDArray[Any]]) -> tuple[Flags, Ints]:
    """Return the flag, and the failure mode (index into _MODES) that holds for a whole episode."""
    block = _Draws.of(plan.agent_keys[rows.agent], _Stream.BLOCK, rows.index // _BLOCK)
    happens = block.chance(
        _Draw.EPISODE, np.minimum(knob["episodes_per_day"] * _BLOCK / plan.traces_per_day, 0.9)
    )
    begin = block.below(_Draw.START, 2) * THOUGHTS_PER_TASK
    length = 1 + block.below(_Draw.EPISODE_SHAPE, knob["episode_traces"])
    into = rows.index % _BLOCK - begin
    episode = happens & (into >= 0) & (into < length)
    stuck = rows.time >= plan.boundaries["stuck"][rows.agent]
    mode = np.where(knob["same_mode"] | stuck, 0, block.below(_Draw.CAUSE, len(_MODES)))
    return episode | stuck, mode


def _sequence(index: Ints, knob: dict[str, npt.NDArray[Any]]) -> Ints:
    """Return audit sequence numbers: 1, 2, … with the gaps, rewinds and repeats that the knobs ask for."""

    def turn(name: str) -> Flags:
        every = knob[name]
        return (every > 0) & (index % np.maximum(every, 1) == every // 2)

    gaps = np.where(knob["gap_every"] > 0, index // np.maximum(knob["gap_every"], 1), 0)
    return index + 1 + 2 * gaps - 4 * turn("rewind_every") - turn("repeat_every")


# --- the rows: what the table holds -------------------------------------------------------------------------


_MODES = ("rigidity", "chaos", "fragmentation")
_NAN_LIKE = {
    # What the production types let in although no score may be so.
    "score": np.array(["NaN", "1.50", "-0.50"], dtype=object),
    "level": np.array(["NaN", "1.5000", "-0.0500"], dtype=object),
    "k_eff": np.array(["NaN", "-1", "Infinity"], dtype=object),
}
_SENTENCES = (
    "The request is plausible given what is known about the channel and its history.",
    "No contradiction with earlier statements; the stated facts can be checked.",
    "Several sources agree, although two of them may share an origin.",
    "The person may be affected by the outcome, so the wording stays reversible.",
    "To defer would cost time and gain little here.",
)


@dataclass(frozen=True)
class _Tables:
    """Text of every value a column or a component can take, looked up instead of formatted."""

    score: Texts
    score_json: Texts
    score_json_fine: Texts
    level: Texts
    level_json: Texts
    boolean: Texts
    k_eff: Texts
    clock: Texts
    accounts: Texts
    execution_ms: Texts
    reasoning: Texts


@functools.cache
def _tables() -> _Tables:
    def table(values: Iterator[str]) -> Texts:
        return np.array(list(values), dtype=object)

    def account(i: int) -> str:
        tokens = 30_000 + 947 * i
        return f',"cost_cents":{2.3 * tokens / 1e5:.5f},"llm_calls":{4 + i % 6},"tokens_total":{tokens}'

    return _Tables(
        score=table(f"{i / 100:.2f}" for i in range(101)),
        score_json=table(repr(i / 100) for i in range(101)),
        score_json_fine=table(repr(i / 1_000) for i in range(1_001)),
        level=table(f"{i / 10_000:.4f}" for i in range(10_001)),
        level_json=table(repr(i / 10_000) for i in range(10_001)),
        boolean=table(iter(("false", "true"))),
        k_eff=table(f"{i / 100:.2f}" for i in range(501)),
        clock=table(f"{s // 3600:02d}{s // 60 % 60:02d}{s % 60:02d}" for s in range(86_400)),
        accounts=table(account(i) for i in range(128)),
        execution_ms=table(f"{2 + 0.937 * i:.3f}" for i in range(64)),
        reasoning=table(f',"reasoning":"{sentence}"' for sentence in _SENTENCES),
    )


def _render(plan: _Plan, rows: _Rows, lives: _Lives, wide: bool) -> pd.DataFrame:
    """Return the rows as the table holds them; columns as in `Fleet.traces`."""
    tables, draws = _tables(), rows.draws
    newer = plan.newer[rows.agent]
    whole = ~lives.only_action  # of the others, only the result of the action arrived

    trace_id, thought_id = _identifiers(plan, rows, newer)
    audit_hash = draws.hexadecimal(_Draw.AUDIT_HASH, 4, 64)
    sequence = list(map(str, lives.sequence.tolist()))
    signed = draws.uniform(_Draw.SIGNED)
    unsigned = signed < plan.knobs["unsigned"][rows.agent]
    unverified = signed > 1 - plan.knobs["unverified"][rows.agent]
    resigned = rows.duplicate & draws.chance(_Draw.RESIGNED, 0.5)
    plausibility, alignment = (lives.plausibility + 5) // 10, (lives.alignment + 5) // 10
    has_coherence = whole & (lives.ethics >= _Ethics.COHERENCE)
    has_entropy = whole & (lives.ethics != _Ethics.EXEMPT)
    blank = draws.below(_Draw.BLANK, 4_000)

    action = np.array([f"HandlerActionType.{name}" for name, *_ in _ACTIONS], dtype=object)[lives.action]
    lower = np.array([name.lower() for name, *_ in _ACTIONS], dtype=object)[lives.action]
    modes = np.array(_MODES, dtype=object)[lives.mode]
    k_eff = np.where(lives.fragile, 100 + draws.below(_Draw.K_EFF, 90), 210 + draws.below(_Draw.K_EFF, 280))

    def dirty(values: Texts, kind: str, slot: int) -> Texts:
        """Replace about one in a thousand values, never the same trace in two columns."""
        fate = draws.below(_Draw.DIRTY, 30_000) - 100 * slot
        return np.where((fate >= 0) & (fate < 30), _NAN_LIKE[kind][fate % 3], values)

    # No blank id where many rows share a timestamp: the two make up the primary key.
    blank_id = (blank == 0) & ~plan.knobs["batch_clock"][rows.agent]
    kind = np.where(
        draws.chance(_Draw.INCONSISTENT, plan.knobs["inconsistent"][rows.agent]),
        1 + draws.below(_Draw.CONTRADICTION, 3),
        0,
    )
    columns: dict[str, Any] = {
        "trace_id": np.where(blank_id, "", trace_id),
        "thought_id": np.where(blank == 1, "", thought_id),
        "agent_id_hash": plan.roster["agent_id_hash"][rows.agent],
        "agent_name": _null_unless(whole, np.where(blank == 2, "  ", plan.names_at(rows.agent, rows.time))),
        "timestamp": _times(rows.delivered),
        "signature": _null_unless(~unsigned, _signatures(draws, resigned)),
        "signature_verified": _nullable(~unverified, unsigned),
        "signature_key_id": plan.roster["key_id"][rows.agent],
        "audit_entry_hash": np.array(audit_hash, dtype=object),
        "audit_sequence_number": pd.array(lives.sequence, dtype="Int64"),
        "csdma_plausibility_score": _null_unless(whole, dirty(tables.score[plausibility], "score", 0)),
        "dsdma_domain_alignment": _null_unless(whole, dirty(tables.score[alignment], "score", 1)),
        "idma_k_eff": _null_unless(whole, dirty(tables.k_eff[k_eff], "k_eff", 2)),
        "idma_fragility_flag": _nullable(lives.fragile, ~whole),
        "idma_phase": _null_unless(
            whole, np.where(blank == 3, "", np.where(lives.fragile, modes, "healthy"))
        ),
        "conscience_passed": _nullable(lives.conscience_passed, ~whole),
        "action_was_overridden": _nullable(~lives.conscience_passed, ~whole),
        "entropy_level": _null_unless(has_entropy, dirty(tables.level[lives.entropy], "level", 3)),
        "coherence_level": _null_unless(whole, dirty(tables.level[lives.coherence], "level", 4)),
        "coherence_passed": _nullable(lives.coherence_passed, ~has_coherence),
        "selected_action": np.where(blank == 4, " ", np.where(whole, action, lower)),
        "action_success": _nullable(lives.success, np.zeros_like(whole)),
        "thought_start": _null_unless(whole, _thought_start(rows, newer)),
        "dma_results": _null_unless(whole, _dma_results(rows, lives, newer, kind == 1, wide)),
        "conscience_result": _null_unless(whole, _conscience_result(lives, action, newer, kind == 2)),
        "action_result": _action_result(rows, lives, lower, audit_hash, sequence, newer, kind == 3, wide),
    }
    return _frame(columns, TRACE_COLUMNS)


def _identifiers(plan: _Plan, rows: _Rows, newer: Flags) -> tuple[Texts, Texts]:
    """Return trace ids and thought ids. Newer agents now and then reprocess a thought under its old id."""
    reprocessed = (
        newer
        & ~plan.knobs["batch_clock"][rows.agent]
        & (rows.index > 0)
        & rows.draws.chance(_Draw.REPROCESSED, 0.002)
    )
    thought = rows.index - reprocessed
    agent_keys = plan.agent_keys[rows.agent]
    own = _Draws.of(agent_keys, _Stream.TRACE, thought).hexadecimal(_Draw.IDENTIFIER, 1, 11)
    task = _Draws.of(agent_keys, _Stream.TASK, thought // THOUGHTS_PER_TASK).hexadecimal(
        _Draw.IDENTIFIER, 1, 8
    )
    origin = np.where(thought % THOUGHTS_PER_TASK == 0, "seed", "followup").tolist()
    thought_id = [f"th_{o}_{t}_{i[:8]}-{i[8:]}" for o, t, i in zip(origin, task, own, strict=True)]

    first_day = plan.start // DAY
    dates = [
        (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(days=first_day + i)).strftime("%Y%m%d")
        for i in range(plan.days + 1)
    ]
    date = np.array(dates, dtype=object)[rows.time // DAY - first_day]
    clock = _tables().clock[rows.time // SECOND % 86_400]
    trace_id = [
        th if n else f"trace-{th}-{d}{c}"
        for th, n, d, c in zip(thought_id, newer.tolist(), date.tolist(), clock.tolist(), strict=True)
    ]
    return np.array(trace_id, dtype=object), np.array(thought_id, dtype=object)


def _signatures(draws: _Draws, resigned: Flags) -> Texts:
    """Return random bytes in the shape of an Ed25519 signature, base64url without padding (86 characters)."""
    # 66 bytes a row, a multiple of 3, so that all rows can be encoded at once.
    octets = np.zeros((draws.keys.size, 66), dtype=np.uint8)
    octets[:, :64] = draws.octets(_Draw.SIGNATURE, 8)
    if resigned.any():
        octets[resigned, :64] = _Draws(draws.keys[resigned]).octets(_Draw.SECOND_SIGNATURE, 8)
    octets[:, 63] &= 0x0F
    return np.array(_slices(base64.urlsafe_b64encode(octets.tobytes()).decode("ascii"), 88, 86), dtype=object)


def _thought_start(rows: _Rows, newer: Flags) -> Texts:
    def text(channel: int, newer: bool, priority: int, depth: int) -> str:
        more = (
            f',"channel_id":"api_chan_{channel}","thought_status":"processing",'
            f'"thought_type":"{"follow_up" if depth else "standard"}"'
        )
        return (
            f'{{"attempt_index":0,"round_number":0,"task_priority":{priority},"thought_depth":{depth},'
            f'"updated_info_available":false{more if newer else ""}}}'
        )

    choices = (range(8), (False, True), (0, 5), range(THOUGHTS_PER_TASK))
    texts = np.array([text(*choice) for choice in itertools.product(*choices)], dtype=object)
    urgent = rows.draws.below(_Draw.PRIORITY, 2)
    return texts[
        ((rows.agent % 8 * 2 + newer) * 2 + urgent) * THOUGHTS_PER_TASK + rows.index % THOUGHTS_PER_TASK
    ]


def _dma_results(rows: _Rows, lives: _Lives, newer: Flags, inconsistent: Flags, wide: bool) -> Texts:
    """Older agents send two decimals, newer ones three (the columns round them) and every score twice."""
    tables = _tables()
    plausibility = np.where(inconsistent, np.maximum(lives.plausibility - 150, 0), lives.plausibility)

    def text(score: Ints) -> list[str]:
        coarse = tables.score_json[(score + 5) // 10]
        return np.where(newer, tables.score_json_fine[score], coarse).tolist()

    reasoning = _ballast(rows, tables.reasoning, _Draw.PROSE, wide).tolist()
    twice = (
        '{{"csdma":{{"plausibility_score":{0}{2}}},"csdma_plausibility_score":{0},'
        '"dsdma":{{"domain":"general","domain_alignment":{1}}},"dsdma_domain_alignment":{1}}}'
    ).format
    once = '{{"csdma":{{"plausibility_score":{0}{2}}},"dsdma":{{"domain_alignment":{1}}}}}'.format
    values = zip(text(plausibility), text(lives.alignment), reasoning, strict=True)
    return np.array(
        [(twice if n else once)(*v) for n, v in zip(newer.tolist(), values, strict=True)], dtype=object
    )


_CONSCIENCE_KEYS = {
    # Keys in the order agents send them; the numbers are those of the arguments in _conscience_result.
    _Ethics.EXEMPT: '"coherence_level":1.0,"conscience_passed":{1},"entropy_level":0.0,',
    _Ethics.LEVELS: '"coherence_level":{2},"conscience_passed":{1},"entropy_level":{3},{veto}',
    _Ethics.COHERENCE: (
        '"coherence_level":{2},"coherence_passed":{4},"coherence_score":{2},"coherence_threshold":0.6,'
        '"conscience_passed":{1},"entropy_level":{3},{veto}'
    ),
    _Ethics.FULL: (
        '"coherence_level":{2},"coherence_passed":{4},"coherence_score":{2},"coherence_threshold":0.6,'
        '"conscience_passed":{1},"entropy_level":{3},"entropy_passed":{5},"entropy_score":{3},'
        '"entropy_threshold":0.4,{veto}'
    ),
}
_VETO_KEYS = (
    '"epistemic_humility_certainty":0.7,"epistemic_humility_passed":true,"ethical_faculties_skipped":false,'
    '"optimization_veto_entropy_ratio":0.1,"optimization_veto_passed":{6},"thought_depth_triggered":false,'
)


def _conscience_result(lives: _Lives, action: Texts, newer: Flags, inconsistent: Flags) -> Texts:
    tables = _tables()
    final_action = np.where(newer, ',"final_action":"' + action + '"', "")
    arguments = (
        tables.boolean[(~lives.conscience_passed).astype(np.int64)],
        tables.boolean[(lives.conscience_passed ^ inconsistent).astype(np.int64)],
        tables.level_json[lives.coherence],
        tables.level_json[lives.entropy],
        tables.boolean[lives.coherence_passed.astype(np.int64)],
        tables.boolean[lives.entropy_passed.astype(np.int64)],
        tables.boolean[lives.veto_passed.astype(np.int64)],
        final_action,
    )
    result = np.empty(lives.ethics.size, dtype=object)
    for ethics, keys in _CONSCIENCE_KEYS.items():
        template = (
            '{{"action_was_overridden":{0},"attempt_index":0,'
            + keys.replace("{veto}", _VETO_KEYS)
            + '"is_recursive":false,"updated_status_detected":false{7}}}'
        ).format
        where = np.flatnonzero(lives.ethics == ethics)
        result[where] = list(map(template, *(argument[where].tolist() for argument in arguments)))
    return result


def _action_result(
    rows: _Rows,
    lives: _Lives,
    lower: Texts,
    audit_hash: list[str],
    sequence: list[str],
    newer: Flags,
    inconsistent: Flags,
    wide: bool,
) -> Texts:
    tables, succeeded = _tables(), (lives.success ^ inconsistent).astype(np.int64)
    executed = np.where(newer, '"action_executed":"' + lower + '",', "")
    also = np.where(newer, np.array([',"success":false', ',"success":true'], dtype=object)[succeeded], "")
    template = (
        '{{{}"attempt_index":0,"audit_entry_hash":"{}","audit_sequence_number":{},"execution_success":{},'
        '"execution_time_ms":{},"has_execution_error":{},"has_positive_moment":false{}{}}}'
    ).format
    arguments = (
        executed.tolist(),
        audit_hash,
        sequence,
        tables.boolean[succeeded].tolist(),
        tables.execution_ms[rows.draws.below(_Draw.DURATION, tables.execution_ms.size)].tolist(),
        tables.boolean[1 - succeeded].tolist(),
        _ballast(rows, tables.accounts, _Draw.ACCOUNT, wide).tolist(),
        also.tolist(),
    )
    return np.array(list(map(template, *arguments)), dtype=object)


def _ballast(rows: _Rows, members: Texts, draw: _Draw, wide: bool) -> Texts:
    """Return further JSON members per row, if wanted: what production carries and no score reads."""
    return (
        members[rows.draws.below(draw, members.size)] if wide else np.full(rows.agent.size, "", dtype=object)
    )


# --- the other tables ---------------------------------------------------------------------------------------


_SUMMARIES = (
    "Approved as proposed.",
    "The authority confirmed the concern; the action was dropped.",
    "Approved with narrower scope.",
    "Answered the open question; the agent may go on.",
)
# Before the share that an agent's knob turns into REJECTED.
_STATUS_SHARES = {"RESOLVED": 87, "ESCALATED": 6, "WITHDRAWN": 1, "PENDING": 3, "UNDER_REVIEW": 3}
_UP_TO_STATUS = np.cumsum(list(_STATUS_SHARES.values()))


class _OddDeferral(NamedTuple):
    """A deferral planted to have one of every kind that scoring has a rule for."""

    status: str
    summary: str | None = None
    resolved_after: int | None = None
    """In hours; None: no time of resolution."""
    attributable: bool = True
    dated: bool = True


_ODD_DEFERRALS = (
    _OddDeferral("RESOLVED", _SUMMARIES[0]),
    _OddDeferral("ESCALATED", _SUMMARIES[2], 4),
    _OddDeferral("REJECTED", _SUMMARIES[1], 6),
    _OddDeferral("WITHDRAWN", None, 2),
    _OddDeferral("PENDING"),
    _OddDeferral("UNDER_REVIEW"),
    _OddDeferral("AUTO_CLOSED", None, 1),  # not in the published table
    _OddDeferral(" resolved ", _SUMMARIES[3], 3),
    _OddDeferral("RESOLVED", _SUMMARIES[0], 2, attributable=False),
    _OddDeferral("RESOLVED", _SUMMARIES[0], 2, dated=False),
)


def _deferrals(plan: _Plan) -> pd.DataFrame:
    """Return the deferrals by creation time, the undated one last."""
    everything = pd.concat([_common_deferrals(plan), _odd_deferrals(plan)], ignore_index=True)
    return everything.sort_values("created_at", kind="stable", ignore_index=True)


def _common_deferrals(plan: _Plan) -> pd.DataFrame:
    """Return about 3 deferrals per 100 traces, at most one per day, from each agent's second day on."""
    day = np.arange(plan.days)
    draws = _Draws.of(plan.agent_keys[:, None], _Stream.DEFERRAL, day)
    active = (day > plan.first_day[:, None]) & (day < plan.last_day[:, None])
    agent, on = np.nonzero(active & draws.chance(_Draw.ACTION, 0.03 * plan.traces_per_day))
    draws = _Draws(draws.keys[agent, on])
    created = plan.start + on * DAY + plan.time_of_day(draws.bits(_Draw.START))
    resolved = created + 20 * MINUTE + draws.below(_Draw.DELAY, 30 * 3600) * SECOND

    outcome = np.searchsorted(_UP_TO_STATUS, draws.below(_Draw.STATUS, int(_UP_TO_STATUS[-1])), side="right")
    status = np.array(list(_STATUS_SHARES), dtype=object)[outcome]
    status = np.where(draws.chance(_Draw.CAUSE, plan.knobs["deferrals_rejected"][agent]), "REJECTED", status)
    # Nobody knows what will be decided after the end.
    status = np.where(resolved >= plan.end, "PENDING", status)
    decided = (status != "PENDING") & (status != "UNDER_REVIEW")
    summary = np.array(_SUMMARIES, dtype=object)[draws.below(_Draw.PROSE, len(_SUMMARIES))]
    summary = np.where(draws.chance(_Draw.BLANK, 0.04), " ", summary)

    # Half of the deferrals carry the agent's hash, some its raw id, some neither: those have only the name.
    how = draws.below(_Draw.ATTRIBUTION, 10)
    agent_id = np.where(how < 5, plan.roster["agent_id_hash"][agent], plan.roster["agent_id"][agent])
    columns = {
        "deferral_id": np.array(draws.uuids(), dtype=object),
        "agent_id": np.where(how < 8, agent_id, "unknown"),
        "agent_name": plan.names_at(agent, created),
        "status": status,
        "resolution_summary": _null_unless(decided, summary),
        "resolved_at": _times(np.where(decided, resolved, NEVER)),
        "created_at": _times(created),
    }
    return _frame(columns, DEFERRAL_COLUMNS)


def _odd_deferrals(plan: _Plan) -> pd.DataFrame:
    number = np.arange(len(_ODD_DEFERRALS))
    agent = number % len(plan.agent_keys)
    # Within the agent's life, and late enough for its first trace to come before.
    created = np.maximum(
        plan.boundaries["last"][agent] - (1 + number % 5) * (DAY // 2),
        plan.start + plan.first_day[agent] * DAY + DAY - HOUR,
    )
    resolved = [
        NEVER if odd.resolved_after is None else at + odd.resolved_after * HOUR
        for odd, at in zip(_ODD_DEFERRALS, created.tolist(), strict=True)
    ]
    attributable = np.array([odd.attributable for odd in _ODD_DEFERRALS])
    columns = {
        "deferral_id": np.array(
            _Draws.of(plan.fleet_key, _Stream.ODD_DEFERRAL, number).uuids(), dtype=object
        ),
        "agent_id": np.where(attributable, plan.roster["agent_id_hash"][agent], "nobody-000000"),
        "agent_name": np.where(attributable, plan.names_at(agent, created), "Nobody"),
        "status": np.array([odd.status for odd in _ODD_DEFERRALS], dtype=object),
        "resolution_summary": np.array([odd.summary for odd in _ODD_DEFERRALS], dtype=object),
        "resolved_at": _times(np.array(resolved)),
        "created_at": _times(np.where([odd.dated for odd in _ODD_DEFERRALS], created, NEVER)),
    }
    return _frame(columns, DEFERRAL_COLUMNS)


def _public_keys(plan: _Plan) -> pd.DataFrame:
    agents = len(plan.agent_keys)
    columns = {
        "key_id": plan.roster["key_id"],
        "public_key_base64": np.array(
            [base64.b64encode(k).decode() for k in plan.roster["public_key"]], dtype=object
        ),
        "algorithm": np.array(["ed25519"] * agents, dtype=object),
        "created_at": _times(np.full(agents, plan.start - 30 * DAY)),
        "expires_at": _times(np.where(np.arange(agents) % 3 == 0, plan.end + 365 * DAY, NEVER)),
        "revoked_at": _times(plan.boundaries["revoked"]),
    }
    return _frame(columns, PUBLIC_KEY_COLUMNS)


def _batches(plan: _Plan) -> pd.DataFrame:
    """Return one batch per hour of the fleet: a day's traces spread over its hours by their activity."""
    weights = np.roll(_RHYTHM, -(plan.start // HOUR % 24))
    until = np.concatenate([[0], np.cumsum(weights)])
    per_day = plan.n_traces.sum(axis=0)[:, None]
    accepted = np.diff(per_day * until // until[-1], axis=1).ravel()
    hour = np.arange(accepted.size)
    draws = _Draws.of(plan.fleet_key, _Stream.BATCH, hour)
    rejected = (0.008 * accepted * draws.uniform(_Draw.COUNT) + 1.05 * draws.uniform(_Draw.CAUSE)).astype(int)
    reason = np.array(["invalid_signature", "schema_violation"], dtype=object)[draws.below(_Draw.STATUS, 2)]
    columns = {
        "batch_id": np.array(draws.uuids(), dtype=object),
        "batch_timestamp": _times(plan.start + (hour + 1) * HOUR - SECOND),
        "consent_timestamp": _times(np.full(hour.size, plan.start - 30 * DAY)),
        "traces_received": pd.array(accepted + rejected, dtype="Int64"),
        "traces_accepted": pd.array(accepted, dtype="Int64"),
        "traces_rejected": pd.array(rejected, dtype="Int64"),
        "rejection_reasons": np.array(
            [
                f'{{"{r}":{n}}}' if n else "{}"
                for r, n in zip(reason.tolist(), rejected.tolist(), strict=True)
            ],
            dtype=object,
        ),
    }
    return _frame(columns, BATCH_COLUMNS)[accepted > 0].reset_index(drop=True)


def _null_unless(present: Flags, values: npt.NDArray[Any]) -> Texts:
    return np.where(present, values, np.array(None))


def _nullable(values: Flags, null: Flags) -> pd.arrays.BooleanArray:
    return pd.arrays.BooleanArray(values, null)


def _times(microseconds: Ints) -> pd.DatetimeIndex:
    """Return times, null where the value is NEVER."""
    times = np.where(microseconds == NEVER, np.iinfo(np.int64).min, microseconds).view("datetime64[us]")
    return pd.DatetimeIndex(times).tz_localize("UTC")


def _frame(columns: dict[str, Any], order: tuple[str, ...]) -> pd.DataFrame:
    # Text stays object: what pandas infers for it differs between its versions.
    return pd.DataFrame(
        {name: pd.Series(columns[name], dtype=columns[name].dtype, copy=False) for name in order},
        copy=False,
    )
