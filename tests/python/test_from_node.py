"""Tests of `run --from-node` and `load --from-node`, with a store that the real engine has written."""

from __future__ import annotations

import json
import shutil
import sqlite3
import threading
from contextlib import closing
from pathlib import Path

import pytest
from psycopg.rows import dict_row

import real_engine
from ciris_scoring.audit import node
from ciris_scoring.audit.load import load
from ciris_scoring.audit.node import copy_nodes
from ciris_scoring.database.project import load_project
from ciris_scoring.lab.embedded import SCHEMA
from command_line import command, invoke, refused, succeeded
from conftest import DATA, REPOSITORY, Database, fresh_database
from pipeline import kept_parsed, score

pytestmark = real_engine.needs_engine
REAL = DATA / "batches"
AS_OF = "2026-11-22"
ALL_KINDS = {"ciris_scored_run_kinds": ["production", "mock", "test"]}
MARTS_TO_COMPARE = (
    *("fct_capacity_scores", "fct_score_certainty", "fct_capacity_alerts", "fct_red_flags", "fct_verdicts"),
    *("fct_factor_components", "fct_fleet_capacity", "fct_fleet_coherence_hourly", "dim_agents", "fct_trace_checks"),
)
OTHER_NODE = "update refinery_schema_history set applied_on = '2026-01-01T00:00:00Z' where version = 1"
"""Statement that makes a copy of a store that of another node."""
TIMES_OF_COMPUTATION = {"scored_at", "latest_scored_at"}


@pytest.fixture(scope="module")
def engine_store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """SQLite file of the engine with the real batches in tests/data."""
    folder = tmp_path_factory.mktemp("engine")
    keys: dict[str, str] = {}
    for path in REAL.rglob("public_keys.json"):
        keys |= json.loads(path.read_text())
    refused = real_engine.store_in(
        f"sqlite:///{folder}/ciris_engine.db", folder, sorted(REAL.glob("*/batches.jsonl.gz")), keys
    )
    assert len(refused) == 1 and "wbd_deferral" in refused[0]  # the engine stores no deferrals
    return folder / "ciris_engine.db"


@pytest.fixture
def store(engine_store: Path, tmp_path: Path) -> Path:
    """Copy of the store that a test may change."""
    with closing(sqlite3.connect(engine_store)) as source, closing(sqlite3.connect(tmp_path / "node.db")) as copy:
        source.backup(copy)
        copy.execute("pragma journal_mode = wal")
        # The engine's ids have gaps. Here they are 1, 2, 3, ...
        copy.execute(
            "update trace_events set event_id = -numbered.n from"
            " (select event_id as old, row_number() over (order by event_id) as n from trace_events) as numbered"
            " where event_id = numbered.old"
        )
        copy.execute("update trace_events set event_id = -event_id")
        copy.commit()
    return tmp_path / "node.db"


def changed(store: Path, *statements: str) -> None:
    with closing(sqlite3.connect(store)) as connection:
        for statement in statements:
            connection.execute(statement)
        connection.commit()


def copied(database: Database, *files: Path) -> list[node.Copied]:
    return copy_nodes(load_project(REPOSITORY, database.profiles_dir), files)


def rows(database: Database, mart: str) -> list[str]:
    """Return the rows of a mart as sorted JSON, without times of computation."""
    with database.connect() as connection:
        found = connection.cursor(row_factory=dict_row).execute(f"select * from {SCHEMA}.{mart}").fetchall()
    kept = [{name: value for name, value in row.items() if name not in TIMES_OF_COMPUTATION} for row in found]
    return sorted(json.dumps(row, default=str, sort_keys=True) for row in kept)


