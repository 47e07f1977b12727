"""Tests that each constant is written once, in Python. Macros read it with `constant`."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from jinja2 import Environment

from ciris_scoring.basics.connection import SETTINGS_NOT_TO_INHERIT
from ciris_scoring.job.for_macros import CONSTANTS
from ciris_scoring.statistics.inputs import Parameters
from conftest import REPOSITORY

PACKAGE = REPOSITORY / "python/ciris_scoring"
MADE_BY_OTHERS = ("lab/simulation", "audit")
"""Packages whose lists are formats of others: the content of traces and the signed fields."""
ALLOWED = {
    "capacity_score, capacity_score_steady": "the two composites, and a part of the list of scores with bounds",
    "agent_id_hash, agent_name": "columns of a key",
    "agent_id_hash, trace_id": "columns of a key",
    "as_of, window_days": "columns of a key",
    "as_of, window": "the kinds of comparisons, and words for them",
    "first, last, until": "names of times of a backfill, which Python hands to dbt",
    "first, last": "names of times",
    "float8, int4, int8": "PostgreSQL's names of types",
    "int4, int8": "PostgreSQL's names of types",
    "model, seed": "dbt's kinds of nodes",
    "model, seed, test": "dbt's kinds of nodes",
    "pass, success, warn": "dbt's outcomes of nodes",
    "error, fail": "dbt's outcomes of nodes",
    "i_chain, i_coverage, i_replay": "arguments of the formula of I_int",
    "delta_drift, mttr_hours, rho_regression": "arguments of the formula of R",
}
"""Lists that SQL and Python both contain although they are not constants, with the reason."""


def sql_files() -> Iterator[Path]:
    for folder in ("macros", "models", "tests/singular"):
        yield from (REPOSITORY / folder).rglob("*.sql")


SQL = {path.relative_to(REPOSITORY).as_posix(): path.read_text(encoding="utf-8") for path in sql_files()}


def lists_of_sql() -> dict[frozenset[str], str]:
    """Return the lists of quoted names in SQL and Jinja, except arguments, and their locations."""
    found = {}
    for path, text in SQL.items():
        code = re.sub(r"\{#.*?#\}|--[^\n]*", "", text, flags=re.DOTALL)
        for quoted in re.finditer(r"(?<!\w)[\[(]\s*('[^'\n{}]*'(?:\s*,\s*'[^'\n{}]*')+)\s*[\])]", code):
            found[frozenset(re.findall(r"'([^']*)'", quoted[1]))] = path
    return found


def lists_of_python() -> dict[frozenset[str], str]:
    """Return the lists of texts and of dictionary keys in Python, and their locations."""
    found = {}
    for path in PACKAGE.rglob("*.py"):
        if path.relative_to(PACKAGE).as_posix().startswith(MADE_BY_OTHERS):
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Tuple | ast.List | ast.Set):
                items: list[ast.expr | None] = list(node.elts)
            elif isinstance(node, ast.Dict):
                items = list(node.keys)
            else:
                continue
            texts = [item.value for item in items if isinstance(item, ast.Constant)]
            found[frozenset(text for text in texts if isinstance(text, str))] = f"{path.name}:{node.lineno}"
    return found


def test_no_list_of_names_is_written_in_sql_and_in_python() -> None:
    of_python = lists_of_python()
    twice = {
        ", ".join(sorted(names)): (path, of_python[names])
        for names, path in lists_of_sql().items()
        if len(names) > 1 and names in of_python
    }
    assert {names: places for names, places in twice.items() if names not in ALLOWED} == {}


def test_macros_read_each_shared_constant_and_write_none() -> None:
    unread = [
        n
        for n in CONSTANTS
        if not any(re.search(rf"(constant|lock_key)\('{n}'[,)]", t) for t in SQL.values())
    ]
    assert unread == []
    lists = [
        frozenset(value)
        for value in CONSTANTS.values()
        if not isinstance(value, int | float | str) and not callable(value)
    ]
    assert not lists_of_sql().keys() & set(lists)
    settings = "|".join(sorted(SETTINGS_NOT_TO_INHERIT))
    locks = "|".join(
        re.escape(f"hashtext('{CONSTANTS[name]}')") for name in ("run_lock", "writers_lock", "start_lock")
    )
    numbers = (
        r"idma_phase, 'unknown'|\* 1002\b|\b1001\b|\* 10\)|range\(1, 11\)|array_of_each\(\d|/ 3600, 0\.01"
    )
    written = rf"\b({settings})\b|{locks}|{numbers}|numeric, 3\)|days_to_judge = \d"
    assert {path: found[0] for path, text in SQL.items() if (found := re.search(written, text))} == {}


def test_defaults_of_statistics_are_those_of_the_parameters() -> None:
    """Benchmarks, which have no database, use defaults in Python. A run reads the published values."""
    macro = SQL["macros/parameters/scoring_parameters.sql"]
    definitions: dict[str, dict[str, object]] = {}
    environment = Environment()
    environment.globals["return"] = lambda value: definitions.update(value) or ""
    environment.from_string(macro + "{{ scoring_parameter_definitions() }}").render()
    assert set(Parameters._fields) <= definitions.keys()
    assert {name: definitions[name]["default"] for name in Parameters._fields} == Parameters._field_defaults
