"""Tests of `run --from-batches`, and of loading the real batches in tests/data."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from click.testing import Result

from ciris_scoring.audit.load import load
from ciris_scoring.database.project import load_project
from command_line import command, invoke, succeeded
from conftest import DATA, REPOSITORY, Database
from pipeline import differences_from_reference, kept_parsed, score
from signed_batches import GENERATIONS, OLD, Agent, batch
from test_load import write, write_keys

REAL = DATA / "batches"
VERIFIED = {("no schema", "components"): 37, ("2.7.9", "sorted_json"): 620, ("3.0.0", "jcs"): 90}
"""Number of real traces by schema version and signature rule. All signatures are verified."""


def run_from(database: Database, folder: Path, *options: str) -> Result:
    keys = [argument for path in folder.rglob("*keys.json") for argument in ("--keys", path)]
    with kept_parsed(database.profiles_dir):
        return invoke("run", "--from-batches", folder, *keys, *options, "--project-dir", REPOSITORY)


def test_run_from_batches_loads_and_scores(own_server, tmp_path, monkeypatch):
    """The exit code is 2 because of a forged trace. The command is started outside the project."""
    monkeypatch.chdir(tmp_path)
    agents = [Agent(generation, seed) for seed, generation in enumerate(GENERATIONS)]
    forged = agents[0].trace()
    forged["components"][2]["data"]["csdma"]["plausibility_score"] = 0.99
    folder = tmp_path / "in"
    write(folder, "batch.json", batch([forged, *(agent.trace() for agent in agents for _ in range(12))]))
    write_keys(folder, *agents)
    result = run_from(own_server, folder)
    assert result.exit_code == 2, result.output
    assert "Fleet at 2026-06-02T00:00:00Z, window of 7 days, 8 agents" in result.stdout
    assert f"explain AGENT --profiles-dir profiles --project-dir {REPOSITORY}\n" in result.stdout
    assert "97 traces: 97 new." in result.stderr and "bad_signature" in result.stderr
    query = (
        "select agent_id_hash from ciris.fct_factor_components"
        " where component = 'i_chain' and window_days = 7 and component_value = 1"
    )
    assert {agent for (agent,) in own_server.execute(query)} == {agent.hash for agent in agents[1:]}


@pytest.mark.slow
def test_run_from_batches_says_why_an_agent_has_no_score(own_server, tmp_path):
    mock, real, folder = Agent(OLD), Agent(), tmp_path / "in"
    sent = [mock.trace() for _ in range(12)]
    for trace in sent:
        trace["components"][-1]["data"]["models_used"] = ["llama4scout (mock)"]
        mock.sign(trace)
    write(folder, "mock.json", batch(sent))
    write_keys(folder, mock, real)
    result = run_from(own_server, folder)
    assert result.exit_code == 0, result.output
    assert "Not of production: 12 mock." in result.stderr
    why = "1 agent without a score, because all traces are of run kinds that are not scored: "
    why += f"{mock.hash}. The issues mock_trace"
    assert why in result.stderr
    counted = "select n::integer, issue from ciris.fct_data_quality where issue ~ 'mock'"
    assert own_server.execute(counted) == [(12, "mock_trace")]
    shown = command(own_server, "fleet")
    assert shown.exit_code == 1 and f"No score is published yet. {why}" in shown.output
    found = json.loads(command(own_server, "check", "--json").stdout)["run"]
    assert found["traces"] == {"mock": 12}
    assert "whole history: 12 mock" in command(own_server, "check").output

    write(folder, "real.json", batch(real.trace() for _ in range(12)))
    result = run_from(own_server, folder)
    assert "window of 7 days, 1 agent," in result.stdout and why in result.stderr
    assert why in succeeded(command(own_server, "fleet")).output
    all_kinds = ("--vars", "{ciris_scored_run_kinds: [production, mock]}")
    refused = run_from(own_server, folder, *all_kinds)
    assert refused.exit_code == 1 and "are not those of the scores published" in refused.output
    result = run_from(own_server, folder, *all_kinds, "--full-refresh", "--allow-rescoring")
    assert "window of 7 days, 2 agents" in result.stdout and why not in result.stderr
    assert own_server.execute(counted) == []


def test_run_from_batches_without_traces_is_refused(own_server, tmp_path):
    result = run_from(own_server, tmp_path / "nothing")
    assert result.exit_code == 2 and "nothing to score" in result.stderr and "unreadable" in result.stderr


def test_every_real_trace_verifies_and_is_confirmed_and_scored(module_database):
    """test_event_lens.py compares the loaded rows with those of the lens's engine. The scores are compared with the
    reference implementation.
    """
    project = load_project(REPOSITORY, module_database.profiles_dir)
    summary = load(project, [REAL], sorted(REAL.rglob("public_keys.json")))
    assert summary.outcomes == VERIFIED and summary.is_clean
    counts = (summary.batches, summary.received, summary.new, summary.sent_again)
    assert counts == (230, 747, 318, 429)
    assert summary.run_kinds == {"mock": 747}
    assert (summary.deferrals, summary.other_events) == (1, {"public_keys": 3, "wbd_deferral": 1})
    folder = REAL / "agent-2.7"
    result = command(module_database, "audit", folder, "--keys", folder / "public_keys.json", "--json")
    found = json.loads(result.stdout)
    assert result.exit_code == 0 and found["traces_in_files"] == found["verified"] == 209

    with module_database.connect() as connection:
        [[last]] = connection.execute('select max("timestamp") from cirislens.covenant_traces').fetchall()
        as_of = last.replace(hour=0, minute=0, second=0, microsecond=0) + timedelta(days=1)
        # A run refuses an as-of in the future, so on a machine whose clock is behind, all times are moved back.
        days = timedelta(days=max(0, -((datetime.now(UTC) - as_of) // timedelta(days=1))))
        for table, column in (("covenant_traces", "timestamp"), ("wbd_deferrals", "created_at")):
            connection.execute(f'update cirislens.{table} set "{column}" = "{column}" - %s', [days])
        kinds = ["production", "mock"]
        score(module_database.profiles_dir, as_of - days, {"ciris_scored_run_kinds": kinds})
        assert differences_from_reference(connection, as_of - days, scored=kinds) == []
