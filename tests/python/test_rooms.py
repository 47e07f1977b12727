"""Test that each subpackage imports only from subpackages that are before it in the table of CONTRIBUTING.md."""

import ast
from pathlib import Path

from conftest import REPOSITORY

ROOMS = ("kinds", "database", "marts", "windows", "certainty", "red_flags", "show", "job", "lab", "audit", "cli")
SHARED = {"names", "errors", "long_run", "numbers_as_text", "paths", "project_files"}
PACKAGE = REPOSITORY / "python/ciris_scoring"


def test_subpackages_import_only_from_earlier_subpackages():
    folders = {path.name for path in PACKAGE.iterdir() if (path / "__init__.py").exists()}
    assert folders == set(ROOMS)
    for number, room in enumerate(ROOMS, 1):
        for path in sorted((PACKAGE / room).rglob("*.py")):
            later = {name.split(".")[1] for name in imported_modules(path)} - SHARED - set(ROOMS[:number])
            assert not later, f"{path.relative_to(PACKAGE)} imports from {', '.join(sorted(later))}"


def imported_modules(path: Path) -> set[str]:
    """Return the full names that a module imports from the package."""
    return {
        f"{node.module}.{alias.name}"
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ImportFrom) and str(node.module).startswith(PACKAGE.name)
        for alias in node.names
    }
