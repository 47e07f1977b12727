"""Tests of `load` into real databases: each received trace is stored once, and invalid input affects only itself."""

from __future__ import annotations

import base64
import gzip
import itertools
import json
import os
import re
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from ciris_scoring.audit import load as loading
from ciris_scoring.audit.load import Summary, load
from ciris_scoring.audit.store import VERIFICATION_TABLE
from ciris_scoring.database.project import Project, load_project
from ciris_scoring.database.run_lock import LOAD_LOCK
from ciris_scoring.database.source_schema import SOURCE_TABLES, TRACE_COLUMNS
from command_line import command, refused, succeeded
from conftest import DATA, REPOSITORY, Database
from signed_batches import (
    GENERATIONS,
    NEW,
    OLD,
    PROFILE,
    TWO_FIELDS,
    TWO_FIELDS_OF_2_7,
    Agent,
    batch,
    deferral,
    standard,
    urlsafe_unpadded,
)

Json = dict[str, Any]


@pytest.fixture
def project(database: Database) -> Project:
    return load_project(REPOSITORY, database.profiles_dir)


@pytest.fixture(scope="module")
def shared(module_database: Database) -> Project:
    """Project with a database that several tests share. Each test loads traces of different agents."""
    return load_project(REPOSITORY, module_database.profiles_dir)


def write(folder: Path, name: str, *documents: Json | list[Any] | bytes) -> Path:
    """Write a JSON file with one document, or with one document per line."""
    path = folder / name
    path.parent.mkdir(exist_ok=True, parents=True)
    texts = [d if isinstance(d, bytes) else json.dumps(d).encode() for d in documents]
    content = b"\n".join(texts)
    path.write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
    return path


def write_keys(folder: Path, *agents: Agent, name: str = "keys.json") -> Path:
    return write(folder, name, {key: text for agent in agents for key, text in agent.keys.items()})


def traces(database: Database) -> list[dict[str, Any]]:
    """Return all loaded traces as dictionaries by column."""
    with database.connect() as connection:
        columns = ", ".join(f'"{name}"' for name in TRACE_COLUMNS)
        query = f'select {columns} from cirislens.covenant_traces order by "timestamp", trace_id'
        return [dict(zip(TRACE_COLUMNS, row, strict=True)) for row in connection.execute(query)]


def everything(database: Database) -> dict[str, list[tuple[Any, ...]]]:
    with database.connect() as connection:
        return {
            table: sorted(connection.execute(f"select * from cirislens.{table}").fetchall(), key=repr)
            for table in (*SOURCE_TABLES, VERIFICATION_TABLE)
        }


def verifications(database: Database) -> dict[str, tuple[bool, str | None]]:
    """Return for each loaded trace whether it is verified, and the signature rule or the reason of the failure."""
    with database.connect() as connection:
        query = f"""
            select trace_id, signature_verified, coalesce(rule, reason)
            from cirislens.covenant_traces
            join cirislens.{VERIFICATION_TABLE} using (trace_id, "timestamp", agent_id_hash)
        """
        return {trace_id: tuple(rest) for trace_id, *rest in connection.execute(query)}


def empty(database: Database) -> None:
    with database.connect() as connection:
        connection.execute("drop schema cirislens cascade")


def reasons(summary: Summary) -> list[str]:
    return [problem.reason for problem in summary.problems]


# --- loaded traces and deferrals -------------------------------------------------------------------------------------


def test_traces_of_every_generation_of_agents_are_verified_and_loaded(database, tmp_path):
    agents = [Agent(generation, seed) for seed, generation in enumerate(GENERATIONS)]
    sent = [agent.trace() for agent in agents for _ in range(2)]
    write(tmp_path / "in", "batch.json", batch(sent, deferral(agents[0]), {"event_type": "startup"}))
    result = succeeded(command(database, "load", tmp_path / "in", "--keys", write_keys(tmp_path, *agents)))
    assert verifications(database) == {
        trace["trace_id"]: (True, agent.generation.rule)
        for agent in agents for trace in sent if trace["agent_id_hash"] == agent.hash
    }  # fmt: skip
    [loaded] = [row for row in traces(database) if row["trace_id"] == sent[-1]["trace_id"]]
    # test_event_lens.py compares all columns of real traces with those that the engine stores.
    assert loaded["timestamp"].isoformat() == sent[-1]["completed_at"]
    assert (loaded["agent_name"], loaded["selected_action"]) == ("Probe", "SPEAK")
    assert loaded["action_result"] == sent[-1]["components"][-1]["data"]
    found = everything(database)
    assert found["covenant_trace_batches"][0][3:6] == (16, 16, 0)
    [(_, *of_deferral, created)] = found["wbd_deferrals"]
    assert of_deferral == [agents[0].hash, None, "PENDING", None, None]
    assert created.isoformat() == "2026-06-01T09:00:00+00:00"
    assert "1 startup, 1 wbd_deferral; 1 deferral loaded" in result.output
    unsigned = r"deferrals +not signed: anybody could have written them, for any agent +1\n"
    assert re.search(unsigned, result.output)


