"""Tests that the specification's SQL examples give the published values where both mean the same.

The examples count raw rows: also duplicates, uncleaned values and rows after the as-of. Their window excludes its
start (`>`), and they select agents by name. A score is compared only if none of this matters: the window has no
duplicate, no repaired row and no row at its edge, and all its rows have one name that no other agent has. The
examples are read from the document; only `NOW()` is replaced. In the test, `cirislens.covenant_traces` is a view of
the sample's rows before the as-of.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

import psycopg
import pytest
from psycopg.rows import dict_row

from benchmarks.measure import specification_query
from conftest import Database

# Heading of the example, its column (as PostgreSQL folds it), and the component of fct_factor_components.
EXAMPLES = [
    ("Contradiction Detection", "k_contradiction", "k_contradiction"),
    ("Hash Chain Integrity", "i_chain", "signature_rate"),
    ("Field Coverage", "i_coverage", "i_coverage"),
    ("Unsafe Action Rate", "u_unsafe", "u_unsafe"),
]
WINDOW_DAYS = 7

# Scores for which the examples mean the same, with the agent's name. Computed from the source, except for the list of
# repairs.
COMPARABLE = """
with traces as (
    select
        t.*,
        exists (
            select from lens.covenant_traces as other
            where other.agent_id_hash = t.agent_id_hash and other.trace_id = t.trace_id
            and other.audit_sequence_number is not distinct from t.audit_sequence_number and other.ctid <> t.ctid
        ) as is_delivered_again,
        exists (
            select from ciris.fct_trace_checks as v
            where v.agent_id_hash = t.agent_id_hash and v.traced_at = t."timestamp" and v.repairs is not null
        ) as is_repaired
    from lens.covenant_traces as t
)
select s.agent_id_hash, s.as_of, min(t.agent_name) as name
from ciris.fct_capacity_scores as s
join traces as t
    on t.agent_id_hash = s.agent_id_hash
    and t."timestamp" >= s.as_of - interval '7 days' and t."timestamp" < s.as_of
where s.window_days = 7
group by s.agent_id_hash, s.as_of
having
    count(distinct t.agent_name) = 1 and count(t.agent_name) = count(*)
    and not bool_or(t.is_delivered_again or t.is_repaired or t."timestamp" = s.as_of - interval '7 days')
    and not exists (
        select from lens.covenant_traces as namesake
        where namesake.agent_name = min(t.agent_name) and namesake.agent_id_hash <> s.agent_id_hash
        and namesake."timestamp" >= s.as_of - interval '7 days' and namesake."timestamp" < s.as_of
    )
"""


@pytest.fixture(scope="module")
def connection(sample_copy: Database) -> Iterator[psycopg.Connection]:
    """The scored sample with its source in schema lens. The view cirislens.covenant_traces ends at the setting
    lens.as_of."""
    with sample_copy.connect() as connection:
        connection.execute("alter schema cirislens rename to lens; create schema cirislens")
        connection.execute(
            "create view cirislens.covenant_traces as select * from lens.covenant_traces"
            " where \"timestamp\" < current_setting('lens.as_of')::timestamptz"
        )
        connection.row_factory = dict_row
        yield connection


@pytest.fixture(scope="module")
def comparable(connection: psycopg.Connection) -> dict:
    """Return the comparable agents by as-of and name."""
    found: dict = defaultdict(dict)
    for row in connection.execute(COMPARABLE):
        found[row["as_of"]][row["name"]] = row["agent_id_hash"]
    return found


@pytest.mark.parametrize(("heading", "column", "component"), EXAMPLES)
def test_sql_of_the_specification_gives_the_published_values(
    connection, comparable, heading, column, component
):
    query = specification_query(f"### SQL Example: {heading}")
    published = {
        (row["agent_id_hash"], row["as_of"]): row["component_value"]
        for row in connection.execute(
            "select * from ciris.fct_factor_components where window_days = %s and component = %s",
            [WINDOW_DAYS, component],
        )
    }
    compared, values = set(), set()
    for as_of, agents in comparable.items():
        connection.execute("select set_config('lens.as_of', %s, false)", [as_of.isoformat()])
        rows = connection.execute(query.replace("NOW()", f"timestamptz '{as_of.isoformat()}'")).fetchall()
        for row in rows:
            if agent := agents.get(row["agent_name"]):
                assert abs(row[column] - published[agent, as_of]) <= 1e-12, (row["agent_name"], as_of)
                compared.add((agent, as_of))
                values.add(row[column])
    assert len({agent for agent, _ in compared}) >= 5
    assert len(compared) >= 50
    assert len(values) > 1, "a comparison of constants would prove little"
