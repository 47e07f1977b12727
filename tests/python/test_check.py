"""Tests of `ciris-scoring check`: its findings about a database, to which it does not write."""

from __future__ import annotations

import json

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
    assert found["run"]["published_until"].startswith("2026-06-15") and found["run"]["traces"] == {}
    text = succeeded(command(scored_sample, "check", *as_of)).stdout
    assert text.startswith("Ready. A run as of 2026-06-15T00:00:00Z would read the traces since 2026-06-15")


def test_check_fails_if_a_run_would_be_refused(scored_sample: Database) -> None:
    earlier = command(scored_sample, "check", "--vars", "{ciris_as_of: 2026-06-01}")
    assert earlier.exit_code == 1 and "is before the newest published as-of" in earlier.stdout
    unknown = command(scored_sample, "check", "--vars", "{ciris_source_shema: x}")
    assert "ciris_source_shema" in refused(unknown, 2)[0]


def test_check_warns_of_a_threshold_that_the_first_permission_does_not_have(scored_sample: Database) -> None:
    as_of = "ciris_as_of: 2026-06-15"
    said = succeeded(command(scored_sample, "check", "--vars", f"{{{as_of}, ciris_verdict_threshold: 0.45}}")).stdout
    assert "Warning: The verdicts of fct_verdicts have the threshold 0.45 (ciris_verdict_threshold)" in said
    assert "Standard operation (0.6 in 7 days), has another. Set the variable to 0.6" in said
    assert "Warning" not in succeeded(command(scored_sample, "check", "--vars", f"{{{as_of}}}")).stdout
