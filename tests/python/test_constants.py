"""Constants that SQL and Python share: each is written once, in Python, and macros read it by `constant`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from ciris_scoring.basics.connection import SETTINGS_NOT_TO_INHERIT, SETTINGS_ON_CLUSTER
from ciris_scoring.for_macros import CONSTANTS
from conftest import REPOSITORY


def sql_files() -> Iterator[Path]:
    for folder in ("macros", "models", "tests/singular", "tests/generic", "analyses"):
        yield from (REPOSITORY / folder).rglob("*.sql")


SQL = {path.relative_to(REPOSITORY).as_posix(): path.read_text(encoding="utf-8") for path in sql_files()}


@pytest.mark.parametrize("name", sorted(CONSTANTS))
def test_macros_read_each_shared_constant(name: str) -> None:
    assert [path for path, text in SQL.items() if f"('{name}')" in text] != []


@pytest.mark.parametrize("name", sorted({**SETTINGS_NOT_TO_INHERIT, **SETTINGS_ON_CLUSTER}))
def test_sql_names_no_setting_of_a_session(name: str) -> None:
    assert [path for path, text in SQL.items() if re.search(rf"\b{name}\b", text)] == []


@pytest.mark.parametrize("name", ["run_lock", "writers_lock"])
def test_sql_names_no_lock(name: str) -> None:
    lock = CONSTANTS[name]
    assert [path for path, text in SQL.items() if f"hashtext('{lock}')" in text] == []
