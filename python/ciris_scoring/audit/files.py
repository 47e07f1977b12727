"""Read documents from files, folders and standard input, one at a time and in bounded memory."""

import contextlib
import gzip
import itertools
import mmap
import os
import stat
import sys
import tempfile
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO, cast

from ciris_scoring.audit.documents import Document
from ciris_scoring.audit.node import is_store
from ciris_scoring.audit.reasons import TOO_LARGE, TRUNCATED, UNREADABLE, Problem, Rejected
from ciris_scoring.audit.strict_json import parse, take_apart

STDIN = Path("-")
ENDINGS = (".json", ".jsonl", ".json.gz", ".jsonl.gz")
MB = 2**20
WHOLE_LIMIT = 16 * MB
"""Size in bytes up to which a document is read at once. Larger documents are read in parts of whole events."""
EVENT_LIMIT = 16 * MB
PART_SIZE = 4 * MB
UNPACKED_LIMIT = 4096 * MB
"""Maximum size in bytes of a compressed or piped document, which is first written to disk. JSON lines have no limit."""
UNPACKED_RATIO = 200
"""Maximum ratio of unpacked to compressed size, after the first 16 MB. Real batches reach a ratio of 16."""
LINES_LIMIT = 10_000
SHORTEST_LINES = 100
"""After the first `LINES_LIMIT` lines, minimum mean length of the lines of a file in bytes. A line of a real batch has
thousands. Each line costs as much time as a small batch, and a few kilobytes can unpack to millions of lines."""
BROKEN = (EOFError, gzip.BadGzipFile, zlib.error)

Found = Document | Problem


def walk(paths: Iterable[Path]) -> Iterator[Path | Problem]:
    """Yield the given files and the batch files below the given folders, sorted by name within each folder."""
    seen: set[tuple[int, int]] = set()
    for path in paths:
        if path == STDIN or not os.path.isdir(path):  # isdir is false for a path without access
            yield path
        else:
            yield from _walk(path, set(), seen)


def _walk(folder: Path, above: set[tuple[int, int]], seen: set[tuple[int, int]]) -> Iterator[Path | Problem]:
    """Yield the batch files below a folder. A folder is read once, even if several links lead to it."""
    try:
        status = os.stat(folder)
        here = (status.st_dev, status.st_ino)
        if here in above:
            yield Problem(str(folder), UNREADABLE, "a link to a folder that contains this link")
            return
        if here in seen:
            return
        seen.add(here)
        names = sorted(os.listdir(folder))
    except OSError as error:
        yield Problem(str(folder), UNREADABLE, _said(error))
        return
    above = {*above, here}
    for name in names:
        path = folder / name
        if os.path.isdir(path):
            yield from _walk(path, above, seen)
        elif name.lower().endswith(ENDINGS) or is_store(path):
            yield path


def size(path: Path) -> int:
    """Return the size of a file in bytes, or 0 if it cannot be determined."""
    try:
        return os.stat(path).st_size if path != STDIN else 0
    except (OSError, ValueError):  # ValueError: the path contains the character NUL
        return 0


def documents(path: Path) -> Iterator[Found]:
    """Yield the documents and problems of a file. No exception is raised, whatever the file contains."""
    try:
        if path == STDIN:
            yield from _read_pipe(sys.stdin.buffer, "standard input")
            return
        if not stat.S_ISREG(os.stat(path).st_mode):
            yield Problem(str(path), UNREADABLE, "not a regular file")
            return
        if is_store(path):
            yield Problem(str(path), UNREADABLE, f"a SQLite file, the store of a node: give it as --from-node {path}")
            return
        name = path.name.lower()
        is_packed = name.endswith(".gz")
        with contextlib.ExitStack() as stack:
            file: IO[bytes] = stack.enter_context(path.open("rb"))
            if is_packed:
                file = cast(IO[bytes], stack.enter_context(_Unpacking(file)))
            if name.removesuffix(".gz").endswith(".jsonl"):
                yield from _lines(file, str(path))
            else:
                yield from _document(file, str(path), is_on_disk=not is_packed)
    except _TooLarge as error:
        yield Problem(str(path), TOO_LARGE, str(error))
    except (OSError, ValueError) as error:
        yield Problem(str(path), UNREADABLE, _said(error))


def _said(error: OSError | ValueError) -> str:
    return getattr(error, "strerror", None) or str(error)


class _TooLarge(Exception):
    pass


