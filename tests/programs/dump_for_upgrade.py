"""Write the scored sample of this version into tests/data/upgrade, from which test_upgrade.py upgrades.

Run `python tests/programs/dump_for_upgrade.py` once, at the commit that is released. The dump has the schemas of the
target, scored 25 days before the end of the sample, which keeps the dump small. It does not have the source tables.
"""

from __future__ import annotations

import lzma
import subprocess
import sys
import tempfile
from datetime import datetime, timedelta
from pathlib import Path

import psycopg

import tests_path  # noqa: F401
from ciris_scoring.lab import embedded
from ciris_scoring.lab.simulation.sample import SAMPLE, load_sample
from pipeline import REPOSITORY, score
from release import notes

FOLDER = REPOSITORY / "tests/data/upgrade"
TARGET = "upgraded"
AS_OF = datetime.fromisoformat(SAMPLE["as_of"]) - timedelta(days=25)


def main() -> None:
    """Score the sample and dump it."""
    with embedded.throw_away() as server, tempfile.TemporaryDirectory() as folder:
        with psycopg.connect(server.conninfo(), autocommit=True) as connection:
            load_sample(connection)
        embedded.write_profile(Path(folder), server, schema=TARGET)
        score(Path(folder), AS_OF.isoformat())
        command = [server.programs / "pg_dump", "--no-owner", "--no-privileges", f"--schema={TARGET}*"]
        dump = subprocess.run([*command, server.conninfo()], capture_output=True, check=True).stdout
    file = FOLDER / f"{notes()[0]}.sql.xz"
    FOLDER.mkdir(exist_ok=True)
    file.write_bytes(lzma.compress(dump, preset=9 | lzma.PRESET_EXTREME))
    print(f"{file.relative_to(REPOSITORY)}: {file.stat().st_size / 1000:,.0f} kB")
    sys.exit(file.stat().st_size >= 1_000_000 and "The dump must be smaller than 1 MB.")


if __name__ == "__main__":
    main()
