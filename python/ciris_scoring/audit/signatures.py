"""Which bytes of a trace its agent signed, and whether a registered key signed them."""

import hashlib
import json
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, NamedTuple

import rfc8785
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.mldsa import MLDSA65PublicKey

from ciris_scoring.audit import base64_text
from ciris_scoring.audit.decisions import decision_sha256, signed_thought_ids
from ciris_scoring.audit.keys import public_key
from ciris_scoring.audit.reasons import (
    BAD_SIGNATURE,
    FOREIGN_KEY,
    MALFORMED_SIGNATURE,
    UNCONFIRMED_FIELD,
    UNKNOWN_KEY,
    UNSUPPORTED_SCHEMA,
)

Trace = Mapping[str, Any]

SIGNED_FIELDS = (
    "trace_id",
    "thought_id",
    "task_id",
    "agent_id_hash",
    "started_at",
    "completed_at",
    "trace_level",
    "trace_schema_version",
    "components",
    "deployment_profile",
)
_SIGNED_OF_COMPONENT = ("component_type", "data", "event_type", "timestamp")
_ANY_TEXT = ("utf-8", "surrogatepass")
_SORTED = json.JSONEncoder(sort_keys=True, separators=(",", ":"))
_SORTED_WITH_SPACES = json.JSONEncoder(sort_keys=True)


class Verdict(NamedTuple):
    """Whether a trace verifies: the rule that did it, or the reason why not."""

    rule: str | None
    reason: str | None
    detail: str | None
    content_sha256: str
    """Hash of the signed bytes and of everything sent with them: traces that differ in a loaded value differ here."""
    signed_sha256: str | None = None
    """Hash of the public key and the bytes that it signed; None where the signature does not hold."""
    decision_sha256: str | None = None
    """The decision, by what is signed of it, where the rule signs neither ids nor times."""


def _components(trace: Trace) -> bytes:
    components = [
        {name: component[name] for name in _SIGNED_OF_COMPONENT if name in component}
        for component in trace["components"]
    ]
    return _SORTED_WITH_SPACES.encode(components).encode()


def _sorted_json(trace: Trace) -> bytes:
    return _SORTED.encode(_signed_fields(trace)).encode()


def _jcs(trace: Trace) -> bytes:
    return rfc8785.dumps(_signed_fields(trace))


def _signed_fields(trace: Trace) -> dict[str, Any]:
    return {name: trace[name] for name in SIGNED_FIELDS if name in trace}


RULES: Mapping[str, Callable[[Trace], bytes]] = {
    "components": _components,  # agents up to 1.9
    "sorted_json": _sorted_json,  # agents of 2.7
    "jcs": _jcs,  # agents of 2.15
}
RULES_WITHOUT_IDS = frozenset({"components"})
"""Rules by which neither the ids nor the times of a trace are signed: a copy with another id verifies too."""
UNKNOWN_GENERATION = "unknown"


def generation(schema: object) -> str:
    """Return the rule by which traces of a schema version are signed, or that it is not known."""
    if schema is None:
        return "components"
    if isinstance(schema, str) and schema.startswith("2.7."):
        return "sorted_json"
    return "jcs" if schema == "3.0.0" else UNKNOWN_GENERATION