def test_every_kind_of_file_is_read(database, project, tmp_path):
    agent = Agent()
    one = [batch([agent.trace()]) for _ in range(12)]
    folder = tmp_path / "in"
    write(folder, "a.json", one[0])
    write(folder, "b.jsonl", one[1], b"", one[2])
    write(folder, "deep/c.json.gz", one[3])
    write(folder, "deep/d.jsonl.gz", one[4], one[5])
    write(folder, "e.json", json.dumps(one[6], indent=2).encode())
    write(folder, "f.json", b"\xef\xbb\xbf" + json.dumps(one[7]).encode())
    write(folder, "notes.txt", b"not looked at")
    keys = write_keys(folder, agent)  # agents write their keys beside their batches
    summary = load(project, [folder], [keys])
    assert (summary.files, summary.batches, summary.new, summary.n_problems) == (7, 8, 8, 0)
    for given in (json.dumps(one[8], indent=1), "\n".join(map(json.dumps, one[9:]))):
        succeeded(command(database, "load", "-", "--keys", keys, given=given.encode()))
    assert len(traces(database)) == 12


def test_init_db_creates_the_tables_or_prints_the_statements(database):
    statements = command(database, "init-db", "--print").output
    with database.connect() as connection:
        for create in (lambda: connection.execute(statements), lambda: command(database, "init-db")):
            create()
            assert not any(everything(database).values())
            assert command(database, "init-db").exit_code == 0
            empty(database)


# --- repeated and concurrent loads -----------------------------------------------------------------------------------


def test_counts_of_a_load_cover_every_trace(database, tmp_path):
    agent, later = Agent(), Agent(seed=2)
    sent, of_later = [agent.trace() for _ in range(3)], later.trace()
    other_content = json.loads(json.dumps(sent[0]).replace("0.91", "0.92"))
    first = write(tmp_path, "a.json", batch([*sent[:2], of_later]))
    told = command(database, "load", first, "--keys", write_keys(tmp_path, agent), "--json")
    assert json.loads(told.stdout)["traces"] == {
        "received": 3, "new": 3, "sent_again": 0, "rejected": 0,
    }  # fmt: skip
    document = batch([*sent, of_later, other_content, agent.trace(fragility_flag="high")], deferral(agent))
    path = write(tmp_path, "b.json", document)
    both = write_keys(tmp_path, agent, later, name="both.json")
    told = command(database, "load", path, "--keys", both, "--json")
    found = json.loads(told.stdout)
    assert found["traces"] == {"received": 6, "new": 2, "sent_again": 2, "rejected": 2}
    assert (found["is_clean"], found["n_problems"], told.exit_code) == (False, 3, 2)
    assert {"where", "reason", "detail"} == set(found["problems"][0])
    before = everything(database)
    again = command(database, "load", first, path, "--keys", both)
    assert "2 files, 2 batches: 9 traces: 7 sent again, 2 rejected." in again.output
    assert again.exit_code == 2 and everything(database) == before
    # A trace that was deleted is loaded again, and one that another batch brought is verified with a new key.
    database.execute("delete from cirislens.covenant_traces where trace_id = %s", [sent[0]["trace_id"]])
    assert "3 traces: 1 new, 2 sent again." in command(database, "load", first).output
    empty(database)
    for name, said in (("a", "3 traces: 3 new."), ("b", "6 traces: 1 new, 3 sent again, 2 rejected.")):
        output = command(database, "load", tmp_path / f"{name}.json", "--keys", both).output
        assert f"1 file, 1 batch: {said}" in output


def other_adapter(agent: Agent, trace: Json, name: str | None, **fields: Any) -> Json:
    """Return a trace as another adapter of the agent sends it: with other settings or another name.

    :param fields: changed fields of ACTION_RESULT.
    """
    other = json.loads(json.dumps(trace))
    other["deployment_profile"] |= {"agent_role": "other", "deployment_region": "EU"}
    other["components"][1]["data"] = ({"agent_name": name} if name else {}) | {"note": f"as {name}"}
    other["components"][-1]["data"] |= fields
    return agent.sign(other)


@pytest.mark.parametrize("at_once", [True, False])
def test_adapters_of_one_agent_send_a_trace_again(project, database, tmp_path, at_once):
    """Each pair has the names that two adapters send. The first content is loaded."""
    agent = Agent()
    pairs = [("Kim", "Kim"), ("Kim", None), (None, "Kim"), (None, None)]
    firsts, seconds = [], []
    for first, second in pairs:
        trace = agent.trace()
        firsts.append(other_adapter(agent, trace, first))
        seconds.append(other_adapter(agent, trace, second, cost_cents=1))
        seconds[-1]["deployment_profile"]["agent_role"] = "third"
        agent.sign(seconds[-1])
    expected = [(first, True) for first, _ in pairs]
    documents = [[*firsts, *seconds]] if at_once else [firsts, seconds]
    paths = [write(tmp_path, f"{n}.json", batch(sent)) for n, sent in enumerate(documents)]
    summaries = [load(project, [path], [write_keys(tmp_path, agent)]) for path in paths]
    assert [problem for summary in summaries for problem in summary.problems] == []
    assert sum(summary.new for summary in summaries) == sum(summary.sent_again for summary in summaries) == 4
    assert [(row["agent_name"], row["signature_verified"]) for row in traces(database)] == expected
    assert command(database, "audit", *paths, "--keys", tmp_path / "keys.json").exit_code == 0


