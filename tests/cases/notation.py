"""Notation of the cases: traces and deferrals of agents, and the expected values of their scores at T.

By default a trace is perfect, but has no ``coherence_level``, so that no case corroborates another. An agent that has
only default traces has these factors:

C = 1, I_int = 0.9 (nine of ten fields), R = norm(1), I_inc = 1, S = 1

All cases are scored together, once by day and once by hour, and each is checked separately.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

Source = dict[str, Any]

T = datetime(2026, 3, 31, tzinfo=UTC)
"""As-of of the cases, the end of a UTC day."""

TRACES_FROM = T - timedelta(days=400)
"""Value of the variable ciris_traces_from."""


def ago(days: float = 0, hours: float = 0, minutes: float = 0, us: int = 0) -> datetime:
    """Return T minus the sum of the arguments."""
    return T - timedelta(days=days, hours=hours, minutes=minutes, microseconds=us)


def norm(x: float) -> float:
    """Return norm(x), the sigmoid in the formula of R (scoring.md §5)."""
    return 1 / (1 + math.exp(-5 * (x - 0.5)))


NEXT = object()
"""Marker of an audit number that is one more than the number of the previous trace."""


def traces(
    first: datetime, n: int = 1, *, agent: str = "A", every: timedelta = timedelta(minutes=1), **columns: Any
) -> list[Source]:
    """Return traces of an agent at constant intervals.

    :param columns: values that differ from the defaults. A list has one value per trace; a JSON array must be a tuple.
    """
    rows = []
    for i in range(n):
        own = {name: value[i] if isinstance(value, list) else value for name, value in columns.items()}
        row = {
            "agent": agent,
            "timestamp": first + i * every,
            "thought_id": "thought",
            "signature": "signature",
            "signature_verified": True,
            "signature_key_id": "key",
            "audit_entry_hash": "hash",
            "audit_sequence_number": NEXT,
            "csdma_plausibility_score": 1,
            "dsdma_domain_alignment": 1,
            "idma_k_eff": 2,
            "idma_fragility_flag": False,
            "idma_phase": None,
            "conscience_passed": True,
            "action_was_overridden": False,
            "entropy_level": 0.1,
            "coherence_level": None,
            "coherence_passed": True,
            "selected_action": "SPEAK",
            "action_success": True,
            "thought_start": {},
            "dma_results": None,
            "conscience_result": None,
            "action_result": {"audit_entry_hash": "hash"},
            "run_kind": None,
            "deployment_type": None,
            "models_used": None,
            "model": None,
            "deployment_profile": None,
            "trace_format_version": None,
        }
        rows.append(row | own)
    return rows


def deferral(created: datetime | None, status: str | None = "RESOLVED", **columns: Any) -> Source:
    """Return a deferral of agent A, identified by hash, with a summary and without resolved_at."""
    return {
        "agent": "A",
        "agent_name": None,
        "status": status,
        "resolution_summary": "done",
        "resolved_at": None,
        "created_at": created,
    } | columns


def key(key_id: str, **columns: datetime | None) -> Source:
    """Return a row of the key registry."""
    ends = {"created_at": None, "revoked_at": None, "expires_at": None}
    return {"key_id": key_id, "public_key_base64": "AA==", "algorithm": "ed25519", **ends, **columns}


@dataclass(frozen=True)
class Row:
    """Expected values of an agent's row at an as-of and window.

    Keys of ``values`` are columns of ``fct_capacity_scores``, components, and these: ``alerts`` (severity by kind),
    ``message.KIND`` (of an alert), ``red_flags`` (value by red flag and field), ``compared.FLAG`` and ``z.FLAG``,
    ``issues`` (count by data-quality issue), ``lost.COMPONENT`` and ``loss.COMPONENT`` (attribution),
    ``moved.COMPONENT`` (points since the previous window), ``failed`` (comparisons of replays that failed),
    ``deferrals_judged`` (deferrals whose outcome is known), ``overrides_without_judgement``.
    ``values`` is None if the row does not exist.
    """

    values: Mapping[str, Any] | None
    by_hour: Mapping[str, Any] = field(default_factory=dict)
    """Expected values that differ from ``values`` in hourly scoring."""
    agent: str = "A"
    window: int = 7
    at: datetime = T


@dataclass(frozen=True)
class Case:
    """A formula or an edge case. Its name begins with the section of the document that the module names."""

    name: str
    traces: Sequence[Source]
    expected: Sequence[Row] | Mapping[str, Any] = ()
    """Expected rows, or the values of agent A at T in the window of 7 days."""
    agents: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Expected values by agent at T in the window of 7 days."""
    deferrals: Sequence[Source] = ()
    keys: Sequence[Source] = ()
    hashes: Mapping[str, str] = field(default_factory=dict)
    """agent_id_hash of agents for which the case needs a certain hash. Other hashes are derived from the name."""

    @property
    def rows(self) -> Sequence[Row]:
        """Return the expected rows."""
        rows = [Row(self.expected)] if isinstance(self.expected, Mapping) else self.expected
        return [*rows, *(Row(values, agent=agent) for agent, values in self.agents.items())]

    def hash_of(self, agent: str) -> str:
        """Return the agent_id_hash of an agent of the case."""
        return self.hashes.get(agent, hashlib.md5(f"{self.name}|{agent}".encode()).hexdigest()[:16])

    @property
    def sources(self) -> dict[str, list[Source]]:
        """Return the rows of all source tables, with the key of default traces."""
        return {
            "covenant_traces": self.traces_of_source(),
            "wbd_deferrals": self.deferrals_of_source(),
            "covenant_public_keys": [key("key"), *self.keys],
        }

    def traces_of_source(self) -> list[Source]:
        """Return the case's rows of covenant_traces."""
        rows, last = [], dict[str, int]()
        for i, written in enumerate(sorted(self.traces, key=lambda row: row["timestamp"])):
            row = dict(written)
            agent = row.pop("agent")
            number = row["audit_sequence_number"]
            number = last.get(agent, 0) + 1 if number is NEXT else number
            last[agent] = last.get(agent, 0) if number is None else number
            agent_id_hash = self.hash_of(agent)
            rows.append(
                {"trace_id": f"{agent_id_hash}-{i}", "agent_name": f"name of {agent_id_hash}"}
                | row
                | {"agent_id_hash": agent_id_hash, "audit_sequence_number": number}
            )
        return rows

    def deferrals_of_source(self) -> list[Source]:
        """Return the case's rows of wbd_deferrals."""
        rows = []
        for i, written in enumerate(self.deferrals):
            row = dict(written)
            agent = row.pop("agent")
            digest = hashlib.md5(f"{self.name}|{i}".encode()).hexdigest()
            rows.append({"deferral_id": digest, "agent_id": self.hash_of(agent)} | row)
        return rows
