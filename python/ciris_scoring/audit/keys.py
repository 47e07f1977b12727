"""Read public keys from a file and validate them."""

import csv
import io
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from ciris_scoring.audit import base64_text, times
from ciris_scoring.audit.reasons import BAD_KEY, Problem, Rejected
from ciris_scoring.audit.strict_json import parse
from ciris_scoring.database.source_schema import PUBLIC_KEY_COLUMNS
from ciris_scoring.errors import InputError

KEYS_FILE_LIMIT = 64 * 2**20
KEYS_LIMIT = 10_000
"""Maximum number of keys in one file. It limits the time of a load, because the validation of a key takes a
millisecond."""
FORMATS = (
    'JSON {"KEY ID": "BASE64", ...}, or CSV with the columns key_id and public_key_base64 and, where known, '
    "algorithm, created_at, expires_at, revoked_at"
)
_TIMES = ("created_at", "expires_at", "revoked_at")
_ENDS = ("expires_at", "revoked_at")
REGISTERED_ENDS = ", ".join(
    f"case when {name} < '9999-12-31 00:00+00' then greatest({name}, '0001-01-01 00:00+00') end as {name}"
    for name in _ENDS
)
"""SQL list of the ends of registered keys. Python has no times before the year 1 or after 9999: an earlier end, such as
-infinity, becomes the first day, and a later one, such as infinity, becomes null, because no trace is as late."""


class Key(NamedTuple):
    """A row of covenant_public_keys."""

    key_id: str
    public_key_base64: str
    algorithm: str
    created_at: str | None
    expires_at: str | None
    revoked_at: str | None

    @property
    def content(self) -> bytes:
        """The 32 bytes of the key."""
        return base64_text.decode(self.public_key_base64)

    def difference(self, other: "Key | RegisteredKey") -> str | None:
        """Return the first field in which another key of the same id differs from this key, or None.

        A time that this key does not state is not compared.
        """
        if not base64_text.means(other.public_key_base64.strip(), self.content):
            return "public_key_base64"
        stated = (name for name in _ENDS if getattr(self, name) is not None)
        return next((name for name in stated if getattr(self, name) != getattr(other, name)), None)

    def unstated_ends(self, other: "RegisteredKey") -> dict[str, str]:
        """Return the times at which another key of the same id ends, and which this key does not state."""
        ends = {name: getattr(other, name) for name in _ENDS if getattr(self, name) is None}
        return {name: end for name, end in ends.items() if end is not None}


class RegisteredKey(NamedTuple):
    """A key in the database, with times as text in UTC, as in :class:`Key`."""

    public_key_base64: str
    expires_at: str | None
    revoked_at: str | None


def registered_key(text: str, *ends: datetime | None) -> RegisteredKey:
    """Return a key in the database from its base64 text, ``expires_at`` and ``revoked_at``."""
    return RegisteredKey(text, *(None if end is None else end.astimezone(UTC).isoformat() for end in ends))


def read_keys(paths: Iterable[Path]) -> tuple[dict[str, Key], list[Problem]]:
    """Read files of keys. Return the keys by id, and a problem for each key that is invalid or contradicts another."""
    keys: dict[str, Key] = {}
    problems = []
    for path in paths:
        for row in _read_rows(path):
            try:
                key = _key(row)
                if differing := key.difference(keys.setdefault(key.key_id, key)):
                    raise ValueError(f"given twice, the second time with another {differing}")
            except ValueError as error:
                problems.append(Problem(f"{path}, key {str(row.get('key_id'))[:80]}", BAD_KEY, str(error)))
    return keys, problems


def _read_rows(path: Path) -> list[Mapping[str, Any]]:
    try:
        with path.open("rb") as file:
            content = file.read(KEYS_FILE_LIMIT + 1)
        if len(content) > KEYS_FILE_LIMIT:
            raise InputError(f"The file of keys {path} has more than {KEYS_FILE_LIMIT // 2**20} MB.", FORMATS)
        rows = list(islice(_rows(content), KEYS_LIMIT + 1))
        if len(rows) > KEYS_LIMIT:
            raise InputError(
                f"The file of keys {path} has more than {KEYS_LIMIT:,} keys.", "Divide it into several files."
            )
    except OSError as error:
        raise InputError(f"The file of keys {path} cannot be read: {error.strerror}.") from error
    except (Rejected, UnicodeDecodeError, csv.Error, TypeError) as error:
        raise InputError(f"{path} is not a file of keys: {error}", f"It may be {FORMATS}.") from error
    return rows


