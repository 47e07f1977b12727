"""Load new batches into the source tables. Batches are loaded in chunks, one transaction per chunk."""

import json
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ciris_scoring.audit import files
from ciris_scoring.audit.documents import NOT_UNDERSTOOD, Batch, Document
from ciris_scoring.audit.incoming import Found
from ciris_scoring.audit.keys import read_keys, usable
from ciris_scoring.audit.pool import processors, read_all
from ciris_scoring.audit.reasons import Problem
from ciris_scoring.audit.signatures import RULES, SCHEMAS, schema_of
from ciris_scoring.audit.store import Store
from ciris_scoring.database.connection import connect
from ciris_scoring.database.project import Project
from ciris_scoring.database.source_schema import RUN_KINDS
from ciris_scoring.database.terminal import aligned, plural, printable, progress, say
from ciris_scoring.errors import InputError

CHUNK_SIZE = 2**20
"""Size of a chunk in bytes: documents that one process verifies and one transaction writes. No document is split."""
CHUNK_DOCUMENTS = 500
SHOWN_PROBLEMS = 20
"""Maximum number of problems in the text of a report."""
MOST_PROBLEMS = 1_000
"""Maximum number of problems that are kept, and are in the JSON of a report. Further problems are only counted."""


@dataclass
class Summary:
    """Counts and problems of a load."""

    files: int = 0
    batches: int = 0
    received: int = 0
    """Number of traces in the batches that were read. Each trace is new, rejected or sent again."""
    new: int = 0
    rejected: int = 0
    outcomes: Counter[tuple[str, str]] = field(default_factory=Counter)
    """Number of traces by schema version and outcome: the rule that verified the trace, or why it does not verify."""
    run_kinds: Counter[str] = field(default_factory=Counter)
    """Number of received traces by run kind, without those that cannot be read."""
    deferrals: int = 0
    other_events: Counter[str] = field(default_factory=Counter)
    new_keys: int = 0
    n_problems: int = 0
    problems: list[Problem] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def sent_again(self) -> int:
        """Number of traces that the database already has from an earlier batch."""
        return self.received - self.new - self.rejected

    @property
    def counts(self) -> dict[str, int]:
        """Number of received traces, in total and by result."""
        return {name: getattr(self, name) for name in ("received", "new", "sent_again", "rejected")}

    @property
    def is_clean(self) -> bool:
        """Whether every trace is loaded and verified."""
        return not self.n_problems

    def add_problems(self, problems: Iterable[Problem]) -> None:
        """Count problems and keep the first `MOST_PROBLEMS`."""
        for problem in problems:
            self.n_problems += 1
            if len(self.problems) < MOST_PROBLEMS:
                self.problems.append(problem)

    def add(self, batch: Batch) -> None:
        """Add the counts of a batch. The number of new traces is not known before the batch is written."""
        self.batches += batch.is_batch
        self.received += batch.received
        self.rejected += batch.rejected.total()
        self.outcomes.update(batch.outcomes)  # += on a Counter would drop negative counts
        self.run_kinds += batch.run_kinds
        self.deferrals += len(batch.deferrals)
        for kind, n in batch.other_events.items():
            named = kind in self.other_events or len(self.other_events) < SHOWN_PROBLEMS
            self.other_events[kind if named else "of other kinds"] += n
        self.add_problems(batch.problems)
        self.n_problems += batch.n_problems - len(batch.problems)

    def add_found(self, found: Iterable[Found]) -> None:
        """Count traces that are refused because of other traces."""
        for one in found:
            if one.rule is not None:
                schema = schema_of({"trace_schema_version": one.trace_schema_version})
                self.outcomes[schema, one.rule] -= 1
                self.outcomes[schema, one.reason] += 1
            self.add_problems([one.problem])


def load(project: Project, paths: Sequence[Path], keys_files: Sequence[Path]) -> Summary:
    """Register keys and load batches. Progress is written to stderr.

    :raises InputError: a file of keys is invalid, or the target is a Citus cluster.
    :raises DatabaseError: another role could run code as this role.
    :raises RunInProgress: another session holds the lock of loads.
    """
    if project.variables.get("distribution") == "citus":
        raise InputError(
            "Batches cannot be loaded into a Citus cluster.",
            "Load them into a PostgreSQL server without Citus, and copy the rows as docs/scaling.md says.",
        )
    started = time.monotonic()
    summary = Summary()
    keys, problems = read_keys(keys_files)
    summary.add_problems(problems)
    with connect(project, writes=True) as connection:
        store = Store(connection, project)
        store.create()
        summary.new_keys, problems = store.register(keys.values())
        summary.add_problems(problems)
        store.keys, unusable = usable(store.registered_keys().values())
        for problem in unusable:
            say(f"Note: {problem.where} cannot verify traces: {problem.detail}.")
        for batches in read_batches(paths, store.keys, summary):
            written = store.write([batch for batch in batches if batch.is_batch])
            summary.new += written.new
            summary.rejected += len(written.rejected)
            summary.add_found([*written.refused, *written.rejected])
        if summary.new:
            store.analyze()
    summary.seconds = time.monotonic() - started
    return summary


