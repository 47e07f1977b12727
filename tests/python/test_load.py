"""Tests of `load` into real databases: each received trace is stored once, and invalid input affects only itself."""

from __future__ import annotations

import base64
import gzip
import itertools
import json
import os
import random
import re
import subprocess
import sys
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import psycopg
import pytest
from click.testing import CliRunner, Result

from ciris_scoring.audit import documents, files, keys, strict_json
from ciris_scoring.audit import load as loading
from ciris_scoring.audit.load import Summary, load
from ciris_scoring.audit.reasons import Rejected
from ciris_scoring.audit.store import VERIFICATION_TABLE
from ciris_scoring.basics.errors import InputError
from ciris_scoring.basics.project import Project, load_project
from ciris_scoring.basics.source_schema import SOURCE_TABLES, TRACE_COLUMNS
from ciris_scoring.cli import main
from command_line import at, printed
from conftest import REPOSITORY, Database
from signed_batches import (
    GENERATIONS,
    NEW,
    TWO_FIELDS,
    TWO_FIELDS_OF_2_7,
    Agent,
    batch,
    deferral,
    standard,
    urlsafe_unpadded,
)
from test_real_traces import DATA
from test_signatures import mutated

Json = dict[str, Any]


@pytest.fixture
def project(database: Database) -> Project:
    return load_project(REPOSITORY, database.profiles_dir)


@pytest.fixture(scope="module")
def shared(module_database: Database) -> Project:
    """A database of several tests, each of which loads traces of agents that no other test has."""
    return load_project(REPOSITORY, module_database.profiles_dir)


def write(folder: Path, name: str, *documents: Json | bytes) -> Path:
    """Write a JSON file with one document, or with several as lines."""
    path = folder / name
    path.parent.mkdir(exist_ok=True, parents=True)
    texts = [d if isinstance(d, bytes) else json.dumps(d).encode() for d in documents]
    content = b"\n".join(texts)
    path.write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
    return path


def write_keys(folder: Path, *agents: Agent, name: str = "keys.json") -> Path:
    return write(folder, name, {key: text for agent in agents for key, text in agent.keys.items()})


def traces(database: Database) -> list[tuple[Any, ...]]:
    """Return all loaded traces with all columns."""
    with database.connect() as connection:
        columns = ", ".join(f'"{name}"' for name in TRACE_COLUMNS)
        query = f'select {columns} from cirislens.covenant_traces order by "timestamp", trace_id'
        return connection.execute(query).fetchall()


def everything(database: Database) -> dict[str, list[tuple[Any, ...]]]:
    with database.connect() as connection:
        return {
            table: sorted(connection.execute(f"select * from cirislens.{table}").fetchall(), key=repr)
            for table in (*SOURCE_TABLES, VERIFICATION_TABLE)
        }


def verdicts(database: Database) -> dict[str, tuple[bool, str | None]]:
    """Return, by trace, whether it is loaded as verified, and the rule or the reason."""
    with database.connect() as connection:
        query = f"""
            select trace_id, signature_verified, coalesce(rule, reason)
            from cirislens.covenant_traces
            join cirislens.{VERIFICATION_TABLE} using (trace_id, "timestamp")
            where is_loaded
        """
        return {trace_id: tuple(rest) for trace_id, *rest in connection.execute(query)}


def reasons(summary: Summary) -> list[str]:
    return [problem.reason for problem in summary.problems]


def command(database: Database, *arguments: object, given: bytes | None = None) -> Result:
    return CliRunner().invoke(main, [*map(str, arguments), *at(database)], input=given)


# --- what is loaded --------------------------------------------------------------------------------------------------


def test_every_generation_is_verified_and_loaded(every_database, tmp_path):
    database = every_database
    agents = [Agent(generation, seed) for seed, generation in enumerate(GENERATIONS)]
    sent = [agent.trace() for agent in agents for _ in range(3)]
    write(tmp_path / "in", "batch.json", batch(sent, deferral(agents[0]), {"event_type": "startup"}))
    result = command(database, "load", tmp_path / "in", "--keys", write_keys(tmp_path, *agents))
    assert result.exit_code == 0, result.output
    assert verdicts(database) == {
        trace["trace_id"]: (True, agent.generation.rule)
        for agent in agents for trace in sent if trace["agent_id_hash"] == agent.hash
    }  # fmt: skip
    [row] = [row for row in traces(database) if row[0] == sent[-3]["trace_id"]]
    loaded = dict(zip(TRACE_COLUMNS, row, strict=True))
    components = {c["event_type"]: c["data"] for c in sent[-3]["components"]}
    assert loaded["timestamp"].isoformat() == sent[-3]["completed_at"]
    assert (loaded["agent_name"], loaded["selected_action"], loaded["idma_phase"]) == (
        "Probe",
        "SPEAK",
        "healthy",
    )
    assert (float(loaded["csdma_plausibility_score"]), float(loaded["entropy_level"])) == (0.91, 0.1)
    assert (loaded["audit_sequence_number"], loaded["action_success"]) == (1, True)
    assert loaded["thought_start"] == components["THOUGHT_START"]
    assert loaded["action_result"] == components["ACTION_RESULT"]
    found = everything(database)
    assert [row[1:6] for row in found["covenant_trace_batches"]][0][2:] == (24, 24, 0)
    [(_, agent, name, status, summary, resolved, created)] = found["wbd_deferrals"]
    assert (agent, name, status, summary, resolved) == (agents[0].hash, None, "PENDING", None, None)
    assert created.isoformat() == "2026-06-01T09:00:00+00:00"
    assert "1 startup, 1 wbd_deferral; 1 deferral loaded" in result.output
    assert re.search(
        r"deferrals +not signed: anybody could have written them, for any agent +1\n", result.output
    )


