"""Fuzz tests of signatures and JSON: no changed trace is loaded as verified, and no input crashes the reader."""

from __future__ import annotations

import base64
import json
import os
import random
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.mldsa import MLDSA65PrivateKey
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from ciris_scoring.audit import base64_text
from ciris_scoring.audit.documents import Document, read_document
from ciris_scoring.audit.reasons import Rejected
from ciris_scoring.audit.signatures import Verifier
from ciris_scoring.audit.strict_json import parse
from ciris_scoring.database.source_schema import TRACE_COLUMNS
from real_engine import key_record, needs_engine, refusals
from signed_batches import (
    COMPACT,
    GENERATIONS,
    MIDDLE,
    NEW,
    NINE_FIELDS,
    OLD,
    PROFILE,
    TWO_FIELDS_OF_2_7,
    Agent,
    batch,
    signed_bytes,
    standard,
    without_empty,
)

CASES = int(os.environ.get("FUZZ_CASES", 300))
"""Number of cases of each fuzz test, 10,000 in make soak."""
AGENTS = [Agent(generation, seed) for seed, generation in enumerate(GENERATIONS)]
VERIFIER = Verifier({agent.key_id: agent.public_bytes for agent in AGENTS})


SECOND_KEY = MLDSA65PrivateKey.from_seed_bytes(bytes(32))


def with_second_signature(agent: Agent, trace: dict[str, Any]) -> dict[str, Any]:
    """Add the second signature of the newest agents: ML-DSA-65, of the signed bytes and the first signature."""
    first = base64.b64decode(standard_spelling(trace["signature"]))
    message = signed_bytes(trace, agent.generation.rule) + first
    trace["signature_ml_dsa_65"] = standard(SECOND_KEY.sign(message))
    trace["pubkey_ml_dsa_65"] = standard(SECOND_KEY.public_key().public_bytes_raw())
    return trace


def standard_spelling(text: str) -> str:
    return text.replace("-", "+").replace("_", "/") + "=" * (-len(text) % 4)


TRACES = [agent.trace(text='Ünïcode 世界 "quoted" \\ 1.0e5', k_eff=1e22) for agent in AGENTS]
TRACES[-1] = with_second_signature(AGENTS[-1], TRACES[-1])


def loaded(trace: dict[str, Any]) -> list[object] | None:
    """Return the loaded columns of a trace, or None if it does not verify or cannot be loaded.

    Integers are converted to doubles, because agents sign the doubles (RFC 8785).
    """
    [read] = read_document(Document("here", json.dumps(batch([trace])).encode()), VERIFIER).rows or [None]
    if read is None or not read.verified_by:
        return None
    values = [*read.values[: len(TRACE_COLUMNS)], read.run_kind]
    return [json.loads(value, parse_int=float) if str(value)[:1] == "{" else value for value in values]


@pytest.mark.parametrize(
    ("agent", "trace"), list(zip(AGENTS, TRACES, strict=True)), ids=[one.generation.rule for one in AGENTS]
)
@settings(max_examples=CASES, deadline=None)
@given(position=st.floats(0, 1, exclude_max=True), bit=st.integers(0, 7))
def test_trace_with_a_flipped_bit_is_unchanged_or_not_verified(agent, trace, position, bit):
    assert VERIFIER.verify(trace).rule is not None
    sent = bytearray(json.dumps(trace, ensure_ascii=False).encode())
    sent[int(position * len(sent))] ^= 1 << bit
    try:
        received = parse(bytes(sent))
    except Rejected:
        return
    if not agent.generation.signs_ids:
        # These agents do not sign agent_id_hash. Only the loader checks that a key signs for one agent.
        assume(received.get("agent_id_hash") == trace["agent_id_hash"])
    assert loaded(received) in (None, loaded(trace)), received


