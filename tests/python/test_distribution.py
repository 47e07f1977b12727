"""Tests of the distribution on a Citus cluster that need no cluster: distribution of tables, and refusals.

Functions on plain PostgreSQL imitate Citus and refuse the same statements: null keys of distributed tables, unique
indexes without the key, and temporary tables.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import psycopg
import pytest

from ciris_scoring.basics.errors import CirisError
from ciris_scoring.basics.source_schema import create_source_tables
from ciris_scoring.lab import embedded
from conftest import Database
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


def test_tables_of_every_distribution_equal_those_of_plain_postgresql(database, coordinator, tmp_path):
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
            CirisError, match=r"distributed by agent_id_hash .* 'none' .* another target schema"
        ):
            score(database.profiles_dir, START + timedelta(days=8), **options)
    with pytest.raises(CirisError, match=r"is a table of one server, .* --full-refresh"):
        score(tmp_path, START + timedelta(days=8), CITUS)
    coordinator.execute(
        "update stand_in_tables set colocationid = 1 where relid = 'cirislens.covenant_traces'::regclass"
    )
    with pytest.raises(
        CirisError, match="distributed, but not by agent_id_hash as text beside the traces, but"
    ):
        score(database.profiles_dir, START + timedelta(days=8), CITUS)
    score(tmp_path, START + timedelta(days=8), CITUS, full_refresh=True, allow_rescoring=True)
    assert table_differences(coordinator, PLAIN, "ciris") == []
    assert distributions_in(coordinator, PLAIN) == distributions_in(coordinator, "ciris")
    score(database.profiles_dir, START + timedelta(days=8), CITUS, full_refresh=True, allow_rescoring=True)
    apart = coordinator.execute(
        "select logicalrelid from pg_dist_partition where partmethod = 'h' and colocationid <> 1"
    )
    assert apart.fetchall() == []

    distributions = distributions_in(coordinator, "ciris")
    assert {name for name in distributions if "__dbt" in name} == set()
    assert distributions["int_trace_checks"] == distributions["fct_capacity_scores"] == "h"
    assert distributions["dim_agents"] == distributions["capacity_categories"] == "n"
    assert distributions["fct_fleet_capacity"] is None


def distributions_in(connection: psycopg.Connection, schema: str) -> dict[str, str | None]:
    found = connection.execute(
        "select relname, partmethod from pg_class left join pg_dist_partition on pg_class.oid = logicalrelid"
        " where relkind = 'r' and relnamespace = any(%s::regnamespace[])",
        [[schema, f"{schema}_intermediate"]],
    )
    return dict(found.fetchall())


def test_a_server_without_citus_is_refused(database):
    with database.connect() as connection:
        create_source_tables(connection)
    with pytest.raises(CirisError, match="covenant_traces is not a table, or Citus is missing, but"):
        score(database.profiles_dir, START, CITUS)


NOT_BY_AGENT = "covenant_traces is distributed, but not by agent_id_hash as text .* docs/scaling.md"
STEPS = [
    ("select", "covenant_traces is a table of one server, but"),
    (
        "alter table cirislens.covenant_traces drop constraint covenant_traces_pkey;"
        "select create_distributed_table('cirislens.covenant_traces', 'trace_id')",
        NOT_BY_AGENT,
    ),
    (
        "delete from stand_in_tables; drop trigger stand_in on cirislens.covenant_traces;"
        "select create_distributed_table('cirislens.covenant_traces', 'agent_id_hash')",
        NOT_BY_AGENT,
    ),
    (
        "alter table cirislens.covenant_traces alter agent_id_hash type text;"
        "select create_reference_table('cirislens.covenant_public_keys');"
        "select create_reference_table('cirislens.wbd_deferrals');",
        "covenant_trace_batches is a table of one server, but .* it must be a reference table",
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