def test_unmeasured_entropy_of_0_is_loaded_as_null(project, database, tmp_path):
    agent = Agent()
    not_measured, measured = (agent.trace(entropy_level=0.0, entropy_score=score) for score in (None, 0.0))
    load(project, [write(tmp_path, "batch.json", batch([not_measured, measured]))], [])
    entropy = TRACE_COLUMNS.index("entropy_level")
    assert [row[entropy] for row in traces(database)] == [None, 0]


def test_every_kind_of_file_is_read(project, database, tmp_path):
    agent = Agent()
    one = [batch([agent.trace()]) for _ in range(8)]
    folder = tmp_path / "in"
    write(folder, "a.json", one[0])
    write(folder, "b.jsonl", one[1], b"", one[2])
    write(folder, "deep/c.json.gz", one[3])
    write(folder, "deep/d.jsonl.gz", one[4], one[5])
    write(folder, "e.json", json.dumps(one[6], indent=2).encode())
    write(folder, "f.json", b"\xef\xbb\xbf" + json.dumps(one[7]).encode())
    write(folder, "notes.txt", b"not looked at")
    keys = write_keys(folder, agent)  # as agents write them beside their batches
    summary = load(project, [folder], [keys])
    assert (summary.files, summary.batches, summary.new, summary.n_problems) == (7, 8, 8, 0)
    assert {verdict for verdict, _ in verdicts(database).values()} == {True}


def test_standard_input_is_read_as_document_or_lines(database, tmp_path):
    agent = Agent()
    documents = [batch([agent.trace()]) for _ in range(4)]
    keys = write_keys(tmp_path, agent)
    for given in (json.dumps(documents[0], indent=1), "\n".join(map(json.dumps, documents[1:]))):
        result = command(database, "load", "-", "--keys", keys, given=given.encode())
        assert result.exit_code == 0, result.output
    assert len(traces(database)) == 4


def test_init_db_makes_the_source_contract_and_prints_it(database):
    printed = command(database, "init-db", "--print").output
    with database.connect() as connection:
        assert connection.execute("select to_regnamespace('cirislens')").fetchone() == (None,)
        connection.execute(printed)
        by_hand = described(connection)
        connection.execute("drop schema cirislens cascade")
        for _ in range(2):
            assert command(database, "init-db").exit_code == 0
        assert described(connection) == by_hand
        assert {table for table, *_ in by_hand} > {*SOURCE_TABLES, VERIFICATION_TABLE}


def described(connection: psycopg.Connection) -> list[tuple[Any, ...]]:
    query = """
        select relname, attname, format_type(atttypid, atttypmod), attnotnull, col_description(attrelid, attnum)
        from pg_attribute join pg_class on attrelid = pg_class.oid
        where relnamespace = 'cirislens'::regnamespace and attnum > 0
        order by 1, 2, 3
    """
    return connection.execute(query).fetchall()


# --- repeated and interrupted loads ----------------------------------------------------------------------------------


def test_loading_twice_changes_nothing(project, database, tmp_path):
    agent, stranger = Agent(), Agent(seed=2)
    bad = agent.trace(plausibility_score="high")
    write(tmp_path / "in", "a.json", batch([agent.trace(), bad, stranger.trace()], deferral(agent)))
    write(tmp_path / "in", "b.json", b'{"events": [')
    keys = write_keys(tmp_path, agent)
    first = load(project, [tmp_path / "in"], [keys])
    before = everything(database)
    again = load(project, [tmp_path / "in"], [keys])
    assert everything(database) == before
    assert (first.new, again.new, again.known_batches) == (2, 0, 2)
    assert not first.is_clean and not again.is_clean
    assert again.known == {"received": 3, "rejected": 1, "not_verified": 1}


def test_every_trace_that_was_sent_is_accounted_for(database, tmp_path):
    agent, later = Agent(), Agent(seed=2)
    sent, of_later = [agent.trace() for _ in range(3)], later.trace()
    other_content = json.loads(json.dumps(sent[0]).replace("0.91", "0.92"))
    keys = write_keys(tmp_path, agent)
    first = command(
        database, "load", write(tmp_path, "a.json", batch([*sent[:2], of_later])), "--keys", keys, "--json"
    )
    document = batch([*sent, of_later, other_content, agent.trace(plausibility_score="high")])
    both = write_keys(tmp_path, agent, later, name="both.json")
    path = write(tmp_path, "b.json", document)
    told = command(database, "load", path, "--keys", both, "--json")
    assert json.loads(first.stdout)["traces"] == {
        "received": 3, "new": 3, "replaced": 0, "sent_again": 0, "rejected": 0,
    }  # fmt: skip
    found = json.loads(told.stdout)
    assert found["traces"] == {"received": 6, "new": 1, "replaced": 1, "sent_again": 2, "rejected": 2}
    assert (found["is_clean"], found["n_problems"], told.exit_code) == (False, 3, 2)
    assert {"where", "reason", "detail"} == set(found["problems"][0])
    with database.connect() as connection:
        connection.execute("drop schema cirislens cascade")
    text = [
        command(database, "load", tmp_path / name, "--keys", both).output for name in ("a.json", "b.json")
    ]
    assert "1 file, 1 batch: 3 traces: 3 new." in text[0]
    assert "1 file, 1 batch: 6 traces: 1 new, 3 sent again, 2 rejected." in text[1]
    nothing = command(database, "load", path, "--keys", both).output
    assert (
        "1 file, 0 batches: 0 traces.\n1 batch loaded before: 6 traces" in nothing
        and "a second" not in nothing
    )


