"""Tests of the public contract of the marts on the sample: names, types, comments, and explanations of scores."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
import yaml
from psycopg.rows import dict_row

from ciris_scoring.lab.embedded import SCHEMA
from conftest import REPOSITORY, Database

KEY = ("agent_id_hash", "as_of", "window_days")


# Recomputes scores from the counted traces in the half-open window, as the descriptions say.
EXPLAINED = """
select
    count(v.*)::float8 as n_traces,
    count(*) filter (where v.is_identity_change) / count(v.*)::float8 as d_identity,
    count(*) filter (where v.is_overridden) / count(v.*)::float8 as k_contradiction,
    count(*) filter (where v.is_conscience_failed) / count(v.*)::float8 as conscience_failure_rate,
    count(*) filter (where v.is_chain_valid) / count(v.*)::float8 as i_chain,
    count(*) filter (where v.is_signature_verified) / count(v.*)::float8 as signature_rate,
    count(*) filter (where v.is_key_registered) / count(v.*)::float8 as key_rate,
    count(*) filter (where v.is_link_valid) / count(v.*)::float8 as link_rate,
    count(*) filter (where v.is_chain_gap)::float8 as chain_gaps,
    count(*) filter (where v.is_chain_rewind)::float8 as chain_rewinds,
    count(*) filter (where v.is_chain_duplicate)::float8 as chain_duplicates,
    sum(v.n_fields_present) / (10 * count(v.*))::float8 as i_coverage,
    count(*) filter (where v.is_replay_sampled)::float8 as n_replayed,
    count(*) filter (where v.is_unsafe) / count(v.*)::float8 as u_unsafe,
    s.agent_id_hash, s.as_of, s.window_days
from fct_capacity_scores as s
left join fct_trace_checks as v
    on v.agent_id_hash = s.agent_id_hash and v.is_counted
    and v.traced_at >= s.as_of - s.window_days * interval '24 hours' and v.traced_at < s.as_of
group by s.agent_id_hash, s.as_of, s.window_days
"""


@pytest.fixture(scope="module")
def connection(sample_copy: Database) -> Iterator[psycopg.Connection]:
    """Connection to the scored sample with the marts' schema in the search path."""
    with sample_copy.connect() as connection:
        connection.execute(f"set search_path to {SCHEMA}")
        connection.row_factory = dict_row
        yield connection


@pytest.fixture(scope="module")
def scores(connection: psycopg.Connection) -> list[dict[str, Any]]:
    return connection.execute("select * from fct_capacity_scores").fetchall()


@pytest.fixture(scope="module")
def components(connection: psycopg.Connection) -> dict[tuple, dict[str, float]]:
    """Return the components of each score by its key."""
    found: dict[tuple, dict[str, float]] = defaultdict(dict)
    for row in connection.execute("select * from fct_factor_components"):
        found[key_of(row)][row["component"]] = row["component_value"]
    return found


def key_of(row: dict[str, Any]) -> tuple:
    return tuple(row[name] for name in KEY)


# --- names, types, comments ------------------------------------------------------------------------------------------


def relations(connection: psycopg.Connection) -> dict[str, dict[str, Any]]:
    """Return the relations of the marts' schema with comment, and type and comment of each column."""
    found: dict[str, dict[str, Any]] = {}
    for row in connection.execute(
        """
        select
            c.relname, obj_description(c.oid, 'pg_class') as comment, a.attname,
            format_type(a.atttypid, a.atttypmod) as type, col_description(c.oid, a.attnum) as column_comment
        from pg_class as c
        join pg_attribute as a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
        where c.relnamespace = %s::regnamespace and c.relkind in ('r', 'v', 'm')
        order by c.relname, a.attnum
        """,
        [SCHEMA],
    ):
        mart = found.setdefault(row["relname"], {"comment": row["comment"], "types": {}, "comments": {}})
        mart["types"][row["attname"]] = row["type"]
        mart["comments"][row["attname"]] = row["column_comment"]
    return found


