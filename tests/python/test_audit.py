"""Tests of `audit`: a database that agrees with raw batches is confirmed, and every change is found."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from command_line import command, succeeded
from conftest import Database, copy_of
from signed_batches import GENERATIONS, MIDDLE, Agent, batch
from test_load import write, write_keys

AGENT = Agent(MIDDLE, 70)
OTHERS = [Agent(generation, seed) for seed, generation in enumerate(GENERATIONS)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("batches")
    for number in range(4):
        write(folder, f"{number}.json", batch([AGENT.trace() for _ in range(12)]))
    write(folder, "others.json", batch(agent.trace() for agent in OTHERS for _ in range(3)))
    write_keys(folder, AGENT, *OTHERS)
    return folder


@pytest.fixture(scope="module")
def loaded(module_database: Database, folder: Path) -> Database:
    succeeded(command(module_database, "load", folder, "--keys", folder / "keys.json"))
    return module_database


def audit(database: Database, folder: Path, *options: str) -> tuple[int, dict[str, Any]]:
    result = command(database, "audit", folder, "--keys", folder / "keys.json", "--json", *options)
    return result.exit_code, json.loads(result.stdout)


def test_an_honest_database_is_confirmed(loaded, folder):
    exit_code, found = audit(loaded, folder)
    assert (exit_code, found["is_confirmed"], found["n_discrepancies"]) == (0, True, 0)
    assert found["traces_in_files"] == found["traces_in_database"] == found["verified"] == 72
    assert len(found["not_compared"]) == 1  # deferrals


def test_end_of_a_key_that_the_files_do_not_state_is_a_discrepancy(loaded, folder, tmp_path):
    """The score changes, and nothing in the files says whether it is right."""
    with copy_of(loaded, tmp_path) as copy:
        for end, said in (("2026-06-01 UTC", "2026-06-01T00:00:00.000000+00:00"), ("infinity", None)):
            copy.execute(
                f"update cirislens.covenant_public_keys set revoked_at = '{end}' where key_id = '{AGENT.key_id}'"
            )
            exit_code, found = audit(copy, folder)
            ends = {f"revoked_at of key {AGENT.key_id}": {"database": said, "recomputed": None}}
            assert [one["differences"] for one in found["discrepancies"]] == ([ends] if said else [])
            assert exit_code == len(found["discrepancies"])


def test_what_was_not_compared_is_said(loaded, folder, tmp_path):
    with copy_of(loaded, tmp_path) as copy:
        copy.execute(
            """
            insert into cirislens.covenant_traces (trace_id, agent_id_hash, "timestamp", signature_verified)
            values ('a', 'planted', '2026-06-01', true), ('b', 'planted', 'infinity', true);
            create table cirislens.trace_events ()
            """
        )
        of_events = ("--vars", "{ciris_source: events}")
        for options, said in (
            ((), "2 traces in the database of 1 agent that is not in the files"),
            (of_events, "the table trace_events, from which this target is scored"),
        ):
            page = command(copy, "audit", folder, "--keys", folder / "keys.json", *options)
            assert page.exit_code == 0 and "Confirmed" in page.stdout and said in page.stdout


def test_audit_is_restricted_to_agent_and_window(loaded, folder):
    hour = ["--from", "2026-06-01T09:00:00", "--to", "2026-06-01T09:30:06"]
    for agent in (AGENT.hash, AGENT.hash[:8], f"hash:{AGENT.hash}"):
        exit_code, found = audit(loaded, folder, "--agent", agent, *hour)
        assert (exit_code, found["agents"], found["traces_in_files"]) == (0, [AGENT.hash], 6)
    missing = command(loaded, "audit", folder, "--agent", "Nobody")
    assert missing.exit_code == 2 and "no trace of an agent 'Nobody'" in missing.output
    several = command(loaded, "audit", folder, "--agent", "Probe")
    assert several.exit_code == 2 and "agents in the files have the name 'Probe'" in several.output
    assert AGENT.hash in several.output


def test_a_range_without_traces_is_not_confirmed(loaded, folder):
    for first, last, said in (
        ("2026-06-02", "2026-06-01", "--from is 2026-06-02T00:00:00Z, which is not before --to"),
        ("2026-06-01", "2026-06-01", "which is not before --to"),
        ("2031-01-01", "2031-02-01", "Neither the files nor the database have a trace"),
    ):
        keys = ["--keys", folder / "keys.json"]
        result = command(loaded, "audit", folder, *keys, "--from", first, "--to", last)
        assert result.exit_code == 2 and said in result.output and "Confirmed" not in result.output


def test_audit_without_the_key_reports_verified_traces(loaded, folder):
    result = command(loaded, "audit", folder, "--agent", AGENT.hash, "--json")
    found = json.loads(result.stdout)
    assert result.exit_code == 1 and found["n_discrepancies"] == 48
    assert found["discrepancies"][0]["differences"] == {
        "signature_verified": {"database": True, "recomputed": False, "reason": "unknown_key"}
    }


def one(column: str, value: str) -> str:
    """Return a statement that changes a column of one trace. {trace} stands for the condition on the trace."""
    return f"update cirislens.covenant_traces set {column} = {value} where {{trace}}"


ALTERATIONS: list[tuple[str, list[tuple[str, set[str]]]]] = [
    (one("selected_action", "' HandlerActionType.speak'"), []),
    *(
        (one(column, value), [("differs", {column.strip('"')})])
        for column, value in (
            ("csdma_plausibility_score", "0.99"),
            ("selected_action", "'DEFER'"),
            ("coherence_passed", "null"),
            ("signature_verified", "false"),
            ("signature", "reverse(signature)"),
            ("action_result", "action_result || '{{\"execution_success\": 1}}'"),
            ("audit_entry_hash", "md5('')"),
            ("audit_sequence_number", "audit_sequence_number + 70"),
        )
    ),
    *(
        (one(column, value), [("missing_in_database", set()), ("not_in_files", set())])
        for column, value in (
            ('"timestamp"', "\"timestamp\" + interval '1 second'"),
            ("trace_id", "'trace-other'"),
        )
    ),
    ("delete from cirislens.covenant_traces where {trace}", [("missing_in_database", set())]),
    (
        """
        insert into cirislens.covenant_traces (trace_id, agent_id_hash, "timestamp", signature_verified)
        select 'trace-invented', agent_id_hash, max("timestamp") + interval '1 minute', true
        from cirislens.covenant_traces group by agent_id_hash order by count(*) desc limit 1
        """,
        [("not_in_files", set())],
    ),
    (
        "insert into cirislens.covenant_traces select * from cirislens.covenant_traces where {trace}",
        [("not_in_files", set())],
    ),
    (
        f"update cirislens.covenant_public_keys set public_key_base64 = reverse(public_key_base64)"
        f" where key_id = '{AGENT.key_id}'",
        [("key_differs", {f"public_key_base64 of key {AGENT.key_id}"})],
    ),
]
"""Statements that alter the database, each with the kinds and columns of the discrepancies that `audit` must find."""


def test_every_alteration_is_found(loaded, folder, tmp_path):
    """All alterations are made in one copy of the database. Each alteration changes a different trace."""
    with copy_of(loaded, tmp_path) as copy:
        with copy.connect() as connection:
            connection.execute("alter table cirislens.covenant_traces drop constraint covenant_traces_pkey")
            for number, (statement, _) in enumerate(ALTERATIONS):
                trace = f"agent_id_hash = '{AGENT.hash}' and audit_sequence_number = {3 * number + 2}"
                assert connection.execute(statement.format(trace=trace)).rowcount == 1
        exit_code, found = audit(copy, folder)
        page = command(copy, "audit", folder, "--keys", folder / "keys.json").output
    expected = [(kind, sorted(columns)) for _, every in ALTERATIONS for kind, columns in every]
    assert exit_code == 1
    assert sorted((d["kind"], sorted(d["differences"])) for d in found["discrepancies"]) == sorted(expected)
    for kind, columns in expected:
        assert kind in page and all(column in page for column in columns)
