"""Tests that a decision is loaded only once, whatever ids its copies have and in whatever order they arrive."""

from __future__ import annotations

import itertools
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
from ciris_scoring.basics.errors import InputError
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


HOW = ("one batch", "batches", "loads")
"""Ways to load traces. Each is tried with each kind of reuse. A property test below combines them with all rules."""


def with_a_way(*cases: Any) -> list[Any]:
    """Combine each case with one of the ways to load."""
    return [(*case, how) for case, how in zip(cases, itertools.cycle(HOW), strict=False)]


WITHOUT_IDS = [generation for generation in GENERATIONS if not generation.signs_ids]


@pytest.mark.parametrize(
    ("generation", "owner_first", "how"), with_a_way(*zip(GENERATIONS, itertools.cycle([True, False])))
)
def test_another_agent_that_reuses_id_and_time_displaces_nothing(
    project, database, tmp_path, generation, owner_first, how
):
    owner, thief = Agent(generation, 1), Agent(MIDDLE, 2)
    own = [owner.trace() for _ in range(3)]
    stolen = [stolen_by(thief, trace) for trace in own]
    keys = write_keys(tmp_path, owner, thief)
    summaries = load_in_order(
        project, tmp_path, [*own, *stolen] if owner_first else [*stolen, *own], keys, how
    )
    assert all(summary.is_clean for summary in summaries)
    with database.connect() as connection:
        query = "select agent_id_hash, trace_id from cirislens.covenant_traces where signature_verified"
        found = set(connection.execute(query).fetchall())
    assert found == {(agent.hash, trace["trace_id"]) for agent in (owner, thief) for trace in own}
    assert audited(database, [*tmp_path.glob("sent*")], keys)[0] == 0


@pytest.mark.parametrize(("genuine_at", "how"), with_a_way((19,)))
def test_copies_of_a_trace_without_signed_ids_count_once(project, database, tmp_path, how, genuine_at):
    agent = Agent(OLD)
    genuine = agent.trace()
    sent = [renamed(genuine, f"th_copy_{number:04}") for number in range(19)]
    sent.insert(genuine_at, genuine)
    keys = write_keys(tmp_path, agent)
    summaries = load_in_order(project, tmp_path, sent, keys, how)
    assert [row[0] for row in traces(database)] == [sent[0]["trace_id"]]
    found = [reason for summary in summaries for reason in reasons(summary)]
    assert found == ["replayed_signature"] * 19
    assert sum(summary.rejected for summary in summaries) == 19
    outcomes = sum((summary.outcomes for summary in summaries), loading.Counter())
    assert sorted(outcomes.values()) == [1, 19]
    exit_code, told = audited(database, [*tmp_path.glob("sent*")], keys)
    assert (told["n_discrepancies"], told["traces_in_files"]) == (0, 1) and exit_code in (0, 2)


@pytest.mark.parametrize(("generation", "how"), with_a_way(*zip(WITHOUT_IDS)))
def test_a_copy_counts_once_by_every_rule_without_ids(project, database, tmp_path, generation, how):
    agent = Agent(generation)
    genuine = agent.trace(at=START + timedelta(milliseconds=500))
    copy, later = renamed(genuine, "th_copy"), copied(genuine)
    later["trace_id"] = later["trace_id"][:-1] + str(int(later["trace_id"][-1]) + 1)  # one second later
    emptied = renamed(genuine, "th_emptied")  # differs only in unsigned fields
    if generation is not OLD:
        emptied["components"][0]["data"]["nothing"] = None
    keys = write_keys(tmp_path, agent)
    summaries = load_in_order(project, tmp_path, [genuine, copy, later, emptied], keys, how)
    assert verdicts(database) == {genuine["trace_id"]: (True, generation.rule)}
    assert [reason for summary in summaries for reason in reasons(summary)] == ["replayed_signature"] * 3


@pytest.mark.parametrize(("order", "how"), with_a_way(*zip(itertools.permutations(range(3)))))
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


@pytest.mark.parametrize("how", HOW)
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


def test_renamed_copy_at_another_trace_level_is_refused(project, database, tmp_path):
    agent = Agent(OLD)
    genuine = agent.trace()
    detailed = at_level(agent, genuine, "detailed")
    keys = write_keys(tmp_path, agent)
    load_in_order(project, tmp_path, [genuine, detailed, renamed(detailed, "th_copy")], keys, "one batch")
    assert verdicts(database) == {genuine["trace_id"]: (True, "components")}


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
    assert len(traces(database)) == 1


