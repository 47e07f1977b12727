"""Tests that runs on a Citus cluster give the same rows as runs on plain PostgreSQL. `make test-citus` runs them.

CIRIS_CITUS_URL names a database of the coordinator. The cluster and plain PostgreSQL are two schemas of this database,
because a table that is not distributed is a table of plain PostgreSQL. The tests drop existing schemas of these names.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest
import yaml

import tests_path  # noqa: F401
from ciris_scoring.database.dbt import invoke
from ciris_scoring.database.project import load_project
from ciris_scoring.errors import CirisError
from ciris_scoring.lab.simulation.sample import SAMPLE, load_sample
from command_line import PROGRAMS, Command
from conftest import REPOSITORY
from nasty_fleet import START, nasty_fleet
from pipeline import ATTRIBUTION, kept_parsed, load_nasty_fleet, score, table_differences

URL = os.environ["CIRIS_CITUS_URL"]
CLUSTER, PLAIN, COPIED = "ciris_cluster", "ciris_plain", "ciris_copied"
LAYERS = ("", "_staging", "_intermediate")
READER = "ciris_citus_reader"
HOSTILE = {
    "extra_float_digits": "-15",
    "DateStyle": "SQL, DMY",
    "IntervalStyle": "sql_standard",
    "TimeZone": "Asia/Kathmandu",
}
"""Settings of the role that change how values are written as text. Citus sets them on the workers too."""

ON_WORKERS = ("int_trace_checks", "int_replays", "fct_capacity_scores")
"""Models with a row per trace or score. Workers must compute and store these rows, not send them to the coordinator."""
SUMMED_ON_WORKERS = ("int_agent_hours", "int_agent_periods")
"""Models that sum traces. The workers may send only the sums to the coordinator."""


@dataclass
class Side:
    """The schema of the cluster or of plain PostgreSQL, with the profile and variables of runs that write into it."""

    schema: str
    profiles_dir: Path
    variables: dict[str, Any]

    def score(self, as_of: datetime, **options: bool) -> None:
        score(self.profiles_dir, as_of, self.variables, **options)

    def compiled(self, name: str) -> Any:
        """Return dbt's node of a model, compiled for an incremental run with the variables of this schema."""
        project = load_project(REPOSITORY, self.profiles_dir, cli_vars=self.variables)
        with kept_parsed(self.profiles_dir, self.variables):
            return invoke(project, ["compile", "--select", name], project.cli_vars).results[0].node


@dataclass
class Fleet:
    """A fleet that is scored on the cluster and on plain PostgreSQL, by a first run and three incremental runs."""

    cluster: Side
    plain: Side
    last: datetime
    differences: list[list[str]]
    """Differences between the tables of the cluster and of plain PostgreSQL, after each run."""


def side(schema: str, folder: Path, distribution: str, period: str) -> Side:
    known = psycopg.conninfo.conninfo_to_dict(URL)
    output = {"type": "postgres", "port": int(known.get("port", 5432)), "password": known.get("password", "")}
    output |= {name: known[name] for name in ("host", "user", "dbname")} | {"schema": schema, "threads": 2}
    profiles_dir = folder / schema
    profiles_dir.mkdir()
    profile = {"ciris_scoring": {"target": "test", "outputs": {"test": output}}}
    (profiles_dir / "profiles.yml").write_text(yaml.safe_dump(profile))
    variables = {
        "ciris_source_schema": f"{schema}_lens",
        "ciris_distribution": distribution,
        "ciris_scoring_period": period,
    }
    return Side(schema, profiles_dir, variables)


@pytest.fixture(scope="module")
def connection() -> Iterator[psycopg.Connection]:
    with psycopg.connect(URL, autocommit=True, options="-c timezone=UTC -c datestyle=ISO") as connection:
        taken = "select nspname from pg_namespace where nspname in ('cirislens', 'of_others')"
        if found := connection.execute(taken).fetchall():
            pytest.exit(f"The tests did not run: they drop the schemas {found}, which this database has.", 2)
        for name, value in HOSTILE.items():
            connection.execute(f"alter role current_user in database {connection.info.dbname} set {name} = '{value}'")
        yield connection
        for name in HOSTILE:
            connection.execute(f"alter role current_user in database {connection.info.dbname} reset {name}")