def read_batches(paths: Sequence[Path], keys: Mapping[str, bytes], summary: Summary) -> Iterator[list[Batch]]:
    """Read, verify and count the batches of files. Write the progress to stderr."""
    chunks = _chunks(_documents(paths, summary))
    last = time.monotonic()
    for batches in read_all(chunks, keys, processors()):
        yield batches
        for batch in batches:
            summary.add(batch)
        if time.monotonic() - last > 2:
            last = time.monotonic()
            progress(f"{plural(summary.received, 'trace')} in {plural(summary.files, 'file')}")


def _documents(paths: Sequence[Path], summary: Summary) -> Iterator[Document]:
    for path in files.walk(paths):
        if isinstance(path, Problem):
            summary.add_problems([path])
            continue
        summary.files += 1
        for found in files.documents(path):
            if isinstance(found, Problem):
                summary.add_problems([found])
            else:
                yield found


def _chunks(documents: Iterable[Document]) -> Iterator[list[Document]]:
    chunk: list[Document] = []
    size = 0
    for document in documents:
        chunk.append(document)
        size += len(document.content)
        if size >= CHUNK_SIZE or len(chunk) >= CHUNK_DOCUMENTS:
            yield chunk
            chunk, size = [], 0
    if chunk:
        yield chunk


def report(summary: Summary) -> list[str]:
    """Return the result of a load as lines of text."""
    counts = ", ".join(f"{n:,} {name.replace('_', ' ')}" for name, n in summary.counts.items() if n)
    counts = counts.removeprefix(f"{summary.received:,} received, ")
    traces = plural(summary.received, "trace") + (f": {counts}" if counts else "")
    lines = [f"{plural(summary.files, 'file')}, {plural(summary.batches, 'batch', 'batches')}: {traces}."]
    if summary.received:
        rate = summary.received / summary.seconds
        lines.append(f"{summary.seconds:,.1f} s, {rate:,.0f} traces a second.")
    if summary.outcomes or summary.deferrals:
        lines += ["", *_outcomes(summary.outcomes, summary.deferrals)]
    if marked := [f"{summary.run_kinds[kind]:,} {kind}" for kind in RUN_KINDS[1:] if summary.run_kinds[kind]]:
        lines += [
            "",
            f"Not of production: {', '.join(marked)}. A run scores them only if ciris_scored_run_kinds names them.",
        ]
    if summary.deferrals or summary.other_events:
        events = ", ".join(f"{n:,} {printable(kind)}" for kind, n in sorted(summary.other_events.items()))
        lines += ["", f"Other events: {events}; {plural(summary.deferrals, 'deferral')} loaded."]
    if summary.new_keys:
        lines.append(f"{plural(summary.new_keys, 'key')} registered.")
    if summary.n_problems:
        lines += ["", *problem_lines(summary)]
    return lines


def problem_lines(summary: Summary, where: str = "") -> list[str]:
    """List the first problems."""
    shown = summary.problems[:SHOWN_PROBLEMS]
    lines = [f"{plural(summary.n_problems, 'problem')}{where}:"]
    lines += [printable(f"  {place}: {reason}: {detail}") for place, reason, detail in shown]
    if summary.n_problems > len(shown):
        lines.append(f"  and {summary.n_problems - len(shown):,} more; --json lists up to {MOST_PROBLEMS:,}.")
    return lines


def as_json(summary: Summary) -> str:
    """Return the result of a load as JSON."""
    document = {
        "is_clean": summary.is_clean,
        "files": summary.files,
        "batches": summary.batches,
        "traces": summary.counts,
        "outcomes": [
            {"schema": schema, "outcome": outcome, "traces": n}
            for (schema, outcome), n in sorted(summary.outcomes.items())
            if n
        ],
        "run_kinds": {kind: summary.run_kinds[kind] for kind in RUN_KINDS},
        "other_events": summary.other_events,
        "deferrals": summary.deferrals,
        "new_keys": summary.new_keys,
        "seconds": summary.seconds,
        "n_problems": summary.n_problems,
        "problems": [problem._asdict() for problem in summary.problems],
    }
    return json.dumps(document, indent=2)


def _outcomes(outcomes: Counter[tuple[str, str]], n_deferrals: int) -> list[str]:
    rows = [
        (schema, f"verified ({outcome})" if outcome in RULES else outcome, f"{n:,}")
        for schema in (*SCHEMAS, NOT_UNDERSTOOD)
        for (of, outcome), n in sorted(outcomes.items())
        if of == schema and n
    ]
    if n_deferrals:
        rows.append(("deferrals", "not signed: anybody could have written them, for any agent", f"{n_deferrals:,}"))
    return aligned(["schema", "outcome", "traces"], rows, right=["traces"])
