"""Call ciris-persist, the engine with which the lens stores traces, in a separate process with its own home folder.

That process runs this file as a program. It reads the name and the arguments of a function of this file from a JSON
file, and prints the result as JSON.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.mldsa import MLDSA65PrivateKey

if TYPE_CHECKING:
    from conftest import Database

needs_engine = pytest.mark.skipif(
    find_spec("ciris_persist") is None,
    reason="the engine of the trace store is not installed: pip install ciris-persist (Linux x86-64)",
)


def store(database: Database, home: Path, files: list[Path], keys: Mapping[str, str]) -> list[str]:
    """Create the engine's tables, register keys and store batches of JSON lines. Return the reasons of refused batches.

    Signatures are not verified, because in a lens the gateway verifies them.
    """
    server = database.server
    place = f"{server.user}@{quote(server.socket_folder, safe='')}:{server.port}/{database.name}"
    return store_in(f"postgresql://{place}", home, files, keys)


def store_in(url: str, home: Path, files: list[Path], keys: Mapping[str, str]) -> list[str]:
    """Store batches in a database by its URL, as :func:`store` does. A file of SQLite is created if it is missing."""
    return _called(home, "_store", url, dict(keys), list(map(str, files)))


def refusals(home: Path, key_records: Sequence[Mapping[str, Any]], batches: Sequence[Any]) -> list[str | None]:
    """Return for each batch the engine's reason to refuse it, or None if the engine verifies it.

    :param key_records: rows of the engine's key directory, as `key_record` returns them.
    """
    return _called(home, "_refusals", list(key_records), list(batches))


def key_record(key_id: str, ed25519: Ed25519PrivateKey, ml_dsa_65: MLDSA65PrivateKey) -> dict[str, Any]:
    """Return a self-signed row of the engine's key directory."""
    envelope = {"key_id": key_id}
    content = json.dumps(envelope, separators=(",", ":")).encode()
    signature = ed25519.sign(content)
    keys = (ed25519.public_key().public_bytes_raw(), ml_dsa_65.public_key().public_bytes_raw())
    public, public_pqc, first, second = (
        base64.b64encode(each).decode() for each in (*keys, signature, ml_dsa_65.sign(content + signature))
    )
    time = "2026-01-01T00:00:00Z"
    return {
        "key_id": key_id, "pubkey_ed25519_base64": public, "pubkey_ml_dsa_65_base64": public_pqc,
        "algorithm": "hybrid", "identity_type": "agent", "identity_ref": key_id, "valid_from": time,
        "valid_until": None, "registration_envelope": envelope,
        "original_content_hash": hashlib.sha256(content).hexdigest(), "scrub_signature_classical": first,
        "scrub_signature_pqc": second, "scrub_key_id": key_id, "scrub_timestamp": time,
        "pqc_completed_at": time, "persist_row_hash": "",
    }  # fmt: skip


def _called(home: Path, function: str, *arguments: Any) -> list[Any]:
    """Return the result of a function of this file, called in another process."""
    file = home / "call.json"
    file.write_text(json.dumps([function, arguments]))
    done = subprocess.run(
        [sys.executable, __file__, file],
        env={**os.environ, "HOME": str(home)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    result: list[Any] = json.loads(done.stdout.splitlines()[-1])
    return result


def _engine(url: str) -> Any:
    from ciris_persist import Engine

    return Engine(url, "key-1", pqc_sweep_on_init=False, replication_sweeper_enabled=False)


def _refusals(key_records: list[dict[str, Any]], batches: list[Any]) -> list[str | None]:
    engine = _engine("sqlite::memory:")
    for record in key_records:
        engine.put_public_key(json.dumps({"record": record}))
    found: list[str | None] = []
    for batch in batches:
        refusal = None
        try:
            engine.receive_and_persist(json.dumps(batch).encode())
        except ValueError as error:  # a wrong schema or signature; other errors are RuntimeErrors
            refusal = str(error)
        except RuntimeError:
            pass
        found.append(refusal)
    engine.close(force=True)
    return found


def _store(url: str, keys: dict[str, str], files: list[str]) -> list[str]:
    engine = _engine(url)
    refused = []
    for key_id, key in keys.items():
        engine.register_public_key(key_id, key)
    for file in files:
        for line in gzip.decompress(Path(file).read_bytes()).splitlines():
            try:
                engine.receive_and_persist(line, True)
            except ValueError as error:
                refused.append(str(error))
    engine.close(force=True)
    return refused


if __name__ == "__main__":
    name, given = json.loads(Path(sys.argv[1]).read_text())
    print(json.dumps(globals()[name](*given)))
