"""Create signed batches of traces in the format of each range of agent versions. The keys are made for the tests."""

from __future__ import annotations

import base64
import hashlib
import itertools
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
    """Format, signature rule and signature encoding of a range of agent versions."""

    schema: str | None
    rule: str
    spell: Callable[[bytes], str] = urlsafe_unpadded
    key_id: str = "agent-{:.12}"
    named: bool = True

    @property
    def has_profile(self) -> bool:
        return self.rule in ("sorted_json", "jcs")

    @property
    def signs_ids(self) -> bool:
        return self.has_profile or self.rule == "nine_fields"


OLD = Generation(None, "components", named=False)
COMPACT = Generation(None, "components_compact")
TWO_FIELDS = Generation(None, "two_fields")
TWO_FIELDS_OF_2_7 = Generation("2.7.0", "two_fields")
TWO_FIELDS_OF_ENGINE = Generation("2.7.legacy", "two_fields")
NINE_FIELDS = Generation("2.7.0", "nine_fields")
MIDDLE = Generation("2.7.9", "sorted_json")
NEW = Generation("3.0.0", "jcs", standard, "ciris-agent-bootstrap-{:.10}")
GENERATIONS = (OLD, COMPACT, TWO_FIELDS, TWO_FIELDS_OF_2_7, TWO_FIELDS_OF_ENGINE, NINE_FIELDS, MIDDLE, NEW)
NO_DOUBLES = [9007199254740993, 2**60, -(2**63)]
PROFILE = {
    "agent_role": "probe", "agent_template": "probe-default", "deployment_domain": "general",
    "deployment_type": "production", "deployment_region": None, "deployment_trust_mode": "sovereign",
}  # fmt: skip
COMPONENT_TYPES = {
    "THOUGHT_START": "observation", "SNAPSHOT_AND_CONTEXT": "context", "DMA_RESULTS": "rationale",
    "IDMA_RESULT": "rationale", "ASPDMA_RESULT": "rationale", "CONSCIENCE_RESULT": "conscience",
    "ACTION_RESULT": "action",
}  # fmt: skip


def without_empty(value: Any) -> Any:
    """Return a value without the empty values that agents since 1.9.7 do not sign."""
    if isinstance(value, dict):
        pairs = ((name, without_empty(inner)) for name, inner in value.items())
        return {name: inner for name, inner in pairs if inner is not None and inner not in ("", [], {})}
    if isinstance(value, list):
        return [without_empty(inner) for inner in value if inner is not None]
    return value


def signed_bytes(trace: dict[str, Any], rule: str) -> bytes:
    """Return the bytes that an agent signs. The implementation does not use code of the package."""
    components = [
        {name: component[name] for name in ("component_type", "data", "event_type", "timestamp")}
        for component in trace["components"]
    ]
    if rule == "components":
        return json.dumps(components, sort_keys=True).encode()
    if rule == "components_compact":
        for component in components:
            component["data"] = without_empty(component["data"])
        return compact(components)
    components = without_empty(components)
    if rule == "two_fields":
        return compact({"components": components, "trace_level": trace["trace_level"]})
    signed = {name: trace[name] for name in NINE_OF_ENVELOPE if name in trace} | {"components": components}
    if rule == "nine_fields":
        return compact(signed)
    for component, sent in zip(components, trace["components"], strict=True):
        component["agent_id_hash"] = sent.get("agent_id_hash", trace["agent_id_hash"])
    return rfc8785.dumps(doubles(signed)) if rule == "jcs" else compact(signed)


def compact(value: Any) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()


def doubles(value: Any) -> Any:
    """Convert the integers in a value to doubles, the only numbers of RFC 8785."""
    if isinstance(value, dict):
        return {name: doubles(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [doubles(inner) for inner in value]
    return float(value) if type(value) is int else value


@dataclass
class Agent:
    """An agent with a key and a counter of audit entries."""

    generation: Generation = MIDDLE
    seed: int = field(default_factory=itertools.count(1000).__next__)
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
        """Hash of the agent. In newer versions it is the start of the key's fingerprint."""
        return (
            hashlib.sha256(b"name %d" % self.seed).hexdigest()[:16]
            if self.generation in (OLD, COMPACT)
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

    def trace(self, *, text: str = "Grüße, 世界", at: datetime | None = None, **scores: Any) -> dict[str, Any]:
        """Return the next signed trace, five minutes after the previous one.

        :param scores: values of fields of the trace's JSON components, in place of the defaults.
        """
        self.sequence += 1
        started = at or START + timedelta(minutes=5 * self.sequence)
        moment = [(started + timedelta(seconds=second)).isoformat() for second in range(7)]
        thought = f"th_seed_{self.seed:08x}_{self.sequence:08x}"
        data = {
            "THOUGHT_START": {"thought_depth": 0, "round_number": 0, "note": text, "numbers": NO_DOUBLES},
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
            next(component for component in data.values() if name in component)[name] = value
        trace = {
            "trace_id": f"trace-{thought}-{started:%Y%m%d%H%M%S}",
            "thought_id": thought,
            "task_id": "9d248d82-f516-4fa5-88f0-512abe49c69f",
            "agent_id_hash": self.hash,
            "started_at": moment[0],
            "completed_at": moment[-1],
            "trace_level": "generic",
            "components": [
                {"component_type": COMPONENT_TYPES[kind], "event_type": kind, "timestamp": when, "data": content}
                for (kind, content), when in zip(data.items(), moment, strict=True)
            ],
        }
        if self.generation.schema is not None:
            trace["trace_schema_version"] = self.generation.schema
        if self.generation.has_profile:
            trace["deployment_profile"] = dict(PROFILE)
            for component in trace["components"]:
                component["agent_id_hash"] = self.hash
        return self.sign(trace)


def batch(traces: Iterable[dict[str, Any]], *others: dict[str, Any]) -> dict[str, Any]:
    """Return a batch of traces and of events of other types."""
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