def _rows(content: bytes) -> Iterator[Mapping[str, Any]]:
    if content.lstrip(b"\xef\xbb\xbf \t\r\n")[:1] in b"{[" and content.strip():
        found = parse(content)
        if isinstance(found, dict):
            found = [{"key_id": name, "public_key_base64": text} for name, text in found.items()]
        if not all(isinstance(row, dict) for row in found):
            raise TypeError("the list contains a value that is not an object")
        yield from found
        return
    table = csv.DictReader(io.StringIO(content.decode("utf-8-sig"), newline=""), strict=True)
    if not {"key_id", "public_key_base64"} <= set(table.fieldnames or ()):
        raise TypeError("the columns key_id and public_key_base64 are missing")
    for row in table:
        yield {name: value or None for name, value in row.items() if name in PUBLIC_KEY_COLUMNS}


def _key(row: Mapping[str, Any]) -> Key:
    """Convert a row of a file of keys to a key, or raise a ValueError that says why the row is invalid."""
    key_id, text = row.get("key_id"), row.get("public_key_base64")
    if not isinstance(key_id, str) or not isinstance(text, str):
        raise ValueError("no key_id, or no public_key_base64")
    if not 0 < len(key_id) <= 64 or "\0" in key_id or not key_id.isprintable():
        raise ValueError("a key_id has 1 to 64 printable characters")
    algorithm = row.get("algorithm") or "ed25519"
    if str(algorithm).lower() != "ed25519":
        raise ValueError(f"the algorithm is {str(algorithm)[:40]}, but only ed25519 signs traces")
    text = text.strip()
    public_key(base64_text.decode(text))
    return Key(key_id, text, "ed25519", *(_time(row.get(name), name) for name in _TIMES))


def _time(value: object, name: str) -> str | None:
    try:
        return None if value is None else times.read(value, name)
    except Rejected as error:
        raise ValueError(error.detail) from error


def public_key(content: bytes) -> Ed25519PublicKey:
    """Return the Ed25519 key with these bytes. Raise a ValueError if it is invalid, or so weak that anyone can forge
    signatures."""
    if len(content) != 32:
        raise ValueError(f"an Ed25519 public key has 32 bytes, this one {len(content):,}")
    if not _is_sound_point(content):
        raise ValueError("not a point of the curve, or a weak point with which anybody could sign")
    return Ed25519PublicKey.from_public_bytes(content)


def usable(rows: Iterable[tuple[str, str]]) -> tuple[dict[str, bytes], list[Problem]]:
    """Return the valid keys of the registry by key id, and the invalid ones as problems."""
    keys, problems = {}, []
    for key_id, text in rows:
        try:
            content = base64_text.decode(text.strip())
            public_key(content)
            keys[key_id] = content
        except ValueError as error:
            problems.append(Problem(f"registered key {key_id}", BAD_KEY, str(error)))
    return keys, problems


def looks_like_keys(document: object) -> bool:
    """Return whether a JSON document is a file of keys. Agents write such files beside their batches."""
    return (
        isinstance(document, dict)
        and bool(document)
        and all(isinstance(text, str) and len(text) in (43, 44) for text in document.values())
    )


# --- Check of keys on the Edwards curve (RFC 8032, section 5.1), because the library accepts any 32 bytes. -----------

_P = 2**255 - 19
_D = -121665 * pow(121666, -1, _P) % _P
_Y_OF_ORDER_8 = 0x7A03AC9277FDC74EC6CC392CFA53202A0F67100D760B3CBA4FD84D3D706A17C7
_LOW_ORDER = {0, 1, _P - 1, _Y_OF_ORDER_8, _P - _Y_OF_ORDER_8}
"""The y coordinates of the eight points of low order on the curve of Ed25519."""


def _is_sound_point(content: bytes) -> bool:
    """Return whether the bytes encode a point of the curve of Ed25519, but not one of the eight points of low order."""
    number = int.from_bytes(content, "little")
    y, sign = number & (2**255 - 1), number >> 255
    if y >= _P:
        return False
    x_squared = (y * y - 1) * pow(_D * y * y + 1, -1, _P) % _P
    x = pow(x_squared, (_P + 3) // 8, _P)
    if x * x % _P != x_squared:
        x = x * pow(2, (_P - 1) // 4, _P) % _P
    if x * x % _P != x_squared or (x == 0 and sign):
        return False
    return y not in _LOW_ORDER
