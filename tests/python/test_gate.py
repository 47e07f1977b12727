"""Tests that a run that fails changes no mart, and that the next successful run gives the normal result."""

from __future__ import annotations

import pytest

from ciris_scoring.lab.embedded import SCHEMA
from command_line import succeeded
from conftest import Database
from pipeline import RUN_TIMES
from test_bad_input import dbt, marts, refusal, restore, run, saved

BEFORE, NEWEST = "2026-06-14T00:00:00Z", "2026-06-15T00:00:00Z"
SCORED_UNTIL = BEFORE
EVIDENCE = (f"{SCHEMA}.fct_trace_checks", f"{SCHEMA}.fct_deferral_values")
"""Marts that a failed run may change: views that show trace checks and deferrals also of a failed run."""


@pytest.fixture(scope="module")
def expected(small_fleet: Database) -> dict[str, str]:
    """Fingerprints of the marts after two successful runs. The second run is undone afterwards."""
    database = small_fleet
    # Remove a field from all traces of the last day, so that this day raises red flags.
    database.execute(
        f"update cirislens.covenant_traces set action_was_overridden = null where \"timestamp\" >= '{BEFORE}'"
    )
    before = marts(database, without=RUN_TIMES)
    with saved(database) as scored:
        assert run(database, as_of=NEWEST).exit_code == 0
        expected = marts(database, without=RUN_TIMES)
        # A successful run changes all relations but these, so the test would notice if a failed run published one.
        unchanged = ("dim_scoring_parameters", "dim_scoring_windows", "dim_capacity_categories", "permissions")
        assert {name for name in before if before[name] == expected[name]} == {f"{SCHEMA}.{name}" for name in unchanged}
        # The newest scores are published with a restatement window of 3 days, so older scores are final.
        message = refusal(run(database, as_of=NEWEST, variables={"ciris_lookback_periods": 5}), exit_code=1)
        assert "final up to 2026-06-11" in message and "--allow-rescoring" in message
        restore(database, scored)
    return expected


def published(found: dict[str, str]) -> dict[str, str]:
    """Return the fingerprints of the marts that a failed run must not change."""
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


FAILURES = {
    "a result of the Python model": (
        trigger("_intermediate.int_windows", "new.delta_drift := 2; return new;"),
        ["at model int_windows", "delta_drift in [0, 1]", "Failing row contains ("],
    ),
    "a row violates a constraint of its mart": (
        spoiled_as_it_is_made("fct_capacity_scores", "update {} set c_score = 2"),
        ['ciris.fct_capacity_scores would have a row that violates the constraint "c_score in [0, 1]"'],
    ),
    # A run writes only rows that differ from the published rows, so a second row of a key could stay unnoticed.
    "two rows of one key": (
        spoiled_as_it_is_made("fct_data_quality", "insert into {} select * from {} limit 1"),
        ["at model fct_data_quality", "two rows of one key"],
    ),
    "a test of the data": (
        trigger(
            "_intermediate.int_trace_checks",
            "if new.audit_sequence_number % 8 = 0 then return null; end if; return new;",
        ),
        ["at test ", "(tests/singular/assert_every_source_row_is_checked.sql)"],
    ),
    "the last statement of the publication": (
        trigger(
            "_intermediate.int_runs",
            "if new.published_at is not null then raise exception 'the disk is full'; end if; return new;",
        ),
        ["at model int_runs (models/publication/int_runs.sql): the disk is full"],
    ),
}
"""Statements that make a run fail, and texts of its message."""


def test_failures_change_no_mart_and_name_the_cause(small_fleet, expected):
    """The failures follow each other without a reset; then a run succeeds. test_healing.py has failures at any
    statement."""
    database = small_fleet
    before = published(marts(database))
    with database.connect() as connection:
        for name, (spoil, texts) in FAILURES.items():
            connection.execute(spoil)
            message = refusal(run(database, as_of=NEWEST), exit_code=1)
            assert message.startswith("Error: dbt stopped at "), f"{name}: {message}"
            assert [text for text in texts if text not in message] == [], f"{name}: {message}"
            assert "\nHint: The marts stay as they were." in message, f"{name}: {message}"
            assert message.endswith(", then run again."), f"{name}: {message}"
            assert published(marts(database)) == before, name
            connection.execute(NO_TRIGGER)
    staged = "select relpersistence, reloptions from pg_class where relname like '%\\_\\_next' and relkind = 'r'"
    kinds = {(kind, *sorted(options)) for kind, options in database.execute(staged)}
    assert kinds == {("u", "autovacuum_enabled=false")}
    # A crash of the server empties the staging tables, because they are unlogged.
    database.execute(f"truncate {SCHEMA}_intermediate.fct_capacity_alerts__next")
    assert "has lost rows of this run" in refusal(dbt(database, "build", "--select", "int_runs"))
    assert published(marts(database)) == before
    # A model that is built again makes those that read it out of date.
    succeeded(dbt(database, "run", "--select", "int_trace_checks"))
    assert "int_runs reads " in refusal(dbt(database, "build", "--select", "int_runs"))
    for options, said in (
        (("--exclude", "fct_red_flags"), "fct_verdicts reads fct_red_flags, which the run of "),
        (("--select", "fct_verdicts"), "fct_verdicts reads fct_red_flags, which the run of "),
    ):
        message = refusal(dbt(database, "build", *options, variables={"ciris_as_of": NEWEST}))
        assert said in message and "has not built" in message, message
        assert published(marts(database)) == before
    assert run(database, as_of=NEWEST).exit_code == 0
    assert marts(database, without=RUN_TIMES) == expected
