"""Read documents from files, folders and standard input, one at a time and in bounded memory."""

import gzip
import itertools
import os
import stat
import sys
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO, cast

from ciris_scoring.audit.documents import Document
from ciris_scoring.audit.reasons import TOO_LARGE, TRUNCATED, UNREADABLE, Problem, Rejected
from ciris_scoring.audit.strict_json import parse

STDIN = Path("-")
ENDINGS = (".json", ".jsonl", ".json.gz", ".jsonl.gz")
MB = 2**20
DOCUMENT_LIMIT = 64 * MB
"""Maximum size in bytes of a document, unpacked: a file with one batch, or a line of JSON lines."""
BROKEN = (EOFError, gzip.BadGzipFile, zlib.error)

Found = Document | Problem


def walk(paths: Iterable[Path]) -> Iterator[Path | Problem]:
    """Yield the given files and the batch files below the given folders, sorted by name within each folder. A folder is
    read once, even if several links lead to it."""
    seen: set[str] = set()
    for path in paths:
        if path == STDIN or not os.path.isdir(path):  # isdir is false for a path without access
            yield path
            continue
        errors: list[OSError] = []
        for folder, folders, names in os.walk(path, onerror=errors.append, followlinks=True):
            real = os.path.realpath(folder)
            if real in seen:
                folders.clear()
                continue
            seen.add(real)
            folders.sort()
            files = (Path(folder, name) for name in sorted(names))
            yield from (file for file in files if file.name.lower().endswith(ENDINGS))
        yield from (Problem(str(error.filename), UNREADABLE, _said(error)) for error in errors)


def documents(path: Path) -> Iterator[Found]:
    """Yield the documents and problems of a file. No exception is raised, whatever the file contains."""
    try:
        if path == STDIN:
            yield from _read_pipe(sys.stdin.buffer, "standard input")
            return
        if not stat.S_ISREG(os.stat(path).st_mode):
            yield Problem(str(path), UNREADABLE, "not a regular file")
            return
        name = path.name.lower()
        read = _lines if name.removesuffix(".gz").endswith(".jsonl") else _document
        with gzip.open(path) if name.endswith(".gz") else path.open("rb") as file:
            yield from read(cast(IO[bytes], file), str(path))
    except (OSError, ValueError) as error:
        yield Problem(str(path), UNREADABLE, _said(error))


def _said(error: OSError | ValueError) -> str:
    return getattr(error, "strerror", None) or str(error)


def _read_pipe(file: IO[bytes], origin: str) -> Iterator[Found]:
    """Yield the documents of a stream. It is read as JSON lines if its first line is a complete JSON value."""
    first = _line(file)
    try:
        parse(first)
    except Rejected:
        yield from _document(file, origin, first)
    else:
        yield from _lines(file, origin, first)


def _line(file: IO[bytes]) -> bytes:
    return file.readline(DOCUMENT_LIMIT + 1)


def _lines(file: IO[bytes], origin: str, first: bytes = b"") -> Iterator[Found]:
    lines = itertools.chain([first] * bool(first), iter(lambda: _line(file), b""))
    try:
        for number, line in enumerate(lines, 1):
            where = f"{origin}, line {number:,}"
            if len(line) > DOCUMENT_LIMIT:
                while line and not line.endswith(b"\n"):
                    line = _line(file)
                yield Problem(where, TOO_LARGE, f"a line of more than {DOCUMENT_LIMIT // MB} MB")
            elif content := line.strip():
                yield Document(where, content)
    except BROKEN as error:
        yield _cut_off(origin, error)


def _document(file: IO[bytes], origin: str, first: bytes = b"") -> Iterator[Found]:
    content = bytearray(first)
    try:
        while len(content) <= DOCUMENT_LIMIT and (block := file.read(MB)):
            content += block
    except BROKEN as error:
        yield _cut_off(origin, error)
    if len(content) > DOCUMENT_LIMIT:
        detail = f"more than {DOCUMENT_LIMIT // MB} MB in one batch; a file of JSON lines may have many batches"
        yield Problem(origin, TOO_LARGE, detail)
    else:
        yield Document(origin, bytes(content).strip())


def _cut_off(origin: str, error: Exception) -> Problem:
    return Problem(origin, TRUNCATED, f"the compressed file is cut off or damaged: {error}")