def test_new_key_verifies_traces_that_another_batch_brought_first(project, database, tmp_path):
    agent = Agent()
    sent = [agent.trace() for _ in range(3)]
    first, again = write(tmp_path, "a.json", batch(sent)), write(tmp_path, "b.json", batch(sent[::-1]))
    for path, new in ((first, 3), (again, 0), (again, 0)):
        summary = load(project, [path], [])
        assert (summary.new, summary.is_clean) == (new, False) and set(reasons(summary)) == {"unknown_key"}
    summary = load(project, [again], [write_keys(tmp_path, agent)])
    assert (summary.new, summary.is_clean) == (3, True)
    assert set(verifications(database).values()) == {(True, "sorted_json")}


def test_another_value_or_name_of_an_adapter_conflicts(project, database, tmp_path):
    agent = Agent()
    trace = agent.trace()
    sent = [
        other_adapter(agent, trace, "Kim"),
        other_adapter(agent, trace, "Kim", execution_success=False),
        other_adapter(agent, trace, "Ann"),
    ]
    summary = load(project, [write(tmp_path, "a.json", batch(sent))], [write_keys(tmp_path, agent)])
    assert reasons(summary) == ["conflicting_trace"] * 2
    assert [(row["agent_name"], row["action_success"]) for row in traces(database)] == [("Kim", True)]


def test_events_that_are_not_complete_traces_are_counted(database, tmp_path):
    """Agents before 2.9.6 sent a signed trace with one component whenever they started or stopped."""
    agent = Agent(TWO_FIELDS)
    document = batch(agent.trace() for _ in range(4))
    kinds = ("connectivity_startup", "connectivity_shutdown", None)
    for event, kind in zip(document["events"][1:], kinds, strict=True):
        trace = event["trace"]
        part = trace["components"][0] | {"component_type": "connectivity", "event_type": "startup"}
        trace |= {"components": [part], "completed_at": trace["started_at"]}
        agent.sign(trace)
        event["event_type"] = kind
    path = write(tmp_path, "a.json", document)
    result = command(database, "load", path, "--keys", write_keys(tmp_path, agent))
    assert "2 traces: 1 new, 1 rejected." in result.output
    assert "Other events: 1 connectivity_shutdown, 1 connectivity_startup; 0 deferrals loaded." in result.output
    assert "event 4: wrong_type: the event has no event_type" in result.output
    assert len(traces(database)) == 1


def test_concurrent_loads_store_each_trace_once(project, database, tmp_path):
    agent = Agent()
    for number in range(40):
        write(tmp_path / "in", f"{number}.json", batch([agent.trace() for _ in range(5)]))
    keys = write_keys(tmp_path, agent)
    with ThreadPoolExecutor(3) as pool:
        summaries = list(pool.map(lambda _: load(project, [tmp_path / "in"], [keys]), range(3)))
    assert sum(summary.new for summary in summaries) == 200 == len(traces(database))
    assert {is_verified for is_verified, _ in verifications(database).values()} == {True}
    assert len(everything(database)["covenant_trace_batches"]) == 40


# --- invalid signatures and keys -------------------------------------------------------------------------------------


def spelt(change: Callable[[bytes], str]) -> Callable[[Json], None]:
    """Return a function that writes the signature of a trace in another encoding."""

    def respell(trace: Json) -> None:
        text = trace["signature"].replace("-", "+").replace("_", "/")
        trace["signature"] = change(base64.b64decode(text + "=" * (-len(text) % 4)))

    return respell


def with_value(name: str, value: Any) -> Callable[[Json], None]:
    return lambda trace: trace.update({name: value})


ALTERED: list[tuple[Callable[[Json], Any], str | None]] = [
    (lambda trace: trace["components"][2]["data"]["csdma"].update(plausibility_score=0.2), "bad_signature"),
    (with_value("signature_key_id", "agent-nobody"), "unknown_key"),
    (with_value("signature", None), "malformed_signature"),
    (spelt(lambda content: urlsafe_unpadded(content)[:40]), "malformed_signature"),
    (spelt(lambda content: standard(content + b"1")), "malformed_signature"),
    (with_value("trace_schema_version", "9.9"), "unsupported_schema"),
    (spelt(standard), None),
    (spelt(lambda content: standard(content).rstrip("=")), None),
    (spelt(urlsafe_unpadded), None),
    (spelt(lambda content: urlsafe_unpadded(content) + "=="), None),
]