class _Unpacking(gzip.GzipFile):
    """A compressed file that raises `_TooLarge` if its content exceeds UNPACKED_RATIO times its size."""

    def __init__(self, file: IO[bytes]):
        super().__init__(fileobj=file)
        self._packed = file

    def _check(self, content: bytes) -> bytes:
        if self.tell() > WHOLE_LIMIT + UNPACKED_RATIO * self._packed.tell():
            raise _TooLarge(f"the content is more than {UNPACKED_RATIO} times as large as the file")
        return content

    def read(self, size: int | None = -1) -> bytes:
        return self._check(super().read(size))

    def readline(self, size: int | None = -1) -> bytes:
        return self._check(super().readline(size))


def _read_pipe(file: IO[bytes], origin: str) -> Iterator[Found]:
    """Yield the documents of a stream. It is read as JSON lines if its first line is a complete JSON value."""
    first = _line(file)
    try:
        parse(first)
    except Rejected:
        yield from _document(file, origin, [first], is_on_disk=False)
    else:
        yield from _lines(file, origin, [first])


def _line(file: IO[bytes]) -> bytes:
    return file.readline(WHOLE_LIMIT + 1)


def _lines(file: IO[bytes], origin: str, first: Iterable[bytes] = ()) -> Iterator[Found]:
    lines = itertools.chain(first, iter(lambda: _line(file), b""))
    length = 0
    try:
        for number, line in enumerate(lines, 1):
            where = f"{origin}, line {number:,}"
            length += len(line)
            if number > LINES_LIMIT + length // SHORTEST_LINES:
                detail = f"lines of less than {SHORTEST_LINES} bytes on average; the rest is not read"
                yield Problem(where, TOO_LARGE, detail)
                return
            if len(line) > WHOLE_LIMIT:
                while line and not line.endswith(b"\n"):
                    line = _line(file)
                yield Problem(where, TOO_LARGE, f"a line of more than {WHOLE_LIMIT // MB} MB")
            elif content := line.strip():
                yield Document(where, content)
    except BROKEN as error:
        yield Problem(origin, TRUNCATED, f"the compressed file is cut off or damaged: {error}")


def _document(file: IO[bytes], origin: str, first: Iterable[bytes] = (), *, is_on_disk: bool) -> Iterator[Found]:
    with contextlib.ExitStack() as stack:
        kept = file
        if not is_on_disk:
            kept = cast(IO[bytes], stack.enter_context(tempfile.SpooledTemporaryFile(WHOLE_LIMIT + 1)))
            for block in first:
                kept.write(block)
            yield from _unpack(file, kept, origin)
        length = kept.seek(0, os.SEEK_END)
        kept.seek(0)
        if length <= WHOLE_LIMIT:
            yield Document(origin, kept.read().strip())
            return
        kept.flush()
        yield from _parts(mmap.mmap(kept.fileno(), 0, access=mmap.ACCESS_READ), origin)


def _unpack(file: IO[bytes], spool: IO[bytes], origin: str) -> Iterator[Found]:
    """Copy a stream to a temporary file, which stays in memory while it is small."""
    try:
        while block := file.read(MB):
            if spool.write(block) and spool.tell() > UNPACKED_LIMIT:
                yield Problem(
                    origin,
                    TOO_LARGE,
                    f"more than {UNPACKED_LIMIT // MB:,} MB in one document; JSON lines have no limit",
                )
                break
    except BROKEN as error:
        yield Problem(origin, TRUNCATED, f"the compressed file is cut off or damaged: {error}")


def _parts(content: mmap.mmap, origin: str) -> Iterator[Found]:
    """Split a large batch into smaller ones of about `PART_SIZE` bytes and yield them."""
    pieces = take_apart(content, PART_SIZE)
    if pieces is None:
        detail = f"{len(content) / MB:,.0f} MB in one document, which is not a batch of events"
        yield Problem(origin, TOO_LARGE, detail)
        return
    events: list[bytes] = []
    held, first = 0, 1
    for number, span in enumerate(pieces.events, 1):
        if span.stop - span.start > EVENT_LIMIT:
            where = f"{origin}, event {number:,}"
            yield Problem(where, TOO_LARGE, f"an event of more than {EVENT_LIMIT // MB} MB")
        else:
            events.append(content[span])
            held += span.stop - span.start
        if held >= PART_SIZE:
            yield Document(f"{origin}, events {first:,} to {number:,}", pieces.with_events(events))
            events, held, first = [], 0, number + 1
    if events:
        yield Document(f"{origin}, events from {first:,}", pieces.with_events(events))
