"""The benchmark at a tiny size: that it measures everything, touches nothing else, and judges; not how fast it is."""

import re
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import psycopg
import pytest
import yaml
from click.testing import Result

import command_line
from benchmarks import command, measure
from benchmarks.__main__ import main
from benchmarks.activity import Activity
from benchmarks.arriving import FleetOptions
from benchmarks.database import MARK, NAME
from benchmarks.errors import BenchFailed
from benchmarks.measure import Measurements, RunCost
from benchmarks.reads import FLEET, HISTORY, LATEST, Read, Size, specification_query
from benchmarks.table import tables
from benchmarks.targets import judge
from benchmarks.verdicts import conclusion
from conftest import REPOSITORY, Database

TINY = ("--agents", "6", "--days", "5", "--traces-per-day", "12", "--increments", "1")


def bench(database: Database, *arguments: str) -> Result:
    return command_line.invoke(*command_line.at(database), *arguments, command=main)


def refused(result: Result, exit_code: int) -> str:
    """What a command said that failed before it printed any result."""
    assert (result.exit_code, result.stdout) == (exit_code, ""), result.output
    return result.stderr


# --- the whole -----------------------------------------------------------------------------------------------------


def test_everything_is_measured_in_a_database_that_is_dropped(database):
    with database.connect() as connection:
        connection.execute(f"create database {NAME}")
        connection.execute(f"comment on database {NAME} is '{MARK}'")  # left by a benchmark that was killed
        connection.execute("create schema cirislens create table covenant_traces (is_mine boolean)")

    # Nor has that database Citus, whatever the project's own has.
    result = bench(database, *TINY, "--vars", "{ciris_distribution: citus}")

    assert result.exit_code == 0, result.output
    lines = result.stdout.splitlines()
    assert lines[0].startswith("Benchmark of 6 agents, 5 days and ")
    for start in (
        "(a) one pass over the source ",
        "(b) the specification's SQL ",
        "(c) full history ",
        "      int_trace_verdicts ",
        "      int_window_statistics ",
        "    tests ",
        "    dbt itself ",
        "(d) daily increment ",
        f"(e) {LATEST} ",
        f"(e) {HISTORY} ",
        f"(e) {FLEET} ",
        "source, traces ",
        "all tables of ours ",
        "full history ",
    ):
        assert any(line.startswith(start) for line in lines), (start, result.stdout)
    [memory] = [line for line in lines if re.match(r"full history +\S+ MB", line)]
    assert float(memory.split()[2]) > 50
    assert lines[-1] == "No target is stated for this size of fleet."
    with database.connect() as connection:
        assert not exists(connection)
        schemas = "select nspname from pg_namespace where nspname like 'ci%'"
        assert connection.execute(schemas).fetchall() == [("cirislens",)]


def exists(connection: psycopg.Connection) -> bool:
    """Whether the benchmark's database exists."""
    query = "select from pg_database where datname = %s"
    return connection.execute(query, [NAME]).fetchone() is not None


# --- refusals ------------------------------------------------------------------------------------------------------


def test_a_database_of_that_name_that_is_not_a_benchmarks_is_left_alone(database):
    with database.connect() as connection:
        connection.execute(f"create database {NAME}")
        try:
            assert "no benchmark has made it" in refused(bench(database, *TINY), 1)
            assert exists(connection)
        finally:
            connection.execute(f"drop database {NAME}")


def test_a_second_benchmark_is_refused(database):
    with database.connect() as connection:
        connection.execute(f"create database {NAME}")
        try:
            connection.execute(f"comment on database {NAME} is '{MARK}'")
            with psycopg.connect(database.server.conninfo(NAME)):
                assert "is in use" in refused(bench(database, *TINY), 1)
        finally:
            connection.execute(f"drop database {NAME}")


def test_the_right_that_is_missing_is_named(database):
    with database.connect() as connection:
        connection.execute("create role plain login")
        try:
            path = database.profiles_dir / "profiles.yml"
            profile = yaml.safe_load(path.read_text())
            profile["ciris_scoring"]["outputs"]["dev"]["user"] = "plain"
            path.write_text(yaml.safe_dump(profile))
            assert 'alter role "plain" createdb' in refused(bench(database, *TINY), 1)
        finally:
            connection.execute("drop role plain")


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("--growth", "--days", "9"), "--growth chooses the days"),
        (("--embedded",), "--embedded brings a server"),
        (("--vars", "{ciris_as_of: 2026-01-01}"), "chooses each as-of itself"),
        (("--vars", "{ciris_scoring_period: hour}"), "measures daily scores"),
    ],
)
def test_options_that_contradict_are_refused(database, arguments, expected):
    assert expected in refused(bench(database, *arguments), 2)


# --- targets -------------------------------------------------------------------------------------------------------


def a_run(seconds: float) -> RunCost:
    """A run whose models take that long in the database."""
    activity = Activity()
    activity.add({"model.ciris_scoring.int_trace_verdicts"}, seconds)
    return RunCost(activity, 5 + seconds, 200_000_000, 0)