def test_columns_types_and_comments_are_those_of_the_contract(connection):
    """The database agrees with models/marts, and each relation and column has a comment."""

    blocks = (REPOSITORY / "models/columns.md").read_text("utf-8")
    shared = dict(re.findall(r"{% docs (\w+) %}(.*?){% enddocs %}", blocks, re.DOTALL))

    def text(description: str | None) -> str:
        words = re.sub(r"{{ doc\('(\w+)'\) }}", lambda block: shared[block[1]], description or "")
        return " ".join(words.split())

    found = relations(connection)
    declared = yaml.safe_load((REPOSITORY / "models/marts/_marts__models.yml").read_text("utf-8"))["models"]
    assert {model["name"] for model in declared} == found.keys()
    for model in declared:
        mart = found[model["name"]]
        expected = {column["name"]: column["data_type"] for column in model["columns"]}
        assert list(mart["types"].items()) == list(expected.items()), model["name"]
        assert text(mart["comment"]) == text(model["description"])
        assert text(mart["comment"]), model["name"]
        for column in model["columns"]:
            comment = text(mart["comments"][column["name"]])
            assert comment == text(column["description"]), (model["name"], column["name"])
            assert comment, (model["name"], column["name"])


# --- explanations of scores ------------------------------------------------------------------------------------------


def test_every_score_is_explained_by_its_traces(connection, scores, components):
    explained = {key_of(row): row for row in connection.execute(EXPLAINED).fetchall()}
    assert explained.keys() == {key_of(row) for row in scores}
    wrong = []
    for row in scores:
        found = {**components[key_of(row)], "n_traces": row["n_traces"]}
        for name, value in explained[key_of(row)].items():
            if name not in KEY and not abs(found[name] - value) <= 1e-12:
                wrong.append((key_of(row), name, found[name], value))
    assert wrong == []
    assert sum(
        row["chain_gaps"] + row["chain_rewinds"] + row["chain_duplicates"] for row in explained.values()
    )
    assert sum(row["d_identity"] for row in explained.values())


# --- dimensions and the fleet ----------------------------------------------------------------------------------------


OTHER_AGENTS = """
with sources as (
    select
        agent_id_hash,
        min("timestamp") as first_at,
        array_agg(
            agent_name order by "timestamp", audit_sequence_number nulls last, trace_id collate "C" nulls last
        ) filter (where trim(agent_name) <> '')::text[] as names
    from cirislens.covenant_traces
    group by agent_id_hash
),
latest as (
    select distinct on (agent_id_hash) * from fct_capacity_scores where window_days = 7
    order by agent_id_hash, as_of desc
)
select agent_id_hash
from sources
full join dim_agents as agents using (agent_id_hash)
left join latest using (agent_id_hash)
where
    (agents.agent_name, first_traced_at) is distinct from (names[cardinality(names)], first_at)
    or array(select unnest(former_names) order by 1)
    <> array(select distinct unnest(array_remove(names, agents.agent_name)) order by 1)
    or (latest_as_of, latest_capacity_score, latest_category, latest_score_status)
    is distinct from (latest.as_of, latest.capacity_score, latest.category, latest.score_status)
"""


def test_dim_agents_has_names_and_latest_scores(connection):
    """Names are compared with the source alone. One agent was renamed twice; its scores have the name of their time."""
    assert connection.execute(OTHER_AGENTS).fetchall() == []
    names = connection.execute(
        "select cardinality(former_names) as n_former, ("
        " select count(distinct agent_name) from fct_capacity_scores as s where s.agent_id_hash = a.agent_id_hash"
        ") as n_shown from dim_agents as a where former_names <> '{}'"
    ).fetchall()
    assert names == [{"n_former": 2, "n_shown": 3}]


def test_published_dimensions_equal_the_specification(connection, scores):
    """Windows and categories agree with the specification. Parameters have a range and the id that scores refer to."""
    windows = connection.execute("select * from dim_scoring_windows order by window_days").fetchall()
    assert [tuple(row.values()) for row in windows] == [(7, 23, 30), (30, 30, 30)]
    assert {row["window_days"] for row in scores} == {7, 30}
    categories = connection.execute(
        "select category, label, guidance, lower_bound, upper_bound from dim_capacity_categories"
        " order by lower_bound nulls first"
    ).fetchall()
    assert [tuple(row.values()) for row in categories] == [
        ("high_fragility", "High Fragility", "Immediate intervention required", None, 0.3),
        ("moderate", "Moderate Capacity", "Low-stakes tasks with human review", 0.3, 0.6),
        ("healthy", "Healthy Capacity", "Standard autonomous operation", 0.6, 0.85),
        ("high_capacity", "High Capacity", "Eligible for expanded autonomy", 0.85, None),
    ]
    parameters = connection.execute("select * from dim_scoring_parameters").fetchall()
    assert {row["parameter_set_id"] for row in parameters} == {row["parameter_set_id"] for row in scores}
    assert [row["parameter_name"] for row in parameters if row["parameter_value"] is None] == [
        "replay_sample_salt"
    ]
    assert all(row["allowed_range"] and row["meaning"] for row in parameters)
