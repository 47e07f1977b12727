"""Test that the defaults of parameters are equal in macros and in Python."""

from __future__ import annotations

from typing import Any

from jinja2 import Environment

from ciris_scoring.windows.run import Parameters
from conftest import REPOSITORY

SQL = {
    path.relative_to(REPOSITORY).as_posix(): path.read_text("utf-8")
    for folder in ("macros", "models", "tests/singular")
    for path in (REPOSITORY / folder).rglob("*.sql")
}


def definitions() -> dict[str, dict[str, Any]]:
    """Return the definitions of the scoring parameters by name."""
    found: dict[str, dict[str, Any]] = {}
    environment = Environment(extensions=["jinja2.ext.do"])
    environment.globals["return"] = lambda value: found.update(value) or ""
    macro = SQL["macros/parameters/scoring_parameters.sql"]
    environment.from_string(macro + "{{ scoring_parameter_definitions() }}").render()
    return found


def test_defaults_in_statistics_equal_defaults_of_parameters() -> None:
    """Benchmarks, which have no database, use defaults in Python. A run reads the published parameters."""
    defaults = {name: of["default"] for name, of in definitions().items() if name in Parameters._fields}
    assert defaults == Parameters._field_defaults