def test_all_problems_are_listed_where_they_are_asked_for(database, tmp_path):
    agent = Agent()
    documents = [batch(agent.trace() for _ in range(n)) for n in (10, 25)]
    path = write(tmp_path, "batches.jsonl", *documents)
    for options, n_listed in (([], 20), (["--all"], 30)):
        output = command(database, "load", path, *options).output
        assert output.count("unknown_key: ") == n_listed and "35 problems:" in output
        assert f"and {35 - n_listed} more; --all lists 20 of each batch." in output
        with database.connect() as connection:
            connection.execute("drop schema cirislens cascade")
    told = json.loads(command(database, "load", path, "--json").stdout)
    assert (len(told["problems"]), told["n_problems"]) == (30, 35)


def test_concurrent_loads_store_each_trace_once(project, database, tmp_path):
    agent = Agent()
    for number in range(40):
        write(tmp_path / "in", f"{number}.json", batch([agent.trace() for _ in range(5)]))
    keys = write_keys(tmp_path, agent)
    with ThreadPoolExecutor(3) as pool:
        summaries = list(pool.map(lambda _: load(project, [tmp_path / "in"], [keys]), range(3)))
    assert sum(summary.new for summary in summaries) == 200 == len(traces(database))
    assert {verdict for verdict, _ in verdicts(database).values()} == {True}
    assert len(everything(database)["covenant_trace_batches"]) == 40


STOPS = """
import sys
from ciris_scoring.audit import load
from ciris_scoring.cli import main
load.SMALL, load.CHUNK_DOCUMENTS, load.processors = 0, 1, lambda: 2
load.Progress.show = lambda *_: (print("a piece is loaded", flush=True), sys.stdin.readline())
main()
"""


def test_killed_load_can_be_repeated(project, database, tmp_path):
    """The load is killed after its first piece. The processes that verify for it end too."""
    agent = Agent()
    for number in range(60):
        write(tmp_path / "in", f"{number:04}.json", batch([agent.trace() for _ in range(2)]))
    keys = write_keys(tmp_path, agent)
    arguments = [
        sys.executable,
        "-c",
        STOPS,
        "load",
        str(tmp_path / "in"),
        "--keys",
        str(keys),
        *at(database),
    ]
    with subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as loader:
        assert loader.stdout.readline() == "a piece is loaded\n"
        loader.kill()
        # The output ends when all processes that could write to it have ended.
        loader.stdout.read()
    summary = load(project, [tmp_path / "in"], [keys])
    assert summary.known_batches and summary.new and summary.is_clean
    assert len(traces(database)) == 120


def test_parallel_load_equals_single_process(project, database, tmp_path, monkeypatch):
    agents = [Agent(generation, seed) for seed, generation in enumerate(GENERATIONS)]
    for number in range(6):
        write(tmp_path / "in", f"{number}.json", batch([agent.trace() for agent in agents]))
    keys = write_keys(tmp_path, *agents[:2])
    one = load(project, [tmp_path / "in"], [keys])
    found = everything(database)
    with database.connect() as connection:
        connection.execute("drop schema cirislens cascade")
    monkeypatch.setattr(loading, "SMALL", 0)
    monkeypatch.setattr(loading, "CHUNK_DOCUMENTS", 1)
    monkeypatch.setattr(loading, "processors", lambda: 2)
    two = load(project, [tmp_path / "in"], [keys])
    assert everything(database) == found
    assert (two.outcomes, two.n_problems) == (one.outcomes, one.n_problems)


# --- invalid signatures and keys -------------------------------------------------------------------------------------


def other_score(trace: Json) -> None:
    trace["components"][2]["data"]["csdma"]["plausibility_score"] = 0.2


def spelt(change: Callable[[bytes], str]) -> Callable[[Json], None]:
    """Return a function that writes the signature in another encoding."""

    def respell(trace: Json) -> None:
        text = trace["signature"].replace("-", "+").replace("_", "/")
        trace["signature"] = change(base64.b64decode(text + "=" * (-len(text) % 4)))

    return respell


ALTERED: list[tuple[Callable[[Json], Any], str | None]] = [
    (other_score, "bad_signature"),
    (lambda trace: trace.update(signature_key_id="agent-nobody"), "unknown_key"),
    (lambda trace: trace.update(signature_key_id=None), "unknown_key"),
    (lambda trace: trace.update(signature=None), "malformed_signature"),
    (lambda trace: trace.update(signature="!" * 86), "malformed_signature"),
    (lambda trace: trace.update(signature=trace["signature"][:40]), "malformed_signature"),
    (spelt(lambda content: standard(content + b"1")), "malformed_signature"),
    (lambda trace: trace.update(trace_schema_version="9.9"), "unsupported_schema"),
    (spelt(standard), None),
    (spelt(lambda content: standard(content).rstrip("=")), None),
    (spelt(urlsafe_unpadded), None),
    (spelt(lambda content: urlsafe_unpadded(content) + "=="), None),
    (spelt(lambda content: urlsafe_unpadded(content) + "="), "malformed_signature"),
]


