"""Tests of the distribution on a Citus cluster that need no cluster: placement of tables, and refusals.

A stand-in for Citus on plain PostgreSQL refuses what Citus refuses: null keys of distributed tables, unique indexes
without the key, and temporary tables.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import psycopg
import pytest

from ciris_scoring.basics.connection import connect
from ciris_scoring.basics.dbt import invoke as invoke_dbt
from ciris_scoring.basics.errors import CirisError
from ciris_scoring.basics.project import load_project
from ciris_scoring.basics.source_schema import (
    SOURCE_TABLES,
    create_missing_tables,
    create_source_tables,
    distribute,
)
from ciris_scoring.lab import embedded
from conftest import REPOSITORY, Database
from nasty_fleet import START, nasty_fleet
from pipeline import load_nasty_fleet, score, table_differences
from test_bad_input import dbt

STAND_IN = (Path(__file__).parent / "citus_stand_in.sql").read_text()
CITUS = {"ciris_distribution": "citus"}
PLAIN = "plain"


@pytest.fixture
def coordinator(database: Database) -> Iterator[psycopg.Connection]:
    with database.connect() as connection:
        connection.execute(STAND_IN)
        yield connection


def test_tables_of_every_placement_equal_those_of_plain_postgresql(database, coordinator, tmp_path):
    load_nasty_fleet(coordinator, nasty_fleet(5, days=8), distributed=True)
    embedded.write_profile(tmp_path, database.server, database=database.name, schema=PLAIN)

    score(tmp_path, START + timedelta(days=8))
    # The first run ends before it knows any agent.
    first = {**CITUS, "ciris_as_of": (START + timedelta(days=7)).isoformat()}
    build = ("build", "--indirect-selection", "cautious", "--select", "+int_trace_checks")
    ended = dbt(database, *build, variables=first)
    assert ended.succeeded, ended.said
    for day in (7, 8):
        score(database.profiles_dir, START + timedelta(days=day), CITUS)
    assert table_differences(coordinator, PLAIN, "ciris") == []
    # The refresh replaces the content of the table, so that views on it remain.
    coordinator.execute("create view public.mine as select capacity_score from ciris.fct_capacity_scores")
    score(database.profiles_dir, START + timedelta(days=8), CITUS, full_refresh=True, allow_rescoring=True)
    assert table_differences(coordinator, PLAIN, "ciris") == []
    assert coordinator.execute("select count(*) from public.mine").fetchone() != (0,)

    for options in [{}, {"full_refresh": True, "allow_rescoring": True}]:
        with pytest.raises(
            CirisError, match=r"stands on .* 'none' does not put it\. .* another target schema"
        ):
            score(database.profiles_dir, START + timedelta(days=8), **options)
    with pytest.raises(CirisError, match=r"stands on the coordinator, where .* --full-refresh"):
        score(tmp_path, START + timedelta(days=8), CITUS)
    coordinator.execute(
        "update stand_in_tables set colocationid = 1 where relid = 'cirislens.covenant_traces'::regclass"
    )
    with pytest.raises(CirisError, match="cut up otherwise than the traces, where"):
        score(database.profiles_dir, START + timedelta(days=8), CITUS)
    score(tmp_path, START + timedelta(days=8), CITUS, full_refresh=True, allow_rescoring=True)
    assert table_differences(coordinator, PLAIN, "ciris") == []
    assert placements_in(coordinator, PLAIN) == placements_in(coordinator, "ciris")
    score(database.profiles_dir, START + timedelta(days=8), CITUS, full_refresh=True, allow_rescoring=True)
    apart = coordinator.execute(
        "select logicalrelid from pg_dist_partition where partmethod = 'h' and colocationid <> 1"
    )
    assert apart.fetchall() == []

    placements = placements_in(coordinator, "ciris")
    assert {name for name in placements if "__dbt" in name} == set()
    assert placements["int_trace_checks"] == placements["fct_capacity_scores"] == "h"
    assert placements["dim_agents"] == placements["capacity_categories"] == "n"
    assert placements["fct_fleet_capacity"] is None


def placements_in(connection: psycopg.Connection, schema: str) -> dict[str, str | None]:
    standing = connection.execute(
        "select relname, partmethod from pg_class left join pg_dist_partition on pg_class.oid = logicalrelid"
        " where relkind = 'r' and relnamespace = any(%s::regnamespace[])",
        [[schema, f"{schema}_intermediate"]],
    )
    return dict(standing.fetchall())


def test_a_server_without_citus_and_another_value_are_refused(database):
    with database.connect() as connection:
        create_source_tables(connection)
    for distribution, expected in [
        ("citus", "has no extension citus"),
        ("citrus", "ciris_distribution is .citrus., but must be none or citus"),
    ]:
        with pytest.raises(CirisError, match=expected):
            score(database.profiles_dir, START, {"ciris_distribution": distribution})


NOT_DISTRIBUTED = "source table cirislens.covenant_traces is not distributed by agent_id_hash"
STEPS = [
    ("select", r"key \(trace_id, timestamp\) of cirislens.covenant_traces does not hold agent_id_hash"),
    ("alter table cirislens.covenant_traces drop constraint covenant_traces_pkey", NOT_DISTRIBUTED),
    ("select create_distributed_table('cirislens.covenant_traces', 'trace_id')", NOT_DISTRIBUTED),
    (
        "delete from stand_in_tables; drop trigger stand_in on cirislens.covenant_traces;"
        "select create_distributed_table('cirislens.covenant_traces', 'agent_id_hash')",
        "agent_id_hash of cirislens.covenant_traces is character varying, but",
    ),
    (
        "alter table cirislens.covenant_traces alter agent_id_hash type text;"
        "select create_reference_table('cirislens.covenant_public_keys');"
        "select create_reference_table('cirislens.wbd_deferrals');",
        "source table cirislens.covenant_trace_batches is not a reference table",
    ),
]
"""Statements that convert the sources of plain PostgreSQL to those of a cluster, each with the message before it."""


def test_sources_unfit_for_a_cluster_are_refused(database, coordinator):
    create_source_tables(coordinator)
    for statements, expected in STEPS:
        coordinator.execute(statements)
        with pytest.raises(CirisError, match=expected):
            score(database.profiles_dir, START, CITUS)
        built = coordinator.execute("select 1 from pg_class where relname = 'int_trace_checks'")
        assert built.fetchone() is None, statements


def test_unusual_schema_names_are_quoted(database, coordinator):
    create_source_tables(coordinator)
    coordinator.execute("""alter schema cirislens rename to "o'neil" """)
    with pytest.raises(
        CirisError, match=r"key \(trace_id, timestamp\) of o'neil.covenant_traces does not hold"
    ):
        score(database.profiles_dir, START, CITUS | {"ciris_source_schema": "o'neil"})


def test_simulated_sources_are_distributed_with_the_agent_in_their_key(coordinator):
    with coordinator.transaction():
        coordinator.execute("create schema cirislens")
        tables = create_missing_tables(coordinator)
        distribute(coordinator, tables)
    found = coordinator.execute("select logicalrelid::text, partmethod from pg_dist_partition").fetchall()
    methods = {f"cirislens.{table}": "n" for table in SOURCE_TABLES}
    assert dict(found) == methods | {"cirislens.covenant_traces": "h"}
    with pytest.raises(psycopg.errors.RaiseException, match="not in unique index"):
        coordinator.execute("create unique index on cirislens.covenant_traces (trace_id)")


@pytest.mark.parametrize(("distribution", "expected"), [("citus", "1"), ("none", "8")])
def test_sessions_of_a_cluster_plan_joins_as_they_are_written(database, distribution, expected):
    """Sessions of Python and of dbt."""
    variables = {"ciris_distribution": distribution}
    project = load_project(REPOSITORY, database.profiles_dir, cli_vars=variables)
    with connect(project) as connection:
        assert connection.execute("show join_collapse_limit").fetchone() == (expected,)
    inline = "{{ run_query('show join_collapse_limit')[0][0] if execute }}"
    shown = invoke_dbt(project, ["compile", "--inline", inline], project.cli_vars)
    assert shown.results[0].node.compiled_code == expected