def test_altered_traces_are_loaded_as_unverified(project, database, tmp_path):
    """For each signature rule, each altered trace is followed by an unaltered trace of the same agent."""
    agents = [Agent(generation, seed) for seed, generation in enumerate(GENERATIONS)]
    sent, expected = [], {}
    for agent, (alter, reason) in itertools.product(agents, ALTERED):
        altered, good = agent.trace(), agent.trace()
        alter(altered)
        if reason == "unsupported_schema" and not agent.generation.signs_ids:
            # Older agents do not sign the schema version, so the trace still verifies after this change.
            reason = None
        expected[altered["trace_id"]] = (reason is None, reason or agent.generation.rule)
        expected[good["trace_id"]] = (True, agent.generation.rule)
        sent += [altered, good]
    path = write(tmp_path, "batch.json", batch(sent))
    summary = load(project, [path], [write_keys(tmp_path, *agents)])
    assert verifications(database) == expected
    assert summary.n_problems == sum(not is_verified for is_verified, _ in expected.values())


def test_unsigned_field_that_contradicts_signed_fields_is_unconfirmed(shared, tmp_path):
    agents = [Agent(one, seed) for seed, one in enumerate(GENERATIONS) if not one.signs_ids]
    for number, agent in enumerate(agents):
        altered = [agent.trace() for _ in range(6)]
        altered[0]["completed_at"] = "2026-06-01T08:59:59+00:00"
        altered[1]["started_at"] = "2026-06-01T08:59:59+00:00"
        altered[2]["trace_id"] += "0"
        altered[3]["thought_id"] += "0"
        altered[4]["trace_id"] = altered[4]["trace_id"][:-1] + "1"  # one second later
        altered[5]["components"].append(altered[5]["components"].pop(0))
        path = write(tmp_path, f"{number}.json", batch([agent.trace(), *altered]))
        summary = load(shared, [path], [write_keys(tmp_path, agent)])
        assert reasons(summary) == [*["unconfirmed_field"] * 5, "bad_signature"]


@pytest.mark.parametrize("at_once", [True, False])
def test_a_key_verifies_traces_of_one_agent_only(project, database, tmp_path, at_once):
    """A key verifies only the traces of one agent, also if a trace names the key by another registered id."""
    pairs = [(Agent(one, 2 * seed), Agent(one, 2 * seed + 1)) for seed, one in enumerate(GENERATIONS)]
    own = [agent.trace() for pair in pairs for agent in pair]
    stolen = [thief.sign(agent.trace()) for agent, thief in pairs]
    aliases = {"another-id": standard(pairs[1][0].public_bytes)}
    stolen.append(pairs[1][0].trace() | {"agent_id_hash": "thief", "signature_key_id": "another-id"})
    keys = [write_keys(tmp_path, *itertools.chain(*pairs)), write(tmp_path, "aliases.json", aliases)]
    paths = [write(tmp_path, f"{number}.json", batch(sent)) for number, sent in enumerate((own, stolen))]
    for group in [paths] if at_once else [[path] for path in paths]:
        summary = load(project, group, keys)
    assert reasons(summary) == ["foreign_key"] * len(stolen)
    found = verifications(database)
    assert {found[trace["trace_id"]] for trace in stolen} == {(False, "foreign_key")}
    options = [*itertools.chain(*(("--keys", key) for key in keys))]
    told = json.loads(command(database, "audit", *paths, *options, "--json").stdout)
    assert told["discrepancies"] == []


def test_real_trace_of_agent_2_7_8_verifies_by_two_fields(shared, tmp_path):
    """The trace is signed again with a key of the test, because the agent's key is not published."""
    trace = json.loads(gzip.decompress((DATA / "traces" / "agent-2.7.8.json.gz").read_bytes()))
    agent = Agent(TWO_FIELDS_OF_2_7)
    path = write(tmp_path, "batch.json", batch([agent.sign(trace)]))
    summary = load(shared, [path], [write_keys(tmp_path, agent)])
    assert summary.is_clean and json.loads(loading.as_json(summary))["outcomes"] == [
        {"schema": "2.7.0", "outcome": "two_fields", "traces": 1}
    ]


def test_only_signed_values_are_loaded(project, database, tmp_path):
    """Agents 1.9.7 to 2.7.8 do not sign empty values, so anyone can add some, even in place of a signed value."""
    agent = Agent(TWO_FIELDS)
    first, second = agent.trace(), agent.trace()
    idma = first["components"][3]["data"]
    idma["idma_phase"] = idma.pop("phase")
    agent.sign(first)
    expected = json.loads(json.dumps(first["components"][2]["data"]))
    idma["phase"] = ""
    first["components"][2]["data"] |= {"added": {"a": None}, "list": [None]}
    second["components"][6]["data"]["audit_entry_hash"] = ""
    path = write(tmp_path, "batch.json", batch([first, second]))
    assert reasons(load(project, [path], [write_keys(tmp_path, agent)])) == ["bad_signature"]
    loaded = traces(database)[0]
    assert (loaded["idma_phase"], loaded["dma_results"]) == ("healthy", expected)


