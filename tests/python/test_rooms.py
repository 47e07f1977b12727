"""Test which subpackages each subpackage may import, also inside functions."""

import ast
from pathlib import Path

import pytest

from conftest import REPOSITORY

PACKAGE = REPOSITORY / "python/ciris_scoring"
SHARED = {"names", "errors", "long_run", "numbers_as_text", "paths", "project_files"}
"""Modules that every subpackage may import. They import only each other."""
ROOMS = {
    "kinds": set(),
    "windows": {"kinds"},
    "certainty": {"kinds", "windows"},
    "red_flags": {"kinds", "windows"},
    "database": set(),
    "job": {"database"},
    "marts": {"kinds", "database"},
    "show": {"kinds", "database", "marts"},
    "lab": {"database"},
    "audit": {"database"},
}
"""Subpackages that each subpackage may import. The command line (cli) and for_macros import all of them."""


def test_every_subpackage_is_a_room():
    assert {path.parent.name for path in PACKAGE.glob("*/__init__.py")} == {*ROOMS, "cli"}
    assert {path.stem for path in PACKAGE.glob("*.py")} == {*SHARED, "__init__", "for_macros"}


@pytest.mark.parametrize("room", [*ROOMS, *sorted(SHARED)])
def test_subpackages_import_only_what_they_may(room):
    paths = sorted((PACKAGE / room).rglob("*.py")) or [PACKAGE / f"{room}.py"]
    allowed = SHARED | {room} | ROOMS.get(room, set())
    found = {(str(path.relative_to(PACKAGE)), name) for path in paths for name in imported(path) - allowed}
    assert not found


def imported(path: Path) -> set[str]:
    """Return the subpackages and modules of the package that a module imports anywhere."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
    return {name.split(".")[1] for name in names if name.startswith(f"{PACKAGE.name}.")}
