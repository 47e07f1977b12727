"""Tests that macros do not repeat settings of Python, and that defaults of parameters are equal in both."""

from __future__ import annotations

import re
from typing import Any

from jinja2 import Environment

from ciris_scoring.database.connection import SETTINGS
from ciris_scoring.windows.run import Parameters
from conftest import REPOSITORY

SQL = {
    path.relative_to(REPOSITORY).as_posix(): path.read_text("utf-8")
    for folder in ("macros", "models", "tests/singular")
    for path in (REPOSITORY / folder).rglob("*.sql")
}


def test_macros_do_not_repeat_names_of_settings() -> None:
    """lock_timeout has a value of its own in a run (ciris_lock_wait_seconds)."""
    written = rf"\b({'|'.join(sorted(SETTINGS.keys() - {'lock_timeout'}))})\b"
    assert {path: found[0] for path, text in SQL.items() if (found := re.search(written, text))} == {}


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
