"""Which decision a trace records, by the signed components alone: some agents sign neither ids nor times."""

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

_THOUGHT_IDS = (("thought_id",), ("system_snapshot", "current_thought_summary", "thought_id"))
"""Places in the data of a component where agents repeat the thought's id; traces with full texts have the second."""
_AUDIT = ("audit_sequence_number", "audit_entry_hash")


def decision_sha256(public_key: bytes, components: Sequence[Mapping[str, Any]]) -> str:
    """Return a hash of the key, the times of the components and the audit entry.

    It is the same for all trace levels of one decision, and a copy that verifies cannot change it. Some rules sign
    nothing of an empty value, so only numbers and texts that are not empty count here.
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
    """Yield the ids of the thought that the components name, if any."""
    for component in components:
        for place in _THOUGHT_IDS:
            value = component.get("data")
            for name in place:
                value = value.get(name) if isinstance(value, dict) else None
            if text := _text(value):
                yield text


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and value else None
