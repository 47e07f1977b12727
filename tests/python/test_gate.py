"""Tests that a run that fails changes no mart, and that the next successful run gives the normal result."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from ciris_scoring.lab.embedded import SCHEMA
from conftest import Database
from pipeline import RUN_TIMES
from test_bad_input import dbt, marts, refusal, restore, run, saved

BEFORE, NEWEST = "2026-06-14T00:00:00Z", "2026-06-15T00:00:00Z"
EVIDENCE = (f"{SCHEMA}.fct_trace_checks", f"{SCHEMA}.fct_deferral_verdicts")
"""Marts that a failed run may change: views on the trace checks, which include those of the failed run."""

VERDICTS_LEFT_OUT = f"""
    update cirislens.covenant_traces set action_was_overridden = null where "timestamp" >= '{BEFORE}'
    """
"""Removes verdicts so that the last day has red flags."""


@dataclass
class States:
    """A small fleet in a database, with saved states and fingerprints of the marts."""

    database: Database
    unscored: str
    scored: str
    """Saved state that is scored up to the day before the last."""
    newest: str
    """Saved state after one more successful run."""
    marts: dict[str, str]
    """Fingerprints of the marts in the state `scored`."""
    expected: dict[str, str]
    """Fingerprints of the marts in the state `newest`."""


@pytest.fixture(scope="module")
def states(small_fleet: Database) -> Iterator[States]:
    database = small_fleet
    with saved(database) as unscored:
        assert run(database, as_of=BEFORE).exit_code == 0
        with database.connect() as connection:
            connection.execute(VERDICTS_LEFT_OUT)
        before = marts(database, without=RUN_TIMES)
        with saved(database) as scored:
            assert run(database, as_of=NEWEST).exit_code == 0
            expected = marts(database, without=RUN_TIMES)
            # All other marts change in a successful run, so the tests can detect a change.
            assert {name for name in before if before[name] == expected[name]} == {
                f"{SCHEMA}.dim_{name}"
                for name in ("scoring_parameters", "scoring_windows", "capacity_categories")
            }
            with saved(database) as newest:
                yield States(database, unscored, scored, newest, before, expected)


@pytest.fixture
def database(states: States) -> Database:
    """The fleet, scored up to the day before the last."""
    restore(states.database, states.scored)
    return states.database


@pytest.fixture
def expected(states: States) -> dict[str, str]:
    """Fingerprints of the marts after one more successful run."""
    return states.expected


def published(found: dict[str, str]) -> dict[str, str]:
    """Return the marts that a failed run must not change."""
    return {name: rows for name, rows in found.items() if name not in EVIDENCE}


# --- failures --------------------------------------------------------------------------------------------------------


def trigger(table: str, body: str) -> str:
    """Return a statement that creates a trigger on the inserted rows of an incremental table."""
    return f"""
        create function public.spoil() returns trigger language plpgsql as $$ begin {body} end $$;
        create trigger spoil before insert on {SCHEMA}{table} for each row execute function public.spoil();
        """


def spoiled_as_it_is_made(table: str, statement: str) -> str:
    """Return a statement that changes a recreated table before its constraints are added; {} stands for the table."""
    return f"""
        create function public.spoil() returns event_trigger language plpgsql as $$
        declare
            made text;
        begin
            for made in select object_identity from pg_event_trigger_ddl_commands() loop
                if made like '%.{table}\\_\\_%' then execute replace('{statement}', '{{}}', made); end if;
            end loop;
        end $$;
        create event trigger spoil on ddl_command_end when tag in ('CREATE TABLE AS')
        execute function public.spoil();
        """


NO_TRIGGER = "drop function public.spoil cascade"


@dataclass
class Failure:
    """A failure in the database, its repair, and the texts that the message must contain."""

    spoil: str
    heal: str
    expected: list[str]


FAILURES = {
    "a model of sums": Failure(
        trigger("_intermediate.int_agent_periods", "raise exception 'the disk is full';"),
        NO_TRIGGER,
        [
            "at model int_agent_periods (models/intermediate/periods/int_agent_periods.sql)",
            "the disk is full",
        ],
    ),
    "a row that breaks a rule of its table": Failure(
        # Only rows that differ are inserted, so a row must be deleted first.
        trigger("_intermediate.int_deferral_verdicts", "new.deferral_value := 2; return new;")
        + f"delete from {SCHEMA}_intermediate.int_deferral_verdicts where deferral_value is not null",
        NO_TRIGGER,
        ["at model int_deferral_verdicts", "deferral_value in [0, 1]", "Failing row contains ("],
    ),
    "a row without its key": Failure(
        trigger("_intermediate.int_agent_periods", "new.agent_id_hash := null; return new;"),
        NO_TRIGGER,
        [
            "at model int_agent_periods",
            'null value in column "agent_id_hash" of relation "int_agent_periods" violates not-null constraint',
        ],
    ),
    "two rows of one key": Failure(
        trigger("_intermediate.int_windows", "new.window_days := 7; return new;"),
        NO_TRIGGER,
        [
            "at model int_windows (models/intermediate/windows/int_windows.py)",
            "Key (agent_id_hash, as_of, window_days)=(",
            "already exists",
        ],
    ),
    "a test of what is judged": Failure(
        trigger(
            "_intermediate.int_trace_checks",
            "if new.audit_sequence_number % 3 = 0 then return null; end if; return new;",
        ),
        NO_TRIGGER,
        ["at test ", "(tests/singular/assert_every_source_row_is_checked.sql)"],
    ),
    "a Python model": Failure(
        trigger("_intermediate.int_agent_periods", "new.n_shared_key := null; return new;"),
        NO_TRIGGER,
        ["at model int_windows (models/intermediate/windows/int_windows.py)", "hold a null"],
    ),
    "a result of a Python model": Failure(
        trigger("_intermediate.int_windows", "new.r_score := 2; return new;"),
        NO_TRIGGER,
        ["at model int_windows", "r_score in [0, 1]", "Failing row contains ("],
    ),
}


def test_failures_before_the_marts_change_none_of_them(database, expected):
    """The failures follow each other without a reset; then a run succeeds."""
    before = marts(database)
    for name, failure in FAILURES.items():
        with database.connect() as connection:
            connection.execute(failure.spoil)
        message = refusal(run(database, as_of=NEWEST), exit_code=1)
        assert message.startswith("Error: dbt stopped at "), f"{name}: {message}"
        assert [text for text in failure.expected if text not in message] == [], f"{name}: {message}"
        assert "\nHint: The marts stay as they were." in message, f"{name}: {message}"
        assert message.endswith(", then run again."), f"{name}: {message}"
        assert published(marts(database)) == published(before), name
        with database.connect() as connection:
            connection.execute(failure.heal)

    assert run(database, as_of=NEWEST).exit_code == 0
    assert marts(database, without=RUN_TIMES) == expected


FAILURES_OF_MARTS = {
    "a mart that cannot be made": (
        spoiled_as_it_is_made("fct_fleet_capacity", "update {} set n_agents = n_agents / 0"),
        "dbt stopped at model fct_fleet_capacity (models/marts/fct_fleet_capacity.sql): division by zero",
    ),
    "a row that breaks a rule of its mart": (
        spoiled_as_it_is_made("fct_capacity_scores", "update {} set c_score = 2"),
        'ciris.fct_capacity_scores would have a row that breaks the rule "c_score in [0, 1]"',
    ),
    "a test of a mart": (
        spoiled_as_it_is_made("fct_fleet_capacity", "update {} set n_agents = n_agents + 1"),
        "dbt stopped at test assert_fleet_capacity_counts_every_score",
    ),
    "a mart that cannot be written": (
        trigger(".fct_record_signs", "raise exception 'the disk is full';"),
        "dbt stopped at model int_runs (models/publication/int_runs.sql): the disk is full",
    ),
    "a log that cannot be written": (
        trigger(
            "_intermediate.int_runs",
            "if new.published_at is not null then raise exception 'the disk is full'; end if; return new;",
        ),
        "dbt stopped at model int_runs (models/publication/int_runs.sql): the disk is full",
    ),
}


def test_failures_among_the_marts_change_none_of_them(database, expected):
    """The failures follow each other without a reset; then a run succeeds."""
    before = marts(database)
    for name, (spoil, reason) in FAILURES_OF_MARTS.items():
        with database.connect() as connection:
            connection.execute(spoil)
            message = refusal(run(database, as_of=NEWEST), exit_code=1)
            assert reason in message, f"{name}: {message}"
            assert "The marts stay as they were." in message, f"{name}: {message}"
            assert published(marts(database)) == published(before), name
            [[n]] = connection.execute(
                f"select count(*) from {SCHEMA}_intermediate.int_runs where published_at is not null"
            ).fetchall()
            assert n == 1, name
            connection.execute(NO_TRIGGER)
    assert run(database, as_of=NEWEST).exit_code == 0
    assert marts(database, without=RUN_TIMES) == expected


def test_a_test_of_views_that_fails_says_that_the_marts_are_published(database):
    with database.connect() as connection:
        connection.execute(
            trigger(
                "_intermediate.int_runs",
                f"""
                if new.published_at is not null then
                    update {SCHEMA}.fct_capacity_scores set s_score_loss = s_score_loss + 1;
                end if;
                return new;
                """,
            )
        )
    message = refusal(run(database, as_of=NEWEST), exit_code=1)
    assert "at test assert_" in message
    assert "The marts are those of this run." in message


def test_a_run_without_one_of_the_marts_publishes_none(database):
    before = marts(database)
    outcome = dbt(database, "build", "--exclude", "fct_record_signs", variables={"ciris_as_of": NEWEST})
    assert not outcome.succeeded
    assert (
        "The marts change together, but fct_record_signs of schema ciris has no rows of this run"
        in outcome.said
    )
    assert published(marts(database)) == published(before)


def test_duplicate_key_is_refused_even_if_one_row_is_unchanged(database):
    """Only differences are written into fct_data_quality. The second row must not be mistaken for the published one."""
    before = marts(database)
    with database.connect() as connection:
        connection.execute(
            spoiled_as_it_is_made("fct_data_quality", "insert into {} select * from {} limit 1")
        )
    message = refusal(run(database, as_of=NEWEST), exit_code=1)
    assert "dbt stopped at model fct_data_quality" in message and "two rows of one key" in message
    assert published(marts(database)) == published(before)


def test_larger_restatement_window_keeps_final_scores(states, expected):
    """Two runs with a restatement window of 3 days. A window of 5 days would then include final scores."""
    database = states.database
    restore(database, states.newest)
    refused = run(database, as_of=NEWEST, variables={"ciris_lookback_periods": 5})
    message = refusal(refused, exit_code=1)
    assert "final up to 2026-06-11" in message and "--allow-rescoring" in message
    assert marts(database, without=RUN_TIMES) == expected
    allowed = run(
        database, as_of=NEWEST, variables={"ciris_lookback_periods": 5, "ciris_allow_rescoring": True}
    )
    assert allowed.exit_code == 0, allowed.said


def test_a_full_refresh_that_fails_must_be_repeated(database, expected):
    refresh = ("--full-refresh", "--allow-rescoring")
    before = marts(database)
    with database.connect() as connection:
        connection.execute(spoiled_as_it_is_made("int_windows", "update {} set r_score = r_score / 2"))
    message = refusal(run(database, *refresh, as_of=NEWEST), exit_code=1)
    assert "at test " in message
    after = marts(database)
    assert published(after) == published(before)
    assert after.keys() >= set(EVIDENCE)

    message = refusal(run(database, as_of=NEWEST), exit_code=1)
    assert "did not end" in message
    assert "Repeat it, with the same variables: ciris-scoring run --full-refresh --allow-rescoring" in message
    with database.connect() as connection:
        connection.execute(NO_TRIGGER)
    assert run(database, *refresh, as_of=NEWEST).exit_code == 0
    assert marts(database, without=RUN_TIMES) == expected


ARRIVES = f"""
    create function public.spoil() returns trigger language plpgsql as $$
    begin
        insert into cirislens.covenant_traces (agent_id_hash, trace_id, "timestamp")
        select (select min(agent_id_hash) from cirislens.covenant_traces), 'meanwhile ' || n, timestamptz '{BEFORE}'
        from generate_series(1, 1000) as n;
        return null;
    end $$;
    create trigger spoil after insert on {SCHEMA}_intermediate.int_trace_checks execute function public.spoil();
    """


def test_after_a_failed_blocking_test_no_part_is_built_and_retry_publishes_all(database, expected):
    """More traces than the test permits arrive while a run is at work; afterwards they are deleted."""
    variables, failing = {"ciris_as_of": NEWEST}, "assert_every_source_row_is_checked"
    before = published(marts(database))
    with database.connect() as connection:
        connection.execute(ARRIVES)
        failed = dbt(database, "build", variables=variables)
        assert not failed.succeeded and failing in failed.said
        retried = dbt(database, "retry")
        assert not retried.succeeded and failing in retried.said
        connection.execute(NO_TRIGGER)
        connection.execute("delete from cirislens.covenant_traces where trace_id like 'meanwhile %'")
    part = dbt(database, "build", "--select", "fct_capacity_scores", variables=variables)
    assert not part.succeeded and "did not end" in part.said
    assert published(marts(database)) == before
    retried = dbt(database, "retry")
    assert retried.succeeded, retried.said
    assert marts(database, without=RUN_TIMES) == expected
