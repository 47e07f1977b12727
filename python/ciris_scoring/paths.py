"""The folder of the dbt project in this package, and messages for paths that the system cannot look up."""

import errno
import os
from pathlib import Path

LONGEST_SHOWN = 60
"""Largest number of characters of a path in a message."""


def own_project() -> Path:
    """Return the folder of the dbt project in this package, or of the checkout that the package was installed from."""
    package = Path(__file__).parent
    return package / "dbt_project" if (package / "dbt_project").is_dir() else package.parents[1]


def fault_of_path(path: str | os.PathLike[str]) -> str | None:
    """Return why the system cannot look up a path. None if it can, whether or not the path exists."""
    text = os.fspath(path)
    try:
        os.stat(path)
    except ValueError:
        return f"{_cut(text)} contains a NUL character. Give a path without one."
    except OSError as error:
        return fault_of_error(error, text)
    return None


def fault_of_error(error: OSError, path: str) -> str | None:
    """Return the fault of the path of a failed operation. None if the path is not the cause."""
    if error.errno == errno.ENAMETOOLONG:
        return (
            f"{_cut(path)} has {len(path):,} characters: the path, or a name in it, is too long for this system. "
            "Give a shorter path."
        )
    if error.errno == errno.ELOOP:
        return f"{_cut(path)} leads through symbolic links that lead back to themselves. Give another path."
    return None


def _cut(path: str) -> str:
    return repr(path) if len(path) <= LONGEST_SHOWN else f"{path[:LONGEST_SHOWN]!r}…"
