"""Identify the decision that a trace records from its signed components. Some agents sign neither ids nor times."""

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

_THOUGHT_IDS = (("thought_id",), ("system_snapshot", "current_thought_summary", "thought_id"))
"""Paths in the data of a component to the thought's id. Only traces of the most detailed level have the second one.
"""
_AUDIT = ("audit_sequence_number", "audit_entry_hash")


def decision_sha256(public_key: bytes, components: Sequence[Mapping[str, Any]]) -> str:
    """Return a hash of the key, the times of the components and the audit entry.

    The hash is the same at all trace levels of a decision, and a copy with a valid signature cannot change it. Empty
    values are ignored, because some rules do not sign them.
    """
    moments = []
    audit: list[Any] = [None, None]
    for component in components:
        kind, data = component.get("event_type"), component.get("data")
        if timestamp := _text(component.get("timestamp")):
            moments.append([_text(kind), timestamp])
        if kind == "ACTION_RESULT" and isinstance(data, dict):
            audit = [value if isinstance(value := data.get(name), int) else _text(value) for name in _AUDIT]
    return hashlib.sha256(public_key + json.dumps([moments, audit]).encode()).hexdigest()


def signed_thought_ids(components: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Yield the thought ids in the components."""
    for component in components:
        for place in _THOUGHT_IDS:
            value = component.get("data")
            for name in place:
                value = value.get(name) if isinstance(value, dict) else None
            if text := _text(value):
                yield text


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and value else None
