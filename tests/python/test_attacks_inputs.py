"""Attacks on keys, names of schemas, options and outputs that other tests do not try."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ciris_scoring.serve.spreadsheet import csv_cell
from command_line import at, invoke, refused
from conftest import Database
from signed_batches import COMPACT, Agent, batch, standard

LATER = "2026-06-01T00:00:00Z"
ALIAS = "another-id"


def write(folder: Path, name: str, document: Any) -> Path:
    path = folder / name
    path.write_text(json.dumps(document))
    return path


def key(agent: Agent, **ends: str | None) -> dict[str, Any]:
    return {"key_id": agent.key_id, "public_key_base64": standard(agent.public_bytes), **ends}


def json_of(command: str, *arguments: object) -> dict[str, Any]:
    return json.loads(invoke(command, *map(str, arguments), "--json").stdout)


def details(report: dict[str, Any]) -> list[tuple[str, str]]:
    return [(problem["reason"], problem["detail"]) for problem in report["problems"]]


# --- keys that are registered twice, or in another way ---------------------------------------------------------------


@pytest.fixture(params=["the true key id first", "the other key id first"])
def two_ids(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[Path, Path, Path]]:
    """Files of keys, of an agent's traces, and of traces moved to another agent under another id of the key."""
    agent = Agent(COMPACT)
    own, stolen = [agent.trace()], [{**agent.trace(), "agent_id_hash": "thief", "signature_key_id": ALIAS}]
    if "other" in request.param:
        own[0]["signature_key_id"], stolen[0]["signature_key_id"] = ALIAS, agent.key_id
    keys = write(tmp_path, "keys.json", agent.keys | {ALIAS: standard(agent.public_bytes)})
    yield keys, write(tmp_path, "own.json", batch(own)), write(tmp_path, "stolen.json", batch(stolen))


@pytest.mark.parametrize("at_once", [True, False])
def test_a_key_with_two_ids_signs_for_one_agent(database: Database, two_ids, at_once) -> None:
    keys, own, stolen = two_ids
    for files in [[own, stolen]] if at_once else [[own], [stolen]]:
        report = json_of("load", *files, "--keys", keys, *at(database))
    assert [reason for reason, _ in details(report)] == ["foreign_key"]
    assert json_of("audit", own, stolen, "--keys", keys, *at(database))["discrepancies"] == []


def test_an_end_of_a_key_that_is_not_registered_is_reported(database: Database, tmp_path: Path) -> None:
    agent = Agent(COMPACT)
    batches = write(tmp_path, "batch.json", batch([agent.trace()]))
    registered = write(tmp_path, "registered.json", [key(agent, expires_at="2027-01-01T00:00:00Z")])
    revoked = write(tmp_path, "revoked.json", [key(agent, revoked_at=LATER)])
    without_ends = write(tmp_path, "without.json", agent.keys)
    assert json_of("load", batches, "--keys", registered, *at(database))["is_clean"]
    assert json_of("load", batches, "--keys", without_ends, *at(database))["is_clean"]
    report = json_of("load", batches, "--keys", revoked, *at(database))
    assert details(report) == [
        ("bad_key", "registered already, with another revoked_at, which a load does not change")
    ]
    assert json_of("audit", batches, "--keys", registered, *at(database))["is_confirmed"]
    [found] = json_of("audit", batches, "--keys", revoked, *at(database))["discrepancies"]
    assert found["kind"] == "key_differs"
    assert found["differences"] == {
        f"revoked_at of key {agent.key_id}": {"database": None, "recomputed": "2026-06-01T00:00:00+00:00"}
    }


@pytest.mark.parametrize(
    ("other", "field"),
    [(Agent(COMPACT, 2).public_bytes, "public_key_base64"), (None, "revoked_at")],
)
@pytest.mark.parametrize("in_one_file", [True, False])
def test_contradictory_keys_in_files_are_reported(database, tmp_path, other, field, in_one_file) -> None:
    first = key(Agent(COMPACT))
    second = first | {"public_key_base64": standard(other)} if other else first | {"revoked_at": LATER}
    files = [[first, second]] if in_one_file else [[first], [second]]
    options = [
        option
        for number, content in enumerate(files)
        for option in ("--keys", write(tmp_path, f"{number}.json", content))
    ]
    batches = write(tmp_path, "batch.json", batch([Agent(COMPACT).trace()]))
    report = json_of("load", batches, *options, *at(database))
    assert details(report) == [("bad_key", f"twice in the files, with another {field}")]


# --- names, options and outputs --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name", ["", " ", "50%", "%s", 'a"b', "o'neil", "a\0b", "\ud800", "x" * 64, "ü" * 32, 5, None]
)
def test_invalid_schema_name_is_refused(database: Database, name: object) -> None:
    error, hint = refused(
        invoke("init-db", *at(database), "--vars", json.dumps({"ciris_source_schema": name})), 2
    )
    assert error.startswith("Error: Variable ciris_source_schema is ")
    assert "63 bytes" in hint


@pytest.mark.parametrize(
    ("name", "fault"),
    [
        ("50%", "but must be a name."),
        ("o'neil", "but must be a name."),
        ("information_schema", "a schema of PostgreSQL itself."),
    ],
)
def test_unfit_schema_of_the_profile_is_refused(database: Database, name: str, fault: str) -> None:
    profile = database.profiles_dir / "profiles.yml"
    profile.write_text(profile.read_text().replace("schema: ciris", f"schema: {name}"))
    error, _ = refused(invoke("init-db", *at(database)), 2)
    assert error == f"Error: The schema of the profile is {name!r}, {fault}"


@pytest.mark.parametrize("name", ["information_schema", "pg_catalog"])
def test_schema_of_postgresql_itself_is_refused_as_source(database: Database, name: str) -> None:
    error, _ = refused(invoke("init-db", *at(database), "--vars", f"ciris_source_schema: {name}"), 2)
    assert error == f"Error: Variable ciris_source_schema is '{name}', a schema of PostgreSQL itself."


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