WHOLE = json.dumps(batch(agent.trace() for agent in AGENTS), ensure_ascii=False).encode()
PIECES = [bytes([byte]) for byte in b'"\\{}[],:\0\xff']
PIECES += [b"\xed\xa0\x80", b"\\u0000", b"\\ud800", b"NaN", b"9" * 5000, b"[" * 3000, b'{"a":' * 3000]
PIECES += [b'"events": [', b'"event_type": "complete_trace"', b'"trace": ']
EDITS = st.tuples(
    st.floats(0, 1), st.sampled_from([0, 1, 8, 100, 3000]), st.sampled_from(PIECES) | st.binary(max_size=4)
)


@settings(max_examples=CASES, deadline=None)
@given(edits=st.lists(EDITS, min_size=1, max_size=5))
def test_edited_batch_does_not_crash_the_reader(edits):
    content = WHOLE
    for position, length, new in edits:
        start = int(position * len(content))
        content = content[:start] + new + content[start + length :]
    read = read_document(Document("here", content), VERIFIER)
    assert len(read.rows) + read.rejected.total() == read.received
    assert read.problems or not read.is_batch or read.outcomes or read.other_events or not read.received


names = st.sampled_from([*TRACES[-1], "event_type", "data", "csdma", "ACTION_RESULT", ""])
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=4),
    max_leaves=12,
)


