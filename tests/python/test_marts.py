"""Tests of the marts of the sample: columns with types and comments, and the rows of dim_agents."""

from __future__ import annotations

from operator import attrgetter

import psycopg
import pytest

from ciris_scoring.lab.embedded import SCHEMA
from test_bad_input import parsed


def test_columns_types_and_comments_equal_the_contract(marts, scored_sample):
    """The contract is models/marts/_marts__models.yml. Each relation and column must have a comment."""
    rows = marts.execute(
        """
        select
            c.relname, obj_description(c.oid, 'pg_class') as comment, a.attname,
            format_type(a.atttypid, a.atttypmod) as type, col_description(c.oid, a.attnum) as column_comment
        from pg_class as c
        join pg_attribute as a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
        where
            c.relnamespace = %s::regnamespace and c.relkind in ('r', 'v', 'm')
            and c.relname <> 'permissions'  -- a seed
        order by c.relname, a.attnum
        """,
        [SCHEMA],
    ).fetchall()
    models = [node for node in parsed(scored_sample, None).nodes.values() if node.fqn[1:2] == ["marts"]]
    found = [tuple(words(text or "") for text in row) for row in rows]
    assert found == [
        (model.name, words(model.description), column.name, column.data_type, words(column.description))
        for model in sorted(models, key=attrgetter("name"))
        if model.resource_type == "model"
        for column in model.columns.values()
    ]
    assert all(all(row) for row in found)


def test_every_mart_of_agents_has_their_label_and_tables_have_a_foreign_key(marts, scored_sample):
    """BI tools draw joins from foreign keys. Views cannot have one, and fct_data_quality also has unscored agents."""
    models = [node for node in parsed(scored_sample, None).nodes.values() if node.fqn[1:2] == ["marts"]]
    of_agents = {node.name: node for node in models if "agent_id_hash" in getattr(node, "columns", ())}
    assert {name for name, node in of_agents.items() if "agent_label" not in node.columns} == set()
    labels = "select agent_id_hash, agent_label from dim_agents order by 1"
    for name in of_agents.keys() - {"dim_agents"}:
        query = f"select distinct agent_id_hash, agent_label from {name} where agent_id_hash is not null order by 1"
        assert set(marts.execute(query)) <= set(marts.execute(labels)), name
    keys = (
        "select conrelid::regclass::text from pg_constraint where contype = 'f' and confrelid = 'dim_agents'::regclass"
    )
    tables = {name for name, node in of_agents.items() if node.config.materialized == "replace_range"}
    assert {name for [name] in marts.execute(keys)} == tables - {"dim_agents", "fct_data_quality"}


def words(text: str) -> str:
    """Return a text on one line."""
    return " ".join(text.split())


def test_ingestion_counts_are_the_sums_of_the_batches_of_a_day(marts):
    of_batches = """
        select date_trunc('day', batch_timestamp, 'UTC'), kind.issue, sum(kind.n), count(*)
        from cirislens.covenant_trace_batches
        cross join lateral (
            values ('received', traces_received), ('accepted', traces_accepted), ('rejected', traces_rejected)
        ) as kind (issue, n)
        group by 1, 2 order by 1, 2"""
    counted = """
        select period_start, replace(issue, 'ingestion_', ''), n
        from fct_data_quality where issue like 'ingestion%' order by 1, 2"""
    expected = marts.execute(of_batches).fetchall()
    assert marts.execute(counted).fetchall() == [row[:3] for row in expected]
    assert max(n_batches for *_, n_batches in expected) > 1


def test_dim_agents_has_the_latest_scores(marts):
    """The reference implementation has the names and the times of the traces."""
    columns = ("as_of", "capacity_score", "category", "score_status")
    found = marts.execute(f"select agent_id_hash, latest_{', latest_'.join(columns)} from dim_agents").fetchall()
    scores = marts.execute(
        f"select distinct on (agent_id_hash) agent_id_hash, {', '.join(columns)} from fct_capacity_scores"
        " where window_days = 7 order by agent_id_hash, as_of desc"
    )
    assert sorted(found) == scores.fetchall()


def test_a_score_of_high_fragility_cannot_be_granted(marts):
    """The constraint holds for every writer. The sample has agents with this category and another verdict."""
    agents = "where category = 'high_fragility'"
    found = marts.execute(f"select count(*) > 9, bool_or(verdict = 'grant') from fct_verdicts {agents}")
    assert found.fetchone() == (True, False)
    with pytest.raises(psycopg.errors.CheckViolation, match="no grant"):
        marts.execute(f"update fct_verdicts set verdict = 'grant' {agents}")
