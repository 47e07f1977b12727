"""Strict JSON for batches, and the events of a faulty document one by one."""

import json
import mmap
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple, NoReturn

from ciris_scoring.audit.reasons import (
    DUPLICATE_KEY,
    INVALID_TEXT,
    NOT_A_NUMBER,
    NOT_JSON,
    OUT_OF_RANGE,
    TOO_DEEP,
    TOO_LARGE,
    TRUNCATED,
    Rejected,
)

VALUES_LIMIT = 1_000_000
"""Values of one JSON text, by its commas and brackets: each takes memory many times as large as its text."""
KEYS_LIMIT = 100_000
"""Keys of one object."""

# A string, closed or cut off by the end, or a bracket. Possessive, so that no string is looked at twice.
_TOKEN = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\\?\Z)|[\[\]{}]', re.DOTALL)
_OPENS_ARRAY = re.compile(rb"\s*:\s*(?=\[)")
_JUNK = re.compile(rb"[^ \t\r\n,]")


def parse(content: bytes) -> Any:
    """Read one JSON value.

    :raises Rejected: it is not JSON in UTF-8, or says something twice, has NaN or Infinity, or too many values.
    """
    if sum(map(content.count, (b",", b"[", b"{"))) > VALUES_LIMIT:
        raise Rejected(TOO_LARGE, f"more than {VALUES_LIMIT:,} values in one JSON text")
    try:
        return _DECODER.decode(content.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        raise Rejected(INVALID_TEXT, f"no UTF-8 at byte {error.start:,}") from error
    except json.JSONDecodeError as error:
        at_end = error.pos >= len(error.doc.rstrip()) or error.msg.startswith("Unterminated string")
        raise Rejected(
            TRUNCATED if at_end else NOT_JSON, f"{error.msg} at character {error.pos:,}"
        ) from error
    except RecursionError as error:
        raise Rejected(TOO_DEEP, "nested too deeply") from error
    except ValueError as error:  # a number of more digits than Python reads
        raise Rejected(OUT_OF_RANGE, "a number of thousands of digits") from error


def _no_constant(name: str) -> NoReturn:
    raise Rejected(NOT_A_NUMBER, f"{name}, which JSON does not have")


def _no_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(pairs) > KEYS_LIMIT:
        raise Rejected(TOO_LARGE, f"{len(pairs):,} keys in one object, {KEYS_LIMIT:,} at most")
    if len(members) < len(pairs):
        counts = Counter(name for name, _ in pairs)
        twice = next(name for name, n in counts.items() if n > 1)
        raise Rejected(DUPLICATE_KEY, f"the key {twice[:80]!r} twice in one object")
    return members


_DECODER = json.JSONDecoder(object_pairs_hook=_no_duplicates, parse_constant=_no_constant)


class Pieces(NamedTuple):
    """A batch taken apart: the text around its events, and the place of each."""

    before: bytes
    after: bytes
    events: Iterator[slice]

    def with_events(self, events: Iterable[bytes]) -> bytes:
        """Return a batch of other events."""
        return b"%b%b%b" % (self.before, b",".join(events), self.after)


def take_apart(document: bytes | mmap.mmap, longest_around: int = 2**63) -> Pieces | None:
    """Find the events of a batch by its brackets alone; None where it has no list of events.

    A cut-off last event is included as far as it goes; so is text between events that is no event.

    :param longest_around: bytes around the events beyond which it is no batch either.
    """
    bounds = _events_array(document)
    if bounds is None or bounds[0] + len(document) - bounds[1] > longest_around:
        return None
    start, end = bounds
    return Pieces(document[: start + 1], document[end:] or b"]}", _events(document, start + 1, end))


def _events_array(document: bytes | mmap.mmap) -> tuple[int, int] | None:
    """Where the list of events opens and closes."""
    depth, start = 0, None
    for token in _TOKEN.finditer(document):
        kind = document[token.start()]
        if kind in b"[{":
            depth += 1
        elif kind in b"]}":
            depth -= 1
            if start is not None and depth == 1:
                return start, token.start()
        elif start is None and depth == 1 and _is_events(document, token):
            colon = _OPENS_ARRAY.match(document, token.end())
            start = colon.end() if colon else None
    return None if start is None else (start, len(document))


def _is_events(document: bytes | mmap.mmap, token: re.Match[bytes]) -> bool:
    return token.end() - token.start() == 8 and document[token.start() : token.end()] == b'"events"'


def _events(document: bytes | mmap.mmap, start: int, end: int) -> Iterator[slice]:
    depth, last = 0, start
    for token in _TOKEN.finditer(document, start, end):
        kind = document[token.start()]
        if kind in b"[{":
            if depth == 0:
                yield from _between(document, last, token.start())
                last = token.start()
            depth += 1
        elif kind in b"]}":
            depth -= 1
            if depth == 0:
                yield slice(last, token.end())
                last = token.end()
    yield from _between(document, last, end)


def _between(document: bytes | mmap.mmap, start: int, end: int) -> Iterator[slice]:
    """Text between events, where only commas belong."""
    if junk := _JUNK.search(document, start, end):
        yield slice(junk.start(), end)
