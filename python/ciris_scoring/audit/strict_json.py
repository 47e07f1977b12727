"""Parse batches as strict JSON, and split a faulty document into its events."""

import json
import re
from collections import Counter
from collections.abc import Iterator
from typing import Any, NamedTuple, NoReturn

from ciris_scoring.audit import reasons
from ciris_scoring.audit.reasons import Rejected

VALUES_LIMIT = 1_000_000
"""Maximum number of values in one JSON text, because a parsed value takes far more memory than its text."""
KEYS_LIMIT = 100_000
"""Maximum number of keys in one object."""

# A token is a bracket, or a string that may be cut off at the end. Possessive quantifiers avoid backtracking.
_TOKEN = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\\?\Z)|[\[\]{}]', re.DOTALL)
_OPENS_ARRAY = re.compile(rb"\s*:\s*(?=\[)")
_JUNK = re.compile(rb"[^ \t\r\n,]")


def parse(content: bytes) -> Any:
    """Parse one JSON value in UTF-8. Raise Rejected if it is invalid, repeats a key, or has NaN or too many values."""
    if sum(map(content.count, (b",", b"[", b"{"))) > VALUES_LIMIT:
        raise Rejected(reasons.TOO_LARGE, f"more than {VALUES_LIMIT:,} values in one JSON text")
    try:
        return _DECODER.decode(content.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        raise Rejected(reasons.INVALID_TEXT, f"not UTF-8 at byte {error.start:,}") from error
    except json.JSONDecodeError as error:
        at_end = error.pos >= len(error.doc.rstrip()) or error.msg.startswith("Unterminated string")
        raise Rejected(
            reasons.TRUNCATED if at_end else reasons.NOT_JSON, f"{error.msg} at character {error.pos:,}"
        ) from error
    except RecursionError as error:
        raise Rejected(reasons.TOO_DEEP, "nested too deeply") from error
    except ValueError as error:  # the number has more digits than Python converts
        raise Rejected(reasons.OUT_OF_RANGE, "a number with thousands of digits") from error


def _no_constant(name: str) -> NoReturn:
    raise Rejected(reasons.NOT_A_NUMBER, f"{name}, which JSON does not have")


def _no_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(pairs) > KEYS_LIMIT:
        raise Rejected(reasons.TOO_LARGE, f"{len(pairs):,} keys in one object, {KEYS_LIMIT:,} at most")
    if len(members) < len(pairs):
        counts = Counter(name for name, _ in pairs)
        twice = next(name for name, n in counts.items() if n > 1)
        raise Rejected(reasons.DUPLICATE_KEY, f"the key {twice[:80]!r} twice in one object")
    return members


_DECODER = json.JSONDecoder(object_pairs_hook=_no_duplicates, parse_constant=_no_constant)


class Pieces(NamedTuple):
    """The text around the events of a batch, and the position of each event."""

    before: bytes
    after: bytes
    events: Iterator[slice]


def take_apart(document: bytes) -> Pieces | None:
    """Find the events of a batch by its brackets, without parsing the batch.

    The events include a last event that is cut off, and text between events that is not an event. Return None if
    the document does not have a list of events.
    """
    bounds = _events_array(document)
    if bounds is None:
        return None
    start, end = bounds
    return Pieces(document[: start + 1], document[end:] or b"]}", _events(document, start + 1, end))


def _events_array(document: bytes) -> tuple[int, int] | None:
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


def _is_events(document: bytes, token: re.Match[bytes]) -> bool:
    return token.end() - token.start() == 8 and document[token.start() : token.end()] == b'"events"'


def _events(document: bytes, start: int, end: int) -> Iterator[slice]:
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


def _between(document: bytes, start: int, end: int) -> Iterator[slice]:
    """Yield the position of text between events, unless it is only commas and white space."""
    if junk := _JUNK.search(document, start, end):
        yield slice(junk.start(), end)