def llm_call(model: str) -> Json:
    return {"component_type": "llm_call", "event_type": "LLM_CALL", "timestamp": None, "data": {"model": model}}


def marked_traces(agent: Agent) -> dict[str, list[Json]]:
    """Return signed traces by their run kind."""
    plain, called, used, deployed, wrong, new, tested = (agent.trace() for _ in range(7))
    new["deployment_profile"] |= {"run_kind": "production", "deployment_type": "qa", "trace_format_version": "2.8.0"}
    tested["deployment_profile"] |= {"run_kind": "battery", "trace_format_version": "2.8.0"}
    called["components"][1:1] = [llm_call("real"), llm_call("a MOCK-model"), llm_call("real")]
    used["components"][-1]["data"]["models_used"] = ["real", "llama4scout (Mock)"]
    deployed["deployment_profile"]["deployment_type"] = "QA"
    wrong["components"][1:1] = [llm_call("m\u03bfck"), {**llm_call(""), "data": ["mock"]}]
    wrong["deployment_profile"]["deployment_type"] = "staging"
    found = {"production": [plain, wrong, new], "mock": [called, used], "test": [deployed, tested]}
    for trace in itertools.chain(*found.values()):
        for component in trace["components"]:
            component["agent_id_hash"] = agent.hash
            component["timestamp"] = component["timestamp"] or trace["started_at"]
        agent.sign(trace)
    return found


def run_kinds(database: Database) -> dict[str, str]:
    return dict(database.execute("select trace_id, run_kind from cirislens.covenant_traces"))


def test_run_kind_of_a_trace_is_loaded(database, tmp_path):
    agent = Agent()
    sent = marked_traces(agent)
    path = write(tmp_path, "batch.json", batch(itertools.chain(*sent.values())))
    said = succeeded(command(database, "load", path, "--keys", write_keys(tmp_path, agent))).output
    assert run_kinds(database) == {trace["trace_id"]: kind for kind, some in sent.items() for trace in some}
    assert "Not of production: 2 mock, 2 test." in said
    assert command(database, "audit", path, "--keys", tmp_path / "keys.json").exit_code == 0
    database.execute("update cirislens.covenant_traces set run_kind = null where run_kind in ('production', 'test')")
    told = json.loads(command(database, "audit", path, "--keys", tmp_path / "keys.json", "--json").stdout)
    found = [one["differences"] for one in told["discrepancies"]]
    assert found == [{"run_kind": {"database": "production", "recomputed": "test"}}] * 2


def test_unsigned_mark_of_a_verified_trace_is_not_read(project, database, tmp_path):
    """Otherwise anybody who has a trace could hide it. Marks of a trace that does not verify are read."""
    agents = [Agent(generation, seed) for seed, generation in enumerate(GENERATIONS)]
    sent = [agent.trace() | {"run_kind": "mock"} for agent in agents]
    for agent, trace in zip(agents, sent, strict=True):
        if not agent.generation.has_profile:
            trace["deployment_profile"] = PROFILE | {"deployment_type": "mock"}
        else:  # agents ignore unknown fields of the profile before they sign it
            trace["deployment_profile"] = trace["deployment_profile"] | {"run_kind": "mock"}
    unverified = Agent().trace() | {"run_kind": "mock"}
    path = write(tmp_path, "batch.json", batch([*sent, unverified]))
    load(project, [path], [write_keys(tmp_path, *agents)])
    expected = {trace["trace_id"]: "production" for trace in sent}
    assert run_kinds(database) == expected | {unverified["trace_id"]: "mock"}


@pytest.mark.parametrize("at_once", [True, False])
@pytest.mark.parametrize("levels", [("generic", "detailed"), ("detailed", "generic")])
def test_mark_of_another_trace_level_counts(project, database, tmp_path, levels, at_once):
    """Only the level `detailed` of agent 1.9 has `models_used`. A stranger's mark on a trace does not count."""
    agent, thief = Agent(OLD), Agent(OLD)
    trace, other = agent.trace(), agent.trace()
    marked = json.loads(json.dumps(trace))
    marked["components"][-1]["data"]["models_used"] = ["llama4scout (mock)"]
    agent.sign(marked)
    of_level = {"generic": trace, "detailed": marked | {"trace_level": "detailed"}}
    stolen = json.loads(json.dumps(other))
    stolen["components"][-1]["data"]["models_used"] = ["mock"]
    sent = [thief.trace(), other, thief.sign(stolen), *(of_level[level] for level in levels)]
    documents = [batch(sent)] if at_once else [batch([one]) for one in sent]
    paths = [write(tmp_path, f"{number}.json", document) for number, document in enumerate(documents)]
    keys = write_keys(tmp_path, agent, thief)
    for group in [paths] if at_once else [[path] for path in paths]:
        load(project, group, [keys])
    found = run_kinds(database)
    assert (found[trace["trace_id"]], found[other["trace_id"]]) == ("mock", "production")
    told = json.loads(command(database, "audit", *paths, "--keys", keys, "--json").stdout)
    assert told["discrepancies"] == []


