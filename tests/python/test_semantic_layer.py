"""Tests that the metrics of the semantic layer equal plain SQL. MetricFlow computes the metrics."""

from __future__ import annotations

import csv
import os
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime, timedelta
from operator import itemgetter
from pathlib import Path

import psycopg
import pytest

from ciris_scoring.lab.embedded import SCHEMA
from ciris_scoring.lab.simulation.sample import SAMPLE
from ciris_scoring.project_files import copy_project
from command_line import PROGRAMS, printed
from conftest import REPOSITORY, Database

AS_OF = datetime.fromisoformat(SAMPLE["as_of"])
Query = Callable[..., list[dict[str, str]]]
SCORES = f"{SCHEMA}.fct_capacity_scores"


def newest(value: str, window_days: int = 7) -> str:
    """Return a query that aggregates the newest scores of a window."""
    latest = f"as_of = (select max(as_of) from {SCORES})"
    return f"select ({value})::float8 from {SCHEMA}.capacity_overview where {latest} and window_days = {window_days}"


BY_SQL = {
    "ciris_mean_capacity_30d": newest("avg(capacity_score)", 30),
    "ciris_median_capacity_7d": newest("percentile_cont(0.5) within group (order by capacity_score)"),
    "ciris_min_capacity_7d": newest("min(capacity_score)"),
    "ciris_median_steady_7d": newest("percentile_cont(0.5) within group (order by capacity_score_steady)"),
    "ciris_agents_7d": newest("count(*)"),
    "ciris_share_high_fragility_7d": newest("avg((category = 'high_fragility')::integer)"),
    **{f"ciris_agents_scored_{days}d": newest("count(capacity_score)", days) for days in (7, 30)},
    **{
        f"ciris_agents_{category}_7d": newest(f"count(*) filter (where category = '{category}')")
        for category in ("high_fragility", "moderate", "healthy", "high_capacity")
    },
    **{f"ciris_mean_{name}_7d": newest(f"avg({name}_score)") for name in ("capacity", "c", "i_int", "r", "i_inc", "s")},
    "ciris_mean_latest_capacity_7d": "select avg(capacity_score) from ("
    f"select distinct on (agent_id_hash) capacity_score from {SCORES}"
    " where window_days = 7 and capacity_score is not null order by agent_id_hash, as_of desc) as newest",
    "ciris_late_traces": f"select coalesce(sum(n), 0) from {SCHEMA}.fct_data_quality where issue = 'late_trace'",
    "ciris_ingestion_acceptance_rate": "select sum(n) filter (where issue = 'ingestion_accepted')::float8"
    f" / sum(n) filter (where issue = 'ingestion_received') from {SCHEMA}.fct_data_quality",
}


def semantic_layer(database: Database, folder: Path) -> Query:
    """Return a function that returns the rows of `mf query` on a database.

    :param folder: empty folder to which the project is copied, because MetricFlow looks for dbt's manifest there.
    """
    copy_project(REPOSITORY, folder)

    def run(program: str, *arguments: str, **environment: str) -> str:
        here = {"DBT_PROFILES_DIR": str(database.profiles_dir), "DBT_TARGET_PATH": "target", **environment}
        return printed(PROGRAMS / program, *arguments, cwd=folder, env={**os.environ, **here})

    def query(metrics: Iterable[str], *by: str, **environment: str) -> list[dict[str, str]]:
        file = folder / "answer.csv"
        grouped = ["--group-by", ",".join(by)] if by else []
        run("mf", "query", "--metrics", ",".join(metrics), "--csv", str(file), *grouped, **environment)
        return list(csv.DictReader(file.read_text().splitlines()))

    assert "time spine" not in run("dbt", "parse"), "dbt warns of the time spine"
    return query


@pytest.fixture(scope="module")
def query(sample_copy: Database, tmp_path_factory: pytest.TempPathFactory) -> Query:
    """Function that returns the rows of `mf query` on the sample.

    In the last five days of the sample, one agent first has rows without a score for two days and then no rows.
    """
    with sample_copy.connect() as connection:
        silent = f"agent_id_hash = (select min(agent_id_hash) from {SCORES})"
        since = [AS_OF - timedelta(days=3)]
        connection.execute(f"delete from {SCORES} where as_of > %s and {silent}", since)
        connection.execute(
            f"update {SCORES} set capacity_score = null where as_of > %s - interval '2 days' and {silent}", since
        )
    return semantic_layer(sample_copy, tmp_path_factory.mktemp("project"))


@pytest.fixture
def marts(sample_copy: Database) -> Iterator[psycopg.Connection]:
    with sample_copy.connect() as connection:
        yield connection


@pytest.mark.slow
def test_metrics_equal_plain_sql(query, marts):
    [found] = query(BY_SQL)
    expected = {name: float(marts.execute(sql).fetchone()[0]) for name, sql in BY_SQL.items()}
    assert {name: float(found[name]) for name in BY_SQL} == pytest.approx(expected, abs=1e-9)
    assert expected["ciris_mean_latest_capacity_7d"] != expected["ciris_mean_capacity_7d"]


@pytest.mark.slow
def test_a_score_stays_on_its_day_in_a_zone_west_of_greenwich(query, marts):
    by = ("capacity_score__as_of__day", "capacity_score__day_scored__day")
    found = [
        (*(row[name][:10] for name in by), pytest.approx(float(row["ciris_mean_capacity_7d"]), abs=1e-9))
        for row in query(["ciris_mean_capacity_7d"], *by, PGTZ="America/New_York")
        if row["ciris_mean_capacity_7d"]
    ]
    expected = marts.execute(
        "select (as_of at time zone 'UTC')::date::text, ((as_of at time zone 'UTC')::date - 1)::text,"
        f" avg(capacity_score) from {SCORES} where window_days = 7 group by as_of"
        " having count(capacity_score) > 0 order by 1"
    ).fetchall()
    assert sorted(found, key=itemgetter(0)) == expected