def test_marts_of_a_node_equal_those_of_its_batches(embedded_postgres, tmp_path, engine_store):
    for name in ("batches", "node"):
        (tmp_path / name).mkdir()
    with (
        fresh_database(embedded_postgres, tmp_path / "batches") as of_batches,
        fresh_database(embedded_postgres, tmp_path / "node") as of_node,
    ):
        [summary] = copied(of_node, engine_store)
        assert summary.events == 4354
        batches = sorted(REAL.glob("*/batches.jsonl.gz"))
        load(load_project(REPOSITORY, of_batches.profiles_dir), batches, sorted(REAL.rglob("public_keys.json")))
        of_batches.execute("delete from cirislens.wbd_deferrals")
        by_hour = ALL_KINDS | {"ciris_scoring_period": "hour"}
        for database in (of_node, of_batches):
            score(database.profiles_dir, AS_OF, by_hour)
        for mart in MARTS_TO_COMPARE:
            assert rows(of_node, mart) == rows(of_batches, mart), mart
        assert len(rows(of_node, "fct_capacity_scores")) > 100

        before = rows(of_node, "fct_capacity_scores")
        assert [one.events for one in copied(of_node, engine_store)] == [0]
        score(of_node.profiles_dir, AS_OF, by_hour)
        assert rows(of_node, "fct_capacity_scores") == before


def test_only_new_events_are_copied_and_two_nodes_are_one_fleet(database, store, tmp_path):
    """The second node has half of the events of the first one, an event of its own, and an earlier end of a key."""
    changed(store, "delete from trace_events where event_id > 4000")
    other = tmp_path / "other.db"
    shutil.copy(store, other)
    changed(
        other,
        OTHER_NODE,
        "delete from trace_events where event_id > 2000",
        "update trace_events set trace_id = 'of-the-other-node' where event_id = 1",
        "update accord_public_keys set revoked_at = '2026-11-21T00:00:00+00:00'",
    )
    assert [one.events for one in copied(database, store, other)] == [4000, 1]
    changed(store, "insert into trace_events (trace_id, thought_id, event_type, ts, trace_level, payload)"
            " values ('new', 'new', 'THOUGHT_START', '2026-11-22T10:00:00Z', 'generic', '{}')")  # fmt: skip
    assert [one.events for one in copied(database, store, other)] == [1, 0]
    assert database.execute("select count(*), count(distinct event_id) from cirislens.trace_events") == [(4002, 4002)]
    assert database.execute("select count(*) from cirislens.accord_public_keys where revoked_at is null") == [(0,)]
    moved = store.rename(tmp_path / "moved.db")
    assert [one.events for one in copied(database, moved)] == [0]


def test_node_that_goes_on_from_a_backup_loses_no_event(database, store, tmp_path):
    """After the backup is restored, the node gives the numbers of copied events to other events."""
    backup = tmp_path / "backup.db"
    shutil.copy(store, backup)
    changed(backup, "delete from trace_events where event_id > 4000")
    changed(store, "delete from trace_events where event_id > 4300")
    assert [one.events for one in copied(database, store)] == [4300]
    lost_again = (
        "insert into trace_events (event_id, trace_id, thought_id, event_type, ts, trace_level, payload)"
        " values ({}, 'new', '', 'THOUGHT_START', '2026-11-22T10:00:00Z', 'generic', '{{}}')"
    )
    changed(backup, lost_again.format(4001))
    assert [one.events for one in copied(database, backup)] == [1]
    assert [one.events for one in copied(database, backup, store)] == [0, 0]
    changed(backup, "delete from trace_events", lost_again.format(4300).replace("'new'", "'newer'"))
    assert [one.events for one in copied(database, backup)] == [1]


def test_nul_is_replaced_because_postgresql_cannot_store_it(database, store):
    changed(
        store,
        "delete from trace_events where event_id > 50",
        """update trace_events set payload = '{"name": "a\\u0000b", "path": "c\\\\u0000"}' where event_id = 3""",
        "update trace_events set agent_name = 'a' || char(0) || 'b' where event_id = 4",
        "update trace_events set ts = substr(ts, 1, 19) || 'Z' where event_id = 5",
    )
    assert [one.events for one in copied(database, store)] == [50]
    found = "select payload from cirislens.trace_events where payload ? 'path' and payload ->> 'name' ~ '^a.b$'"
    assert database.execute(found) == [({"name": "a\ufffdb", "path": "c\\u0000"},)]
    assert database.execute("select agent_name from cirislens.trace_events where agent_name ~ '^a.b$'") == [
        ("a\ufffdb",)
    ]


