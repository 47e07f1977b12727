"""Reconstruct the bytes of a trace that its agent signed, and verify the signature with a registered key."""

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple

import rfc8785
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.mldsa import MLDSA65PublicKey

from ciris_scoring.audit import base64_text, reasons
from ciris_scoring.audit.keys import public_key

Trace = Mapping[str, Any]

_THOUGHT_IDS = (("thought_id",), ("system_snapshot", "current_thought_summary", "thought_id"))
"""Paths to the thought's id in the data of a JSON component of a trace. Only the most detailed trace level has the
second path."""
_AUDIT = ("audit_sequence_number", "audit_entry_hash")

_AGENT = "agent_id_hash"
_TRACE_FIELDS = (
    *("trace_id", "thought_id", "task_id", _AGENT, "started_at", "completed_at", "trace_level"),
    "trace_schema_version",
)
_COMPONENT_FIELDS = ("component_type", "data", "event_type", "timestamp")
PROFILE = "deployment_profile"
FORMAT_VERSION = "trace_format_version"
"""Field of the trace or of its deployment profile. Agents that send it in the trace may sign it there."""
_PROFILE_FIELDS = (
    *("agent_role", "agent_template", "deployment_domain", "deployment_type", "deployment_region"),
    "deployment_trust_mode",
)
_BEFORE_HANDLED = timedelta(microseconds=999_999)
_SORTED = json.JSONEncoder(sort_keys=True, separators=(",", ":"))
_SORTED_WITH_SPACES = json.JSONEncoder(sort_keys=True)


class Verdict(NamedTuple):
    """Result of verifying a trace: the rule that verified it, or the reason why it does not verify."""

    rule: str | None
    reason: str | None
    detail: str | None
    components: Sequence[Trace]
    """JSON components of the trace, without their unsigned fields. If the trace does not verify, all received fields
    are kept."""
    beside: Trace | None = None
    """Deployment profile and trace format version, as far as they are signed; None if the trace does not verify."""
    decision_sha256: str | None = None
    """Hash that identifies the decision if the rule signs neither ids nor times, otherwise None."""


class Rule(NamedTuple):
    """Rule by which some versions of agents build the bytes that they sign."""

    fields: tuple[str, ...] | None
    """Signed fields of the trace besides its JSON components; None if only the list of JSON components is signed."""
    encode: Callable[[Any], bytes]
    has_profile: bool = False
    """Whether the deployment profile and the agent's hash in each JSON component are signed, too."""
    stripped: Callable[[Trace], Trace] = dict
    """Function that removes empty values from a JSON component, because the agent sends them but does not sign them."""

    @property
    def signs_ids(self) -> bool:
        """Whether the ids and times of the trace are signed."""
        return self.fields is not None and "trace_id" in self.fields

    def messages(self, trace: Trace) -> Iterator[tuple[bytes, Sequence[Trace], dict[str, Any]]]:
        """Yield the messages that the agent may have signed, as bytes, each with the JSON components in it, and with
        the deployment profile and trace format version in it.

        Several messages are possible, because the agent may have sent empty values that it did not sign, and because
        some agents add missing fields and ignore unknown fields before they sign.
        """
        seen = set()
        for beside in self._beside(trace):
            for components in self._components(trace):
                message = self.encode(self._signed(trace, beside, components))
                if message not in seen:
                    seen.add(message)
                    yield message, components, beside

    def _signed(self, trace: Trace, beside: dict[str, Any], components: Sequence[Trace]) -> Any:
        if self.fields is None:
            return components
        return {name: trace.get(name) for name in self.fields} | {"components": components} | beside

    def _beside(self, trace: Trace) -> Iterator[dict[str, Any]]:
        profile = trace.get(PROFILE) if self.has_profile else None
        profiles = [profile]
        if isinstance(profile, dict):
            profiles.append({name: profile.get(name) for name in _PROFILE_FIELDS})
        versions = (
            [{}, {FORMAT_VERSION: trace[FORMAT_VERSION]}] if self.has_profile and FORMAT_VERSION in trace else [{}]
        )
        for version in versions:
            for one in profiles:
                yield version if one is None else {PROFILE: one} | version

    def _components(self, trace: Trace) -> Iterator[Sequence[Trace]]:
        names = (*_COMPONENT_FIELDS, _AGENT) if self.has_profile else _COMPONENT_FIELDS
        components = [{name: one[name] for name in names if name in one} for one in trace["components"]]
        yield components
        if self.has_profile:
            agent = trace.get(_AGENT)
            components = [{**component, _AGENT: component.get(_AGENT) or agent} for component in components]
            yield components
        yield [self.stripped(component) for component in components]


