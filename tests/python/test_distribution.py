"""Tests of the variable ciris_distribution without a cluster: which tables are distributed, and what is refused.

citus_stand_in.sql imitates Citus on plain PostgreSQL. tests/programs/citus.py uses a real cluster (`make test-citus`).
"""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from ciris_scoring.database.source_schema import create_source_tables
from ciris_scoring.errors import CirisError
from ciris_scoring.lab import embedded
from nasty_fleet import START, nasty_fleet
from pipeline import load_nasty_fleet, score, table_differences

STAND_IN = (Path(__file__).parent / "citus_stand_in.sql").read_text()
CITUS = {"ciris_distribution": "citus"}
AS_OF = START + timedelta(days=8)
PLAIN = "plain"
"""Target schema without distribution."""


@pytest.mark.slow
def test_distributed_tables_equal_those_of_plain_postgresql(database, tmp_path):
    with database.connect() as coordinator:
        coordinator.execute(STAND_IN)
        load_nasty_fleet(coordinator, nasty_fleet(5, days=8), distributed=True)
        embedded.write_profile(tmp_path, database.server, database=database.name, schema=PLAIN)

        score(tmp_path, AS_OF)
        for as_of in (AS_OF - timedelta(days=1), AS_OF):
            score(database.profiles_dir, as_of, CITUS)
        assert table_differences(coordinator, PLAIN, "ciris") == []
        # A full refresh replaces the rows of a distributed table, not the table, so views that read it remain.
        coordinator.execute("create view public.mine as select capacity_score from ciris.fct_capacity_scores")
        score(database.profiles_dir, AS_OF, CITUS, full_refresh=True)
        assert table_differences(coordinator, PLAIN, "ciris") == []
        assert coordinator.execute("select count(*) from public.mine").fetchone() != (0,)

        message = "'none' it must be a table of one server.* another target schema"
        with pytest.raises(CirisError, match=message):
            score(database.profiles_dir, AS_OF)
        with pytest.raises(CirisError, match="is a table of one server, .* another target schema"):
            score(tmp_path, AS_OF, CITUS)
        coordinator.execute(
            "update stand_in_tables set colocationid = 1 where relid = 'cirislens.covenant_traces'::regclass"
        )
        message = "either not by agent_id_hash as text, or not on the same workers as the traces"
        with pytest.raises(CirisError, match=message):
            score(database.profiles_dir, AS_OF, CITUS)
        found = coordinator.execute(
            "select relname, partmethod from pg_class left join pg_dist_partition on pg_class.oid = logicalrelid"
            " where relkind = 'r' and relnamespace in ('ciris'::regnamespace, 'ciris_intermediate'::regnamespace)"
        )
        distributions = dict(found.fetchall())
        assert {name for name in distributions if "__dbt" in name} == set()
        assert distributions["int_trace_checks"] == distributions["fct_capacity_scores"] == "h"
        assert distributions["dim_agents"] == distributions["capacity_categories"] == "n"
        assert distributions["fct_fleet_capacity"] is None


NOT_BY_AGENT = "covenant_traces is distributed, but either not by agent_id_hash as text.* docs/scaling.md"
STEPS = [
    ("select", "covenant_traces is not a table, or Citus is missing, but"),
    (STAND_IN, "covenant_traces is a table of one server, but"),
    (
        "alter table cirislens.covenant_traces drop constraint covenant_traces_pkey;"
        "select create_distributed_table('cirislens.covenant_traces', 'trace_id')",
        NOT_BY_AGENT,
    ),
    (
        "delete from stand_in_tables; select create_distributed_table('cirislens.covenant_traces', 'agent_id_hash')",
        NOT_BY_AGENT,
    ),
    (
        "alter table cirislens.covenant_traces alter agent_id_hash type text;"
        "select create_reference_table('cirislens.covenant_public_keys');"
        "select create_reference_table('cirislens.wbd_deferrals');",
        "covenant_trace_batches is a table of one server, but .* it must be a reference table",
    ),
]
"""Statements that convert the sources step by step to those of a cluster, each with the message of the next run."""


def test_sources_unfit_for_a_cluster_are_refused(database):
    with database.connect() as connection:
        create_source_tables(connection)
        for statements, expected in STEPS:
            connection.execute(statements)
            with pytest.raises(CirisError, match=expected):
                score(database.profiles_dir, START, CITUS)
            built = connection.execute("select 1 from pg_class where relname = 'int_trace_checks'")
            assert built.fetchone() is None, statements
