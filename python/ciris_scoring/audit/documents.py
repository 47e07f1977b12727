"""Convert the text of a batch to rows. The module does not use a database, so worker processes can run it."""

import hashlib
import uuid
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from ciris_scoring.audit import times
from ciris_scoring.audit.keys import looks_like_keys
from ciris_scoring.audit.reasons import NOT_A_BATCH, TOO_DEEP, WRONG_TYPE, Problem, Rejected
from ciris_scoring.audit.signatures import Verifier, schema_of
from ciris_scoring.audit.strict_json import parse, take_apart
from ciris_scoring.audit.traces import Row, checked, row

TRACE_EVENT, DEFERRAL_EVENT = "complete_trace", "wbd_deferral"
PROBLEMS_KEPT = 20
"""Maximum number of problems that are kept for each batch. Further problems are only counted."""
SEAL, KEYS = "ceg_seal", "public_keys"
"""Event types under which other files of an agent are counted: seals, which repeat one trace of a batch, and keys."""
NOT_UNDERSTOOD = "not understood"
"""Text that is shown instead of a schema version if a trace cannot be read."""
_OUR_IDS = uuid.UUID("5b2d3a9e-2c1f-4c0e-9a53-6b1f0d7a7e11")
"""Namespace of the UUIDs that are derived from content."""


class Document(NamedTuple):
    """A batch before it is parsed: its origin and its bytes."""

    origin: str
    content: bytes

    @property
    def batch_id(self) -> uuid.UUID:
        """Identifier derived from the content, so that a repeated batch is recognized."""
        return uuid.uuid5(_OUR_IDS, hashlib.sha256(self.content).hexdigest())


class Deferral(NamedTuple):
    """A row of wbd_deferrals, without the columns that are filled when the deferral is resolved."""

    deferral_id: uuid.UUID
    agent_id: str
    status: str
    created_at: str


@dataclass
class Batch:
    """Result of reading a document: rows to load, counts and problems."""

    batch_id: uuid.UUID
    origin: str
    times: dict[str, str | None] = field(default_factory=dict)
    received: int = 0
    outcomes: Counter[tuple[str, str]] = field(default_factory=Counter)
    """Number of traces by schema version and outcome: the rule that verified the trace, or why it does not verify."""
    rejected: Counter[str] = field(default_factory=Counter)
    """Number of traces that cannot be loaded, by reason."""
    run_kinds: Counter[str] = field(default_factory=Counter)
    """Number of traces by run kind, without those that cannot be loaded."""
    rows: list[Row] = field(default_factory=list)
    deferrals: list[Deferral] = field(default_factory=list)
    other_events: Counter[str] = field(default_factory=Counter)
    n_problems: int = 0
    problems: list[Problem] = field(default_factory=list)
    is_batch: bool = True

    def add_problem(self, where: str, reason: str, detail: str) -> None:
        """Count a problem and keep the first `PROBLEMS_KEPT`."""
        self.n_problems += 1
        if len(self.problems) < PROBLEMS_KEPT:
            self.problems.append(Problem(where, reason, detail))


def read_document(document: Document, verifier: Verifier) -> Batch:
    """Read a batch, verify its traces and convert them to rows. Events that cannot be loaded become problems."""
    batch = Batch(document.batch_id, document.origin)
    try:
        content = parse(document.content)
        if (is_seal := _is_seal(content)) or looks_like_keys(content):
            batch.other_events[SEAL if is_seal else KEYS] += 1
            batch.is_batch = False
        elif isinstance(content, dict) and "event_type" in content and "events" not in content:
            _read_events(batch, {}, [content], verifier)
        else:
            _read_events(batch, content, _events(content), verifier)
    except Rejected as error:
        _read_pieces(batch, document.content, error, verifier)
    return batch


def _is_seal(content: Any) -> bool:
    """Return whether a document is a seal. Seals are skipped, because they repeat a trace of a batch."""
    return isinstance(content, dict) and isinstance(content.get("ceg_rows"), list) and "events" not in content


