"""Tests that a decision is loaded only once, whatever ids its copies have and in whatever order they arrive."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from ciris_scoring.audit import load as loading
from ciris_scoring.audit.load import Summary, load
from ciris_scoring.audit.store import VERIFICATION_TABLE
from ciris_scoring.basics.errors import DatabaseError, InputError
from ciris_scoring.basics.source_schema import create_source_tables
from conftest import Database
from signed_batches import GENERATIONS, MIDDLE, NEW, OLD, PROFILE, START, Agent, batch, standard
from test_load import command, everything, project, reasons, traces, verdicts, write, write_keys

__all__ = ["project"]
Json = dict[str, Any]


def copied(trace: Json) -> Json:
    return json.loads(json.dumps(trace))  # type: ignore[no-any-return]


def renamed(trace: Json, thought_id: str) -> Json:
    """Return a copy with another thought id. Its signature is valid if ids are not signed."""
    copy = copied(trace)
    copy["trace_id"] = copy["trace_id"].replace(copy["thought_id"], thought_id)
    copy["thought_id"] = thought_id
    return copy


def stolen_by(thief: Agent, trace: Json) -> Json:
    """Return the trace as another agent would sign it, with its own hash and the same id and time."""
    copy = copied(trace) | {
        "agent_id_hash": thief.hash, "trace_schema_version": thief.generation.schema,
        "deployment_profile": dict(PROFILE),
    }  # fmt: skip
    for component in copy["components"]:
        component["agent_id_hash"] = thief.hash
    return thief.sign(copy)


def at_level(agent: Agent, trace: Json, level: str) -> Json:
    """Return the decision as another adapter of the agent sends it, at another trace level with more fields."""
    copy = copied(trace) | {"trace_level": level}
    copy["components"][0]["data"]["of_level"] = level
    return agent.sign(copy)


def copies(agent: Agent, trace: Json) -> list[Json]:
    """Return copies under other ids whose signatures are valid if ids are not signed."""
    later = copied(trace)
    later["trace_id"] = later["trace_id"][:-1] + "1"  # one second later
    emptied = renamed(trace, "th_emptied")  # differs only in unsigned fields
    if agent.generation is not OLD:
        emptied["components"][0]["data"]["nothing"] = None
    detailed = renamed(at_level(agent, trace, "detailed"), "th_detailed")
    return [renamed(trace, "th_copy"), later, emptied, detailed]


def audited(database: Database, paths: list[Path], keys: Path) -> tuple[int, Json]:
    result = command(database, "audit", *paths, "--keys", keys, "--json")
    return result.exit_code, json.loads(result.stdout)


def load_in_order(
    project_: Any, folder: Path, sent: list[Json], keys: Path, how: str, name: str = "sent"
) -> list[Summary]:
    """Load traces in one batch, in several batches, or in several loads."""
    if how == "one batch":
        return [load(project_, [write(folder, f"{name}.json", batch(sent))], [keys])]
    paths = [write(folder / name, f"{number}.json", batch([trace])) for number, trace in enumerate(sent)]
    return (
        [load(project_, paths, [keys])] if how == "batches" else [load(project_, [p], [keys]) for p in paths]
    )


@pytest.mark.parametrize(
    ("order", "how"), [((1, 0, 2), "one batch"), ((2, 1, 0), "batches"), ((1, 2, 0), "loads")]
)
def test_a_signed_thought_decides_which_copy_is_right(project, database, tmp_path, order, how):
    agent = Agent(OLD)
    genuine = agent.trace()
    genuine["components"][1]["data"]["system_snapshot"] = {
        "current_thought_summary": {"thought_id": genuine["thought_id"]}
    }
    agent.sign(genuine)
    sent = [genuine, renamed(genuine, "th_copy_a"), renamed(genuine, "th_copy_b")]
    keys = write_keys(tmp_path, agent)
    load_in_order(project, tmp_path, [sent[number] for number in order], keys, how)
    assert verdicts(database) == {genuine["trace_id"]: (True, "components")}
    again = load_in_order(project, tmp_path, sent, keys, how, "again")
    assert verdicts(database) == {genuine["trace_id"]: (True, "components")}
    assert sum(summary.new for summary in again) == 0
    assert audited(database, [*tmp_path.glob("sent*")], keys)[1]["n_discrepancies"] == 0


@pytest.mark.parametrize("how", ["one batch", "loads"])
def test_copies_that_came_before_their_key_are_removed(project, database, tmp_path, how):
    agent = Agent(OLD)
    other = agent.trace()
    genuine = agent.trace()
    sent = [genuine, *(renamed(genuine, f"th_copy_{number}") for number in range(3)), other]
    no_keys = write(tmp_path, "no_keys.json", {})
    load_in_order(project, tmp_path, sent, no_keys, how)
    assert len(traces(database)) == 5
    keys = write_keys(tmp_path, agent)
    summaries = load_in_order(project, tmp_path, sent, keys, how)
    assert sum(summary.replaced for summary in summaries) == 2
    assert sum(summary.rejected for summary in summaries) == 3
    assert verdicts(database) == {trace["trace_id"]: (True, "components") for trace in (genuine, other)}
    assert audited(database, [*tmp_path.glob("sent*")], keys)[1]["n_discrepancies"] == 0


def test_copy_with_an_altered_time_is_removed(project, database, tmp_path):
    agent = Agent(OLD)
    genuine = agent.trace()
    altered = copied(genuine) | {"completed_at": "2026-06-01T08:59:59+00:00"}
    keys = write_keys(tmp_path, agent)
    assert reasons(load(project, [write(tmp_path, "a.json", batch([altered]))], [keys])) == [
        "unconfirmed_field"
    ]
    assert len(traces(database)) == 1
    summary = load(project, [write(tmp_path, "b.json", batch([genuine]))], [keys])
    assert (summary.is_clean, summary.new, summary.replaced) == (True, 0, 1)
    assert verdicts(database) == {genuine["trace_id"]: (True, "components")}
    with database.connect() as connection:
        query = f"select reason from cirislens.{VERIFICATION_TABLE} where not is_loaded"
        assert connection.execute(query).fetchall() == [("replayed_signature",)]


def test_copy_under_another_key_id_is_refused(project, database, tmp_path):
    agent = Agent(OLD)
    genuine = agent.trace()
    copy = renamed(genuine, "th_copy") | {"signature_key_id": "agent-other"}
    keys = write(tmp_path, "keys.json", {**agent.keys, "agent-other": standard(agent.public_bytes)})
    summary = load(project, [write(tmp_path, "a.json", batch([genuine, copy]))], [keys])
    assert reasons(summary) == ["replayed_signature"]
    assert summary.outcomes == {("no schema", "components"): 1, ("no schema", "replayed_signature"): 1}
    assert (summary.new, summary.rejected, len(traces(database))) == (1, 1, 1)


def test_same_signed_bytes_in_another_spelling_count_as_repeated(project, database, tmp_path):
    agent = Agent(NEW)
    trace = agent.trace()
    respelled = copied(trace)
    respelled["signature"] = respelled["signature"].rstrip("=")
    keys = write_keys(tmp_path, agent)
    summary = load(project, [write(tmp_path, "a.json", batch([trace, respelled]))], [keys])
    assert (summary.is_clean, summary.new, summary.sent_again) == (True, 1, 1)
    assert audited(database, [write(tmp_path, "b.json", batch([respelled, trace]))], keys)[0] == 0


def test_another_content_of_the_same_level_is_a_conflict(project, database, tmp_path):
    agent = Agent()
    trace = agent.trace()
    other = copied(trace)
    other["components"][2]["data"]["csdma"]["plausibility_score"] = 0.2
    sent = batch([trace, agent.sign(other)])
    keys = write_keys(tmp_path, agent)
    path = write(tmp_path, "a.json", sent)
    assert reasons(load(project, [path], [keys])) == ["conflicting_trace"]
    assert audited(database, [path], keys)[1]["n_discrepancies"] == 0


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


def test_counts_of_a_batch_follow_the_key_that_came_later(project, database, tmp_path):
    agent = Agent()
    trace = agent.trace()
    path = write(tmp_path, "a.json", batch([trace, at_level(agent, trace, "detailed")]))
    load(project, [path], [])
    keys = write_keys(tmp_path, agent)
    assert load(project, [path], [keys]).is_clean
    assert load(project, [path], [keys]).is_clean  # loads the batches that were written to the file
    assert [row[3:6] for row in everything(database)["covenant_trace_batches"]] == [(2, 2, 0)]


def test_batch_with_a_bad_signature_is_read_once_more_after_its_key_is_known(project, database, tmp_path):
    agent = Agent()
    altered = agent.trace() | {"task_id": "another"}
    path = write(tmp_path, "a.json", batch([altered]))
    load(project, [path], [])
    keys = write_keys(tmp_path, agent)
    assert reasons(load(project, [path], [keys])) == ["bad_signature"]
    again = load(project, [path], [keys])
    assert again.known_batches == 1 and not again.is_clean
    assert verdicts(database) == {altered["trace_id"]: (False, "bad_signature")}


def test_which_agent_a_key_signs_for_does_not_depend_on_the_order_of_the_audit(project, database, tmp_path):
    agent = Agent(OLD)
    sent = [agent.trace() for _ in range(2)]
    sent[1]["agent_id_hash"] = "0123456789abcdef"
    keys = write_keys(tmp_path, agent)
    paths = [write(tmp_path, f"{number}.json", batch([trace])) for number, trace in enumerate(sent)]
    load(project, paths, [keys])
    for order in (paths, paths[::-1]):
        exit_code, told = audited(database, order, keys)
        assert (exit_code, told["n_discrepancies"]) == (2, 0)
        assert "foreign_key" in [problem["reason"] for problem in told["problems"]]


@pytest.mark.parametrize("seed", range(4))
def test_every_row_that_load_wrote_is_confirmed(project, database, tmp_path, monkeypatch, seed):
    """Random verified batches, in any order and chunk size, in one load or several; the audit reads them in any
    order."""
    source = random.Random(seed)
    monkeypatch.setattr(loading, "CHUNK_DOCUMENTS", source.choice([1, 2, 500]))
    agents = [Agent(generation, number) for number, generation in enumerate(GENERATIONS)]
    thief = Agent(MIDDLE, 9)
    sent = []
    for agent in agents:
        for number in range(3):
            trace = agent.trace(at=START + timedelta(minutes=agent.sequence, milliseconds=500))
            sent += [trace] * source.choice([1, 1, 2])
            sent += [
                at_level(agent, trace, level)
                for level in source.sample(["detailed", "full_traces"], number % 3)
            ]
            if not agent.generation.signs_ids:
                sent += copies(agent, trace)[: source.choice([0, 4])]
            if source.random() < 0.3:
                sent.append(stolen_by(thief, trace))
            if source.random() < 0.3:
                other = copied(trace)
                other["components"][2]["data"]["csdma"]["plausibility_score"] = 0.2
                sent.append(agent.sign(other))
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
    if source.random() < 0.5:  # the key is registered later
        loads = [*loads, *loads]
        for group in loads[:n]:
            load(project, group, [some_keys])
    for group in loads[-n:]:
        load(project, group, [all_keys])
    for order in (paths, paths[::-1], source.sample(paths, len(paths))):
        exit_code, told = audited(database, order, all_keys)
        assert told["discrepancies"] == [] and exit_code in (0, 2)
        assert told["traces_in_files"] == told["traces_in_database"]
    decisions = len(agents) * 3
    with database.connect() as connection:
        query = """
            select
                count(*) filter (where agent_id_hash <> %(thief)s),
                count(distinct (agent_id_hash, audit_sequence_number)) filter (where agent_id_hash <> %(thief)s),
                count(*) filter (where agent_id_hash = %(thief)s)
            from cirislens.covenant_traces
            where signature_verified
        """
        found = connection.execute(query, {"thief": thief.hash}).fetchone()
        assert found == (decisions, decisions, n_stolen)


def test_table_without_agent_in_its_key_is_refused(project, database, tmp_path):
    agent = Agent()
    path = write(tmp_path, "a.json", batch([agent.trace()]))
    keys = write_keys(tmp_path, agent)
    with database.connect() as connection:
        create_source_tables(connection)
    refused = command(database, "load", path, "--keys", keys)
    assert refused.exit_code == 2 and "its key covenant_traces_pkey has room for one agent only" in " ".join(
        refused.output.split()
    )
    with pytest.raises(InputError) as error:
        load(project, [path], [keys])
    assert error.value.hint is not None
    with database.connect() as connection:
        connection.execute(error.value.hint.removeprefix("Run: "))
    assert load(project, [path], [keys]).is_clean


def test_the_rights_that_docs_name_are_enough(project, database, tmp_path):
    agent = Agent(OLD)
    genuine = agent.trace()
    path = write(tmp_path, "a.json", batch([genuine, renamed(genuine, "th_copy"), Agent(seed=2).trace()]))
    keys = write_keys(tmp_path, agent)
    with database.connect() as connection:
        connection.execute("drop role if exists loader")
        connection.execute("create role loader")
        try:
            as_loader = replace(project, credentials=replace(project.credentials, role="loader"))
            with pytest.raises(DatabaseError, match="permission denied"):
                load(as_loader, [path], [keys])
            assert command(database, "init-db").exit_code == 0
            connection.execute("grant usage on schema cirislens to loader")
            connection.execute(
                "grant select, insert, update, delete on all tables in schema cirislens to loader"
            )
            assert reasons(load(as_loader, [path], [])) == ["unknown_key"] * 3
            assert reasons(load(as_loader, [path], [keys])) == ["replayed_signature", "unknown_key"]
            assert sorted(verdicts(database).values()) == [(False, "unknown_key"), (True, "components")]
            assert len(traces(database)) == 2  # the copy is deleted
        finally:
            connection.execute("drop owned by loader; drop role loader")