def _without_empty(value: Any) -> Any:
    """Remove null, "", [] and {} from all objects, and null from all lists."""
    if isinstance(value, dict):
        return _without_empty_fields({name: _without_empty(inner) for name, inner in value.items()})
    if isinstance(value, list):
        return [_without_empty(inner) for inner in value if inner is not None]
    return value


def _without_empty_fields(value: Trace) -> Trace:
    return {name: inner for name, inner in value.items() if inner is not None and inner not in ("", [], {})}


def _without_empty_in_data(component: Trace) -> Trace:
    return {**component, "data": _without_empty(component.get("data"))}


def _compact(content: Any) -> bytes:
    return _SORTED.encode(content).encode()


def _jcs(content: Any) -> bytes:
    """Encode JSON by RFC 8785. Integers that a double cannot represent are rounded."""
    try:
        return rfc8785.dumps(content)
    except rfc8785.IntegerDomainError:
        return rfc8785.dumps(_rounded(content))


def _rounded(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _rounded(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [_rounded(inner) for inner in value]
    return float(value) if isinstance(value, int) and not isinstance(value, bool) else value


RULES: Mapping[str, Rule] = {
    "components": Rule(None, lambda content: _SORTED_WITH_SPACES.encode(content).encode()),
    "components_compact": Rule(None, _compact, stripped=_without_empty_in_data),
    "two_fields": Rule(("trace_level",), _compact, stripped=_without_empty),
    "nine_fields": Rule(_TRACE_FIELDS, _compact, stripped=_without_empty_fields),
    "sorted_json": Rule(_TRACE_FIELDS, _compact, has_profile=True, stripped=_without_empty_fields),
    "jcs": Rule(_TRACE_FIELDS, _jcs, has_profile=True, stripped=_without_empty_fields),
}
NO_SCHEMA, UNKNOWN_SCHEMA = "no schema", "unknown schema"
_RULES_OF_SCHEMAS: Mapping[str, Sequence[str]] = {
    NO_SCHEMA: ("components", "components_compact", "two_fields"),
    "2.7.legacy": ("two_fields",),
    "2.7.0": ("nine_fields", "two_fields"),
    "2.7.9": ("sorted_json",),
    "3.0.0": ("jcs",),
    UNKNOWN_SCHEMA: tuple(RULES),
}
SCHEMAS = tuple(_RULES_OF_SCHEMAS)


def schema_of(trace: Trace) -> str:
    """Return the schema version of a trace, or a marker that it is missing or unknown."""
    schema = trace.get("trace_schema_version")
    if schema is None:
        return NO_SCHEMA
    return schema if isinstance(schema, str) and schema in _RULES_OF_SCHEMAS else UNKNOWN_SCHEMA


class Verifier:
    """Verifies the signatures of traces with the keys of a registry."""

    def __init__(self, keys: Mapping[str, bytes]):
        self._keys = keys
        self._opened: dict[str, Ed25519PublicKey] = {}
        # Newer agents use the beginning of their key's SHA-256 hash as their agent_id_hash.
        self._fingerprints = {key_id: hashlib.sha256(content).hexdigest()[:16] for key_id, content in keys.items()}
        self._agents_of_keys = set(self._fingerprints.values())

    def verify(self, trace: Trace) -> Verdict:
        """Verify the signature of a trace."""
        schema = schema_of(trace)

        def refused(reason: str, detail: str | None) -> Verdict:
            return Verdict(None, reason, detail, trace["components"])

        try:
            signature = _signature(trace)
        except ValueError as error:
            return refused(reasons.MALFORMED_SIGNATURE, str(error))
        key_id = trace.get("signature_key_id")
        if not isinstance(key_id, str) or key_id not in self._keys:
            return refused(reasons.UNKNOWN_KEY, "no key with this id is registered; --keys registers keys")
        why_not = None
        for name in _RULES_OF_SCHEMAS[schema]:
            rule = RULES[name]
            try:
                for message, components, beside in rule.messages(trace):
                    if self._signed(key_id, signature, message):
                        wrong = self._against(trace, rule, components, key_id, signature, message)
                        verdict = refused(*wrong) if wrong else Verdict(name, None, None, components)
                        return verdict._replace(
                            beside=None if wrong else beside,
                            decision_sha256=None
                            if rule.signs_ids
                            else _decision_sha256(self._keys[key_id], components),
                        )
            except (ValueError, OverflowError, TypeError, AttributeError) as error:
                why_not = f"the rule {name} cannot encode the trace: {str(error)[:80]}"
        if schema == UNKNOWN_SCHEMA:
            return refused(reasons.UNSUPPORTED_SCHEMA, "no known rule verifies the trace")
        return refused(reasons.BAD_SIGNATURE, why_not)

    def _signed(self, key_id: str, signature: bytes, message: bytes) -> bool:
        key = self._opened.get(key_id)
        if key is None:
            key = self._opened[key_id] = public_key(self._keys[key_id])
        try:
            key.verify(signature, message)
        except InvalidSignature:
            return False
        return True

    def _against(
        self,
        trace: Trace,
        rule: Rule,
        components: Sequence[Trace],
        key_id: str,
        signature: bytes,
        message: bytes,
    ) -> tuple[str, str] | None:
        """Return why a trace does not verify although the Ed25519 signature is valid, or None if it verifies."""
        agent = str(trace.get("agent_id_hash"))
        if agent in self._agents_of_keys and self._fingerprints[key_id] != agent:
            return reasons.FOREIGN_KEY, "the agent's hash is the fingerprint of another registered key"
        if not rule.signs_ids and (field := _unconfirmed(trace, components)):
            return reasons.UNCONFIRMED_FIELD, f"{field} is not signed, and contradicts the signed components"
        if not _second_signature_holds(trace, message + signature):
            return reasons.BAD_SIGNATURE, "the ML-DSA-65 signature beside the Ed25519 one is not valid"
        return None


def _signature(trace: Trace) -> bytes:
    """Decode the signature of a trace, or raise a ValueError if there is none, or if it is malformed."""
    text = trace.get("signature")
    if not isinstance(text, str) or not text:
        raise ValueError("no signature")
    signature = base64_text.decode(text)
    if len(signature) != 64:
        raise ValueError(f"an Ed25519 signature has 64 bytes, this one {len(signature):,}")
    return signature


def _unconfirmed(trace: Trace, components: Sequence[Trace]) -> str | None:
    """Return the name of an unsigned field that contradicts the signed JSON components, or None."""
    moments: list[Any] = [component.get("timestamp") for component in components]
    if not moments or trace.get("completed_at") != moments[-1]:
        return "completed_at"
    if trace.get("started_at") != moments[0]:
        return "started_at"
    try:
        started = datetime.fromisoformat(moments[0])
    except (TypeError, ValueError):
        return "started_at"
    # The trace id contains the time at which the agent handled the first JSON component: the time in this component, or
    # a time less than a second later.
    later = started + _BEFORE_HANDLED
    names = {f"trace-{trace.get('thought_id')}-{time:%Y%m%d%H%M%S}" for time in (started, later)}
    if trace.get("trace_id") not in names:
        return "trace_id"
    signed = _signed_thought_ids(components)
    return "thought_id" if any(thought_id != trace.get("thought_id") for thought_id in signed) else None


def _second_signature_holds(trace: Trace, message: bytes) -> bool:
    """Return whether the ML-DSA-65 signature of a trace is valid for the ML-DSA-65 key in the trace. A trace that has
    neither signature nor key passes."""
    key, signature = trace.get("pubkey_ml_dsa_65"), trace.get("signature_ml_dsa_65")
    if key is None and signature is None:
        return True
    if not isinstance(key, str) or not isinstance(signature, str):
        return False
    try:
        MLDSA65PublicKey.from_public_bytes(base64_text.decode(key)).verify(base64_text.decode(signature), message)
    except UnsupportedAlgorithm:  # this build of the library lacks ML-DSA-65, so Ed25519 decides alone
        return True
    except (InvalidSignature, ValueError):
        return False
    return True


def _decision_sha256(key: bytes, components: Sequence[Trace]) -> str:
    """Return a hash of the key, the times of the JSON components and the audit entry.

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
    return hashlib.sha256(key + json.dumps([moments, audit]).encode()).hexdigest()


def _signed_thought_ids(components: Sequence[Trace]) -> Iterator[str]:
    for component in components:
        for place in _THOUGHT_IDS:
            value = component.get("data")
            for name in place:
                value = value.get(name) if isinstance(value, dict) else None
            if text := _text(value):
                yield text


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and value else None
