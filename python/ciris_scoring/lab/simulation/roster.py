"""Agents of a simulated fleet: names, identifiers and keys."""

import hashlib
from dataclasses import dataclass

import numpy as np

from ciris_scoring.lab.simulation.arrays import Texts
from ciris_scoring.lab.simulation.behaviours import PATHOLOGIES


@dataclass(frozen=True)
class Roster:
    """Names, identifiers and keys of the agents: arrays of one value per agent."""

    pathology: Texts
    agent_id: Texts
    agent_id_hash: Texts
    names: Texts
    """(agents, 3): first, middle and last name."""
    public_key: Texts
    """Public keys, as bytes."""
    key_id: Texts


def make_roster(agents: int, seed: int) -> Roster:
    """Return the agents of a fleet. An agent is the same in a fleet of any size."""
    who = [_agent(k, seed) for k in range(agents)]
    return Roster(*(np.array(values, dtype=object) for values in zip(*who, strict=True)))


def _agent(k: int, seed: int) -> tuple[str, str, str, list[str], bytes, str]:
    pathology, turn = PATHOLOGIES[k % len(PATHOLOGIES)], k // len(PATHOLOGIES)
    names = [name if turn == 0 else f"{name} {turn + 1}" for name in pathology.names]
    digest = hashlib.sha256(f"agent {seed} {k}".encode()).hexdigest()
    agent_id = f"{names[0].lower().replace(' ', '-')}-{digest[:6]}"
    agent_id_hash = hashlib.sha256(agent_id.encode()).hexdigest()[:16]
    public_key = hashlib.sha256(f"public key {seed} {k}".encode()).digest()
    # Real agents name a key by the beginning of its hash, too.
    key_id = "agent-" + hashlib.sha256(public_key).hexdigest()[:12]
    return pathology.name, agent_id, agent_id_hash, names, public_key, key_id