def test_running_writer_is_not_disturbed(database, store):
    """Another process writes an event every few milliseconds while the store is copied."""
    ended, n_written, errors = threading.Event(), 0, []

    def write() -> None:
        nonlocal n_written
        with closing(sqlite3.connect(store, timeout=0.2)) as connection:
            while not ended.wait(0.002):
                try:
                    connection.execute(
                        "insert into trace_events (trace_id, thought_id, event_type, ts, trace_level, payload)"
                        " values (?, '', 'THOUGHT_START', '2026-11-22T10:00:00Z', 'generic', '{}')",
                        [f"meanwhile-{n_written}"],
                    )
                    connection.commit()
                    n_written += 1
                except sqlite3.Error as error:
                    errors.append(error)

    writer = threading.Thread(target=write)
    writer.start()
    try:
        [first] = copied(database, store)
    finally:
        ended.set()
        writer.join()
    assert not errors and n_written > 0
    [second] = copied(database, store)
    assert first.events + second.events == 4354 + n_written


def damage(store: Path, how: str) -> str:
    """Damage a store, and return the text that the message must have."""
    if how == "missing table":
        changed(store, "drop table accord_public_keys")
        return "cannot be read: no such table: accord_public_keys"
    if how == "other schema":
        changed(store, "drop index trace_events_audit_seq", "alter table trace_events drop column audit_entry_hash")
        return "cannot be read: no such column: audit_entry_hash"
    if how == "not SQLite":
        store.write_bytes(b"text")
        return "cannot be read: file is not a database"
    if how == "cut off":
        content = store.read_bytes()
        store.write_bytes(content[: len(content) // 2])
        return "cannot be read: database disk image is malformed"
    if how == "wrong value":
        changed(store, "update trace_events set ts = 'no time' where event_id = 7", OTHER_NODE)
        return "has an event that cannot be copied: invalid input syntax for type timestamp with time zone"
    store.unlink()
    return "cannot be read: unable to open database file"


@pytest.mark.parametrize(
    "how", ["missing table", "other schema", "not SQLite", "cut off", "wrong value", "missing file"]
)
def test_unusable_store_is_named_and_nothing_is_changed(database, store, engine_store, how):
    """The good store before it is not copied either."""
    expected = damage(store, how)
    result = command(database, "load", "--from-node", engine_store, "--from-node", store)
    error, _ = refused(result, 2)
    assert str(store) in error and expected in error
    assert database.execute("select count(*) from pg_class where relname = 'trace_events'") == [(0,)]


def test_events_of_another_program_are_not_mixed(database, store):
    database.execute("create schema cirislens; create table cirislens.trace_events (event_id bigint)")
    error, hint = refused(command(database, "load", "--from-node", store), 2)
    assert "cirislens.trace_events exists, and was not created by --from-node" in error
    assert "ciris_source_schema" in hint


def test_events_of_nodes_are_not_hidden_by_whole_traces(database, store):
    """A run reads whole traces if both forms are in a schema, so the events would be dropped without an error."""
    succeeded(command(database, "load", "--from-node", store))
    error, hint = refused(command(database, "load", REAL), 2)
    assert "cirislens has events that --from-node copied" in error and "ciris_source_schema" in hint
    assert database.execute("select to_regclass('cirislens.covenant_traces')") == [(None,)]
    database.execute("create table cirislens.covenant_traces (trace_id text)")
    error, hint = refused(command(database, "load", "--from-node", store), 2)
    assert "cirislens.covenant_traces exists, so a run would not read the events" in error and "ciris_source" in hint
    succeeded(command(database, "load", "--from-node", store, "--vars", "{ciris_source: events}"))


def test_run_from_node_copies_and_scores(own_server, store):
    variables = ("--vars", json.dumps(ALL_KINDS), "--as-of", AS_OF)
    with kept_parsed(own_server.profiles_dir, ALL_KINDS):
        first = succeeded(invoke("run", "--from-node", store, *variables, "--project-dir", REPOSITORY))
        again = succeeded(invoke("run", "--from-node", store, *variables, "--project-dir", REPOSITORY))
    assert "4,354 new events" in first.stderr and "0 new events" in again.stderr
    table = [result.stdout.partition("Done")[0] for result in (first, again)]
    assert "window of 7 days, 3 agents" in table[0] and table[0] == table[1]


def test_load_needs_one_source(database, store):
    assert "needs either PATHS or --from-node" in refused(command(database, "load"), 2)[0]
    both = command(database, "load", store, "--from-node", store)
    assert "needs either PATHS or --from-node" in refused(both, 2)[0]
