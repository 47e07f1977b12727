"""Tests of the dependencies between subpackages: each imports only from those before it."""

import ast
from functools import cache
from pathlib import Path

from conftest import REPOSITORY

ROOMS = ("basics", "marts", "statistics", "serve", "job", "lab", "audit")
PACKAGE = REPOSITORY / "python/ciris_scoring"


def test_subpackages_import_only_from_those_before_them():
    folders = {path.name for path in PACKAGE.iterdir() if (path / "__init__.py").exists()}
    assert folders == set(ROOMS)
    for number, room in enumerate(ROOMS, 1):
        for path in sorted((PACKAGE / room).rglob("*.py")):
            later = {name.split(".")[1] for name in imported_modules(path)} - set(ROOMS[:number])
            assert not later, f"{path.relative_to(PACKAGE)} imports from {', '.join(sorted(later))}"


def test_modules_of_a_subpackage_have_no_circular_imports():
    """Modules are identified by dotted names; a package by its ``__init__``."""
    modules = {
        ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts).removesuffix(".__init__"): path
        for path in PACKAGE.rglob("*.py")
    }
    imports = {}
    for name, path in modules.items():
        found = imported_modules(path)
        imports[name] = {one if one in modules else one.rpartition(".")[0] for one in found} - {name}
    while leaves := {name for name, needed in imports.items() if not needed}:
        imports = {name: needed - leaves for name, needed in imports.items() if name not in leaves}
    assert not imports, f"import each other in a circle, or need those that do: {', '.join(sorted(imports))}"


@cache
def imported_modules(path: Path) -> set[str]:
    """Return the names of the package that a module imports, each with its module."""
    return {
        f"{node.module}.{alias.name}"
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ImportFrom) and str(node.module).startswith(PACKAGE.name)
        for alias in node.names
    }
