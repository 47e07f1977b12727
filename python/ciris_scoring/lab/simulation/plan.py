"""Plan of a simulated fleet: the agents with their behaviour, and the number of their traces on each day."""

import dataclasses
import hashlib
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from ciris_scoring.errors import InputError
from ciris_scoring.lab.simulation.arrays import DAY, HOUR, NEVER, SECOND, Bits, Flags, Ints, Texts
from ciris_scoring.lab.simulation.behaviours import PATHOLOGIES, Pathology
from ciris_scoring.lab.simulation.randomness import Draw, Draws, Stream, mix, word

THOUGHTS_PER_TASK = 3
"""Number of traces per task: a seed thought, a follow-up, and the completion."""

RHYTHM: Ints = np.array(
    [2, 1, 1, 1, 1, 2, 4, 7, 10, 12, 13, 12, 10, 11, 12, 12, 11, 9, 7, 6, 5, 4, 3, 2], dtype=np.int64
)
"""Relative activity by UTC hour: quiet nights, busy from 8 to 17 h."""

Knobs = dict[str, npt.NDArray[Any]]
"""Fields of `Pathology` by name, each as an array with one value per agent."""


@dataclass(frozen=True)
class Roster:
    """Pathologies, names, identifiers and keys of the agents: arrays with one value per agent."""

    pathology: Texts
    agent_id: Texts
    agent_id_hash: Texts
    names: Texts
    """Names, (agents, 3): the first, the second and the last name of each agent."""
    public_key: Texts
    """Public keys, as bytes."""
    key_id: Texts


@dataclass(frozen=True)
class Plan:
    """The agents of a fleet: arrays with one value per agent, or (agents, days). Times are in microseconds since 1970
    UTC."""

    start: int
    end: int
    days: int
    traces_per_day: float
    fleet_key: Bits
    agent_keys: Bits
    roster: Roster
    knobs: Knobs
    newer: Flags
    """Whether the agent has the newer version: trace id and thought id are equal, and JSON components have more
    keys."""
    boundaries: dict[str, Ints]
    """Times at which an agent's behaviour changes: renamed_1, renamed_2, drift, stuck, revoked, last (exclusive)."""
    first_day: Ints
    last_day: Ints
    n_traces: Ints
    first_index: Ints
    """Number of the agent's traces before each day."""

    @classmethod
    def make(cls, agents: int, days: int, traces_per_day: float, seed: int, end: datetime) -> Self:
        """Return the plan of a fleet.

        Parameters and errors are those of `simulate_fleet`.
        """
        if traces_per_day > 10_000 or end.tzinfo is None or end.timestamp() % 3600 != 0:
            raise InputError(
                f"This fleet cannot be simulated: {traces_per_day:,g} traces per day until {end.isoformat()}.",
                "At most 10,000 traces per day can be simulated, until a whole UTC hour.",
            )
        end_us = int(end.timestamp()) * SECOND
        start_us = end_us - days * DAY
        roster = make_roster(agents, seed)
        kind = np.arange(agents) % len(PATHOLOGIES)
        knobs = {
            field.name: np.array([getattr(pathology, field.name) for pathology in PATHOLOGIES])[kind]
            for field in dataclasses.fields(Pathology)
            if field.name not in ("name", "names")
        }
        digest = hashlib.sha256(f"fleet {seed}".encode()).hexdigest()
        fleet_key = np.array([int(digest[:16], 16)], dtype=np.uint64)
        agent_keys = mix(fleet_key + np.arange(agents, dtype=np.uint64) * word(1))

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
        """Return the name that each agent has at a time."""
        era = (time >= self.boundaries["renamed_1"][agent]).astype(np.int64)
        era += time >= self.boundaries["renamed_2"][agent]
        return self.roster.names[agent, era]

    def time_of_day(self, bits: Bits) -> Ints:
        """Convert random 64-bit words to times of day in microseconds. Active hours get more times than quiet hours."""
        weights = np.roll(RHYTHM, -(self.start // HOUR % 24))
        ends = np.cumsum(weights) << 24
        position = (bits >> np.uint64(40)).astype(np.int64) * int(weights.sum())
        hour = np.searchsorted(ends, position, side="right")
        width = weights[hour] << 24
        into: Ints = (position - ends[hour] + width) * HOUR // width
        return hour * HOUR + into


def _daily_traces(agent_keys: Bits, days: int, traces_per_day: float, first_day: Ints, last_day: Ints) -> Ints:
    """Return numbers of traces, (agents, days): multiples of `THOUGHTS_PER_TASK`, within about 30 % of the mean."""
    day = np.arange(days)
    draws = Draws.of(agent_keys[:, None], Stream.DAY, day)
    mean = traces_per_day / THOUGHTS_PER_TASK
    tasks = (mean * (0.7 + 0.6 * draws.uniform(Draw.COUNT)) + draws.uniform(Draw.START)).astype(np.int64)
    # Every agent has a trace on its first day, so that the day of its first trace is known.
    tasks = np.where(day == first_day[:, None], np.maximum(tasks, 1), tasks)
    active = (day >= first_day[:, None]) & (day < last_day[:, None])
    return np.where(active, tasks, 0) * THOUGHTS_PER_TASK


def make_roster(agents: int, seed: int) -> Roster:
    """Return the agents of a fleet. Agent k is the same agent in a fleet of any size."""
    who = [_agent(k, seed) for k in range(agents)]
    return Roster(*(np.array(values, dtype=object) for values in zip(*who, strict=True)))


def _agent(k: int, seed: int) -> tuple[str, str, str, list[str], bytes, str]:
    pathology, turn = PATHOLOGIES[k % len(PATHOLOGIES)], k // len(PATHOLOGIES)
    names = [name if turn == 0 else f"{name} {turn + 1}" for name in pathology.names]
    digest = hashlib.sha256(f"agent {seed} {k}".encode()).hexdigest()
    agent_id = f"{names[0].lower().replace(' ', '-')}-{digest[:6]}"
    agent_id_hash = hashlib.sha256(agent_id.encode()).hexdigest()[:16]
    public_key = hashlib.sha256(f"public key {seed} {k}".encode()).digest()
    # Like real agents, name the key by the beginning of its hash.
    key_id = "agent-" + hashlib.sha256(public_key).hexdigest()[:12]
    return pathology.name, agent_id, agent_id_hash, names, public_key, key_id
