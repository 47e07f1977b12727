"""Tests of commands after a run that died, for those states of unfinished_runs.py that failed before or are likely
to."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from ciris_scoring.lab.embedded import Server
from pipeline import MARTS
from test_bad_input import dbt, marts, restore, run, saved
from test_gate import NO_TRIGGER, published
from unfinished_runs import (
    BEFORE,
    NEWEST,
    PART,
    Death,
    Fleet,
    die,
    differences,
    go_on,
    prepared,
    wrong_after,
)

ARRIVES = f"""
    create function public.spoil() returns trigger language plpgsql as $$
    begin
        insert into cirislens.covenant_traces (agent_id_hash, trace_id, "timestamp")
        select (select min(agent_id_hash) from cirislens.covenant_traces), 'meanwhile ' || n, timestamptz '{BEFORE}'
        from generate_series(1, 1000) as n;
        return null;
    end $$;
    create trigger spoil after insert on {MARTS.places["int_trace_checks"]} execute function public.spoil();
    """

CASES = [
    (Death("a run made twice", "fct_capacity_scores"), "rescore"),
    (Death("an increment", "int_agent_periods"), "a part in plain dbt"),
    (Death("an increment", "fct_fleet_capacity"), "earlier run"),
    (Death("an increment", "int_windows"), "plain dbt"),
    (Death("an increment", "int_runs", in_dbt=True), "run"),
    (Death("an increment", "int_windows", in_dbt=True), "plain dbt retry"),
    (Death("a run with a longer lookback", "fct_fleet_capacity"), "run"),
    (Death("a rescore", "fct_capacity_scores"), "a part in plain dbt"),
    (Death("a full refresh", "int_windows"), "rescore"),
    (Death("a full refresh", "int_agent_periods", in_dbt=True), "plain dbt"),
    (Death("a first run", "fct_fleet_capacity"), "rescore"),
    (Death("a first run", "int_agent_periods", in_dbt=True), "plain dbt retry"),
]


@pytest.fixture(scope="module")
def fleet(embedded_postgres: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    with prepared(embedded_postgres, tmp_path_factory.mktemp("fleet")) as fleet:
        yield fleet


@pytest.mark.parametrize(
    ("death", "command"), CASES, ids=[f"{death}, then {command}" for death, command in CASES]
)
def test_command_after_a_run_that_died_succeeds_or_names_a_working_remedy(
    fleet: Fleet, death: Death, command: str
) -> None:
    assert wrong_after(fleet, death, command) == []


def test_after_a_failed_blocking_test_no_part_is_built_and_retry_publishes_all(fleet: Fleet) -> None:
    """More traces than the test permits arrive while a run is at work; afterwards they are deleted."""
    database, variables = fleet.database, {"ciris_as_of": NEWEST}
    restore(database, fleet.scored)
    before = published(marts(database))
    with database.connect() as connection:
        connection.execute(ARRIVES)
        failed = dbt(database, "build", variables=variables)
        assert not failed.succeeded and "assert_every_source_row_is_checked" in failed.said
        retried = dbt(database, "retry")
        assert not retried.succeeded and "assert_every_source_row_is_checked" in retried.said
        connection.execute(NO_TRIGGER)
        connection.execute("delete from cirislens.covenant_traces where trace_id like 'meanwhile %'")
    with saved(database) as mended:
        retried = dbt(database, "retry")
        assert retried.succeeded, retried.said
        assert differences(fleet) == []
        restore(database, mended)
    part = dbt(database, *PART, variables=variables)
    assert not part.succeeded and "did not end" in part.said
    assert published(marts(database)) == before


def test_backfill_after_a_dead_run_keeps_scores_final(fleet: Fleet) -> None:
    """The cutoff of this run is 3 days before the as-of that was published earlier."""
    die(fleet, Death("an increment", "fct_capacity_scores"))
    assert go_on(fleet, "rescore") is None
    refused = run(fleet.database, as_of=NEWEST, variables={"ciris_lookback_periods": 5})
    assert refused.exit_code == 1
    assert "final up to 2026-06-11T00:00:00Z" in " ".join(refused.stderr.split())
