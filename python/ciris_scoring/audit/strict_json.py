"""Parse batches as strict JSON, and split a faulty document into its events."""

import json
import re
from collections import Counter
from collections.abc import Iterator
from typing import Any, NoReturn

from ciris_scoring.audit import reasons
from ciris_scoring.audit.reasons import Rejected

VALUES_LIMIT = 1_000_000
"""Maximum number of values in one JSON text, because a parsed value takes far more memory than its text."""

# A token is a bracket, or a string that may be cut off at the end. Possessive quantifiers avoid backtracking.
_TOKEN = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\\?\Z)|[\[\]{}]', re.DOTALL)
_EVENTS = re.compile(rb'"events"\s*:\s*\[')
_BETWEEN = b", \t\r\n"


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
    if len(members) < len(pairs):
        counts = Counter(name for name, _ in pairs)
        twice = next(name for name, n in counts.items() if n > 1)
        raise Rejected(reasons.DUPLICATE_KEY, f"the key {twice[:80]!r} twice in one object")
    return members


_DECODER = json.JSONDecoder(object_pairs_hook=_no_duplicates, parse_constant=_no_constant)


def take_apart(document: bytes) -> Iterator[bytes] | None:
    """Find the events of a batch by its brackets, without parsing the batch.

    The events include a last event that is cut off, and text between events that is not an event. Return None if
    the document does not have a list of events.
    """
    start = _EVENTS.search(document)
    return None if start is None else _events(document, start.end())


def _events(document: bytes, last: int) -> Iterator[bytes]:
    depth, end = 0, len(document)
    for token in _TOKEN.finditer(document, last):
        kind = document[token.start()]
        if kind in b"[{":
            if depth == 0:
                if between := document[last : token.start()].strip(_BETWEEN):
                    yield between
                last = token.start()
            depth += 1
        elif kind in b"]}":
            depth -= 1
            if depth < 0:
                end = token.start()
                break
            if depth == 0:
                yield document[last : token.end()]
                last = token.end()
    if rest := document[last:end].strip(_BETWEEN):
        yield rest
