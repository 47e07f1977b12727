"""Tests of the time from which a run checks traces again: the first changed period within the restatement window.

test_healing.py tests that a run notices every change.
"""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import psycopg
import pytest

from ciris_scoring.basics.connection import one_row
from ciris_scoring.lab.embedded import SCHEMA
from ciris_scoring.project_files import copy_project
from command_line import at, invoke, succeeded
from conftest import REPOSITORY, Database
from pipeline import kept_parsed
from test_bad_input import NEWEST, dbt, refusal, run

PUBLISHED = SCORED_UNTIL = "2026-06-14T00:00:00Z"
TRACES = "cirislens.covenant_traces"
ONE_TRACE = f"""
    where (trace_id, "timestamp") = (
        select trace_id, "timestamp" from {TRACES} where "timestamp" >= '2026-06-12T09:00Z'
        order by "timestamp" limit 1)
    """


EDIT = f"update {TRACES} set signature_verified = not signature_verified {ONE_TRACE}"
# The new column has another default than most values, and every row keeps its version.
SWAP = f"""
    alter table {TRACES} add column other boolean default false;
    alter table {TRACES} rename action_success to before;
    alter table {TRACES} rename other to action_success
    """
CHANGES = {
    "no new trace": ("select", PUBLISHED, "2026-06-14T00:00:00+00:00"),
    "a new day": ("select", NEWEST, "2026-06-14T00:00:00+00:00"),
    "an edited trace": (EDIT, NEWEST, "2026-06-12T00:00:00+00:00"),
    "another column of the same name": (SWAP, NEWEST, "2026-06-11T00:00:00+00:00"),
}
"""Statement, as-of of the next run, and time from which this run checks traces again."""


@pytest.mark.parametrize("change", CHANGES)
def test_run_checks_traces_from_the_first_changed_period(restored, change: str):
    statement, as_of, expected = CHANGES[change]
    with restored.connect() as connection:
        connection.execute(statement)
    models = ("--select", "stg_cirislens__covenant_traces", "int_source_periods", "int_scoring_run")
    outcome = dbt(restored, "run", *models, variables={"ciris_as_of": as_of})
    assert outcome.succeeded, outcome.said
    with restored.connect() as connection:
        query = f"select rechecked_from from {SCHEMA}_intermediate.int_scoring_run"
        moment: datetime = one_row(connection.execute(query))[0]
    assert moment.isoformat() == expected


def corrected_clock(connection: psycopg.Connection) -> None:
    """Make the state of a server whose clock was corrected: the times of all runs so far are in the future."""
    connection.execute(
        f"""
        update {SCHEMA}_intermediate.int_runs
        set started_at = started_at + interval '1 day', ended_at = ended_at + interval '1 day',
            published_at = published_at + interval '1 day'
        """
    )


def test_unfinished_run_is_finished_after_a_correction_of_the_clock(restored):
    models = ("--select", "stg_cirislens__covenant_traces", "int_source_periods", "int_scoring_run")
    query = f"select rechecked_from from {SCHEMA}_intermediate.int_scoring_run"
    with restored.connect() as connection:
        corrected_clock(connection)
        connection.execute(EDIT)
        for day in (12, 11):  # The second run finishes the first one, and does not know what it checked.
            outcome = dbt(restored, "run", *models, variables={"ciris_as_of": NEWEST})
            assert outcome.succeeded, outcome.said
            assert one_row(connection.execute(query)) == (datetime(2026, 6, day, tzinfo=UTC),)
        corrected_clock(connection)
        assert run(restored).exit_code == 0
    older = refusal(run(restored, as_of=PUBLISHED))
    assert f"is before the newest published as-of, {NEWEST[:10]}" in older


# --- changed definitions of the source -------------------------------------------------------------------------------

# PostgreSQL 18 computes a virtual column when it is read, so a new expression writes no row.
DEFINED = f"""
    drop view {SCHEMA}_staging.stg_cirislens__covenant_traces cascade;
    create type cirislens.phase as enum ('chaos', 'healthy', 'rigidity');
    create domain cirislens.phase_or_null as cirislens.phase;
    alter table {TRACES}
        alter idma_phase type cirislens.phase_or_null using 'chaos',
        drop column conscience_passed,
        add column conscience_passed boolean generated always as (trace_id is not null) virtual,
        add column signer_key_id text;
    create table cirislens.child () inherits ({TRACES})
    """
