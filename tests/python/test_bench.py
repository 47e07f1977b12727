"""Tests of the benchmark at a tiny size: all measurements are made and compared with the targets. Speed is not
tested."""

import re
from dataclasses import replace

import pytest

import benchmarks.__main__ as commands
import command_line
from benchmarks.activity import Activity
from benchmarks.measure import FleetOptions, Measurements, RunCost
from benchmarks.verdicts import judge


def test_benchmark_measures_every_step():
    size = ("--agents", "6", "--days", "5", "--traces-per-day", "12", "--increments", "1")
    result = command_line.invoke("speed", *size, command=commands.main)
    assert result.exit_code == 0, result.output
    lines = result.stdout.splitlines()
    assert lines[0].startswith("Benchmark of 6 agents, 5 days and ")
    for start in (
        "(b) the specification's SQL ",
        "(c) full history ",
        "      int_windows ",
        "    tests ",
        "    dbt itself ",
        "(d) daily increment ",
    ):
        assert any(line.startswith(start) for line in lines), (start, result.stdout)
    memory, _ = re.findall(r"memory (\d+) MB", result.stdout)
    assert float(memory) > 50
    assert lines[-1] == "0 of 0 stated figures are met."


# --- targets ---------------------------------------------------------------------------------------------------------


def a_run(seconds: float) -> RunCost:
    """Return a run whose models take this many seconds in the database."""
    activity = Activity()
    activity.add({"model.ciris_scoring.int_trace_checks"}, seconds)
    return RunCost(activity, 5 + seconds, 200_000_000)


def measured() -> Measurements:
    """Return measurements of a million traces that just meet every target; step (b) takes a second."""
    return Measurements(
        fleet=FleetOptions(200, 90.0, 1),
        days=60,
        n_traces=1_000_000,
        specification_seconds=1.0,
        history=a_run(16.0),
        increments=(a_run(9.0), a_run(2.0), a_run(0.1)),
    )


def judged(of: Measurements) -> tuple[int, list[str]]:
    """Return the number of targets and the missed ones."""
    verdicts = list(judge(of))
    return len(verdicts), [f"{one.what}: {one.measured}, {one.stated}" for one in verdicts if not one.met]


def test_targets_at_their_limits_are_met():
    assert judged(measured()) == (3, [])
    assert judged(replace(measured(), n_traces=800_000)) == (0, [])


@pytest.mark.parametrize(
    ("changes", "missed"),
    [
        ({"history": a_run(16.4)}, "full history, database time: 16.4 x (b), at most 16 x (b)"),
        ({"increments": (a_run(2.5),)}, "daily increment, database time: 2.5 x (b), at most 2 x (b)"),
        (
            {"increments": (replace(a_run(1.0), wall_seconds=10.5),)},
            "daily increment, wall time: 10.5 s, at most 8 s",
        ),
    ],
)
def test_a_missed_target_is_named(changes, missed):
    assert judged(replace(measured(), **changes)) == (3, [missed])


def test_ten_million_traces_have_separate_targets():
    large = replace(
        measured(),
        days=90,
        fleet=FleetOptions(10_000, 12.0, 1),
        n_traces=10_300_000,
        history=replace(a_run(16.0), peak_bytes=2**31),
    )
    assert judged(large) == (3, ["full history, memory: 2 GiB, at most 1 GiB"])
    unknown = replace(large, history=replace(a_run(16.0), peak_bytes=None))
    assert judged(unknown) == (3, ["full history, memory: not measured, at most 1 GiB"])


def test_a_missed_target_ends_the_command_with_an_error(monkeypatch):
    monkeypatch.setattr(commands, "measure", lambda *_: replace(measured(), increments=(a_run(2.5),)))
    result = command_line.invoke("speed", command=commands.main)
    assert result.exit_code == 1
    *_, missed, last = result.stdout.splitlines()
    assert missed == "Missed: daily increment, database time is 2.5 x (b), stated is at most 2 x (b)."
    assert last == "2 of 3 stated figures are met."
