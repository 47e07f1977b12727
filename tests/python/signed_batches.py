"""Batches as the three generations of agents send them, signed with keys of the tests' own."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import rfc8785
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

START = datetime(2026, 6, 1, 8, tzinfo=UTC)
NINE_OF_ENVELOPE = (
    "trace_id", "thought_id", "task_id", "agent_id_hash", "started_at", "completed_at", "trace_level",
    "trace_schema_version", "deployment_profile",
)  # fmt: skip


def urlsafe_unpadded(content: bytes) -> str:
    return base64.urlsafe_b64encode(content).decode().rstrip("=")


def standard(content: bytes) -> str:
    return base64.b64encode(content).decode()


@dataclass(frozen=True)
class Generation:
    """How agents of some versions name, sign and spell."""

    schema: str | None
    rule: str
    spell: Callable[[bytes], str]
    key_id: str
    named: bool = True


OLD = Generation(None, "components", urlsafe_unpadded, "agent-{:.12}", named=False)
MIDDLE = Generation("2.7.9", "sorted_json", urlsafe_unpadded, "agent-{:.12}")
NEW = Generation("3.0.0", "jcs", standard, "ciris-agent-bootstrap-{:.10}")
GENERATIONS = (OLD, MIDDLE, NEW)


def signed_bytes(trace: dict[str, Any], rule: str) -> bytes:
    """The bytes that an agent signs, written down once more, apart from the package."""
    if rule == "components":
        names = ("component_type", "data", "event_type", "timestamp")
        return json.dumps([{n: c[n] for n in names} for c in trace["components"]], sort_keys=True).encode()
    signed = {name: trace[name] for name in (*NINE_OF_ENVELOPE, "components")}
    if rule == "jcs":
        return rfc8785.dumps(signed)
    return json.dumps(signed, sort_keys=True, separators=(",", ":")).encode()


@dataclass
class Agent:
    """An agent with a key, which counts its audit entries."""

    generation: Generation = MIDDLE
    seed: int = 1
    sequence: int = field(default=0, init=False)

    @property
    def private_key(self) -> Ed25519PrivateKey:
        return Ed25519PrivateKey.from_private_bytes(hashlib.sha256(b"%d" % self.seed).digest())

    @property
    def public_bytes(self) -> bytes:
        return self.private_key.public_key().public_bytes_raw()

    @property
    def fingerprint(self) -> str:
        return hashlib.sha256(self.public_bytes).hexdigest()

    @property
    def hash(self) -> str:
        """Newer agents are called by their key's fingerprint, the older ones by something else."""
        return (
            hashlib.sha256(b"name %d" % self.seed).hexdigest()[:16]
            if self.generation is OLD
            else self.fingerprint[:16]
        )

    @property
    def key_id(self) -> str:
        return self.generation.key_id.format(self.fingerprint)

    @property
    def keys(self) -> dict[str, str]:
        return {self.key_id: standard(self.public_bytes)}

    def sign(self, trace: dict[str, Any]) -> dict[str, Any]:
        content = signed_bytes(trace, self.generation.rule)
        trace["signature"] = self.generation.spell(self.private_key.sign(content))
        trace["signature_key_id"] = self.key_id
        return trace

    def trace(
        self, *, text: str = "Grüße, 世界", at: datetime | None = None, **scores: Any
    ) -> dict[str, Any]:
        """The next trace, five minutes after the last."""
        self.sequence += 1
        started = at or START + timedelta(minutes=5 * self.sequence)
        moment = [(started + timedelta(seconds=second)).isoformat() for second in range(7)]
        thought = f"th_seed_{self.seed:08x}_{self.sequence:08x}"
        data = {
            "THOUGHT_START": {"thought_depth": 0, "round_number": 0, "note": text},
            "SNAPSHOT_AND_CONTEXT": {"agent_name": "Probe"} if self.generation.named else {},
            "DMA_RESULTS": {"csdma": {"plausibility_score": 0.91}, "dsdma": {"domain_alignment": 0.87}},
            "IDMA_RESULT": {"k_eff": 2.5, "fragility_flag": False, "phase": "healthy"},
            "ASPDMA_RESULT": {"selected_action": "HandlerActionType.SPEAK"},
            "CONSCIENCE_RESULT": {
                "conscience_passed": True, "action_was_overridden": False, "entropy_level": 0.1,
                "coherence_level": 0.9, "coherence_passed": True, "entropy_passed": True, "entropy_score": 0.1,
            },
            "ACTION_RESULT": {
                "execution_success": True, "audit_sequence_number": self.sequence,
                "audit_entry_hash": hashlib.sha256(thought.encode()).hexdigest(), "cost_cents": 2.8269200000000003,
            },
        }  # fmt: skip
        for name, value in scores.items():
            component = next(c for c in data.values() if name in c or name == "plausibility_score")
            component = data["DMA_RESULTS"]["csdma"] if name == "plausibility_score" else component
            component[name] = value
        trace = {
            "trace_id": f"trace-{thought}-{started:%Y%m%d%H%M%S}",
            "thought_id": thought,
            "task_id": "9d248d82-f516-4fa5-88f0-512abe49c69f",
            "agent_id_hash": self.hash,
            "started_at": moment[0],
            "completed_at": moment[-1],
            "trace_level": "generic",
            "components": [
                {"component_type": kind.lower(), "event_type": kind, "timestamp": when, "data": content}
                for (kind, content), when in zip(data.items(), moment, strict=True)
            ],
        }
        if self.generation is not OLD:
            trace["trace_schema_version"] = self.generation.schema
            trace["deployment_profile"] = {"agent_role": "probe", "deployment_region": None}
        return self.sign(trace)


def batch(traces: Iterable[dict[str, Any]], *others: dict[str, Any]) -> dict[str, Any]:
    """A batch of traces, and of other events."""
    events = [{"event_type": "complete_trace", "trace_level": "generic", "trace": trace} for trace in traces]
    return {
        "events": [*events, *others],
        "batch_timestamp": "2026-06-01T12:00:00+00:00",
        "consent_timestamp": "2026-05-01T00:00:00Z",
        "trace_level": "generic",
    }


def deferral(agent: Agent) -> dict[str, Any]:
    return {
        "event_type": "wbd_deferral", "timestamp": "2026-06-01T09:00:00+00:00", "agent_id": agent.hash,
        "thought_id": "th_1", "task_id": "t_1", "reason": "A human should decide", "defer_until": None,
    }  # fmt: skip
