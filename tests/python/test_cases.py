"""Tests of the hand-computed cases in tests/cases, scored as one fleet by day, and by hour in two runs.

The reference implementation is tested with the same cases.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import psycopg
import pytest
from psycopg.rows import dict_row

from cases import CASES
from cases.notation import TRACES_FROM, Case, T, key
from ciris_scoring.lab.embedded import SCHEMA
from ciris_scoring.marts.marts import Marts
from ciris_scoring.marts.verdict import verdict
from ciris_scoring.show import view
from conftest import Database
from pipeline import MARTS, create_loose_sources, differences_from_reference, insert_rows, score

TOLERANCE = 1e-9
VARIABLES = {"ciris_traces_from": TRACES_FROM.isoformat()}
AS_OFS = {False: [T], True: [T - timedelta(hours=40), T]}
"""As-ofs of the daily run (key False) and of the hourly runs (key True). The second hourly run is incremental."""


def load(connection: psycopg.Connection) -> None:
    """Load the sources of all cases."""
    create_loose_sources(connection)
    connection.execute("alter table cirislens.covenant_traces alter trace_id type text")
    connection.execute("alter table cirislens.covenant_public_keys drop constraint covenant_public_keys_pkey")
    insert_rows(connection, "covenant_traces", [row for case in CASES for row in case.traces_of_source()])
    insert_rows(connection, "wbd_deferrals", [row for case in CASES for row in case.deferrals_of_source()])
    keys = [entry for case in CASES for entry in case.keys]
    insert_rows(connection, "covenant_public_keys", [key("key"), *keys])


EMPTY: dict[str, Any] = {"alerts": {}, "red_flags": {}, "issues": {}, "failed": []}
"""Values of an agent without alerts, red flags, issues or failed comparisons."""

Found = dict[tuple[str, Any, int], dict[str, Any]]


def published(connection: psycopg.Connection) -> Found:
    """Return all published values that a case can mention, by agent, as-of and window. Agents without a score are
    included."""
    found: Found = defaultdict(dict)
    as_ofs = sorted({row.at for case in CASES for row in case.rows})

    def query(statement: str) -> Iterator[tuple[tuple[str, Any, int], dict[str, Any]]]:
        with connection.cursor(row_factory=dict_row) as cursor:
            for row in cursor.execute(statement.format(schema=SCHEMA), {"as_ofs": as_ofs, "T": T}):
                yield (row["agent_id_hash"], row.get("as_of", T), row.get("window_days", 7)), row

    for mart in ("fct_capacity_scores", "fct_score_certainty", "fct_verdicts"):
        for place, row in query(f"select * from {{schema}}.{mart} where as_of = any(%(as_ofs)s)"):
            found[place] |= row
    for place, row in query("select * from {schema}.fct_score_attribution where as_of = %(T)s"):
        found[place] |= {
            f"loss.{row['loss_component']}": row["loss"],
            f"lost.{row['loss_component']}": row["points_lost"],
        }
    for place, row in query(
        "select * from {schema}.fct_score_changes where as_of = %(T)s and compared_with = 'window'"
    ):
        found[place][f"moved.{row['loss_component']}"] = row["points"]
    for place, row in query("select * from {schema}.fct_capacity_alerts where as_of = %(T)s"):
        found[place].setdefault("alerts", {})[row["kind"]] = row["severity"]
        found[place][f"message.{row['kind']}"] = row["message"]
    for place, row in query("select * from {schema}.fct_red_flags where as_of = %(T)s"):
        red_flag = row["red_flag"]
        name = " ".join(filter(None, (red_flag, row["field"])))
        found[place].setdefault("red_flags", {})[name] = row["value"]
        found[place] |= {f"compared.{red_flag}": row["comparison_value"], f"z.{red_flag}": row["z"]}
    for place, row in query(
        "select agent_id_hash, array_agg(distinct failed order by failed) as failed"
        " from {schema}.fct_trace_checks cross join unnest(failed_comparisons) as failures (failed) group by 1"
    ):
        found[place]["failed"] = row["failed"]
    for place, row in query(
        "select agent_id_hash, count(*) filter (where is_override_without_judgement) as n"
        " from {schema}.fct_trace_checks group by agent_id_hash"
    ):
        found[place]["overrides_without_judgement"] = row["n"]
    for place, row in query(
        "select agent_id_hash, window_days, issue, sum(n) as n"
        " from {schema}.fct_data_quality cross join (values (7), (30)) as windows (window_days)"
        " where agent_id_hash is not null group by agent_id_hash, window_days, issue"
    ):
        found[place].setdefault("issues", {})[row["issue"]] = row["n"]
    for place, row in query(
        "select agent_id_hash, count(*) filter (where is_judged) as n"
        " from {schema}.fct_deferral_values group by agent_id_hash"
    ):
        found[place]["deferrals_judged"] = row["n"]
    return found


def differences(case: Case, found: Found, by_hour: bool = False) -> Iterator[str]:
    """Yield the differences between a case and the published rows."""
    for row in case.rows:
        place = (case.hash_of(row.agent), row.at, row.window)
        there = found.get(place, {})
        if row.values is None:
            if "n_traces" in there:
                yield f"{row.agent}: unexpected row at {row.at}, window {row.window}"
            continue
        for name, value in {**row.values, **(row.by_hour if by_hour else {})}.items():
            other = there.get(name, EMPTY.get(name, "no value"))
            if not is_equal(value, other):
                yield f"{row.agent} at {row.at}, window {row.window}: {name} is {other!r}, not {value!r}"


def is_equal(value: Any, other: Any) -> bool:
    """Return whether two values are equal. Numbers, also in a dictionary, may differ by 1e-9."""
    if isinstance(value, dict) and isinstance(other, dict):
        return value.keys() == other.keys() and all(is_equal(value[name], other[name]) for name in value)
    if isinstance(value, (int, float)) and isinstance(other, (int, float)):
        return abs(value - other) <= TOLERANCE
    return bool(value == other)


def wrong(database: Database, by_hour: bool = False) -> Iterator[str]:
    """Score the cases and yield their differences from the published rows, each with the name of the case."""
    variables = {**VARIABLES, "ciris_scoring_period": "hour" if by_hour else "day"}
    with database.connect() as connection:
        load(connection)
        for as_of in AS_OFS[by_hour]:
            score(database.profiles_dir, as_of, variables)
        found = published(connection)
    for case in CASES:
        for line in differences(case, found, by_hour):
            yield f"{case.name}: {line}"


def test_cases_by_day_hold_for_pipeline_and_reference(database: Database) -> None:
    """The surfaces show verdicts that Python computes. They must equal those of fct_verdicts, which SQL computes."""
    assert list(wrong(database)) == []
    with database.connect() as connection:
        assert differences_from_reference(connection, T, as_ofs=[T], traces_from=TRACES_FROM) == []
        marts = Marts(connection, MARTS)
        for days in (7, 30):
            scores = view.fleet_scores(marts, view.choose(marts, days, T))
            query = f"select agent_id_hash, verdict from {SCHEMA}.fct_verdicts where as_of = %s and window_days = %s"
            published = dict(connection.execute(query, [T, days]).fetchall())
            assert {score.agent_id_hash: verdict(score).verdict for score in scores} == published


@pytest.mark.slow
def test_cases_hold_by_hour(database: Database) -> None:
    assert list(wrong(database, by_hour=True)) == []


def test_no_case_corroborates_agents_of_another_case() -> None:
    """Agents corroborate each other within an hour, so no two cases may have a coherence level in the same hour."""
    cases_of_hour: dict[Any, set[str]] = defaultdict(set)
    for case in CASES:
        for row in case.traces:
            if row["coherence_level"] is not None:
                cases_of_hour[row["timestamp"].replace(minute=0, second=0, microsecond=0)].add(case.name)
    assert [names for names in cases_of_hour.values() if len(names) > 1] == []
    assert len({case.name for case in CASES}) == len(CASES)