@settings(max_examples=CASES, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(value=json_values, name=st.sampled_from([*TRACES[-1]]))
def test_any_value_in_any_field_is_read_or_rejected(value, name):
    for trace in TRACES:
        document = json.dumps(batch([trace | {name: value}])).encode()
        read = read_document(Document("here", document), VERIFIER)
        assert (len(read.rows), read.rejected.total()) in {(1, 0), (0, 1)}


# --- signed values, and changes of a trace that keep its signature valid ---------------------------------------------

NUMBERS = [
    2**53, 2**53 + 1, 9007199254740993, 2**60, 2**63, -(2**63), 2**64, 10**21, 10**30, 10**300,
    1e21, 1e22, 1e-7, 5e-324, 1.7976931348623157e308, -0.0, 5.0, 0.1, 2.8269200000000003, 333333333.33333329,
]  # fmt: skip
SIGNED_VALUES = [
    *NUMBERS, "9007199254740993", "1e400", "", [], {}, None, [1, "", None, {}, []], {"a": {"b": None}},
    {"\ue000": 1, "\U0001f600": 2, "Z": 3, "a": [10**20, {"b": -(2**60)}]}, "\u2028\x7f\x1f/\\\"é😀", False, 0,
]  # fmt: skip


@pytest.mark.parametrize("generation", [NINE_FIELDS, MIDDLE, NEW])
def test_empty_data_of_a_json_component_are_not_signed(generation):
    agent = AGENTS[GENERATIONS.index(generation)]
    trace = agent.trace()
    trace["components"][1]["data"] = {}
    assert VERIFIER.verify(agent.sign(trace)).rule == generation.rule


def anywhere(source: random.Random, trace: dict[str, Any]) -> dict[str, Any]:
    return source.choice(trace["components"])


def in_profile(trace: dict[str, Any]) -> dict[str, Any]:
    return trace.get("deployment_profile") or {}


def with_fewer(value: dict[str, Any], name: str, *, only_null: bool = False) -> None:
    if name in value and (value[name] is None or not only_null):
        del value[name]


UNSIGNED_CHANGES: list[Callable[[random.Random, dict[str, Any]], object]] = [
    lambda source, trace: with_fewer(trace, "task_id", only_null=True),
    lambda source, trace: with_fewer(in_profile(trace), "deployment_region", only_null=True),
    lambda source, trace: trace.update(deployment_profile=trace.get("deployment_profile", dict(PROFILE))),
    lambda source, trace: trace.setdefault("deployment_profile", None),
    lambda source, trace: in_profile(trace).update(unknown=1),
    lambda source, trace: trace.update(unknown={"a": 1}, cohort_scope="federation"),
    lambda source, trace: anywhere(source, trace).update(unknown=[1]),
    lambda source, trace: with_fewer(anywhere(source, trace), "agent_id_hash"),
    lambda source, trace: anywhere(source, trace).update(agent_id_hash=None),
    lambda source, trace: anywhere(source, trace).setdefault("agent_id_hash", "0123456789abcdef"),
    lambda source, trace: anywhere(source, trace)["data"].update(unknown=source.choice([None, "", [], {}])),
    lambda source, trace: anywhere(source, trace)["data"].setdefault("csdma", {}),
    lambda source, trace: trace["components"].__setitem__(0, dict(reversed(trace["components"][0].items()))),
]
"""Changes of a signed trace after which it still verifies by at least one rule."""
ALTERATIONS: list[Callable[[random.Random, dict[str, Any]], object]] = [
    lambda source, trace: anywhere(source, trace)["data"].update(attempt_index=source.randrange(9)),
    lambda source, trace: anywhere(source, trace)["data"].update(added=source.choice([0, False, "a", [None, 1]])),
    lambda source, trace: with_fewer(anywhere(source, trace)["data"], "attempt_index"),
    lambda source, trace: trace.update(trace_level="full_traces"),
    lambda source, trace: trace.update(trace_id=trace["trace_id"] + "0"),
    lambda source, trace: trace.update(completed_at="2026-06-01T23:00:00+00:00"),
    lambda source, trace: trace["components"].pop(),
    lambda source, trace: anywhere(source, trace).update(timestamp="2026-06-01T23:00:00+00:00"),
    lambda source, trace: trace.update(trace_schema_version=source.choice(["2.7.0", "2.7.9", "3.0.0"])),
]


def varied(source: random.Random, agent: Agent) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return a signed trace, and the received copy of it with random changes."""
    signed = agent.trace()
    signed["task_id"] = source.choice([None, signed["task_id"]])
    for component in signed["components"]:
        component["data"]["attempt_index"] = 0
    for _ in range(source.randrange(3)):
        anywhere(source, signed)["data"][source.choice("xyz")] = source.choice(SIGNED_VALUES)
    for component in signed["components"]:
        component["data"] = without_empty(component["data"])
    agent.sign(signed)
    signed["signature"] = standard_spelling(signed["signature"])
    with_second_signature(agent, signed)["pqc_key_id"] = agent.key_id
    received: dict[str, Any] = json.loads(json.dumps(signed))
    for _ in range(source.randrange(4)):
        source.choice(UNSIGNED_CHANGES)(source, received)
    if source.random() < 0.2:
        source.choice(ALTERATIONS)(source, received)
    return signed, received


@needs_engine
def test_verification_of_altered_traces_agrees_with_the_engine(tmp_path):
    """A trace that verifies is loaded as it was signed. The engine lacks the rules of three generations of agents."""
    source = random.Random(20260601)
    agents = [agent for agent in AGENTS if agent.generation not in (OLD, COMPACT, TWO_FIELDS_OF_2_7)]
    cases = [varied(source, source.choice(agents)) for _ in range(min(CASES, 3000))]
    records = [key_record(agent.key_id, agent.private_key, SECOND_KEY) for agent in agents]
    refused = refusals(tmp_path, records, [batch([received]) for _, received in cases])
    n_verified = Counter[bool]()
    for (signed, received), refusal in zip(cases, refused, strict=True):
        result = VERIFIER.verify(received)
        if result.rule == "two_fields":  # the engine refuses some valid traces of this rule
            assert loaded(received) == loaded(signed), (signed, received)
        elif result.rule:
            assert refusal is None and loaded(received) == loaded(signed), (signed, received)
        else:
            assert refusal or result.reason == "unconfirmed_field", (result, received)
        n_verified[refusal is None] += 1
    assert all(n > len(cases) // 10 for n in n_verified.values()) and len(n_verified) == 2, Counter(refused)


def test_base64_with_left_over_bits_is_refused():
    """Otherwise a signature could be changed without being invalid."""
    assert base64_text.decode("QQ") == base64_text.decode("QQ==") == b"A"
    for text in ("QR", "QQ=", "QQ===", "Q+_Q"):
        with pytest.raises(ValueError, match="base64"):
            base64_text.decode(text)
