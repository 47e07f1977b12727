"""Signatures and JSON under fire: no flipped bit verifies, and no bytes crash the reader."""

from __future__ import annotations

import base64
import json
import os
import random
import tracemalloc
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.mldsa import MLDSA65PrivateKey
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from ciris_scoring.audit import base64_text
from ciris_scoring.audit.documents import Document, read_document
from ciris_scoring.audit.keys import public_key
from ciris_scoring.audit.reasons import Rejected
from ciris_scoring.audit.signatures import Verifier
from ciris_scoring.audit.strict_json import parse, take_apart
from ciris_scoring.basics.source_schema import TRACE_COLUMNS
from signed_batches import GENERATIONS, Agent, batch, signed_bytes, standard

CASES = int(os.environ.get("FUZZ_CASES", 300))
"""Per fuzz test; make soak asks for 100,000."""
AGENTS = [Agent(generation, seed) for seed, generation in enumerate(GENERATIONS)]
VERIFIER = Verifier({agent.key_id: agent.public_bytes for agent in AGENTS})


def with_second_signature(agent: Agent, trace: dict[str, Any]) -> dict[str, Any]:
    """Add what the newest agents send: an ML-DSA-65 signature over the signed bytes and the first signature."""
    key = MLDSA65PrivateKey.from_seed_bytes(bytes(32))
    message = signed_bytes(trace, agent.generation.rule) + base64.b64decode(trace["signature"])
    trace["signature_ml_dsa_65"] = standard(key.sign(message))
    trace["pubkey_ml_dsa_65"] = standard(key.public_key().public_bytes_raw())
    return trace


TRACES = [agent.trace(text='Ünïcode 世界 "quoted" \\ 1.0e5', k_eff=1e22) for agent in AGENTS]
TRACES[-1] = with_second_signature(AGENTS[-1], TRACES[-1])


def loaded(trace: dict[str, Any]) -> list[str] | None:
    """The columns of a trace as they are loaded; none if it does not verify or cannot be loaded."""
    [read] = read_document(Document("here", json.dumps(batch([trace])).encode()), VERIFIER).rows or [None]
    if read is None or not read.verified_by:
        return None
    return read.line.decode().split("\t")[: len(TRACE_COLUMNS)]


@pytest.mark.parametrize(
    ("agent", "trace"), list(zip(AGENTS, TRACES, strict=True)), ids=[one.generation.rule for one in AGENTS]
)
@settings(max_examples=CASES, deadline=None)
@given(position=st.floats(0, 1, exclude_max=True), bit=st.integers(0, 7))
def test_a_flipped_bit_never_changes_what_is_verified(agent, trace, position, bit):
    assert VERIFIER.verify(trace).rule is not None
    sent = bytearray(json.dumps(trace, ensure_ascii=False).encode())
    sent[int(position * len(sent))] ^= 1 << bit
    try:
        received = parse(bytes(sent))
    except Rejected:
        return
    if not agent.generation.signs_ids:  # its key is bound to an agent by other traces
        assume(received.get("agent_id_hash") == trace["agent_id_hash"])
    assert loaded(received) in (None, loaded(trace)), received


@given(st.binary(max_size=70))
def test_base64_has_one_meaning(content):
    for text in (base64.b64encode(content).decode(), base64.urlsafe_b64encode(content).decode()):
        for variant in {text, text.rstrip("=")}:
            assert base64_text.decode(variant) == content


@given(st.text("ABab01+/-_= \n", max_size=12))
def test_what_is_decoded_is_what_was_encoded(text):
    try:
        content = base64_text.decode(text)
    except ValueError:
        return
    bare = text.rstrip("=")
    spelt = {encode(content).decode() for encode in (base64.b64encode, base64.urlsafe_b64encode)}
    assert bare in {one.rstrip("=") for one in spelt} and text in spelt | {bare}


@given(st.binary(min_size=32, max_size=32))
def test_a_public_key_is_one_or_is_refused(content):
    try:
        public_key(content)
    except ValueError:
        return
    # A sound point is the negative of another sound point.
    public_key(content[:31] + bytes([content[31] ^ 128]))


@pytest.mark.parametrize("y", [0, 1, 2**255 - 20, 2**255 - 19, 2**255 - 18, 2**255 - 1])
def test_points_by_which_anybody_could_sign_are_no_keys(y):
    for sign in (0, 1 << 255):
        with pytest.raises(ValueError, match="no point"):
            public_key((y | sign).to_bytes(32, "little"))


WHOLE = json.dumps(batch(agent.trace() for agent in AGENTS), ensure_ascii=False).encode()
SNIPPETS = [
    b'"', b"\\", b"{", b"}", b"[", b"]", b",", b":", b"\0", b"\xff",
    b"\xed\xa0\x80", b"\\u0000", b"\\ud800", b"NaN", b"1e999",
    b"-0", b"null", b"true", b"0" * 50, b"9" * 5000, b"[" * 3000, b'{"a":' * 3000, b'"events":', b'"events": [',
    b'"event_type": "complete_trace"', b'"trace": ', b"9999-12-31T23:59:59+00:00", b"\xf0\x9f\x98\x80",
]  # fmt: skip


def mutated(source: random.Random) -> bytes:
    """A batch with a few of its bytes cut, doubled, flipped or replaced."""
    content = bytearray(WHOLE if source.random() < 0.9 else b"")
    for _ in range(source.randrange(1, 6)):
        start = source.randrange(len(content) + 1)
        length = source.choice([0, 1, 1, 2, 8, 100, 3000])
        new = source.choice([b"", source.randbytes(source.randrange(4)), content[start : start + length] * 2])
        content[start : start + length] = source.choice(SNIPPETS) if source.random() < 0.6 else new
    return bytes(content)


def test_nothing_crashes_the_reader():
    """Whatever is received comes to rows and problems, in memory that does not depend on what it says."""
    source = random.Random(20260601)
    for number in range(CASES):
        content = mutated(source)
        if is_measured := number % 50 == 0:
            tracemalloc.start()
        read = read_document(Document("here", content), VERIFIER)
        if is_measured:
            assert tracemalloc.get_traced_memory()[1] < 100 * len(content) + 2**20, (number, content)
            tracemalloc.stop()
        assert len(read.rows) + read.rejected.total() == read.received, (number, content)
        assert read.problems or not read.is_batch or read.outcomes or read.other_events or not read.received


names = st.text() | st.sampled_from([*TRACES[-1], "events", "event_type", "data", "ACTION_RESULT"])
json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text()
    | st.sampled_from(["2026-06-01T00:00:00Z", "9.9", *TRACES[0].values()][:9]),
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


@given(st.lists(st.dictionaries(names, json_values), max_size=4))
def test_taken_apart_a_batch_is_the_same(events):
    whole = {"a": [{"events": [1]}], "events": events, "b": '"events": [{]'}
    text = json.dumps(whole).encode()
    pieces = take_apart(text)
    assert pieces is not None
    assert [parse(text[span]) for span in pieces.events] == events
    assert parse(pieces.with_events([])) == {**whole, "events": []}
