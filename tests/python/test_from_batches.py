"""Tests of `run --from-batches` and of the real batches in tests/data. `pytest -s` shows the output."""

from __future__ import annotations

import csv
import gzip
import json
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from ciris_scoring.audit import from_batches
from ciris_scoring.audit.load import Summary, load
from ciris_scoring.basics.project import load_project
from ciris_scoring.basics.source_schema import TRACE_COLUMNS
from ciris_scoring.cli import main
from ciris_scoring.lab import embedded
from ciris_scoring.lab.embedded import Server
from conftest import REPOSITORY, Database, fresh_database
from pipeline import kept_parsed
from signed_batches import GENERATIONS, Agent, batch
from test_load import command, write, write_keys
from test_real_traces import DATA, FILES, ROWS

REAL = DATA / "batches"
VERIFIED = {("no schema", "components"): 37, ("2.7.9", "sorted_json"): 620, ("3.0.0", "jcs"): 90}
"""Number of real traces by schema version and rule. All of them verify."""


@pytest.fixture
def own_server(
    embedded_postgres: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Database]:
    """Use the tests' server instead of the embedded one of the project; yields the command's database."""
    monkeypatch.setattr(embedded, "start", lambda state_folder: embedded_postgres)
    monkeypatch.setattr(from_batches, "BATCHES_FOLDER", tmp_path / "profiles")
    with fresh_database(embedded_postgres, tmp_path) as database:
        monkeypatch.setattr(from_batches, "DATABASE", database.name)
        yield database


def run_from(database: Database, folder: Path, *arguments: str) -> Result:
    keys = [argument for path in folder.rglob("*keys.json") for argument in ("--keys", str(path))]
    project = ["--project-dir", str(REPOSITORY)]
    with kept_parsed(database.profiles_dir):
        result = CliRunner().invoke(main, ["run", "--from-batches", str(folder), *keys, *project, *arguments])
    print(result.output)
    return result


def test_run_from_batches_loads_and_scores(own_server, tmp_path):
    agents = [Agent(generation, seed) for seed, generation in enumerate(GENERATIONS)]
    folder = tmp_path / "in"
    write(folder, "batch.json", batch(agent.trace() for agent in agents for _ in range(12)))
    write_keys(folder, *agents)
    result = run_from(own_server, folder)
    assert result.exit_code == 0, result.output
    assert "Fleet at 2026-06-02T00:00:00Z, window of 7 days, 8 agents" in result.stdout
    assert (
        "96 traces: 96 new." in result.stderr
        and "ciris-scoring explain AGENT --profiles-dir" in result.stdout
    )
    with own_server.connect() as connection:
        query = (
            "select agent_id_hash, component_value from ciris.fct_factor_components"
            " where component = 'i_chain' and window_days = 7"
        )
        assert dict(connection.execute(query).fetchall()) == {agent.hash: 1 for agent in agents}

    forged = agents[1].trace()
    forged["components"][2]["data"]["csdma"]["plausibility_score"] = 0.99
    write(folder, "more.json", batch([forged]))
    result = run_from(own_server, folder)
    assert result.exit_code == 2 and "Fleet at" in result.stdout and "bad_signature" in result.stderr


def test_run_from_batches_without_traces_is_refused(own_server, tmp_path):
    result = run_from(own_server, tmp_path / "nothing")
    assert result.exit_code == 2 and "nothing to score" in result.stderr and "unreadable" in result.stderr


# --- The real batches ------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def loaded(module_database: Database) -> tuple[Database, Summary]:
    project = load_project(REPOSITORY, module_database.profiles_dir)
    return module_database, load(project, [REAL], sorted(REAL.rglob("public_keys.json")))


def test_every_real_trace_verifies(loaded):
    _, summary = loaded
    assert summary.outcomes == VERIFIED
    assert summary.is_clean and (summary.batches, summary.received, summary.new, summary.sent_again) == (
        230,
        747,
        318,
        429,
    )
    assert (summary.deferrals, summary.other_events) == (1, Counter(wbd_deferral=1))


def test_loaded_real_rows_equal_those_of_the_lens(loaded):
    """Compares every column with the rows of the lens. The lens shortened the components, so only the parts that it
    kept are compared."""
    database, _ = loaded
    with gzip.open(FILES["covenant_traces"], "rt", newline="") as file:
        lens = {(row["trace_id"], row["timestamp"]): row for row in csv.DictReader(file)}
    with database.connect() as connection:
        columns = ", ".join(f'"{name}"' for name in TRACE_COLUMNS)
        rows = connection.execute(f"select {columns} from cirislens.covenant_traces").fetchall()
    assert len(rows) == 318 and len(lens) == sum(ROWS.values())
    for values in rows:
        row = dict(zip(TRACE_COLUMNS, values, strict=True))
        of_lens = lens[row["trace_id"], row["timestamp"].astimezone(UTC).isoformat()]
        for name, value in row.items():
            if isinstance(value, dict):
                assert contains(value, json.loads(of_lens[name])), (row["trace_id"], name)
            else:
                assert same(value, of_lens[name]), (row["trace_id"], name, value, of_lens[name])


def contains(whole: Any, part: Any) -> bool:
    if isinstance(part, dict):
        return isinstance(whole, dict) and all(
            name in whole and contains(whole[name], part[name]) for name in part
        )
    return whole == part


def same(value: Any, text: str) -> bool:
    if value is None or isinstance(value, bool):
        return text == {None: "", True: "true", False: "false"}[value]
    if isinstance(value, datetime):
        return value == datetime.fromisoformat(text)
    return text == value if isinstance(value, str) else float(text) == float(value)


def test_real_batches_are_confirmed(loaded):
    database, _ = loaded
    folder = REAL / "agent-2.7"
    result = command(database, "audit", folder, "--keys", str(folder / "public_keys.json"), "--json")
    found = json.loads(result.stdout)
    assert result.exit_code == 0 and found["traces_in_files"] == found["verified"] == 209
