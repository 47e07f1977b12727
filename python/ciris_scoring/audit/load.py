"""Load new batches into the source tables. Batches are loaded in chunks, one transaction per chunk."""

import json
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ciris_scoring.audit import files
from ciris_scoring.audit.documents import NOT_UNDERSTOOD, PROBLEMS_KEPT, Batch, Document
from ciris_scoring.audit.incoming import Found
from ciris_scoring.audit.keys import read_keys, usable
from ciris_scoring.audit.pool import SMALL, processors, read_all
from ciris_scoring.audit.reasons import Problem
from ciris_scoring.audit.signatures import RULES, SCHEMAS, schema_of
from ciris_scoring.audit.store import KnownBatch, Store
from ciris_scoring.database.connection import connect
from ciris_scoring.database.project import Project
from ciris_scoring.database.source_schema import RUN_KINDS
from ciris_scoring.database.terminal import aligned, plural, printable, say
from ciris_scoring.database.terminal import progress as show_progress
from ciris_scoring.errors import InputError

CHUNK_SIZE = 2**20
"""Size of a chunk in bytes: documents that one process verifies and one transaction writes. No document is split."""
CHUNK_DOCUMENTS = 500
SHOWN_PROBLEMS = 20


@dataclass
class Summary:
    """Counts and problems of a load."""

    files: int = 0
    batches: int = 0
    received: int = 0
    """Number of traces in batches that were not loaded before. Each trace is new, replaced, rejected or sent again."""
    new: int = 0
    replaced: int = 0
    """Number of verified traces that replaced a loaded trace that was not verified."""
    rejected: int = 0
    known_batches: int = 0
    known: Counter[str] = field(default_factory=Counter)
    """Number of received, rejected and unverified traces in batches that were loaded before."""
    outcomes: Counter[tuple[str, str]] = field(default_factory=Counter)
    """Number of traces by schema version and outcome: the rule that verified the trace, or why it does not verify."""
    run_kinds: Counter[str] = field(default_factory=Counter)
    """Number of received traces by run kind, without those that cannot be read."""
    deferrals: int = 0
    other_events: Counter[str] = field(default_factory=Counter)
    new_keys: int = 0
    keys_files: list[str] = field(default_factory=list)
    n_problems: int = 0
    problems: list[Problem] = field(default_factory=list)
    most_problems: int | None = SHOWN_PROBLEMS
    """Maximum number of problems that are kept; None for no limit."""
    seconds: float = 0.0

    @property
    def sent_again(self) -> int:
        """Number of traces that the database already has from an earlier batch."""
        return self.received - self.new - self.replaced - self.rejected

    @property
    def counts(self) -> dict[str, int]:
        """Number of received traces, in total and by result."""
        names = ("received", "new", "replaced", "sent_again", "rejected")
        return {name: getattr(self, name) for name in names}

    @property
    def is_clean(self) -> bool:
        """Whether every trace was loaded and verified, in this load or an earlier one."""
        return not (self.n_problems or self.known["rejected"] or self.known["not_verified"])

    def add_problems(self, problems: Iterable[Problem]) -> None:
        """Count problems and keep the first `most_problems`."""
        for problem in problems:
            self.n_problems += 1
            if self.most_problems is None or len(self.problems) < self.most_problems:
                self.problems.append(problem)

    def add(self, batch: Batch) -> None:
        """Add the counts of a batch. Numbers of new and replaced traces are not known before the batch is written."""
        self.batches += batch.is_batch
        self.received += batch.received
        self.rejected += batch.rejected.total()
        self.outcomes.update(batch.outcomes)  # += on a Counter would drop negative counts
        self.run_kinds += batch.run_kinds
        self.deferrals += len(batch.deferrals)
        for kind, n in batch.other_events.items():
            named = kind in self.other_events or len(self.other_events) < SHOWN_PROBLEMS
            self.other_events[kind if named else "of other kinds"] += n
        if batch.has_new_keys and len(self.keys_files) < SHOWN_PROBLEMS:
            self.keys_files.append(batch.origin)
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

    def add_known(self, known: KnownBatch) -> None:
        """Count a batch that was loaded before."""
        self.known_batches += 1
        self.known.update(known._asdict())