def _events(content: Any) -> list[Any]:
    if not isinstance(content, dict) or not isinstance(content.get("events"), list):
        raise Rejected(NOT_A_BATCH, "JSON, but not an object with a list of events")
    events: list[Any] = content["events"]
    return events


def _read_pieces(batch: Batch, content: bytes, why: Rejected, verifier: Verifier) -> None:
    """Read the events of a batch one by one, because the batch as a whole is not valid JSON."""
    pieces = None if why.reason == NOT_A_BATCH else take_apart(content)
    if pieces is None:
        batch.is_batch = False
    else:
        _read_events(batch, {}, map(_event_or_error, pieces), verifier)
    if not batch.n_problems:  # the fault is not in an event; for example, the text is cut off between events
        batch.add_problem(batch.origin, why.reason, why.detail)


def _event_or_error(content: bytes) -> Any:
    try:
        return parse(content)
    except Rejected as error:
        return error


def _read_events(batch: Batch, head: dict[str, Any], events: Iterable[Any], verifier: Verifier) -> None:
    for name in ("batch_timestamp", "consent_timestamp"):
        try:
            batch.times[name] = None if head.get(name) is None else times.read(head[name], name)
        except Rejected as error:
            batch.times[name] = None
            batch.add_problem(batch.origin, error.reason, error.detail)
    for number, event in enumerate(events, 1):
        _read_event(batch, f"{batch.origin}, event {number:,}", event, verifier)


def _read_event(batch: Batch, where: str, event: Any, verifier: Verifier) -> None:
    schema = NOT_UNDERSTOOD
    kind = event.get("event_type") if isinstance(event, dict) else None
    if kind != TRACE_EVENT and isinstance(kind, str):
        _read_other_event(batch, where, kind, event)
        return
    batch.received += 1
    try:
        if isinstance(event, Rejected):
            raise event
        if not isinstance(event, dict):
            raise Rejected(WRONG_TYPE, "the event is not an object")
        if kind != TRACE_EVENT:
            raise Rejected(WRONG_TYPE, "the event has no event_type, or its event_type is not text")
        trace = checked(event.get("trace"))
        where = f"{where}, trace {str(trace.get('trace_id'))[:128]}"
        schema = schema_of(trace)
        verdict = verifier.verify(trace)
        batch.rows.append(row(trace, verdict))
        batch.run_kinds[batch.rows[-1].run_kind] += 1
    except Rejected as error:
        reason, detail = error.reason, error.detail
        batch.rejected[reason] += 1
    except RecursionError:
        reason, detail = TOO_DEEP, "nested too deeply"
        batch.rejected[reason] += 1
    else:
        if verdict.rule is not None:
            batch.outcomes[schema, verdict.rule] += 1
            return
        reason, detail = (
            str(verdict.reason),
            verdict.detail or "the signature does not fit the trace and the key",
        )
    batch.outcomes[schema, reason] += 1
    batch.add_problem(where, reason, detail)


def _read_other_event(batch: Batch, where: str, kind: str, event: dict[str, Any]) -> None:
    batch.other_events[kind[:40]] += 1
    if kind != DEFERRAL_EVENT:
        return
    try:
        batch.deferrals.append(_deferral(event))
    except Rejected as error:
        batch.add_problem(f"{where}, deferral", error.reason, error.detail)


def _deferral(event: dict[str, Any]) -> Deferral:
    agent = event.get("agent_id")
    if not isinstance(agent, str) or not agent or "\0" in agent or not agent.isprintable():
        raise Rejected(WRONG_TYPE, "agent_id is not printable text")
    created_at = times.read(event.get("timestamp"), "timestamp")
    named = repr((agent, event.get("thought_id"), event.get("task_id"), created_at))
    named_id = uuid.uuid5(_OUR_IDS, named.encode("utf-8", "backslashreplace").decode())
    return Deferral(named_id, agent, "PENDING", created_at)