def measured(days: int = 60, history: float = 16.0, increment: float = 2.0) -> Measurements:
    """A million traces, where (b) takes a second; by default, every target is just met."""
    return Measurements(
        fleet=FleetOptions(200, 90.0, 1),
        days=days,
        n_traces=1_000_000 * days // 60,
        trace_bytes=1_500.0,
        server="PostgreSQL",
        pass_seconds=0.5,
        specification_seconds=1.0,
        history=a_run(history),
        increments=(a_run(9.0), a_run(increment), a_run(0.1)),
        reads={LATEST: Read(0.002, 1, True), HISTORY: Read(0.005, 60, True), FLEET: Read(0.1, 200, True)},
        source_size=Size("covenant_traces", 1_700_000_000, 200_000_000),
        sizes=(Size("int_trace_verdicts", 400_000_000, 100_000_000),),
    )


def test_targets_that_are_met():
    assert conclusion(judge([measured()])) == "All 5 targets are met."


@pytest.mark.parametrize(
    ("changes", "missed"),
    [
        ({"history": a_run(16.4)}, "full history, database time (16.4 x (b), at most 16 x (b))"),
        ({"increments": (a_run(2.5),)}, "daily increment, database time (2.5 x (b), at most 2 x (b))"),
        (
            {"increments": (replace(a_run(1.0), wall_seconds=10.5),)},
            "daily increment, wall time (10.5 s, at most 8 s)",
        ),
    ],
)
def test_a_missed_target_is_named(changes, missed):
    assert conclusion(judge([replace(measured(), **changes)])) == f"Missed 1 of 5 targets: {missed}."


def test_a_read_without_an_index_is_a_miss():
    slow = replace(measured(), reads={**measured().reads, LATEST: Read(0.001, 1, False)})
    assert "latest score of one agent (1 ms, without an index, at most 2 ms)" in conclusion(judge([slow]))


def test_ten_million_traces_have_targets_of_their_own():
    large = replace(
        measured(90),
        fleet=FleetOptions(10_000, 12.0, 1),
        n_traces=10_300_000,
        history=replace(a_run(16.0), peak_bytes=2**31),
    )
    assert conclusion(judge([large])) == "Missed 1 of 5 targets: full history, memory (2 GiB, at most 1 GiB)."
    unknown = replace(large, history=replace(a_run(16.0), peak_bytes=None))
    assert "full history, memory (not measured, at most 1 GiB)" in conclusion(judge([unknown]))


def test_other_sizes_have_no_targets():
    assert judge([replace(measured(), n_traces=800_000)]) == []


def test_increments_must_not_grow_with_the_history():
    flat = [measured(days, increment=seconds) for days, seconds in ((30, 1.0), (60, 1.1), (120, 1.2))]
    assert all(verdict.met for verdict in judge(flat))
    growing = [*flat[:2], measured(120, increment=1.3)]
    last = conclusion(judge(growing))
    assert last == (
        "Missed 1 of 6 targets: dearest increment over 30, 60, 120 days of history "
        "(1.3 x the cheapest, at most 1.2 x the cheapest)."
    )
    assert "days of history" in tables(growing)


def test_a_missed_target_ends_the_command_with_1_and_a_last_line(database, monkeypatch):
    monkeypatch.setattr(command, "own_database", contextmanager(lambda project, keep: iter([project])))
    monkeypatch.setattr(command, "measure", lambda *arguments: [measured(history=20.0)])
    result = bench(database)
    assert result.exit_code == 1
    *_, last = result.stdout.splitlines()
    assert last == "Missed 1 of 5 targets: full history, database time (20 x (b), at most 16 x (b))."


# --- parts ---------------------------------------------------------------------------------------------------------


def test_parallel_queries_are_counted_once():
    activity = Activity()
    activity.add({"model.p.a", "model.p.b"}, 1.0)
    activity.add({"model.p.a", "test.p.c"}, 2.0)
    activity.add({"test.p.c"}, 4.0)
    activity.add(set(), 8.0)
    assert (activity.seconds, activity.building_seconds, activity.testing_seconds) == (7.0, 3.0, 6.0)
    assert activity.seconds_by_node == {"model.p.a": 3.0, "model.p.b": 1.0, "test.p.c": 6.0}


def test_a_run_that_fails_ends_the_benchmark(database, monkeypatch):
    monkeypatch.setattr(measure, "RUN", "import sys; sys.exit(3)")
    assert "A run of the benchmark ended with code 3." in refused(bench(database, *TINY), 1)


def test_the_specifications_query_is_the_one_in_the_document(tmp_path: Path):
    query = specification_query(REPOSITORY)
    assert query.startswith("-- Calculate full CIRIS Capacity Score\nWITH")
    assert query.rstrip().endswith("JOIN coherence_scores s ON c.agent_name = s.agent_name;")
    with pytest.raises(BenchFailed, match="nothing to compare with"):
        specification_query(tmp_path)
