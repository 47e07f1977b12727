"""Attacks on keys, names of schemas, options and outputs that other tests do not try."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from ciris_scoring.serve.spreadsheet import csv_cell
from command_line import at, invoke, refused
from conftest import Database


@pytest.mark.parametrize(
    "name", ["", " ", "50%", "%s", 'a"b', "o'neil", "a\0b", "\ud800", "x" * 64, "ü" * 32, 5, None]
)
def test_invalid_schema_name_is_refused(database: Database, name: object) -> None:
    error, hint = refused(
        invoke("init-db", *at(database), "--vars", json.dumps({"ciris_source_schema": name})), 2
    )
    assert error.startswith("Error: Variable ciris_source_schema is ")
    assert "63 bytes" in hint


@pytest.mark.parametrize("name", ["information_schema", "pg_catalog"])
def test_schema_of_postgresql_itself_is_refused(database: Database, name: str) -> None:
    error, _ = refused(invoke("init-db", *at(database), "--vars", f"ciris_source_schema: {name}"), 2)
    assert error == f"Error: Variable ciris_source_schema is '{name}', a schema of PostgreSQL itself."
    profile = database.profiles_dir / "profiles.yml"
    text = profile.read_text()
    unfit_names = dict.fromkeys(("50%", "o'neil"), "but must be a name.")
    for unfit, fault in {name: "a schema of PostgreSQL itself.", **unfit_names}.items():
        profile.write_text(text.replace("schema: ciris", f"schema: {unfit}"))
        error, _ = refused(invoke("init-db", *at(database)), 2)
        assert error == f"Error: The schema of the profile is {unfit!r}, {fault}"


def test_variables_that_are_nested_too_deeply_are_refused(database: Database) -> None:
    refused(invoke("init-db", *at(database), "--vars", "{" * 2_000), 2)


def test_output_to_a_full_disk_is_an_error_without_a_traceback(database: Database) -> None:
    command = [sys.executable, "-m", "ciris_scoring.cli", "init-db", "--print", *at(database)]
    with open("/dev/full", "w") as full:
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.splitlines() == [
        "Error: The output cannot be written: No space left on device.",
        "Hint: Make room, or write elsewhere.",
    ]


def test_init_does_not_write_through_a_dangling_link(tmp_path: Path) -> None:
    (tmp_path / "profiles.yml").symlink_to("elsewhere.yml")
    error, _ = refused(invoke("init", tmp_path), 2)
    assert "already has profiles.yml" in error
    assert [path.name for path in tmp_path.iterdir()] == ["profiles.yml"]


@pytest.mark.parametrize("text", ["＝1+1", "＋1", "－1", "＠SUM(A1)", "\n=1+1", "=1+1"])
def test_formulas_in_full_width_or_after_a_line_break_are_quoted(text: str) -> None:
    assert csv_cell(text) == "'" + text