def test_seal_files_beside_batches_are_skipped(database, tmp_path):
    """A seal file repeats a trace of a batch (docs/auditing.md)."""
    agent = Agent(NEW)
    folder = tmp_path / "in"
    write(folder, "lens-batch-00000000.json", batch([agent.trace()]))
    seal = (DATA / "traces" / "ceg-seal-agent-2.9.9.json.gz").read_bytes()
    (folder / "ceg-seal-th_1.json.gz").write_bytes(seal)
    write(folder, "all.jsonl", json.dumps(json.loads(gzip.decompress(seal))).encode())
    for _ in range(2):
        result = succeeded(command(database, "load", folder, "--keys", write_keys(tmp_path, agent)))
        assert "Other events: 2 ceg_seal" in result.output
    assert len(traces(database)) == 1
    assert command(database, "audit", folder, "--keys", tmp_path / "keys.json").exit_code == 0


def test_invalid_key_affects_only_itself(project, database, tmp_path):
    bad = {
        "31 bytes": (standard(b"1" * 31), "32 bytes"),
        "neutral": (standard((1).to_bytes(32, "little")), "anybody could sign"),
        "text": ("not base64!", "not base64"),
        "number": (7, "no public_key_base64"),
        "long": ("!" * 100_000, "not base64"),
    }
    agent = Agent()
    keys = write(tmp_path, "keys.json", {name: text for name, (text, _) in bad.items()} | agent.keys)
    summary = load(project, [write(tmp_path, "batch.json", batch([agent.trace()]))], [keys])
    assert reasons(summary) == ["bad_key"] * len(bad)
    for problem, (_, said) in zip(summary.problems, bad.values(), strict=True):
        assert said in problem.detail and len(problem.detail) < 300
    assert summary.new_keys == 1
    assert [is_verified for is_verified, _ in verifications(database).values()] == [True]


def test_load_keeps_a_registered_key_and_reports_contradictions(project, database, tmp_path):
    agent = Agent()
    [(key_id, text)] = agent.keys.items()
    table = f"key_id,public_key_base64,expires_at\n{key_id},{text},2027-01-01T00:00:00Z\n"
    unlimited = {"key_id": key_id, "public_key_base64": text}
    revoked = unlimited | {"revoked_at": "2026-06-01T00:00:00Z"}
    path = write(tmp_path, "batch.json", batch([agent.trace()]))
    for name, content, expected in (
        ("keys.csv", table.encode(), []),
        ("again.json", [unlimited], []),
        ("revoked.json", [revoked], ["already registered with another revoked_at, which a load does not change"]),
        ("other.json", [unlimited | {"public_key_base64": standard(Agent().public_bytes)}],
         ["already registered with another public_key_base64, which a load does not change"]),
        ("twice.json", [unlimited, revoked], ["given twice, the second time with another revoked_at"]),
    ):  # fmt: skip
        summary = load(project, [path], [write(tmp_path, name, content)])
        assert [problem.detail for problem in summary.problems] == expected
        assert set(reasons(summary)) <= {"bad_key"}
    [row] = everything(database)["covenant_public_keys"]
    assert row[:3] == (key_id, text, "ed25519") and row[4].year == 2027
    assert command(database, "audit", path, "--keys", tmp_path / "keys.csv").exit_code == 0
    told = command(database, "audit", path, "--keys", tmp_path / "revoked.json", "--json").stdout
    [found] = json.loads(told)["discrepancies"]
    assert (found["kind"], found["differences"]) == ("key_differs", {
        f"expires_at of key {key_id}": {"database": "2027-01-01T00:00:00.000000+00:00", "recomputed": None},
        f"revoked_at of key {key_id}": {"database": None, "recomputed": "2026-06-01T00:00:00.000000+00:00"},
    })  # fmt: skip


def test_invalid_file_of_keys_is_refused(database, tmp_path):
    path = write(tmp_path, "batch.json", batch([Agent().trace()]))
    for content in (b"", b"nothing,of,this", b'["a"]', b"{", b'{"a": "b"} c', b"\xff\xfe"):
        result = command(database, "load", path, "--keys", write(tmp_path, "keys.csv", content))
        assert result.exit_code == 2 and "keys.csv" in result.output, result.output


# --- invalid values and files ----------------------------------------------------------------------------------------


def deep(n: int) -> bytes:
    return b'{"note":' * n + b"1" + b"}" * n


