"""Where the embedded PostgreSQL keeps its data.

In the state folder of the project, if the server can work there. It cannot where the path holds what a shell reads in
a way of its own, or is too long for a socket; then it goes to a folder of the user's, outside the project, and the
state folder notes where.
"""

import hashlib
import os
import re
import shutil
import stat
import sys
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from platformdirs.unix import Unix

from ciris_scoring.basics.errors import InputError

NAME = "pgdata"
NOTE = "pgdata-elsewhere"
"""File in the state folder with the path of data that is not in it."""

APPLICATION = "ciris-scoring"
SOCKET = ".s.PGSQL.5432"
LONGEST_SOCKET_PATH = 103 if sys.platform == "darwin" else 107


def choose(state_folder: Path) -> Path:
    """Return the data folder of a state folder, the same each time; its parent folder exists afterwards.

    :raises InputError: there is no place where the server could work.
    """
    found = find(state_folder)
    if found is not None:
        return found
    inside = state_folder.resolve() / NAME
    state_folder.mkdir(parents=True, exist_ok=True)
    if is_usable(inside):
        return inside
    for base in _folders_of_the_user():
        folder = base / _key(state_folder) / NAME
        if is_usable(folder) and _make_own(base) and _make_own(folder.parent):
            (state_folder / NOTE).write_text(f"{folder}\n", "utf-8")
            return folder
    raise InputError(
        f"The embedded PostgreSQL cannot work in {inside}: its path is too long or holds a special character, and no "
        "other folder can be written.",
        "Move the project to a folder with a short, plain path, or set TMPDIR to one, or use a PostgreSQL of your own.",
    )


def find(state_folder: Path) -> Path | None:
    """Return the data folder of a state folder if there is one, else None."""
    inside = state_folder.resolve() / NAME
    if (inside / "PG_VERSION").exists() and _is_plain(inside):
        return inside
    with suppress(OSError, ValueError):
        noted = Path((state_folder / NOTE).read_text("utf-8").strip())
        # A copy of the project has the note too, but not the data.
        if noted.parent.name == _key(state_folder) and noted.is_dir() and _is_own(noted.parent):
            return noted
    return None


def delete(state_folder: Path) -> None:
    """Delete the data of a state folder, wherever it is; its server must have stopped."""
    found = find(state_folder)
    if found is not None:
        shutil.rmtree(found if found.parent == state_folder.resolve() else found.parent)
    (state_folder / NOTE).unlink(missing_ok=True)


def temporary(prefix: str) -> Path:
    """Make a temporary folder in which a server can work, in $TMPDIR if that will do."""
    example = Path(tempfile.gettempdir()).resolve() / f"{prefix}12345678" / NAME
    return Path(tempfile.mkdtemp(prefix=prefix, dir=None if is_usable(example) else "/tmp")).resolve()


def is_usable(folder: Path) -> bool:
    """Return whether a server can have its data and its socket in a folder of this path."""
    return _is_plain(folder) and len(os.fsencode(folder / SOCKET)) <= LONGEST_SOCKET_PATH


def _is_plain(folder: Path) -> bool:
    # The server is started through a shell, and told of its socket's folder in a list separated by commas.
    return re.search(r"""[\s'"\\$`&;|<>()*?\[,]""", str(folder)) is None and str(folder).isprintable()


def _key(state_folder: Path) -> str:
    return hashlib.sha256(os.fsencode(state_folder.resolve())).hexdigest()[:16]


def _folders_of_the_user() -> Iterator[Path]:
    """Give the places for data outside the project, the best first."""
    if _server_is_another_user():
        # To whom root's home would have to be opened.
        yield Path("/var/lib", APPLICATION)
    else:
        with suppress(RuntimeError):  # there is no home
            # On every system: the place that macOS has for this holds a space.
            yield Unix(APPLICATION).user_state_path
    for folder in (tempfile.gettempdir(), "/tmp"):
        yield Path(folder).resolve() / f"{APPLICATION}-{os.geteuid()}"


def _server_is_another_user() -> bool:
    """PostgreSQL refuses to run as root, so that the library starts it as a user of its own."""
    return os.geteuid() == 0


def _make_own(folder: Path) -> bool:
    """Make a folder for this user alone; return whether it is there and nobody else may write in it."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        return folder.is_absolute() and _is_own(folder) and os.access(folder, os.W_OK | os.X_OK)
    except OSError:
        return False


def _is_own(folder: Path) -> bool:
    found = folder.lstat()
    return (
        stat.S_ISDIR(found.st_mode)
        and found.st_uid == os.geteuid()
        and not found.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    )
