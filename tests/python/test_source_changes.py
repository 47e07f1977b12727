"""Tests of the time from which a run checks traces again: the first changed period within the restatement window.

test_healing.py tests that a run notices every change.
"""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from ciris_scoring.basics.connection import one_row
from ciris_scoring.lab.embedded import SCHEMA
from ciris_scoring.project_files import copy_project
from command_line import at, invoke, succeeded
from conftest import REPOSITORY
from test_bad_input import NEWEST, dbt, run

PUBLISHED = SCORED_UNTIL = "2026-06-14T00:00:00Z"
TRACES = "cirislens.covenant_traces"
ONE_TRACE = f"""
    where (trace_id, "timestamp") = (
        select trace_id, "timestamp" from {TRACES} where "timestamp" >= '2026-06-12T09:00Z'
        order by "timestamp" limit 1)
    """


EDIT = f"update {TRACES} set signature_verified = not signature_verified {ONE_TRACE}"
CHANGES = {
    "no new trace": ("select", PUBLISHED, "2026-06-14T00:00:00+00:00"),
    "a new day": ("select", NEWEST, "2026-06-14T00:00:00+00:00"),
    "an edited trace": (EDIT, NEWEST, "2026-06-12T00:00:00+00:00"),
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