NOTE = "THOUGHT_START note"
ABSENT = object()
VALUES: list[tuple[str, Any, str | None]] = [
    *((name, ABSENT, "missing_field") for name in ("trace_id", "agent_id_hash", "completed_at", "components")),
    ("components", {}, "wrong_type"),
    ("trace_id", "", "missing_field"),
    ("trace_id", 5, "wrong_type"),
    ("trace_id", "t" * 129, "out_of_range"),
    ("trace_id", "a\0b", "invalid_text"),
    ("trace_id", "\ud800", "invalid_text"),
    ("completed_at", "2026-06-01T08:00:00", "bad_time"),
    ("completed_at", "9999-12-31T23:59:59-14:00", "bad_time"),
    ("completed_at", "0001-01-01T00:00:00+14:00", "bad_time"),
    ("completed_at", "2026-06-01t08:05:06.123456789z", None),
    ("completed_at", "x" * 100_000, "bad_time"),
    ("DMA_RESULTS csdma", {"plausibility_score": 9.995}, "out_of_range"),
    ("DMA_RESULTS csdma", {"plausibility_score": True}, "wrong_type"),
    *(("IDMA_RESULT k_eff", number, None) for number in (1e308, -1e308, 10**4000, 5e-324, -0.0)),
    ("CONSCIENCE_RESULT entropy_level", -10, "out_of_range"),
    ("CONSCIENCE_RESULT coherence_passed", "yes", "wrong_type"),
    ("ACTION_RESULT audit_sequence_number", 2**63, "out_of_range"),
    ("ACTION_RESULT audit_entry_hash", "f" * 65, "out_of_range"),
    ("ACTION_RESULT cost_cents", 10**400, None),
    *((NOTE, text, "invalid_text") for text in ("a\0b", "\udfff")),
    *((NOTE, text, None) for text in ("\\u0000", "\\N", "\\.", "\t\n\r\x7f", "\u2028\ufeff\U0010ffff", "{")),
    (NOTE, json.loads(deep(70)), "too_deep"),
    (NOTE, b"NaN", "not_a_number"),
    (NOTE, b"1e400", "out_of_range"),
    (NOTE, b"9" * 5000, "out_of_range"),
    (NOTE, b'0, "note": 0', "duplicate_key"),
    (NOTE, b"", "not_json"),
    (NOTE, b'"\n"', "not_json"),
    (NOTE, deep(100_000), "too_deep"),
    (NOTE, b'"\xff\xc0"', "invalid_text"),
]
"""Place in a trace, value, and reason of the problem (None: valid). Bytes are written into the JSON text unchanged."""


def test_invalid_value_affects_only_its_trace(project, database, tmp_path):
    """Each invalid trace is in a batch between two valid ones."""
    agent = Agent()
    good, paths, rows = [], [], []
    for number, (place, value, reason) in enumerate(VALUES):
        first, bad, last = (agent.trace() for _ in range(3))
        event_type, _, name = place.rpartition(" ")
        [target, *_] = [c["data"] for c in bad["components"] if c["event_type"] == event_type] or [bad]
        target[name] = "raw" if isinstance(value, bytes) else value
        if value is ABSENT:
            del target[name]
        text = json.dumps(batch([first, bad, last])).encode()
        if isinstance(value, bytes):
            text = text.replace(b'"raw"', value)
        paths.append(write(tmp_path, f"{number}.json", text))
        good += [first["trace_id"], last["trace_id"]]
        rows.append((3, 2, 1, {reason: 1}) if reason else (3, 3, 0, {}))
    summary = load(project, paths, [write_keys(tmp_path, agent)])
    loaded = verifications(database)
    assert {loaded[trace_id] for trace_id in good} == {(True, "sorted_json")}
    # A trace whose signature does not match is loaded as unverified if its values are valid.
    assert len(loaded) == len(good) + sum(reason is None for *_, reason in VALUES)
    rejected = [reason for reason in reasons(summary) if reason != "bad_signature"]
    assert rejected == [reason for *_, reason in VALUES if reason]
    assert all(len(problem.detail) < 300 for problem in summary.problems)
    found = [row[3:] for row in everything(database)["covenant_trace_batches"]]
    assert sorted(found, key=repr) == sorted(rows, key=repr)


FILES = [
    (b"", "truncated"),
    (b"{", "truncated"),
    (b'{"events": 3}', "not_a_batch"),
    (b'[{"a": 1}]', "not_a_batch"),
    (b"<html>", "not_json"),
    (b"\x00\x01\x02", "not_json"),
    (b"\xff\xfe{", "invalid_text"),
    (deep(200_000), "too_deep"),
    (b"[" * 200_000, "too_deep"),
    (b'{"events": [3, null, "a", []]}', "wrong_type"),
]