@pytest.fixture(scope="module", params=["sample", "random, by day", "random, by hour"])
def fleet(request, connection, tmp_path_factory) -> Iterator[Fleet]:
    """The scored sample, or a scored random fleet, which has agents with an oversized or a blank hash."""
    folder = tmp_path_factory.mktemp("citus")
    period = "hour" if "hour" in request.param else "day"
    sides = side(CLUSTER, folder, "citus", period), side(PLAIN, folder, "none", period)
    clean(connection)
    if request.param == "sample":
        last = datetime.fromisoformat(SAMPLE["as_of"])
        for one in sides:
            load_sample(connection, f"{one.schema}_lens")
        connection.execute(statements_of_scaling())
    else:
        days, traces_per_day, seed = (9, 14, 3) if period == "day" else (2, 40, 4)
        last = START + timedelta(days=days)
        for one in sides:
            rows = nasty_fleet(seed, days=days, traces_per_day=traces_per_day)
            load_nasty_fleet(connection, rows, distributed=one.schema == CLUSTER)
            connection.execute(f"alter schema cirislens rename to {one.schema}_lens")
    differences = []
    for periods_before in (3, 2, 1, 0):
        as_of = last - periods_before * timedelta(**{f"{period}s": 1})
        for one in sides:
            one.score(as_of)
        differences.append(differences_of(connection))
    yield Fleet(*sides, last, differences)
    clean(connection)


def clean(connection: psycopg.Connection) -> None:
    schemas = [one + layer for one in (CLUSTER, PLAIN, COPIED) for layer in (*LAYERS, "_lens")]
    for schema in (*schemas, "cirislens", "of_others"):
        connection.execute(f"drop schema if exists {schema} cascade")


def differences_of(connection: psycopg.Connection) -> list[str]:
    """Return the differences between the tables of the cluster and of plain PostgreSQL."""
    for layer in ("", "_intermediate"):
        connection.execute(f"drop schema if exists {COPIED}{layer} cascade")
        connection.execute(f"create schema {COPIED}{layer}")
        names = "select relname from pg_class where relnamespace = %s::regnamespace and relkind = 'r'"
        for (name,) in connection.execute(names, [CLUSTER + layer]).fetchall():
            copy = f"create table {COPIED}{layer}.{name} as select * from {CLUSTER}{layer}.{name}"
            connection.execute(copy)
    for name in ATTRIBUTION:
        connection.execute(f"create materialized view {COPIED}.{name} as select * from {CLUSTER}.{name}")
    return table_differences(connection, PLAIN, COPIED)


def test_a_first_run_and_three_increments_equal_plain_postgresql(fleet, connection):
    assert fleet.differences == [[]] * 4
    logs = [
        connection.execute(
            f"select as_of, outcome, n_scores, n_late_traces from {schema}_intermediate.int_runs order by started_at"
        ).fetchall()
        for schema in (CLUSTER, PLAIN)
    ]
    assert logs[0] == logs[1] and {outcome for _, outcome, *_ in logs[0]} == {"published"}
    scored = f"select count(capacity_score) from {CLUSTER}.fct_capacity_scores"
    assert connection.execute(scored).fetchone()[0] > 50


def plan_of(connection: psycopg.Connection, query: str) -> str:
    return "\n".join(line for (line,) in connection.execute(f"explain (costs off) {query}"))


@pytest.mark.parametrize("model", ON_WORKERS)
def test_rows_of_traces_and_scores_stay_on_the_workers(fleet, connection, model):
    node = fleet.cluster.compiled(model)
    columns = ", ".join(node.columns)
    query = f"insert into {node.schema}.{model} ({columns}) select {columns} from ({node.compiled_code}) as rows"
    plan = plan_of(connection, query)
    repartitioned = "Custom Scan (Citus INSERT ... SELECT)\n  INSERT/SELECT method: repartition"
    assert plan.startswith(("Custom Scan (Citus Adaptive)", repartitioned)) and "Subplan" not in plan, plan


@pytest.mark.parametrize("model", SUMMED_ON_WORKERS)
def test_traces_are_summed_on_the_workers(fleet, connection, model):
    plan = plan_of(connection, fleet.cluster.compiled(model).compiled_code)
    reading = [task for task in plan.split("->  Task\n") if "on int_trace_checks" in task]
    assert reading and all("Aggregate" in task for task in reading), plan


