"""Write the dbt project into a folder, for users who have the package without a checkout."""

import contextlib
import os
import shlex
import shutil
import sys
from pathlib import Path

from ciris_scoring.errors import InputError
from ciris_scoring.paths import own_project
from ciris_scoring.project_files import PARTS, copy_project

SCHEDULE = """\
# A line for the crontab of a server in UTC. Each day it scores the previous day and writes a report into the project's
# folder. Its exit code is 0 only if the scores are published.
20 1 * * *  cd {folder} && {program} run --profiles-dir . --report ciris-report.html
"""
IGNORED = "target/\nlogs/\n.ciris/\nprofiles.yml\nciris-report.html\n"
NEXT_STEPS = """\
The project is in {folder}. Next steps:

  ciris-scoring run --embedded      score the sample on an embedded PostgreSQL, and show the fleet
  profiles.yml                      name your own PostgreSQL there, or in the environment variables that it reads
  ciris-scoring run                 score your own traces
  dbt build                         the same run by dbt alone
  schedule.crontab                  run it every day
"""


def init(folder: Path) -> None:
    """Write the dbt project and the dashboard into a folder, with a profile to fill in and an example of a schedule.

    :raises InputError: a file of the project already exists there, or the folder cannot be written. Nothing is left
        behind.
    """
    names = [*PARTS, "profiles.yml", "schedule.crontab", ".gitignore"]
    taken = [name for name in names if os.path.lexists(folder / name)]
    if taken:
        raise InputError(
            f"{folder} already has {', '.join(taken)}.",
            "Name an empty folder: ciris-scoring init FOLDER.",
        )
    try:
        _write(folder)
    except OSError as error:
        for name in names:
            shutil.rmtree(folder / name, ignore_errors=True)
            with contextlib.suppress(OSError):
                (folder / name).unlink()
        raise InputError(
            f"The project cannot be written into {folder}: {error}",
            "Name another folder: ciris-scoring init FOLDER.",
        ) from error


def _write(folder: Path) -> None:
    source = own_project()
    copy_project(source, folder)
    # Only the user may read the profile, which is going to contain a password.
    with open(folder / "profiles.yml", "xb", opener=lambda path, flags: os.open(path, flags, 0o600)) as profile:
        profile.write((source / "profiles.yml.example").read_bytes())
    program = Path(sys.executable).parent / "ciris-scoring"
    # In a crontab, a per cent sign ends the command.
    quoted = [shlex.quote(str(path)).replace("%", "\\%") for path in (folder.resolve(), program)]
    (folder / "schedule.crontab").write_text(SCHEDULE.format(folder=quoted[0], program=quoted[1]), "utf-8")
    (folder / ".gitignore").write_text(IGNORED, "utf-8")
