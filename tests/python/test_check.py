"""Tests of `ciris-scoring check`: its findings about a database, to which it does not write."""

from __future__ import annotations

import json

import pytest

from ciris_scoring.job.check import Fitness, page
from ciris_scoring.lab.embedded import SCHEMA
from command_line import command, refused, succeeded
from conftest import Database


def relations_of(database: Database) -> list[tuple]:
    """Return schemas and relations with the transaction that last changed their catalog entry."""
    return database.execute(
        "select nspname, relname, c.xmin::text from pg_namespace as n left join pg_class as c on relnamespace = n.oid"
        " where nspname !~ '^pg_' order by 1, 2"
    )


def test_check_of_valid_database_describes_the_run(scored_sample: Database) -> None:
    as_of = ("--vars", "{ciris_as_of: 2026-06-15}")
    [[n_traces]] = scored_sample.execute("select count(*) from cirislens.covenant_traces")
    before = relations_of(scored_sample)
    found = json.loads(succeeded(command(scored_sample, "check", "--json", *as_of)).stdout)
    assert relations_of(scored_sample) == before
    assert found["faults"] == []
    traces = found["sources"][0]
    assert (traces["name"], traces["rows"]) == ("covenant_traces", n_traces)
    types = {"type": "character varying(128)", "as_type": "text"}
    assert traces["columns"][0] == {"column": "trace_id", "read_as": "trace_id"} | types
    assert found["parameters"]["lambda_c"] == 5 and "replay_sample_salt" not in found["parameters"]
    assert found["run"]["published_until"].startswith("2026-06-15") and found["run"]["traces"] == 0
    assert found["run"]["seconds"] > 0
    text = succeeded(command(scored_sample, "check", *as_of)).stdout
    assert text.startswith("Ready. A run would find no trace after 2026-06-15")
    assert "newest trace" not in text and found["run"]["newest_trace_days"] < 1


def test_check_reports_age_of_newest_trace(scored_sample: Database) -> None:
    """The newest trace of the sample is of 14 June, 163 days before 25 November."""
    later = ("--vars", "{ciris_as_of: 2026-11-25}")
    found = json.loads(command(scored_sample, "check", "--json", *later).stdout)["run"]
    assert 162 < found["newest_trace_days"] < 164
    for days, silent_days, expected in (
        (162.6, 2, "The newest trace is 163 days older than this as-of: check whether traces still arrive."),
        (1.2, 1, "The newest trace is 1 day older"),
    ):
        run = found | {"newest_trace_days": days}
        assert expected in page(Fitness("here", parameters={"silent_days": silent_days}, run=run))
        assert "newest trace" not in page(Fitness("here", parameters={"silent_days": 4000}, run=run))


@pytest.mark.slow
def test_duration_of_an_increment_is_not_estimated_from_a_full_run(sample_copy: Database) -> None:
    """The only run scored the whole history. Its duration says nothing about an incremental run without traces."""
    runs = f"{SCHEMA}_intermediate.int_runs"
    for change, seconds in (
        (f"update {runs} set ended_at = started_at + interval '278 seconds'", 12),
        (
            f"insert into {runs} (run_id, started_at, ended_at, command, outcome, is_full_refresh, final_until)"
            " values (gen_random_uuid(), now(), now() + interval '9 seconds', 'run', 'published', false, now())",
            9,
        ),
    ):
        sample_copy.execute(change)
        checked = command(sample_copy, "check", "--json", "--vars", "{ciris_as_of: 2026-06-15}")
        assert json.loads(checked.stdout)["run"]["seconds"] == seconds


def test_check_fails_if_a_run_would_be_refused(scored_sample: Database) -> None:
    earlier = command(scored_sample, "check", "--vars", "{ciris_as_of: 2026-06-01}")
    assert earlier.exit_code == 1 and "is before the newest published as-of" in earlier.stdout
    unknown = command(scored_sample, "check", "--vars", "{ciris_source_shema: x}")
    assert "ciris_source_shema" in refused(unknown, 2)[0]
