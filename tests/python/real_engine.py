"""The engine that today's lens stores traces with (ciris-persist), in a process and a home folder of its own.

`python real_engine.py URL KEYS FILE...` makes the engine's tables, registers the keys of a JSON file, and stores the
batches of JSON lines. Verified signatures are taken from the sender's word, as a lens does whose gateway verifies.
"""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import quote

IS_INSTALLED = find_spec("ciris_persist") is not None


def store(
    conninfo: Mapping[str, str | int],
    home: Path,
    files: list[Path],
    keys: Mapping[str, str],
    *,
    code: str = "",
) -> list[str]:
    """Store batches in a database; return what the engine refuses.

    :param code: statements to execute afterwards, with the engine as `engine`.
    """
    url = f"postgresql://{conninfo['user']}@{quote(str(conninfo['host']), safe='')}:{conninfo['port']}"
    keys_file = home / "keys.json"
    keys_file.write_text(json.dumps(dict(keys)))
    done = subprocess.run(
        [sys.executable, __file__, f"{url}/{conninfo['dbname']}", keys_file, *files],
        env={**os.environ, "HOME": str(home), "AFTERWARDS": code},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    refused: list[str] = json.loads(done.stdout.splitlines()[-1])
    return refused


def main(url: str, keys_file: str, *files: str) -> None:
    from ciris_persist import Engine

    engine = Engine(url, "key-1", pqc_sweep_on_init=False, replication_sweeper_enabled=False)
    refused = []
    for key_id, key in json.loads(Path(keys_file).read_text()).items():
        engine.register_public_key(key_id, key)
    for file in files:
        for line in gzip.decompress(Path(file).read_bytes()).splitlines():
            try:
                engine.receive_and_persist(line, True)
            except ValueError as error:
                refused.append(str(error))
    if code := os.environ.get("AFTERWARDS"):
        exec(code, {"engine": engine})
    engine.close(force=True)
    print(json.dumps(refused))


if __name__ == "__main__":
    main(*sys.argv[1:])