@pytest.mark.parametrize(("generation", "how"), with_a_way((OLD,), (MIDDLE,), (NEW,)))
def test_trace_levels_of_one_decision_do_not_conflict(project, database, tmp_path, generation, how):
    agent = Agent(generation)
    sent = []
    for _ in range(3):
        trace = agent.trace()
        sent += [trace, *(at_level(agent, trace, level) for level in ("detailed", "full_traces"))]
    keys = write_keys(tmp_path, agent)
    summaries = load_in_order(project, tmp_path, sent, keys, how)
    assert all(summary.is_clean for summary in summaries)
    assert sum(summary.new for summary in summaries) == 3 and sum(s.sent_again for s in summaries) == 6
    for paths in ([*tmp_path.glob("sent*")], [write(tmp_path, "reversed.json", batch(sent[::-1]))]):
        exit_code, told = audited(database, paths, keys)
        assert (exit_code, told["traces_in_files"], told["n_discrepancies"]) == (0, 3, 0)


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


def test_counts_of_a_batch_follow_the_key_that_came_later(project, database, tmp_path):
    agent = Agent()
    trace = agent.trace()
    path = write(tmp_path, "a.json", batch([trace, at_level(agent, trace, "detailed")]))
    load(project, [path], [])
    keys = write_keys(tmp_path, agent)
    assert load(project, [path], [keys]).is_clean
    assert load(project, [path], [keys]).is_clean  # loads the batches that were written to the file
    assert [row[3:6] for row in everything(database)["covenant_trace_batches"]] == [(2, 2, 0)]


def test_a_bad_signature_of_a_key_that_came_later_is_read_again_once(project, database, tmp_path):
    agent = Agent()
    altered = agent.trace() | {"task_id": "another"}
    path = write(tmp_path, "a.json", batch([altered]))
    load(project, [path], [])
    keys = write_keys(tmp_path, agent)
    assert reasons(load(project, [path], [keys])) == ["bad_signature"]
    again = load(project, [path], [keys])
    assert again.known_batches == 1 and not again.is_clean
    assert verdicts(database) == {altered["trace_id"]: (False, "bad_signature")}


def test_two_contents_far_apart_in_the_files_are_confirmed(project, database, tmp_path, monkeypatch):
    """Each chunk of documents numbered its traces from 1, so a later content was mistaken for an earlier one."""
    monkeypatch.setattr(loading, "CHUNK_DOCUMENTS", 1)
    agent = Agent()
    trace = agent.trace()
    detailed = at_level(agent, trace, "detailed")
    write(tmp_path / "in", "a.json", batch([agent.trace(), trace]))
    write(tmp_path / "in", "b.json", batch([detailed]))
    keys = write_keys(tmp_path, agent)
    assert load(project, [tmp_path / "in"], [keys]).is_clean
    assert audited(database, [tmp_path / "in"], keys)[0] == 0


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
            trace = agent.trace()
            sent += [trace] * source.choice([1, 1, 2])
            sent += [
                at_level(agent, trace, level)
                for level in source.sample(["detailed", "full_traces"], number % 3)
            ]
            if not agent.generation.signs_ids:
                sent += [renamed(trace, f"th_copy_{n}") for n in range(source.choice([0, 2]))]
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
    decisions = len(agents) * 3
    with database.connect() as connection:
        query = """
            select count(distinct (agent_id_hash, audit_sequence_number)), count(*)
            from cirislens.covenant_traces
            where agent_id_hash <> %s and signature_verified
        """
        assert connection.execute(query, [thief.hash]).fetchone() == (decisions, decisions)


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


def test_a_table_of_verification_of_an_earlier_version_is_refused(project, database, tmp_path):
    agent = Agent(OLD)
    path = write(tmp_path, "a.json", batch([agent.trace()]))
    keys = write_keys(tmp_path, agent)
    load(project, [path], [keys])
    with database.connect() as connection:
        connection.execute(f"alter table cirislens.{VERIFICATION_TABLE} drop decision_sha256")
    with pytest.raises(InputError, match="has no columns decision_sha256") as error:
        load(project, [path], [keys])
    assert error.value.hint is not None
    with database.connect() as connection:
        for statement in error.value.hint.removeprefix("Run: ").split("; ")[:2]:
            connection.execute(statement)
    summary = load(project, [path], [keys])
    assert (summary.is_clean, summary.sent_again) == (True, 1)
    assert len(traces(database)) == 1


def test_copies_are_removed_with_the_rights_that_docs_name(project, database, tmp_path):
    agent = Agent(OLD)
    genuine = agent.trace()
    path = write(tmp_path, "a.json", batch([genuine, renamed(genuine, "th_copy")]))
    load(project, [path], [])
    keys = write_keys(tmp_path, agent)
    with database.connect() as connection:
        connection.execute("drop role if exists remover")
        connection.execute("create role remover")
        try:
            connection.execute("grant usage on schema cirislens to remover")
            connection.execute(
                "grant select, insert, update, delete on all tables in schema cirislens to remover"
            )
            as_remover = replace(project, credentials=replace(project.credentials, role="remover"))
            assert reasons(load(as_remover, [path], [keys])) == ["replayed_signature"]
            assert len(traces(database)) == 1
        finally:
            connection.execute("drop owned by remover; drop role remover")