def test_altered_traces_are_loaded_as_unverified(project, database, tmp_path):
    """Each altered trace is beside a good one of its agent, for each way of signing."""
    agents = [Agent(generation, seed) for seed, generation in enumerate(GENERATIONS)]
    sent, expected = [], {}
    for agent, (alter, reason) in itertools.product(agents, ALTERED):
        altered, good = agent.trace(), agent.trace()
        alter(altered)
        if reason == "unsupported_schema" and not agent.generation.signs_ids:
            # older agents do not sign the schema version, so a known rule still verifies the trace
            reason = None
        expected[altered["trace_id"]] = (reason is None, reason or agent.generation.rule)
        expected[good["trace_id"]] = (True, agent.generation.rule)
        sent += [altered, good]
    path = write(tmp_path, "batch.json", batch(sent))
    summary = load(project, [path], [write_keys(tmp_path, *agents)], most_problems=None)
    assert verdicts(database) == expected
    assert summary.n_problems == sum(not is_verified for is_verified, _ in expected.values())


def test_unsigned_field_that_contradicts_signed_ones_is_unconfirmed(shared, tmp_path):
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
def test_a_key_signs_for_one_agent(project, database, tmp_path, at_once):
    """A key may be registered under several ids. One agent has the traces of another id of its key moved to it."""
    pairs = [(Agent(one, 2 * seed), Agent(one, 2 * seed + 1)) for seed, one in enumerate(GENERATIONS)]
    own = [agent.trace() for pair in pairs for agent in pair]
    stolen = [thief.sign(agent.trace()) for agent, thief in pairs]
    aliases = {"another-id": standard(pairs[1][0].public_bytes)}
    stolen.append(pairs[1][0].trace() | {"agent_id_hash": "thief", "signature_key_id": "another-id"})
    keys = [write_keys(tmp_path, *itertools.chain(*pairs)), write(tmp_path, "aliases.json", aliases)]
    if at_once:
        paths = [write(tmp_path, "both.jsonl", batch(own), batch(stolen))]
        summary = load(project, paths, keys)
    else:
        paths = [write(tmp_path, "0.json", batch(own)), write(tmp_path, "1.json", batch(stolen))]
        for path in paths:
            summary = load(project, [path], keys)
    assert reasons(summary) == ["foreign_key"] * len(stolen)
    found = verdicts(database)
    assert {found[trace["trace_id"]] for trace in stolen} == {(False, "foreign_key")}
    options = itertools.chain(*(("--keys", key) for key in keys))
    assert json.loads(command(database, "audit", *paths, *options, "--json").stdout)["discrepancies"] == []


