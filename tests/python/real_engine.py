"""Run ciris-persist, the engine by which the lens stores traces, in a separate process and home folder.

`python real_engine.py URL KEYS FILE...` creates the engine's tables, registers the keys of a JSON file and stores
batches of JSON lines. Signatures are not verified, because in a lens the gateway verifies them. `python
real_engine.py verify FILE` says for each batch whether the engine verifies it.
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
from typing import Any
from urllib.parse import quote

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.mldsa import MLDSA65PrivateKey

needs_engine = pytest.mark.skipif(
    find_spec("ciris_persist") is None,
    reason="the engine of today's lens is not installed: pip install ciris-persist (Linux x86-64)",
)


def store(
    conninfo: Mapping[str, str | int],
    home: Path,
    files: list[Path],
    keys: Mapping[str, str],
) -> list[str]:
    """Store batches in a database. Return the batches that the engine refuses."""
    url = f"postgresql://{conninfo['user']}@{quote(str(conninfo['host']), safe='')}:{conninfo['port']}"
    keys_file = home / "keys.json"
    keys_file.write_text(json.dumps(dict(keys)))
    place = f"{url}/{conninfo['dbname']}"
    refused: list[str] = json.loads(_run(home, place, keys_file, *files))
    return refused


def refusals(
    home: Path, key_records: Sequence[Mapping[str, Any]], batches: Sequence[Any]
) -> list[str | None]:
    """Return, for each batch, why the engine does not verify it, or None if it does.

    :param key_records: rows of the engine's key directory, as `key_record` returns them.
    """
    file = home / "batches.json"
    file.write_text(json.dumps([list(key_records), list(batches)]))
    found: list[str | None] = json.loads(_run(home, "verify", file))
    return found


def key_record(key_id: str, ed25519: Ed25519PrivateKey, ml_dsa_65: MLDSA65PrivateKey) -> dict[str, Any]:
    """Return a row of the engine's key directory, signed with the keys themselves."""
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


def _run(home: Path, *arguments: object) -> str:
    """Run this file as a program and return the last line of its output."""
    done = subprocess.run(
        [sys.executable, __file__, *map(str, arguments)],
        env={**os.environ, "HOME": str(home)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()[-1]


def _engine(url: str) -> Any:
    from ciris_persist import Engine

    return Engine(url, "key-1", pqc_sweep_on_init=False, replication_sweeper_enabled=False)


def verify(file: str) -> None:
    engine = _engine("sqlite::memory:")
    key_records, batches = json.loads(Path(file).read_text())
    for record in key_records:
        engine.put_public_key(json.dumps({"record": record}))
    found: list[str | None] = []
    for batch in batches:
        refusal = None
        try:
            engine.receive_and_persist(json.dumps(batch).encode())
        except ValueError as error:  # errors of schema or verification; later errors are not ValueErrors
            refusal = str(error)
        except RuntimeError:
            pass
        found.append(refusal)
    engine.close(force=True)
    print(json.dumps(found))


def main(url: str, keys_file: str, *files: str) -> None:

    engine = _engine(url)
    refused = []
    for key_id, key in json.loads(Path(keys_file).read_text()).items():
        engine.register_public_key(key_id, key)
    for file in files:
        for line in gzip.decompress(Path(file).read_bytes()).splitlines():
            try:
                engine.receive_and_persist(line, True)
            except ValueError as error:
                refused.append(str(error))
    engine.close(force=True)
    print(json.dumps(refused))


if __name__ == "__main__":
    if sys.argv[1] == "verify":
        verify(sys.argv[2])
    else:
        main(*sys.argv[1:])
