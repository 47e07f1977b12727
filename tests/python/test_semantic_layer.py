"""Tests that the metrics of the semantic layer, computed by MetricFlow, equal plain SQL."""

from __future__ import annotations

import csv
import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

import psycopg
import pytest

from ciris_scoring.lab.embedded import SCHEMA
from ciris_scoring.lab.simulation.sample import SAMPLE
from ciris_scoring.project_files import copy_project
from command_line import printed
from conftest import REPOSITORY, Database

AS_OF = datetime.fromisoformat(SAMPLE["as_of"])
SCORES = f"{SCHEMA}.fct_capacity_scores"
MEDIAN = "percentile_cont(0.5) within group (order by {})"
CATEGORIES = ("high_fragility", "moderate", "healthy", "high_capacity")


def newest(value: str, window_days: int = 7) -> str:
    """Return a query of an aggregate of the newest scores in a window."""
    latest = f"as_of = (select max(as_of) from {SCORES})"
    return f"select ({value})::float8 from {SCORES} where {latest} and window_days = {window_days}"


BY_SQL = {
    "ciris_mean_capacity_7d": newest("avg(capacity_score)"),
    "ciris_mean_capacity_30d": newest("avg(capacity_score)", 30),
    "ciris_median_capacity_7d": newest(MEDIAN.format("capacity_score")),
    "ciris_min_capacity_7d": newest("min(capacity_score)"),
    "ciris_median_steady_7d": newest(MEDIAN.format("capacity_score_steady")),
    "ciris_agents_at_least_healthy_7d": newest("count(*) filter (where capacity_score_steady_low >= 0.6)"),
    "ciris_agents_below_healthy_7d": newest("count(*) filter (where capacity_score_steady_high < 0.6)"),
    "ciris_agents_scored_7d": newest("count(capacity_score)"),
    "ciris_agents_scored_30d": newest("count(capacity_score)", 30),
    **{
        f"ciris_agents_{category}_7d": newest(f"count(*) filter (where category = '{category}')")
        for category in CATEGORIES
    },
    **{
        f"ciris_share_{category}_7d": newest(f"avg((category = '{category}')::integer)")
        for category in CATEGORIES
    },
    **{
        f"ciris_mean_{factor}_7d": newest(f"avg({factor}_score)")
        for factor in ("c", "i_int", "r", "i_inc", "s")
    },
    "ciris_mean_latest_capacity_7d": "select avg(capacity_score) from ("
    f"select distinct on (agent_id_hash) capacity_score from {SCORES}"
    " where window_days = 7 and capacity_score is not null order by agent_id_hash, as_of desc) as newest",
    "ciris_late_traces": f"select coalesce(sum(n), 0) from {SCHEMA}.fct_data_quality where issue = 'late_trace'",
    "ciris_ingestion_acceptance_rate": "select sum(n) filter (where issue = 'ingestion_accepted')::float8"
    f" / sum(n) filter (where issue = 'ingestion_received') from {SCHEMA}.fct_data_quality",
}


@dataclass
class Metrics:
    """A checkout of the project, parsed by dbt, with a database that it has scored."""

    folder: Path
    database: Database
    said_by_dbt: str = ""
    """dbt's output from parsing the project."""

    def query(self, metrics: list[str], *by: str, **environment: str) -> list[dict[str, str]]:
        """Return the rows of `mf query`."""
        file = self.folder / "answer.csv"
        command = ["mf", "query", "--metrics", ",".join(metrics), "--csv", str(file)]
        self.run(*command, *(["--group-by", ",".join(by)] if by else []), **environment)
        with file.open() as lines:
            return list(csv.DictReader(lines))

    def run(self, program: str, *arguments: str, **environment: str) -> str:
        """Return the output of a program of the environment. It runs in the project's folder, where MetricFlow looks
        for dbt's manifest.
        """
        here = {
            "DBT_PROFILES_DIR": str(self.database.profiles_dir),
            "DBT_TARGET_PATH": "target",
            **environment,
        }
        program_file = Path(sys.executable).parent / program
        return printed(program_file, *arguments, cwd=self.folder, env={**os.environ, **here})


@pytest.fixture(scope="module")
def sample(sample_copy: Database, tmp_path_factory: pytest.TempPathFactory) -> Metrics:
    """The sample with an agent that fell silent: its rows first have no score, and then there are none."""
    folder = tmp_path_factory.mktemp("project")
    copy_project(REPOSITORY, folder)
    with sample_copy.connect() as connection:
        silent = f"agent_id_hash = (select min(agent_id_hash) from {SCORES})"
        since = [AS_OF - timedelta(days=3)]
        connection.execute(f"delete from {SCORES} where as_of > %s and {silent}", since)
        connection.execute(
            f"update {SCORES} set capacity_score = null where as_of > %s - interval '2 days' and {silent}",
            since,
        )
    metrics = Metrics(folder, sample_copy)
    metrics.said_by_dbt = metrics.run("dbt", "parse")
    return metrics


@pytest.fixture
def marts(sample: Metrics) -> Iterator[psycopg.Connection]:
    with sample.database.connect() as connection:
        yield connection


def test_metrics_equal_plain_sql(sample, marts):
    [found] = sample.query(list(BY_SQL))
    expected = {name: float(marts.execute(sql).fetchone()[0]) for name, sql in BY_SQL.items()}
    assert {name: float(found[name]) for name in BY_SQL} == pytest.approx(expected, abs=1e-9)
    assert expected["ciris_mean_latest_capacity_7d"] != expected["ciris_mean_capacity_7d"]


def test_dbt_accepts_the_time_spine_without_warning(sample):
    assert "Running with dbt" in sample.said_by_dbt and "time spine" not in sample.said_by_dbt


@pytest.mark.parametrize("zone", ["America/New_York", "Pacific/Auckland"])
def test_a_score_stays_on_its_day_in_every_zone(sample, marts, zone):
    rows = sample.query(
        ["ciris_mean_capacity_7d"],
        "capacity_score__as_of__day",
        "capacity_score__day_scored__day",
        PGTZ=zone,
    )
    found = {
        row["capacity_score__as_of__day"][:10]: (
            row["capacity_score__day_scored__day"][:10],
            float(row["ciris_mean_capacity_7d"]),
        )
        for row in rows
        if row["ciris_mean_capacity_7d"]
    }
    expected = {
        day: (before, mean)
        for day, before, mean in marts.execute(
            "select (as_of at time zone 'UTC')::date::text, ((as_of at time zone 'UTC')::date - 1)::text,"
            f" avg(capacity_score) from {SCORES} where window_days = 7 group by as_of having count(capacity_score) > 0"
        )
    }
    assert found.keys() == expected.keys()
    for day, (before, mean) in expected.items():
        assert found[day] == (before, pytest.approx(mean, abs=1e-9))


def test_agents_are_grouped_by_label(sample, marts):
    rows = sample.query(["ciris_mean_latest_capacity_7d"], "capacity_score__agent_label")
    [[n_agents]] = marts.execute(f"select count(distinct agent_id_hash) from {SCORES}").fetchall()
    assert len(rows) == len({row["capacity_score__agent_label"] for row in rows}) == n_agents