def load(
    project: Project,
    paths: Sequence[Path],
    keys_files: Sequence[Path],
    most_problems: int | None = SHOWN_PROBLEMS,
) -> Summary:
    """Register keys and load batches. Progress is written to stderr.

    :param most_problems: maximum number of problems to keep; None for all problems that each batch keeps.
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
    summary = Summary(most_problems=most_problems)
    keys, problems = read_keys(keys_files)
    summary.add_problems(problems)
    with connect(project, writes=True) as connection:
        store = Store(connection, project)
        store.create()
        summary.new_keys, problems = store.register(keys.values())
        summary.add_problems(problems)
        store.keys, unusable = usable(store.registered_keys())
        for problem in unusable:
            say(f"Note: {problem.where} cannot verify traces: {problem.detail}.")
        for batches in read_batches(paths, store.keys, summary, store):
            written = store.write([batch for batch in batches if batch.is_batch])
            summary.new += written.new
            summary.replaced += written.replaced
            summary.rejected += len(written.rejected)
            summary.add_found([*written.refused, *written.rejected])
        if summary.new:
            store.analyze()
    summary.seconds = time.monotonic() - started
    return summary


def read_batches(
    paths: Sequence[Path], keys: Mapping[str, bytes], summary: Summary, store: Store | None = None
) -> Iterator[list[Batch]]:
    """Read, verify and count the batches of files. Skip batches that are loaded, and write the progress to stderr."""
    total = sum(files.size(path) for path in files.walk(paths) if isinstance(path, Path))
    progress = Progress(total)
    chunks = _chunks(_documents(paths, summary, progress))
    if store is not None:
        chunks = _unknown(chunks, store, summary)
    n_processes = processors() if total > SMALL or files.STDIN in paths else 1
    for batches in read_all(chunks, keys, n_processes):
        yield batches
        for batch in batches:
            summary.add(batch)
        progress.show(summary.received + summary.known["received"])


def _documents(paths: Sequence[Path], summary: Summary, progress: "Progress") -> Iterator[Document]:
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
        progress.done += files.size(path)


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


def _unknown(chunks: Iterable[list[Document]], store: Store, summary: Summary) -> Iterator[list[Document]]:
    """Yield the chunks without the batches that were loaded before."""
    for chunk in chunks:
        known = store.known([document.batch_id for document in chunk])
        for found in known.values():
            summary.add_known(found)
        if left := [document for document in chunk if document.batch_id not in known]:
            yield left


class Progress:
    """Progress of a load, written to stderr every few seconds."""

    def __init__(self, total: int):
        self._total = total
        self._started = self._last = time.monotonic()
        self.done = 0

    def show(self, traces: int) -> None:
        """Write the number of traces, the traces per second and the remaining time, at most every two seconds."""
        now = time.monotonic()
        if now - self._last < 2:
            return
        self._last = now
        seconds = now - self._started
        line = f"{plural(traces, 'trace')}, {traces / seconds:,.0f} a second"
        if self.done and self._total:
            left = max(0.0, seconds * (self._total / self.done - 1))
            line += f", {min(1.0, self.done / self._total):.0%} of the files, about {left:,.0f} s left"
        show_progress(line)


def report(summary: Summary) -> list[str]:
    """Return the result of a load as lines of text."""
    lines = [f"{plural(summary.files, 'file')}, {plural(summary.batches, 'batch', 'batches')}: {_traces(summary)}."]
    if summary.received:
        rate = summary.received / summary.seconds
        lines.append(f"{summary.seconds:,.1f} s, {rate:,.0f} traces a second.")
    if summary.known_batches:
        lines.append(
            f"{plural(summary.known_batches, 'batch', 'batches')} loaded before: "
            f"{plural(summary.known['received'], 'trace')}, {summary.known['not_verified']:,} of them not verified, "
            f"{summary.known['rejected']:,} rejected."
        )
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
    lines += [f"{printable(name)} contains keys; --keys registers them." for name in summary.keys_files]
    if summary.n_problems:
        lines += ["", *problem_lines(summary, "--all")]
    return lines


def _traces(summary: Summary) -> str:
    words = {"replaced": "verified now and not before", "sent_again": "sent again"}
    counts = [(n, name) for name, n in summary.counts.items() if n and name != "received"]
    parts = ", ".join(f"{n:,} {words.get(name, name)}" for n, name in counts)
    return plural(summary.received, "trace") + (f": {parts}" if parts else "")


def problem_lines(summary: Summary, option: str, where: str = "") -> list[str]:
    """List the problems that were kept. If there are more, name the option that lists them."""
    lines = [f"{plural(summary.n_problems, 'problem')}{where}:"]
    lines += [printable(f"  {place}: {reason}: {detail}") for place, reason, detail in summary.problems]
    if summary.n_problems > len(summary.problems):
        lines.append(
            f"  and {summary.n_problems - len(summary.problems):,} more; {option} lists {PROBLEMS_KEPT} of each batch."
        )
    return lines


def as_json(summary: Summary) -> str:
    """Return the result of a load as JSON."""
    document = {
        "is_clean": summary.is_clean,
        "files": summary.files,
        "batches": summary.batches,
        "traces": summary.counts,
        "loaded_before": {
            "batches": summary.known_batches,
            **{name: summary.known[name] for name in KnownBatch._fields},
        },
        "outcomes": [
            {"schema": schema, "outcome": outcome, "traces": n}
            for (schema, outcome), n in sorted(summary.outcomes.items())
            if n
        ],
        "run_kinds": {kind: summary.run_kinds[kind] for kind in RUN_KINDS},
        "other_events": summary.other_events,
        "deferrals": summary.deferrals,
        "new_keys": summary.new_keys,
        "files_with_new_keys": summary.keys_files,
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