class Verifier:
    """Verifies traces by the keys of a registry, which it opens as they are met."""

    def __init__(self, keys: Mapping[str, bytes]):
        self._keys = keys
        self._opened: dict[str, Ed25519PublicKey] = {}
        # Newer agents are called by the beginning of the hash of their key.
        self._fingerprints = {
            key_id: hashlib.sha256(content).hexdigest()[:16] for key_id, content in keys.items()
        }
        self._agents_of_keys = set(self._fingerprints.values())

    def has(self, keys: Mapping[str, str]) -> bool:
        """Whether every one of these keys, in base64 by its id, is in the registry."""
        return all(
            key_id in self._keys and base64_text.means(text, self._keys[key_id])
            for key_id, text in keys.items()
        )

    def verify(self, trace: Trace) -> Verdict:
        """Say whether a registered key signed the trace; never fails, whatever the trace is."""
        known = generation(trace.get("trace_schema_version"))
        rules = list(RULES) if known == UNKNOWN_GENERATION else [known]
        messages = {}
        why_not = None
        for rule in rules:
            try:
                messages[rule] = RULES[rule](trace)
            except (ValueError, RecursionError, TypeError, AttributeError) as error:
                why_not = f"{type(error).__name__} in the rule {rule}"
        content = _digest(trace, next(iter(messages.values()), repr(trace["components"]).encode(*_ANY_TEXT)))

        def refused(reason: str, detail: str | None) -> Verdict:
            return Verdict(None, reason, detail, content)

        try:
            signature = _signature(trace)
        except ValueError as error:
            return refused(MALFORMED_SIGNATURE, str(error))
        key_id = trace.get("signature_key_id")
        if not isinstance(key_id, str) or key_id not in self._keys:
            return refused(UNKNOWN_KEY, "no key with this id is registered")
        for rule, message in messages.items():
            if self._signed(key_id, signature, message):
                wrong = self._against(trace, rule, key_id, signature, message)
                verdict = refused(*wrong) if wrong else Verdict(rule, None, None, content)
                key = self._keys[key_id]
                return verdict._replace(
                    signed_sha256=hashlib.sha256(key + message).hexdigest(),
                    decision_sha256=decision_sha256(key, trace) if rule in RULES_WITHOUT_IDS else None,
                )
        if known == UNKNOWN_GENERATION:
            return refused(UNSUPPORTED_SCHEMA, "no known rule verifies it")
        return refused(BAD_SIGNATURE, why_not)

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
        self, trace: Trace, rule: str, key_id: str, signature: bytes, message: bytes
    ) -> tuple[str, str] | None:
        """Why a trace does not verify although the key signed it."""
        agent = str(trace.get("agent_id_hash"))
        if agent in self._agents_of_keys and self._fingerprints[key_id] != agent:
            return FOREIGN_KEY, "the agent's hash is the fingerprint of another registered key"
        if rule in RULES_WITHOUT_IDS and (field := _unconfirmed(trace)):
            return UNCONFIRMED_FIELD, f"{field} is not signed, and is not what the signed components say"
        if not _second_signature_holds(trace, message + signature):
            return BAD_SIGNATURE, "the ML-DSA-65 signature beside the Ed25519 one does not hold"
        return None


def _signature(trace: Trace) -> bytes:
    """Decode the signature.

    :raises ValueError: it is none.
    """
    text = trace.get("signature")
    if not isinstance(text, str) or not text:
        raise ValueError("no signature")
    signature = base64_text.decode(text)
    if len(signature) != 64:
        raise ValueError(f"an Ed25519 signature has 64 bytes, this one {len(signature):,}")
    return signature


def _unconfirmed(trace: Trace) -> str | None:
    """Name a field outside the signature that contradicts it; 1.9 signs components alone."""
    moments = [component.get("timestamp") for component in trace["components"]]
    if not moments or trace.get("completed_at") != moments[-1]:
        return "completed_at"
    try:
        started = datetime.fromisoformat(moments[0])
    except (TypeError, ValueError):
        return "started_at"
    if trace.get("started_at") != moments[0]:
        return "started_at"
    if trace.get("trace_id") != f"trace-{trace.get('thought_id')}-{started:%Y%m%d%H%M%S}":
        return "trace_id"
    if any(thought_id != trace.get("thought_id") for thought_id in signed_thought_ids(trace)):
        return "thought_id"
    return None


def _second_signature_holds(trace: Trace, message: bytes) -> bool:
    """Whether the ML-DSA-65 signature of newer agents holds, by the key that comes with it, where there is one."""
    key, signature = trace.get("pubkey_ml_dsa_65"), trace.get("signature_ml_dsa_65")
    if key is None and signature is None:
        return True
    if not isinstance(key, str) or not isinstance(signature, str):
        return False
    try:
        MLDSA65PublicKey.from_public_bytes(base64_text.decode(key)).verify(
            base64_text.decode(signature), message
        )
    except UnsupportedAlgorithm:  # a build of the library without it: Ed25519 has to do
        return True
    except (InvalidSignature, ValueError):
        return False
    return True


def _digest(trace: Trace, message: bytes) -> str:
    beside = {name: value for name, value in trace.items() if name != "components"}
    digest = hashlib.sha256(message)
    digest.update(repr(sorted(beside.items())).encode(*_ANY_TEXT))
    return digest.hexdigest()
