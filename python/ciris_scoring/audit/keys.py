"""Read public keys from a file or from the registry, and validate them."""

import csv
import io
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import psycopg
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from psycopg import sql

from ciris_scoring.audit import base64_text, times
from ciris_scoring.audit.reasons import BAD_KEY, Problem, Rejected
from ciris_scoring.audit.strict_json import parse
from ciris_scoring.database.source_schema import PUBLIC_KEY_COLUMNS
from ciris_scoring.errors import InputError

FORMATS = (
    'JSON {"KEY ID": "BASE64", ...}, or CSV with the columns key_id and public_key_base64 and, where known, '
    "algorithm, created_at, expires_at, revoked_at"
)
_P = 2**255 - 19
_Y_OF_ORDER_8 = 0x7A03AC9277FDC74EC6CC392CFA53202A0F67100D760B3CBA4FD84D3D706A17C7
_LOW_ORDER = {0, 1, _P - 1, _Y_OF_ORDER_8, _P - _Y_OF_ORDER_8}
"""The y coordinates of the eight points of low order on the curve of Ed25519 (RFC 8032), which the library accepts."""
_TIMES = ("created_at", "expires_at", "revoked_at")
_COMPARED = ("public_key_base64", "expires_at", "revoked_at")
_REGISTERED = """
select
    key_id, public_key_base64, lower(coalesce(algorithm, 'ed25519') collate "C"),
    {created_at}, {expires_at}, {revoked_at}
from {registry}
where public_key_base64 is not null
"""
_UTC = """to_char({} at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"+00:00"')"""
"""SQL of a time in the format of :mod:`times`. The time infinity becomes null, as if the key never ended."""


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

    def differences(self, other: "Key") -> list[str]:
        """Return the names of the fields in which another key of the same id differs from this key."""
        differing = [name for name in _COMPARED if getattr(self, name) != getattr(other, name)]
        if base64_text.means(other.public_key_base64.strip(), self.content):
            differing = [name for name in differing if name != "public_key_base64"]
        return differing

    def contradiction(self, other: "Key") -> str | None:
        """Return the first field in which another key of the same id differs, although this key states the field."""
        return next((name for name in self.differences(other) if getattr(self, name) is not None), None)


def registered_keys(connection: psycopg.Connection, registry: sql.Composable) -> dict[str, Key]:
    """Return the keys of a registry by id. They may be invalid."""
    names = {name: sql.SQL(_UTC).format(sql.Identifier(name)) for name in _TIMES}
    rows = connection.execute(sql.SQL(_REGISTERED).format(registry=registry, **names))
    return {row[0]: Key(*row) for row in rows}


def read_keys(paths: Iterable[Path]) -> tuple[dict[str, Key], list[Problem]]:
    """Read files of keys. Return the keys by id, and a problem for each key that is invalid or contradicts another."""
    keys: dict[str, Key] = {}
    problems = []
    for path in paths:
        for row in _read_rows(path):
            try:
                key = _key(row)
                if differing := key.contradiction(keys.setdefault(key.key_id, key)):
                    raise ValueError(f"given twice, the second time with another {differing}")
            except ValueError as error:
                problems.append(Problem(f"{path}, key {str(row.get('key_id'))[:80]}", BAD_KEY, str(error)))
    return keys, problems


def _read_rows(path: Path) -> list[Mapping[str, Any]]:
    try:
        return list(_rows(path.read_bytes()))
    except OSError as error:
        raise InputError(f"The file of keys {path} cannot be read: {error.strerror}.") from error
    except (Rejected, UnicodeDecodeError, csv.Error, TypeError) as error:
        raise InputError(f"{path} is not a file of keys: {error}", f"It may be {FORMATS}.") from error


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
    if (int.from_bytes(content, "little") & (2**255 - 1)) % _P in _LOW_ORDER:
        raise ValueError("a weak point, with which anybody could sign")
    return Ed25519PublicKey.from_public_bytes(content)


def usable(keys: Iterable[Key]) -> tuple[dict[str, bytes], list[Problem]]:
    """Return the content of the valid Ed25519 keys by id, and the invalid ones as problems."""
    contents, problems = {}, []
    for key in keys:
        if key.algorithm == "ed25519":
            try:
                content = base64_text.decode(key.public_key_base64.strip())
                public_key(content)
                contents[key.key_id] = content
            except ValueError as error:
                problems.append(Problem(f"registered key {key.key_id}", BAD_KEY, str(error)))
    return contents, problems


def looks_like_keys(document: object) -> bool:
    """Return whether a JSON document is a file of keys. Agents write such files beside their batches."""
    return (
        isinstance(document, dict)
        and bool(document)
        and all(isinstance(text, str) and len(text) in (43, 44) for text in document.values())
    )