@pytest.mark.parametrize("view", ["fct_factor_components", *ATTRIBUTION])
def test_scores_are_explained_on_the_workers(fleet, connection, view):
    """A query for one agent runs on one worker, and no query first copies rows between workers."""
    agent = connection.execute(f"select min(agent_id_hash) from {CLUSTER}.fct_capacity_scores").fetchone()[0]
    plan = plan_of(connection, f"select * from {CLUSTER}.{view} where agent_id_hash = '{agent}'")
    assert "Task Count: 1\n" in plan and "Distributed Subplan" not in plan, plan
    plan = plan_of(connection, f"select * from {CLUSTER}.{view} where as_of = timestamptz '{fleet.last}'")
    assert "Custom Scan (Citus Adaptive)" in plan and "Distributed Subplan" not in plan, plan


@pytest.mark.parametrize("condition", ["agent_id_hash = 'nobody'", "traced_at < '2026-03-05'"])
def test_checked_traces_are_looked_up_on_workers(fleet, connection, condition):
    """The coordinator only looks up the last publication, in one subplan."""
    plan = plan_of(connection, f"select * from {CLUSTER}.fct_trace_checks where {condition}")
    assert "Custom Scan (Citus Adaptive)" in plan and plan.count("Distributed Subplan") == 1, plan


def test_a_run_after_a_killed_run_equals_plain_postgresql(fleet, connection):
    options = ["--profiles-dir", fleet.cluster.profiles_dir, "--project-dir", REPOSITORY]
    options += ["--vars", yaml.safe_dump(fleet.cluster.variables), "--as-of", fleet.last.isoformat()]
    with Command(PROGRAMS / "ciris-scoring", "run", *options) as run:
        run.wait_until_said("model fct_capacity_scores")
    for one in (fleet.cluster, fleet.plain):
        one.score(fleet.last)
    assert differences_of(connection) == []


def test_a_full_refresh_equals_plain_postgresql_and_keeps_views_and_grants(fleet, connection, monkeypatch):
    connection.execute("create schema of_others")
    connection.execute(f"create view of_others.scores as select count(*) as n from {CLUSTER}.fct_capacity_scores")
    newest = connection.execute(f"select max(as_of) from {CLUSTER}.fct_capacity_scores").fetchone()[0]
    connection.execute(f"drop role if exists {READER}")
    connection.execute(f"create role {READER}")
    monkeypatch.setenv("CIRIS_MART_READERS", READER)
    try:
        for one in (fleet.cluster, fleet.plain):
            one.score(newest, full_refresh=True)
        may_read = f"select has_table_privilege('{READER}', '{CLUSTER}.fct_capacity_scores', 'select')"
        assert connection.execute(may_read).fetchone() == (True,)
        assert differences_of(connection) == []
        n_scores = f"select count(*) from {CLUSTER}.fct_capacity_scores"
        seen = connection.execute("select n from of_others.scores").fetchone()
        assert seen == connection.execute(n_scores).fetchone() != (0,)
        left = f"select logicalrelid from pg_dist_partition where logicalrelid::text ~ '^{CLUSTER}.*__dbt_'"
        assert connection.execute(left).fetchall() == []
    finally:
        clean(connection)
        connection.execute(f"drop owned by {READER}")
        connection.execute(f"drop role {READER}")


def test_steps_of_docs_scaling_convert_a_server_to_a_cluster(connection, tmp_path):
    clean(connection)
    moved, plain = (side(schema, tmp_path, "none", "day") for schema in (CLUSTER, PLAIN))
    last = datetime.fromisoformat(SAMPLE["as_of"])
    try:
        for one in (moved, plain):
            load_sample(connection, f"{one.schema}_lens")
            one.score(last)
        connection.execute(statements_of_scaling())
        moved.variables["ciris_distribution"] = "citus"
        with pytest.raises(CirisError, match="is a table of one server, .* another target schema"):
            moved.score(last)
        for layer in LAYERS:  # as in a new schema
            connection.execute(f"drop schema if exists {CLUSTER}{layer} cascade")
        for as_of in (last, last + timedelta(days=1)):
            for one in (moved, plain):
                one.score(as_of)
            assert differences_of(connection) == []
    finally:
        clean(connection)


def statements_of_scaling() -> str:
    """Return the SQL statements of docs/scaling.md for the schemas of the cluster."""
    blocks = (REPOSITORY / "docs" / "scaling.md").read_text().split("```")
    [statements] = [block for block in blocks if "create_distributed_table('" in block]
    return statements.removeprefix("sql").replace("ciris_", f"{CLUSTER}_").replace("cirislens.", f"{CLUSTER}_lens.")