DEFINITIONS = {
    "swapped labels of an enum": """
        alter type cirislens.phase rename value 'chaos' to 'x';
        alter type cirislens.phase rename value 'healthy' to 'chaos';
        alter type cirislens.phase rename value 'x' to 'healthy'""",
    "a renamed label of an enum": "alter type cirislens.phase rename value 'chaos' to 'disorder'",
    "another expression": f"alter table {TRACES} alter conscience_passed set expression as (trace_id is null)",
    "a swapped column": SWAP,
    "a swapped column of a child": f"""
        alter table cirislens.child no inherit {TRACES};
        alter table cirislens.child rename before to x;
        alter table cirislens.child rename action_success to before;
        alter table cirislens.child rename x to action_success;
        alter table cirislens.child inherit {TRACES}""",
}
FOREIGN_CHILD = f"""
    create foreign data wrapper elsewhere;
    create server elsewhere foreign data wrapper elsewhere;
    create foreign table cirislens.foreign_child () inherits ({TRACES}) server elsewhere
    """


def asked(database: Database, expression: str) -> str:
    """Return the value of an expression of the project's macros."""
    inline = (
        "{% if execute %}{% do run_query('set search_path to pg_catalog') %}{{ "
        + expression
        + " }}{% endif %}"
    )
    with kept_parsed(database.profiles_dir):
        outcome = dbt(database, "compile", "--inline", inline)
    assert outcome.succeeded, outcome.said
    return outcome.results[0].node.compiled_code


def test_definition_of_the_source_changes_with_every_change_of_its_values(restored):
    restored.execute(DEFINED)
    assert dbt(restored, "run", "--select", "stg_cirislens__covenant_traces").succeeded
    known = {asked(restored, "source_definition()")}
    for number, (name, change) in enumerate(DEFINITIONS.items(), 2):
        restored.execute(change)
        known.add(asked(restored, "source_definition()"))
        assert len(known) == number, name


def test_table_with_a_foreign_child_has_no_row_versions(restored):
    version = "row_version(source('cirislens', 'covenant_traces'))"
    assert "hashtidextended" in asked(restored, version)
    restored.execute(FOREIGN_CHILD)
    assert asked(restored, version) == "null::bigint"


def test_late_row_that_replaces_a_deleted_row_is_counted(restored):
    """The deleted row is older than the restatement window. The late row has the same time and another agent."""
    replaced = f"""
        update {TRACES} as gone
        set trace_id = 'late', agent_id_hash = (
            select min(others.agent_id_hash) from {TRACES} as others where others.agent_id_hash <> gone.agent_id_hash)
        where "timestamp" = (select min("timestamp") from {TRACES} where "timestamp" >= '2026-06-09')
        returning agent_id_hash
        """
    with restored.connect() as connection:
        [agent] = one_row(connection.execute(replaced))
        assert run(restored).exit_code == 0
        late = connection.execute(
            f"select agent_id_hash, period_start, n from {SCHEMA}.fct_data_quality where issue = 'late_trace'"
        ).fetchall()
    assert late == [(agent, datetime(2026, 6, 9, tzinfo=UTC), 1)]


# --- changed code ----------------------------------------------------------------------------------------------------

CHANGES_OF_CODE = {
    "macros/formulas/traces.sql": ("{{ entropy_level }} > ", "{{ entropy_level }} >= "),
    "seeds/capacity_categories.csv": ("Immediate intervention", "Instant intervention"),
}


@pytest.mark.slow
def test_run_checks_traces_again_after_a_change_of_code(restored, tmp_path: Path):
    """A macro and then a seed are changed, while no trace is added or changed."""
    project = tmp_path / "project"
    copy_project(REPOSITORY, project)
    on_the_edge = f"""
        update {TRACES} set entropy_level = 0.5, action_success = false {ONE_TRACE} returning trace_id
        """

    def run_copy() -> str:
        result = succeeded(invoke("run", *at(restored, project), "--as-of", NEWEST))
        return " ".join(result.stderr.split())

    said = "The code that checks traces has changed since the last run"
    with restored.connect() as connection:
        [trace] = one_row(connection.execute(on_the_edge))
        unsafe = f"select is_unsafe from {SCHEMA}_intermediate.int_trace_checks where trace_id = %s"
        assert said not in run_copy()
        assert one_row(connection.execute(unsafe, [trace])) == (False,)
        for name, (before, after) in CHANGES_OF_CODE.items():
            path = project / name
            text = path.read_text("utf-8")
            assert before in text
            path.write_text(text.replace(before, after, 1), "utf-8")
            assert said in run_copy(), name
        assert one_row(connection.execute(unsafe, [trace])) == (True,)
