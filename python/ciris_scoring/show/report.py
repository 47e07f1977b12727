"""Create the report as one self-contained HTML file or as JSON, and write it atomically."""

import os
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import NoReturn

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

    :raises InputError: the file cannot be written.
    """
    if file.is_dir():
        _refuse(file, "it is a folder", "Name a file.")
    if file.is_block_device():
        _refuse(file, "it is a disk", "Name a file.")
    if _is_special(file):
        if not os.access(file, os.W_OK):
            _refuse(file, "it is not writable")
        return
    folder = _real(file).parent
    if not folder.is_dir():
        _refuse(file, f"there is no folder {folder}", "Create the folder first.")
    if not os.access(folder, os.W_OK | os.X_OK):
        _refuse(file, f"{folder} is not writable")


def _refuse(file: Path, reason: str, remedy: str = "Name another file.") -> NoReturn:
    raise InputError(f"The report cannot be written to {file}: {reason}.", remedy)


def write(text: str, file: Path) -> None:
    """Write a report. A regular file is replaced atomically, so that readers never see a partial report.

    If the file is a symbolic link, its target is replaced. A device, a pipe or an open file such as /dev/stdout is
    written to.

    :raises CirisError: the file cannot be written. An existing file is unchanged.
    """
    temporary = None
    try:
        if _is_special(file):
            with file.open("a", encoding="utf-8", newline="\n") as stream:
                stream.write(text)
            return
        file = _real(file)
        descriptor, temporary = tempfile.mkstemp(dir=file.parent, prefix=f".{file.name[:40]}.")
        with os.fdopen(descriptor, "w", encoding="utf-8", newline="\n") as stream:
            stream.write(text)
        mode = file.stat().st_mode & 0o777 if file.exists() else 0o666 & ~_umask()
        os.chmod(temporary, mode)
        os.replace(temporary, file)
    except OSError as error:
        raise CirisError(
            f"The report cannot be written to {file}: {error.strerror}.", "Make room, or name another file."
        ) from error
    finally:
        if temporary is not None:
            with suppress(FileNotFoundError):
                os.unlink(temporary)


def _real(file: Path) -> Path:
    """Return the target of a symbolic link, or the file itself."""
    real = Path(os.path.realpath(file)) if file.is_symlink() else file
    if real.is_symlink():
        _refuse(file, "its symbolic links lead back to themselves")
    return real


def _is_special(file: Path) -> bool:
    """Return whether a file cannot be replaced: a device, a pipe, or an open file such as /dev/stdout."""
    folder = Path(os.path.realpath(file.parent))
    is_open_file = file.is_symlink() and (folder == Path("/dev") or folder.is_relative_to("/proc"))
    return file.exists() and (is_open_file or not file.is_file())


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