def test_invalid_file_affects_only_itself(database, tmp_path):
    """A valid file follows each invalid one."""
    agent = Agent()
    folder = tmp_path / "in"
    for i, (content, _) in enumerate(FILES):
        write(folder, f"{i:02} bad.json", content)
        write(folder, f"{i:02} good.json", batch([agent.trace()]))
    (folder / "loop").symlink_to(folder)  # a folder is read once
    (folder / "itself.json").symlink_to(folder / "itself.json")
    (folder / "gone.json").symlink_to(folder / "nowhere")
    (folder / "no.json.gz").write_bytes(b"no gzip")
    os.mkfifo(folder / "pipe.json")
    unreadable = ("itself.json", "gone.json", "pipe.json", "absent.json")
    keys = write_keys(tmp_path, agent)
    result = command(database, "load", folder, folder / "absent.json", "--keys", keys, "--json")
    assert result.exit_code == 2, result.output
    problems = [(one["where"], one["reason"]) for one in json.loads(result.stdout)["problems"]]
    expected = {f"{i:02} bad.json": reason for i, (_, reason) in enumerate(FILES)}
    expected |= dict.fromkeys(unreadable, "unreadable") | {"no.json.gz": "truncated"}
    for name, reason in expected.items():
        assert any(name in where and found == reason for where, found in problems), (name, problems)
    assert len(traces(database)) == len(FILES)


def test_complete_traces_of_a_truncated_batch_are_loaded(shared, tmp_path):
    agent = Agent()
    keys = write_keys(tmp_path, agent)
    for share in (0.3, 0.6, 0.9, 0.99, None):
        document = json.dumps(batch(agent.trace() for _ in range(4))).encode()
        between = document.index(b', {"event_type": "complete_trace"')
        end = between if share is None else int(len(document) * share)
        whole = document[:end].count(b'"signature_key_id"')
        summary = load(shared, [write(tmp_path, f"{share}.json", document[:end])], [keys])
        assert "truncated" in reasons(summary) and whole - 1 <= summary.new <= whole
    compressed = tmp_path / "cut.jsonl.gz"
    compressed.write_bytes(gzip.compress(document + b"\n" + document)[:-40])
    assert "truncated" in reasons(load(shared, [compressed], []))


# --- limits of size --------------------------------------------------------------------------------------------------


def events(event: bytes, n: int) -> bytes:
    return b'{"events": [' + b",".join([event] * n) + b"]}"


LARGE = b'{"events": [{"a": "' + b"b" * 70_000_000 + b'"}]}'
KEYS = b", ".join(b'"%d": 1' % number for number in range(100_000))
BEYOND_LIMITS: list[tuple[str, bytes, str]] = [
    ("a.json", LARGE, "too_large"),
    ("a.jsonl", LARGE, "too_large"),
    ("a.json.gz", LARGE, "too_large"),
    ("a.json.gz", events(b"1", 2_000_000), "too_large"),
    # The test would take hours if the reader compared all pairs of keys.
    ("a.json", b'{%b, "99998": 1}' % KEYS[:-12], "duplicate_key"),
]
"""Name and content of a file, and the reason of the problem."""


@pytest.mark.parametrize("case", BEYOND_LIMITS, ids=range(len(BEYOND_LIMITS)))
def test_input_beyond_a_limit_affects_only_itself(shared, tmp_path, case):
    name, content, reason = case
    agent = Agent()
    good = batch(agent.trace() for _ in range(5))
    paths = [write(tmp_path, name, content), write(tmp_path, "good.json", good)]
    begun = time.monotonic()
    summary = load(shared, paths, [write_keys(tmp_path, agent)])
    assert time.monotonic() - begun < 60
    assert "too_large" in reasons(summary) or reason == "duplicate_key"
    assert reasons(summary)[0] == reason and summary.problems[0].where.startswith(str(paths[0]))
    assert summary.new == 5


def test_the_first_problems_of_each_batch_are_kept(database, tmp_path):
    path = write(tmp_path, "batches.jsonl", events(b"{}", 25), events(b"{}", 10))
    output = command(database, "load", path).output
    assert output.count("wrong_type: ") == 20
    assert "35 problems:" in output and "and 15 more; --json lists" in output
    told = json.loads(command(database, "load", path, "--json").stdout)
    assert (told["n_problems"], len(told["problems"])) == (35, 30)


def test_load_names_the_session_that_holds_its_lock_and_gives_up(database: Database, tmp_path: Path) -> None:
    """Any role that may connect can take the lock."""
    agent = Agent(NEW)
    write(tmp_path, "a.json", batch([agent.trace()]))
    options = ("load", tmp_path, "--keys", write_keys(tmp_path, agent))
    with database.connect() as holder:
        holder.execute("select pg_advisory_lock(hashtext(%s), hashtext('cirislens'))", [LOAD_LOCK])
        given_up = command(database, *options, "--vars", "{ciris_lock_wait_seconds: 2.5}")
        error, hint = refused(given_up)
        pid = holder.info.backend_pid
        assert f"Another load is in progress on schema 'cirislens': backend pid {pid} of postgres" in error
        assert f"select pg_terminate_backend({pid})" in hint
    succeeded(command(database, *options))
