"""Create the report as one self-contained HTML file or as JSON, and write it atomically."""

import os
from pathlib import Path

import psycopg

from ciris_scoring.database.connection import connect, snapshot
from ciris_scoring.database.dbt import read_relations
from ciris_scoring.database.project import Project
from ciris_scoring.database.relations import Relations
from ciris_scoring.errors import CirisError, InputError
from ciris_scoring.marts.marts import Marts
from ciris_scoring.show.formats import json_text
from ciris_scoring.show.pages.other import report_document, report_page
from ciris_scoring.show.view import choose

DEFAULT_FILE = Path("ciris-report.html")


def report(project: Project, window_days: int | None, *, json: bool) -> str:
    """Create a report of the newest published scores. The default window is the window of the first permission, or else
    the shortest one.

    :raises InputError: no score is published for the window.
    """
    with connect(project) as connection:
        return read_report(connection, read_relations(project), window_days, json=json)


def read_report(connection: psycopg.Connection, relations: Relations, window_days: int | None, *, json: bool) -> str:
    """Create the report over an open connection. The parameters are those of `report`."""
    with snapshot(connection):
        marts = Marts(connection, relations)
        marts.require()
        if json:
            return json_text(report_document(marts, choose(marts, window_days)), indent=None)
        return report_page(connection, relations, window_days=window_days)


def check_place(file: Path) -> None:
    """Check that a report can be written to a file, before it is created.

    :raises InputError: the file is a folder, or its folder does not exist or is not writable.
    """
    if file.is_dir():
        raise InputError(f"The report cannot be written to {file}: it is a folder.", "Name a file.")
    if not file.parent.is_dir():
        reason = f"there is no folder {file.parent}"
        raise InputError(f"The report cannot be written to {file}: {reason}.", "Create the folder first.")
    if not os.access(file if _is_special(file) else _target(file).parent, os.W_OK):
        raise InputError(f"The report cannot be written to {file}: it is not writable.", "Name another file.")


def write(text: str, file: Path) -> None:
    """Write a report. A file is replaced atomically, so that readers never see a partial report; a device or a pipe is
    written to.

    :raises CirisError: the file cannot be written. An existing file is unchanged.
    """
    is_special = _is_special(file)
    place = file if is_special else _target(file)
    temporary = place if is_special else place.with_name(f".{place.name[:40]}.{os.getpid()}")
    try:
        with temporary.open("a" if is_special else "w", encoding="utf-8", newline="\n") as stream:
            stream.write(text)
        if not is_special:
            temporary.replace(place)
    except OSError as error:
        if not is_special:
            temporary.unlink(missing_ok=True)
        raise CirisError(
            f"The report cannot be written to {file}: {error.strerror}.", "Make room, or name another file."
        ) from error


def _target(file: Path) -> Path:
    """Return the file to which symbolic links lead. Path.resolve would fail with a RuntimeError if they form a loop."""
    return Path(os.path.realpath(file))


def _is_special(file: Path) -> bool:
    """Return whether a file cannot be replaced, such as a device, a pipe, or /dev/stdout."""
    return file.exists() and not file.is_file() or file.parent in (Path("/dev"), Path("/dev/fd"))