def test_real_trace_of_agent_2_7_8_verifies_by_two_fields(shared, tmp_path):
    """The trace is signed again with a key of the test, because the agent's key is not published."""
    trace = json.loads(gzip.decompress((DATA / "traces" / "agent-2.7.8.json.gz").read_bytes()))
    agent = Agent(TWO_FIELDS_OF_2_7)
    path = write(tmp_path, "batch.json", batch([agent.sign(trace)]))
    summary = load(shared, [path], [write_keys(tmp_path, agent)])
    assert summary.is_clean and summary.outcomes == {("2.7.0", "two_fields"): 1}
    assert json.loads(loading.as_json(summary))["outcomes"] == [
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
    loaded = dict(zip(TRACE_COLUMNS, traces(database)[0], strict=True))
    assert (loaded["idma_phase"], loaded["dma_results"]) == ("healthy", expected)


def test_seals_beside_batches_are_skipped(database, tmp_path):
    agent = Agent(NEW)
    folder = tmp_path / "in"
    write(folder, "lens-batch-00000000.json", batch([agent.trace()]))
    seal = (DATA / "traces" / "ceg-seal-agent-2.9.9.json.gz").read_bytes()
    (folder / "ceg-seal-th_1.json.gz").write_bytes(seal)
    write(folder, "all.jsonl", json.dumps(json.loads(gzip.decompress(seal))).encode())
    for _ in range(2):
        result = command(database, "load", folder, "--keys", write_keys(tmp_path, agent))
        assert result.exit_code == 0, result.output
        assert "Other events: 2 ceg_seal" in result.output
    assert len(traces(database)) == 1
    assert command(database, "audit", folder, "--keys", tmp_path / "keys.json").exit_code == 0


def test_invalid_key_affects_only_itself(project, database, tmp_path):
    bad = {
        "31 bytes": (standard(b"1" * 31), "32 bytes"),
        "no point": (standard((2).to_bytes(32, "little")), "not a point of the curve"),
        "neutral": (standard((1).to_bytes(32, "little")), "anybody could sign"),
        "text": ("not base64!", "not base64"),
        "number": (7, "no public_key_base64"),
    }
    agent = Agent()
    keys = write(tmp_path, "keys.json", {name: text for name, (text, _) in bad.items()} | agent.keys)
    summary = load(project, [write(tmp_path, "batch.json", batch([agent.trace()]))], [keys])
    assert reasons(summary) == ["bad_key"] * len(bad)
    for problem, (_, said) in zip(summary.problems, bad.values(), strict=True):
        assert said in problem.detail
    assert (summary.new_keys, [verdict for verdict, _ in verdicts(database).values()]) == (1, [True])


def test_a_registered_key_stays_and_contradictions_are_reported(project, database, tmp_path):
    agent, other = Agent(), Agent(seed=2)
    [(key_id, text)] = agent.keys.items()
    table = f"key_id,public_key_base64,expires_at\n{key_id},{text},2027-01-01T00:00:00Z\n"
    revoked = [{"key_id": key_id, "public_key_base64": text, "revoked_at": "2026-06-01T00:00:00Z"}]
    of_other = {key_id: standard(other.public_bytes)}
    path = write(tmp_path, "batch.json", batch([agent.trace()]))
    paths = {
        "first": write(tmp_path, "keys.csv", table.encode()),
        "revoked": write(tmp_path, "revoked.json", json.dumps(revoked).encode()),
        "other": write(tmp_path, "other.json", of_other),
        "both": write(
            tmp_path, "both.json", json.dumps([{**revoked[0], "revoked_at": None}, *revoked]).encode()
        ),
        "without ends": write_keys(tmp_path, agent),
    }
    registered, in_files = "registered already, with another ", "twice in the files, with another "
    for names, expected in (
        (["first"], []),
        (["without ends"], []),
        (["revoked"], [registered + "revoked_at, which a load does not change"]),
        (["other"], [registered + "public_key_base64, which a load does not change"]),
        (["both"], [in_files + "revoked_at"]),
        (["first", "other"], [in_files + "public_key_base64"]),
    ):
        summary = load(project, [path], [paths[name] for name in names])
        assert [(one.reason, one.detail) for one in summary.problems] == [
            ("bad_key", said) for said in expected
        ]
    [row] = everything(database)["covenant_public_keys"]
    assert row[:3] == (key_id, text, "ed25519") and row[4].year == 2027
    audits = {
        name: command(database, "audit", path, "--keys", paths[name], "--json")
        for name in ("first", "revoked")
    }
    assert audits["first"].exit_code == 0
    [found] = json.loads(audits["revoked"].stdout)["discrepancies"]
    assert (found["kind"], found["differences"]) == ("key_differs", {
        f"revoked_at of key {key_id}": {"database": None, "recomputed": "2026-06-01T00:00:00+00:00"}
    })  # fmt: skip


def test_invalid_file_of_keys_is_refused(database, tmp_path):
    path = write(tmp_path, "batch.json", batch([Agent().trace()]))
    for content in (b"", b"nothing,of,this", b'["a"]', b"{", b'{"a": "b"} c', b"\xff\xfe"):
        result = command(database, "load", path, "--keys", write(tmp_path, "keys.csv", content))
        assert result.exit_code == 2 and "keys.csv" in result.output, result.output


# --- invalid files and values ----------------------------------------------------------------------------------------


def deep(n: int) -> bytes:
    return b'{"note":' * n + b"1" + b"}" * n


def with_value(name: str, value: Any) -> Callable[[Json], None]:
    return lambda trace: trace.update({name: value})


def in_component(event_type: str, name: str, value: Any) -> Callable[[Json], None]:
    def alter(trace: Json) -> None:
        next(c for c in trace["components"] if c["event_type"] == event_type)["data"][name] = value

    return alter


BAD_TRACES: list[tuple[Callable[[Json], Any], str | None]] = [
    (lambda trace: trace.pop("trace_id"), "missing_field"),
    (lambda trace: trace.pop("agent_id_hash"), "missing_field"),
    (lambda trace: trace.pop("completed_at"), "missing_field"),
    (lambda trace: trace.pop("components"), "missing_field"),
    (with_value("components", {}), "wrong_type"),
    (with_value("components", [1]), "wrong_type"),
    (with_value("trace_id", ""), "missing_field"),
    (with_value("trace_id", 5), "wrong_type"),
    (with_value("trace_id", "t" * 129), "out_of_range"),
    (with_value("trace_id", "a\0b"), "invalid_text"),
    (with_value("trace_id", "\ud800"), "invalid_text"),
    (with_value("completed_at", "2026-06-01T08:00:00"), "bad_time"),
    (with_value("completed_at", "9999-12-31T23:59:59-14:00"), "bad_time"),
    (with_value("completed_at", "0001-01-01T00:00:00+14:00"), "bad_time"),
    (with_value("completed_at", "yesterday"), "bad_time"),
    (with_value("completed_at", "2026-06-01t08:05:06.123456789z"), None),
    (with_value("completed_at", 1780300800), "bad_time"),
    (in_component("DMA_RESULTS", "csdma", {"plausibility_score": 9.995}), "out_of_range"),
    (in_component("DMA_RESULTS", "csdma", {"plausibility_score": True}), "wrong_type"),
    (in_component("CONSCIENCE_RESULT", "entropy_level", -10), "out_of_range"),
    (in_component("CONSCIENCE_RESULT", "coherence_passed", "yes"), "wrong_type"),
    (in_component("ACTION_RESULT", "audit_sequence_number", 2**63), "out_of_range"),
    (in_component("ACTION_RESULT", "audit_sequence_number", 1.5), "wrong_type"),
    (in_component("ACTION_RESULT", "audit_entry_hash", "f" * 65), "out_of_range"),
    (in_component("ACTION_RESULT", "cost_cents", 10**400), None),
    (in_component("THOUGHT_START", "note", "a\0b"), "invalid_text"),
    (in_component("THOUGHT_START", "note", "\\u0000"), None),
    (in_component("THOUGHT_START", "note", "\udfff"), "invalid_text"),
    (in_component("THOUGHT_START", "note", json.loads(deep(70))), "too_deep"),
]


def test_invalid_trace_affects_only_itself(project, database, tmp_path):
    """Each invalid trace is in a batch between two valid ones."""
    agent = Agent()
    good, documents, rows = [], [], []
    for alter, reason in BAD_TRACES:
        first, bad, last = (agent.trace() for _ in range(3))
        alter(bad)
        good += [first["trace_id"], last["trace_id"]]
        documents.append(batch([first, bad, last]))
        rows.append((3, 2, 1, {reason: 1}) if reason else (3, 3, 0, {}))
    path = write(tmp_path, "batches.jsonl", *documents)
    summary = load(project, [path], [write_keys(tmp_path, agent)], most_problems=None)
    loaded = verdicts(database)
    assert {loaded[trace_id] for trace_id in good} == {(True, "sorted_json")}
    # Traces that differ from what was signed can still be loaded, as unverified.
    assert len(loaded) == len(good) + sum(reason is None for _, reason in BAD_TRACES)
    rejected = [reason for reason in reasons(summary) if reason != "bad_signature"]
    assert rejected == [reason for _, reason in BAD_TRACES if reason]
    found = [row[3:] for row in everything(database)["covenant_trace_batches"]]
    assert sorted(found, key=repr) == sorted(rows, key=repr)


def test_invalid_json_in_a_trace_affects_only_that_trace(project, database, tmp_path):
    """Each batch has three traces; the second one is changed."""
    agent = Agent()
    depth = b'"thought_depth": 0'
    for number, (old, new, expected, n_left) in enumerate(BAD_JSON):
        document = json.dumps(batch(agent.trace() for _ in range(3))).encode()
        first, second, rest = document.split(old or depth, 2)
        path = write(tmp_path, f"{number}.json", first + (old or depth) + second + new + rest)
        summary = load(project, [path], [write_keys(tmp_path, agent)])
        assert expected in reasons(summary) and summary.new == n_left, new[:40]
    assert {verdict for verdict, _ in verdicts(database).values()} == {True}


BAD_JSON: list[tuple[bytes, bytes, str, int]] = [
    (b"", b'"thought_depth": NaN', "not_a_number", 2),
    (b"", b'"thought_depth": -Infinity', "not_a_number", 2),
    (b"", b'"thought_depth": 1e400', "out_of_range", 2),
    (b"", b'"thought_depth": ' + b"9" * 5000, "out_of_range", 2),
    (b"", b'"thought_depth": 0, "thought_depth": 0', "duplicate_key", 2),
    (b"", b'"thought_depth": ', "not_json", 2),
    (b"", b'"thought_depth": ' + deep(100_000), "too_deep", 2),
    (b'"note": "', b'"note": "\xff\xc0', "invalid_text", 2),
    (b'"note": "', b'"note": "\n', "not_json", 2),
    (b"", b'"thought_depth": 0}', "not_json", 1),
]
"""Text that is replaced, if not the depth; its replacement; reason of the problem; traces that are loaded."""


BAD_FILES = [
    (b"", "truncated"),
    (b"{", "truncated"),
    (b"null", "not_a_batch"),
    (b'{"events": 3}', "not_a_batch"),
    (b'[{"a": 1}]', "not_a_batch"),
    (b'"text"', "not_a_batch"),
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
    for i, (content, _) in enumerate(BAD_FILES):
        write(tmp_path / "in", f"{i:02} bad.json", content)
        write(tmp_path / "in", f"{i:02} good.json", batch([agent.trace()]))
    keys = write_keys(tmp_path, agent)
    result = command(database, "load", tmp_path / "in", "--keys", keys, "--all")
    assert result.exit_code == 2, result.output
    for i, (_, reason) in enumerate(BAD_FILES):
        assert re.search(rf"{i:02} bad\.json.*: {reason}: ", result.output), (i, result.output)
    assert len(traces(database)) == len(BAD_FILES)


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


def test_unreadable_files_are_problems(project, database, tmp_path):
    agent = Agent()
    folder = tmp_path / "in"
    write(folder, "z.json", batch([agent.trace()]))
    (folder / "loop").symlink_to(folder)
    (folder / "itself.json").symlink_to(folder / "itself.json")
    (folder / "gone.json").symlink_to(folder / "nowhere")
    write(folder, "no.json.gz", b"").write_bytes(b"no gzip")
    os.mkfifo(folder / "pipe.json")
    assert reasons(load(project, [tmp_path / "a\0b.json"], [])) == ["unreadable"]
    result = command(database, "load", folder, folder / "absent.json", "--keys", write_keys(tmp_path, agent))
    assert result.exit_code == 2, result.output
    for name in ("loop", "itself.json", "gone.json", "no.json.gz", "pipe.json", "absent.json"):
        assert any(f"{name}: " in line for line in result.output.splitlines()), (name, result.output)
    assert len(traces(database)) == 1


def padded(traces_: Iterable[Json], size: int) -> bytes:
    """Return a batch of at least this many bytes. Each event has a field that is not read."""
    document = batch(traces_)
    for event in document["events"]:
        event["padding"] = "\\ ]}[{" * (size // len(document["events"]) // 12)
    return json.dumps(document).encode()


@pytest.mark.parametrize("ending", ["json", "json.gz"])
def test_a_large_document_is_read_in_parts(project, database, tmp_path, monkeypatch, ending):
    monkeypatch.setattr(files, "WHOLE_LIMIT", 100_000)
    monkeypatch.setattr(files, "PART_SIZE", 30_000)
    monkeypatch.setattr(files, "EVENT_LIMIT", 20_000)
    agent = Agent()
    sent = [agent.trace() for _ in range(40)]
    sent[7]["padding"] = "x" * 30_000
    path = write(tmp_path, f"large.{ending}", padded(sent, 200_000))
    summary = load(project, [path], [write_keys(tmp_path, agent)])
    assert reasons(summary) == ["too_large"] and summary.batches > 3
    assert len(verdicts(database)) == 39
    again = load(project, [path], [])
    assert (again.batches, again.known["received"]) == (0, 39)


def test_documents_above_the_size_limit_are_problems(shared, tmp_path, monkeypatch):
    monkeypatch.setattr(files, "WHOLE_LIMIT", 1000)
    monkeypatch.setattr(files, "UNPACKED_LIMIT", 100_000)
    monkeypatch.setattr(files, "MB", 1000)
    large = b'{"events": {"a": "' + b"b" * 200_000 + b'"}}'
    for name in ("a.json", "a.jsonl", "b.json.gz"):
        assert "too_large" in reasons(load(shared, [write(tmp_path, name, large)], [])), name


def tiny(n: int) -> bytes:
    return b'{"events": [' + b",".join([b"{}"] * n) + b"]}"


def test_problems_of_a_batch_are_counted_and_the_first_kept(shared, tmp_path):
    path = write(tmp_path, "batch.json", tiny(50_000))
    summary = load(shared, [path], [], most_problems=None)
    assert (summary.n_problems, len(summary.problems), summary.rejected) == (50_000, 20, 50_000)
    again = load(shared, [path], [])
    assert again.known["rejected"] == 50_000 and not again.is_clean


def test_events_beyond_the_limit_are_not_read(shared, tmp_path, monkeypatch):
    monkeypatch.setattr(documents, "EVENTS_LIMIT", 10)
    agent = Agent()
    sent = [agent.trace() for _ in range(12)]
    keys = write_keys(tmp_path, agent)
    for content in (json.dumps(batch(sent)).encode(), json.dumps(batch(sent)).encode()[:-1]):
        summary = load(shared, [write(tmp_path, "batch.json", content)], [keys])
        assert "too_large" in reasons(summary) and summary.rejected == 1


MANY = strict_json.VALUES_LIMIT + 1
KEYS = b"{%b}" % b", ".join(b'"%d": 1' % number for number in range(strict_json.KEYS_LIMIT))
REJECTED_JSON = [
    *((b"[" + b",".join([piece] * MANY) + b"]", "too_large") for piece in (b"1", b"{}", b"[]", b'{"a":{}}')),
    (KEYS[:-1] + b', "x": 1}', "too_large"),
    (KEYS.replace(b'"99999"', b'"99998"'), "duplicate_key"),  # has no end if each pair of keys is compared
]


@pytest.mark.parametrize(("content", "reason"), REJECTED_JSON, ids=range(len(REJECTED_JSON)))
def test_json_beyond_a_limit_is_rejected(content, reason):
    with pytest.raises(Rejected) as error:
        strict_json.parse(content)
    assert error.value.reason == reason
    assert len(strict_json.parse(KEYS)) == strict_json.KEYS_LIMIT


def test_a_compressed_batch_of_millions_of_values_is_one_problem(project, database, tmp_path):
    agent = Agent()
    name = "bomb.json.gz"
    path = write(tmp_path, name, b'{"events": [' + b",".join([b"1"] * 2_000_000) + b"]}")
    assert path.stat().st_size < 20_000
    good = write(tmp_path, "good.json", batch([agent.trace()]))
    summary = load(project, [path, good], [write_keys(tmp_path, agent)], most_problems=None)
    assert reasons(summary) == ["too_large"] and len(traces(database)) == 1
    assert name in summary.problems[0].where


@pytest.mark.parametrize("ending", ["json.gz", "jsonl.gz"])
def test_a_file_that_unpacks_to_far_more_than_batches_is_not_read_on(shared, tmp_path, monkeypatch, ending):
    monkeypatch.setattr(files, "WHOLE_LIMIT", 100_000)
    agent = Agent()
    keys = write_keys(tmp_path, agent)
    event = b'{"event_type": "startup"}'
    content = b"\n".join([event] * 100_000) if ending == "jsonl.gz" else tiny(1_000_000)
    summary = load(shared, [write(tmp_path, f"bomb.{ending}", content)], [keys])
    assert reasons(summary) == ["too_large"] and summary.other_events["startup"] < 90_000
    good = [batch(agent.trace() for _ in range(20)) for _ in range(1 if ending == "json.gz" else 10)]
    assert load(shared, [write(tmp_path, f"good.{ending}", *good)], [keys]).is_clean


def test_folders_that_links_multiply_are_read_once(shared, tmp_path):
    """Each folder has two links to the next one, which gives 2 to the power 40 paths."""
    agent = Agent()
    for number in range(40):
        folder = tmp_path / "in" / f"{number:02}"
        folder.mkdir(parents=True)
        for name in ("a", "b"):
            (folder / name).symlink_to(tmp_path / "in" / f"{number + 1:02}")
    write(tmp_path / "in" / "40", "batch.json", batch([agent.trace()]))
    summary = load(shared, [tmp_path / "in" / "00"], [write_keys(tmp_path, agent)])
    assert (summary.files, summary.is_clean) == (1, True)


def test_file_with_too_many_keys_is_refused(shared, tmp_path, monkeypatch):
    monkeypatch.setattr(keys, "KEYS_LIMIT", 2)
    agents = [Agent() for _ in range(3)]
    assert load(shared, [], [write_keys(tmp_path, *agents[:2])]).new_keys == 2
    for path in (
        write_keys(tmp_path, *agents),
        write(tmp_path, "keys.csv", b"key_id,public_key_base64\n" + b"a,b\n" * 3),
    ):
        with pytest.raises(InputError, match="more than 2 keys"):
            load(shared, [], [path])


def test_messages_do_not_quote_values_of_any_length(database, tmp_path):
    """Each line of the report stays short if a batch or a file of keys contains long values."""
    agent = Agent()
    long = "x" * 100_000
    sent = [agent.trace() for _ in range(8)]
    for number, name in enumerate(
        ("trace_id", "agent_id_hash", "completed_at", "signature_key_id", "signature", "trace_schema_version")
    ):
        sent[number][name] = long
    sent[6]["components"][2]["data"]["csdma"] = {"plausibility_score": int("9" * 4000)}
    sent[7]["components"][4]["data"]["selected_action"] = long
    document = batch(sent, {"event_type": long}, deferral(agent) | {"timestamp": long})
    document["batch_timestamp"] = long
    twice = b'{"%b": 1, "%b": 2}' % (long.encode(), long.encode())
    path = write(tmp_path, "batches.jsonl", document, twice, {long: long})
    keys_ = [
        {"key_id": long, "public_key_base64": long},
        {"key_id": "a", "public_key_base64": "b", "algorithm": long},
    ]
    keys_.append({"key_id": "c", "public_key_base64": standard(agent.public_bytes), "created_at": long})
    result = command(
        database, "load", path, "--keys", write(tmp_path, "keys.json", json.dumps(keys_).encode())
    )
    assert result.exit_code == 2 and max(map(len, result.output.splitlines())) < 600, result.output[:3000]


def test_memory_does_not_grow_with_the_input(database, tmp_path):
    agent = Agent()
    """Many files and one large file need little more memory than a few files."""
    few, many = tmp_path / "few", tmp_path / "many"
    for folder, n in ((few, 20), (many, 600)):
        for number in range(n):
            write(folder, f"{number}.json", batch([agent.trace()]))
    with (tmp_path / "large.json").open("wb") as large:
        one = json.dumps(batch([agent.trace()])["events"][0]).encode()
        large.write(b'{"events": [' + one)
        event = b'{"event_type": "startup", "padding": "' + b"x" * 2**20 + b'"}'
        for _ in range(100):
            large.write(b"," + event)
        large.write(b"]}")

    def peak(*paths: Path) -> int:
        """Return the most memory that a load needs, in MB."""
        code = (
            "import resource, sys; from pathlib import Path; from ciris_scoring.audit.load import load;"
            "from ciris_scoring.basics.project import load_project;"
            "load(load_project(Path(sys.argv[1]), Path(sys.argv[2])), [Path(path) for path in sys.argv[3:]], []);"
            "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024)"
        )
        arguments = [sys.executable, "-c", code, REPOSITORY, database.profiles_dir, *paths]
        return int(printed(*arguments).splitlines()[-1])

    base = peak(few)
    assert peak(many, tmp_path / "large.json") < base + 60


def test_names_of_tables_are_those_of_the_project(database, tmp_path):
    agent = Agent()
    path = write(tmp_path, "batch.json", batch([agent.trace()]))
    variables = "{ciris_source_schema: lens, ciris_covenant_traces_table: accord_traces}"
    result = command(database, "load", path, "--keys", write_keys(tmp_path, agent), "--vars", variables)
    assert result.exit_code == 0, result.output
    with database.connect() as connection:
        assert connection.execute("select signature_verified from lens.accord_traces").fetchall() == [(True,)]


def test_a_cluster_is_refused(database, tmp_path):
    project = load_project(REPOSITORY, database.profiles_dir, cli_vars={"ciris_distribution": "citus"})
    with pytest.raises(InputError, match="cluster"):
        load(project, [tmp_path], [])


def test_values_that_are_not_rejected_fit_their_columns(project, tmp_path):
    """A value that is not rejected must fit its column. Otherwise the database would refuse a
    whole chunk of batches.
    """
    source = random.Random(1)
    write(tmp_path, "mutated.jsonl", *(mutated(source).replace(b"\n", b" ") for _ in range(200)))
    agent = Agent(seed=9)
    odd = [agent.trace(k_eff=number) for number in (1e308, -1e308, 5e-324, -0.0, 10**4000)]
    odd += [agent.trace(text=text) for text in ("\\N", "\\.", "\t\n\r\x7f", "\u2028\ufeff\U0010ffff", "{")]
    write(tmp_path, "odd.jsonl", batch(odd))
    mutations, extremes = (load(project, [tmp_path / name], []) for name in ("mutated.jsonl", "odd.jsonl"))
    assert mutations.batches > 150 and mutations.n_problems > 150
    assert extremes.new == len(odd)
