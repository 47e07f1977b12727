"""Compiled Jinja templates of dbt, in memory and in a file of the target folder.

Compiling the macros takes a tenth of the time of a run, and they rarely change. The file has code that a later process
executes, so it is read only if it belongs to the user and nobody else can write it.
"""

import contextlib
import marshal
import os
import stat
import sys
import tempfile
from collections.abc import Callable
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path
from types import CodeType
from typing import Any

FILE = "ciris_templates.marshal"
MOST_BYTES = 50_000_000
"""Largest size of a file that is read. A larger file contains many templates of earlier code, and is replaced."""

_compiled: dict[bytes, Any] = {}
_known: dict[Path, int] = {}
"""Number of templates in memory when a file was last read or written."""


def compiled(environment: str, source: str, compile_now: Callable[[], Any]) -> Any:
    """Return the code of a template, and compile it only once.

    :param environment: class of Jinja's environment, which decides how the template is compiled.
    """
    key = sha256(f"{environment}\0{source}".encode(errors="surrogatepass")).digest()
    code = _compiled.get(key)
    if code is None:
        code = _compiled[key] = compile_now()
    return code


def load(folder: Path) -> None:
    """Read the file of a target folder, if there is one that this version of Python, Jinja and dbt wrote."""
    path, header = folder / FILE, _header()
    if path in _known:
        return
    with contextlib.suppress(OSError, ValueError, EOFError, TypeError), path.open("rb") as file:
        about = os.fstat(file.fileno())
        is_private = about.st_uid == os.geteuid() and not about.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
        if is_private and about.st_size <= MOST_BYTES and file.read(len(header)) == header:
            for key, code in marshal.loads(file.read()).items():
                _compiled.setdefault(key, code)
    _known[path] = len(_compiled)


def save(folder: Path) -> None:
    """Write all templates of this process into the file of a target folder, if there are new ones."""
    path = folder / FILE
    templates = {key: code for key, code in _compiled.copy().items() if isinstance(code, CodeType)}
    if len(templates) == _known.get(path) or not folder.is_dir():
        return
    # The new file replaces the old one at once, because another process may read it.
    with contextlib.suppress(OSError, ValueError):
        handle, temporary = tempfile.mkstemp(dir=folder, prefix=f"{FILE}.")
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(_header() + marshal.dumps(templates))
            os.replace(temporary, path)
        except BaseException:
            os.unlink(temporary)
            raise
        _known[path] = len(templates)


def _header() -> bytes:
    packages = ("jinja2", "dbt-common", "dbt-core")
    return sha256(repr((sys.version, *map(version, packages))).encode()).digest()
