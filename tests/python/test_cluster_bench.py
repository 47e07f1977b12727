"""What the benchmark of a cluster can be tested by without one; test_citus.py has the rest."""

from __future__ import annotations

from dataclasses import replace

import pytest

from benchmarks.activity import Activity
from benchmarks.arriving import FleetOptions
from benchmarks.cluster.command import judge
from benchmarks.cluster.measure import (
    CLUSTER,
    LOCAL,
    PLAIN,
    SPREAD,
    ClusterMeasurements,
    RunCost,
    SideCost,
)
from benchmarks.cluster.processors import ProcessorTime, watched_processors
from benchmarks.cluster.table import cluster_tables
from benchmarks.database import MARK, own_schemas
from ciris_scoring.basics.errors import DatabaseError
from ciris_scoring.basics.project import load_project
from conftest import REPOSITORY
from test_bench import bench, refused


def test_processor_time_is_counted_for_the_node_of_each_query(database):
    project = load_project(REPOSITORY, database.profiles_dir)
    with database.connect() as connection:
        connection.execute("select count(*) from generate_series(1, 2000000)")  # before anybody looks
        with watched_processors(project) as taken:
            for node in ("model.p.large", "model.p.small"):
                n = 3_000_000 if node.endswith("large") else 30_000
                connection.execute(
                    f'/* {{"node_id": "{node}"}} */ select count(*) from generate_series(1, {n})'
                )
    assert taken.coordinator["model.p.large"] > 10 * taken.coordinator.get("model.p.small", 0) > -1
    assert taken.coordinator["model.p.large"] > 0.02
    assert set(taken.coordinator) <= {"model.p.large", "model.p.small"}
    assert taken.workers == {}


def test_a_role_that_may_not_read_files_of_the_server_is_told_so(database):
    with database.connect() as connection:
        connection.execute("create role plain login")
        try:
            connection.execute("grant all on database " + database.name + " to plain")
            profile = (database.profiles_dir / "profiles.yml").read_text()
            changed = profile.replace("user: postgres", "user: plain")
            assert changed != profile
            (database.profiles_dir / "profiles.yml").write_text(changed)
            project = load_project(REPOSITORY, database.profiles_dir)
            with pytest.raises(DatabaseError, match="may not read files"), watched_processors(project):
                pass
        finally:
            connection.execute("drop owned by plain")
            connection.execute("drop role plain")


def test_schemas_that_no_benchmark_has_made_are_left_alone(database):
    project = load_project(REPOSITORY, database.profiles_dir)
    with database.connect() as connection:
        connection.execute("create schema ciris_bench_plain")
        with (
            pytest.raises(DatabaseError, match="'ciris_bench_plain' .* no benchmark has made it"),
            own_schemas(project, "ciris_bench_plain", {}),
        ):
            pass
        connection.execute(f"comment on schema ciris_bench_plain is '{MARK}'")
        connection.execute("create table ciris_bench_plain.left_over ()")
        with own_schemas(project, "ciris_bench_plain", {"ciris_distribution": "citus"}) as own:
            assert own.is_distributed
            assert (own.schema, own.source_schema) == ("ciris_bench_plain", "ciris_bench_plain_lens")
            assert connection.execute("select to_regclass('ciris_bench_plain.left_over')").fetchone() == (
                None,
            )
        names = connection.execute("select nspname from pg_namespace where nspname like 'ciris_bench%'")
        assert names.fetchall() == []


def test_a_server_without_citus_is_refused(database):
    said = refused(bench(database, "--distribution", "citus"), 1)
    assert "has no extension citus, so there is no cluster to measure" in said


@pytest.mark.parametrize("option", ["--growth", "--embedded"])
def test_options_that_contradict_are_refused(database, option):
    assert "measures a cluster that is there" in refused(
        bench(database, "--distribution", "citus", option), 2
    )


def run_of(coordinator: float, workers: float) -> RunCost:
    def by_node(seconds: float) -> dict[str, float]:
        return {"model.p.verdicts": seconds, "test.p.unique.1": 50.0}

    processors = ProcessorTime(by_node(coordinator), {"model.p.verdicts": workers} if workers else {})
    activity = Activity(seconds_by_node={"model.p.verdicts": 7.0, "test.p.unique.1": 9.0})
    return RunCost(activity, processors, wall_seconds=30.0)


def measured(coordinator: float, workers: float, n_traces: int = 500_000) -> ClusterMeasurements:
    def side(run: RunCost, place: str) -> SideCost:
        return SideCost(run, (run,), {place: 10**9}, {place: 10**8})

    sides = {PLAIN: side(run_of(20.0, 0.0), LOCAL), CLUSTER: side(run_of(coordinator, workers), SPREAD)}
    return ClusterMeasurements(FleetOptions(250, 50.0, 1), 40, n_traces, 19_204, "a server", sides, 0)


def test_shares_and_ratios_are_of_models_alone():
    assert [(v.measured, v.met) for v in judge(measured(3.0, 27.0))] == [
        ("10 %", True),
        ("1.5 x plain", True),
    ]
    assert [v.met for v in judge(measured(4.0, 30.0))] == [False, False]
    assert judge(measured(4.0, 30.0, n_traces=400_000)) == []


def test_the_table_has_coordinator_and_workers_of_each_model():
    lines = cluster_tables(measured(3.0, 27.0)).splitlines()

    def row(name: str) -> str:
        return next(" ".join(line.split()) for line in lines if line.lstrip().startswith(name))

    assert row("verdicts") == "verdicts 7.000 s 20.0 s 7.000 s 3.000 s 27.0 s 90% 1.5"
    assert row("all models") == "all models 7.000 s 20.0 s 7.000 s 3.000 s 27.0 s 90% 1.5"
    assert row("sources, on the coordinator") == "sources, on the coordinator 1.00 GB 0 B"
    assert "Of 19,204 scores, 0 differ by more than 1e-12." in lines


def test_other_scores_end_the_command_with_1(database, monkeypatch):
    from benchmarks.cluster import command

    for n_different, exit_code in ((0, 0), (1, 1)):
        found = replace(measured(3.0, 27.0), n_different=n_different)
        monkeypatch.setattr(command, "measure_cluster", lambda *arguments, keep, found=found: found)
        result = bench(database, "--distribution", "citus")
        assert (result.exit_code, result.stderr) == (exit_code, ""), result.output
