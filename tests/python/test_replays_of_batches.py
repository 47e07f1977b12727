"""Tests that a decision is loaded only once, whatever the ids of its copies and the order in which they arrive."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from ciris_scoring.audit import load as loading
from ciris_scoring.audit.load import load
from ciris_scoring.audit.store import VERIFICATION_TABLE
from ciris_scoring.database.project import Project
from ciris_scoring.database.source_schema import create_source_tables
from ciris_scoring.errors import DatabaseError
from command_line import command
from conftest import Database
from signed_batches import GENERATIONS, MIDDLE, NEW, OLD, PROFILE, START, Agent, batch, standard
from test_load import everything, project, reasons, traces, verifications, write, write_keys

__all__ = ["project"]
Json = dict[str, Any]


def copied(trace: Json) -> Json:
    return json.loads(json.dumps(trace))  # type: ignore[no-any-return]


def renamed(trace: Json, thought_id: str) -> Json:
    """Return a copy of a trace with another thought id. The signature stays valid if the agent does not sign ids."""
    copy = copied(trace)
    copy["trace_id"] = copy["trace_id"].replace(copy["thought_id"], thought_id)
    copy["thought_id"] = thought_id
    return copy


def stolen_by(thief: Agent, trace: Json) -> Json:
    """Return a copy of a trace with the signature and agent_id_hash of a thief, and the same trace_id and time."""
    copy = copied(trace) | {
        "agent_id_hash": thief.hash, "trace_schema_version": thief.generation.schema,
        "deployment_profile": dict(PROFILE),
    }  # fmt: skip
    for component in copy["components"]:
        component["agent_id_hash"] = thief.hash
    return thief.sign(copy)


def at_level(agent: Agent, trace: Json, level: str) -> Json:
    """Return a copy of a trace as another adapter of the agent sends it: at another trace level, with more fields."""
    copy = copied(trace) | {"trace_level": level}
    copy["components"][0]["data"]["of_level"] = level
    return agent.sign(copy)


def copies(agent: Agent, trace: Json) -> list[Json]:
    """Return copies of a trace with other ids. Their signatures are valid if the agent does not sign ids."""
    later = copied(trace)
    later["trace_id"] = later["trace_id"][:-1] + "1"  # one second later
    emptied = renamed(trace, "th_emptied")  # differs from the trace only in unsigned fields
    if agent.generation is not OLD:
        emptied["components"][0]["data"]["nothing"] = None
    detailed = renamed(at_level(agent, trace, "detailed"), "th_detailed")
    return [renamed(trace, "th_copy"), later, emptied, detailed]


def audited(database: Database, paths: list[Path], keys: Path) -> tuple[int, Json]:
    result = command(database, "audit", *paths, "--keys", keys, "--json")
    return result.exit_code, json.loads(result.stdout)


@pytest.mark.parametrize("at_once", [True, False])
def test_the_copy_with_the_signed_thought_id_is_loaded(project, database, tmp_path, at_once):
    agent = Agent(OLD)
    genuine = agent.trace()
    genuine["components"][1]["data"]["system_snapshot"] = {
        "current_thought_summary": {"thought_id": genuine["thought_id"]}
    }
    agent.sign(genuine)
    sent = [renamed(genuine, "th_copy_a"), genuine, renamed(genuine, "th_copy_b")]
    keys = write_keys(tmp_path, agent)
    paths = [write(tmp_path, f"{number}.json", batch([trace])) for number, trace in enumerate(sent)]
    for group in [paths, paths[::-1]] if at_once else [[path] for path in paths * 2]:
        load(project, group, [keys])
    assert verifications(database) == {genuine["trace_id"]: (True, "components")}
    assert audited(database, paths, keys)[1]["n_discrepancies"] == 0


def under_another_key_id(agent: Agent, trace: Json) -> Json:
    return renamed(trace, "th_copy") | {"signature_key_id": "another-id"}


def spelt_otherwise(agent: Agent, trace: Json) -> Json:
    return trace | {"signature": trace["signature"].rstrip("=")}


def at_another_level(agent: Agent, trace: Json) -> Json:
    return at_level(agent, trace, "detailed")


def with_other_content(agent: Agent, trace: Json) -> Json:
    other = copied(trace)
    other["components"][2]["data"]["csdma"]["plausibility_score"] = 0.2
    return agent.sign(other)


@pytest.mark.parametrize(
    ("generation", "copy", "expected", "n_sent_again"),
    [
        (OLD, under_another_key_id, ["replayed_signature"], 0),
        (OLD, at_another_level, [], 1),
        (NEW, spelt_otherwise, [], 1),
        (MIDDLE, with_other_content, ["conflicting_trace"], 0),
    ],
)
def test_second_trace_with_the_same_signature_or_id_is_not_loaded(
    project, database, tmp_path, generation, copy, expected, n_sent_again
):
    agent = Agent(generation)
    trace = agent.trace()
    keys = write(tmp_path, "keys.json", agent.keys | {"another-id": standard(agent.public_bytes)})
    path = write(tmp_path, "a.json", batch([trace, copy(agent, trace)]))
    summary = load(project, [path], [keys])
    assert (reasons(summary), summary.new, summary.sent_again) == (expected, 1, n_sent_again)
    assert len(traces(database)) == 1
    assert audited(database, [path], keys)[1]["n_discrepancies"] == 0


def test_copy_with_an_altered_time_is_removed(project, database, tmp_path):
    agent = Agent(OLD)
    genuine = agent.trace()
    altered = copied(genuine) | {"completed_at": "2026-06-01T08:59:59+00:00"}
    keys = write_keys(tmp_path, agent)
    summary = load(project, [write(tmp_path, "a.json", batch([altered]))], [keys])
    assert (reasons(summary), len(traces(database))) == (["unconfirmed_field"], 1)
    summary = load(project, [write(tmp_path, "b.json", batch([genuine]))], [keys])
    assert (summary.is_clean, summary.new) == (True, 1)
    assert verifications(database) == {genuine["trace_id"]: (True, "components")}


def test_a_verified_trace_stays_loaded_when_sent_again_without_its_key(project, database, tmp_path):
    agent = Agent()
    trace = agent.trace()
    load(project, [write(tmp_path, "a.json", batch([trace]))], [write_keys(tmp_path, agent)])
    [verified] = everything(database)[VERIFICATION_TABLE]
    with database.connect() as connection:
        connection.execute("delete from cirislens.covenant_public_keys")
    summary = load(project, [write(tmp_path, "b.json", batch([trace, agent.trace()]))], [])
    assert verified in everything(database)[VERIFICATION_TABLE]
    assert "conflicting_trace" not in reasons(summary)


def test_counts_of_a_batch_change_when_its_key_is_registered(project, database, tmp_path):
    agent = Agent()
    trace = agent.trace()
    path = write(tmp_path, "a.json", batch([trace, at_level(agent, trace, "detailed")]))
    load(project, [path], [])
    keys = write_keys(tmp_path, agent)
    assert load(project, [path], [keys]).is_clean
    assert load(project, [path], [keys]).is_clean
    assert [row[3:6] for row in everything(database)["covenant_trace_batches"]] == [(2, 2, 0)]


@pytest.fixture
def by_loader(project: Project, database: Database) -> Iterator[Project]:
    """The project, used by a role that has exactly the rights of docs/auditing.md."""
    assert command(database, "init-db").exit_code == 0
    with database.connect() as connection:
        connection.execute(
            "create role loader; grant usage on schema cirislens to loader;"
            "grant select, insert, update, delete on all tables in schema cirislens to loader"
        )
        yield replace(project, credentials=replace(project.credentials, role="loader"))
        connection.execute("drop owned by loader; drop role loader")


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2))
def test_audit_confirms_every_row_that_load_wrote(by_loader, database, tmp_path, monkeypatch, seed):
    """Random batches are loaded in one to three loads, by one process or two. The audit reads them in other orders."""
    source = random.Random(seed)
    monkeypatch.setattr(loading, "CHUNK_DOCUMENTS", source.choice([1, 2, 500]))
    monkeypatch.setattr(loading, "processors", lambda: seed + 1)
    agents = [Agent(generation, number) for number, generation in enumerate(GENERATIONS)]
    thief = Agent(MIDDLE, 9)
    sent = []
    for agent in agents:
        for number in range(3):
            trace = agent.trace(at=START + timedelta(minutes=agent.sequence, milliseconds=500))
            sent += [trace] * source.choice([1, 1, 2])
            levels = source.sample(["detailed", "full_traces"], number % 3)
            sent += [at_level(agent, trace, level) for level in levels]
            if not agent.generation.signs_ids:
                sent += copies(agent, trace)[: source.choice([0, 4])]
            if source.random() < 0.3:
                sent.append(stolen_by(thief, trace))
            if source.random() < 0.3:
                sent.append(with_other_content(agent, trace))
            if source.random() < 0.3:
                forged = copied(trace)
                forged["components"][2]["data"]["csdma"]["plausibility_score"] = 1.0
                sent += [forged, copied(forged) | {"task_id": "another"}]
    n_stolen = len({t["trace_id"] for t in sent if t["agent_id_hash"] == thief.hash})
    source.shuffle(sent)
    paths = []
    while sent:
        size = source.choice([1, 2, 5])
        paths.append(write(tmp_path / "in", f"{len(paths):03}.json", batch(sent[:size])))
        sent = sent[size:]
    all_keys = write_keys(tmp_path, *agents, thief, name="all.json")
    some_keys = write_keys(tmp_path, *source.sample([*agents, thief], 2), name="some.json")
    n = source.choice([1, 2, 3])
    loads = [paths[number::n] for number in range(n)]
    if seed == 1:  # Load all batches twice: first with a few keys, then with all keys.
        loads = [*loads, *loads]
        for group in loads[:n]:
            load(by_loader, group, [some_keys])
    for group in loads[-n:]:
        load(by_loader, group, [all_keys])
    for order in (paths, paths[::-1], source.sample(paths, len(paths))):
        exit_code, told = audited(database, order, all_keys)
        assert told["discrepancies"] == [] and exit_code in (0, 2)
        assert told["traces_in_files"] == told["traces_in_database"]
    verified = Counter(
        (row["agent_id_hash"], row["audit_sequence_number"]) for row in traces(database) if row["signature_verified"]
    )
    n_of_thief = sum(n for (agent, _), n in verified.items() if agent == thief.hash)
    assert n_of_thief == n_stolen and verified.total() == n_stolen + len(agents) * 3
    assert {n for (agent, _), n in verified.items() if agent != thief.hash} == {1}


def test_table_without_agent_in_its_key_is_refused(project, database, tmp_path):
    agent = Agent()
    path = write(tmp_path, "a.json", batch([agent.trace()]))
    keys = write_keys(tmp_path, agent)
    with database.connect() as connection:
        create_source_tables(connection)
    with pytest.raises(DatabaseError, match="ON CONFLICT") as error:
        load(project, [path], [keys])
    assert "needs the primary key (trace_id, timestamp, agent_id_hash)" in str(error.value.hint)
