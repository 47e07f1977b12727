"""Tests of the dependencies between subpackages: each imports only from those before it."""

import ast
from pathlib import Path

from conftest import REPOSITORY

ROOMS = ("basics", "marts", "statistics", "serve", "job", "lab", "audit")
PACKAGE = REPOSITORY / "python/ciris_scoring"


def imported_rooms(path: Path) -> set[str]:
    """Return the subpackages or top-level modules that a module imports."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module == "ciris_scoring":
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("ciris_scoring."):
            found.add(str(node.module).split(".")[1])
    return found


def test_subpackages_import_only_from_those_before_them():
    folders = {path.name for path in PACKAGE.iterdir() if (path / "__init__.py").exists()}
    assert folders == set(ROOMS)
    for number, room in enumerate(ROOMS, 1):
        for path in sorted((PACKAGE / room).rglob("*.py")):
            later = imported_rooms(path) - set(ROOMS[:number])
            assert not later, f"{path.relative_to(PACKAGE)} imports from {', '.join(sorted(later))}"


def test_modules_of_a_subpackage_have_no_circular_imports():
    """Modules are identified by dotted names; a package by its ``__init__``."""
    modules = {
        ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts).removesuffix(".__init__"): path
        for path in PACKAGE.rglob("*.py")
    }
    imports = {name: imported_modules(path, modules) - {name} for name, path in modules.items()}
    while leaves := {name for name, needed in imports.items() if not needed}:
        imports = {name: needed - leaves for name, needed in imports.items() if name not in leaves}
    assert not imports, f"import each other in a circle, or need those that do: {', '.join(sorted(imports))}"


def imported_modules(path: Path, modules: dict[str, Path]) -> set[str]:
    """Return the modules of the package that a module imports."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom):
            names = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= names & modules.keys() or {str(node.module)} & modules.keys()
    return found
