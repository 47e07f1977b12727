"""Tests of the as-of of a run (scoring.md §1)."""

from datetime import UTC, date, datetime

import pytest

from ciris_scoring.cli.after_run import AfterRun
from ciris_scoring.cli.run_embedded import run_embedded
from ciris_scoring.database.as_of import resolve, text, traces_from
from ciris_scoring.database.project import load_project
from ciris_scoring.errors import InputError
from ciris_scoring.job.run_log import RunRecord
from ciris_scoring.lab.simulation.sample import SAMPLE
from conftest import REPOSITORY
from event_lens import create_engine_tables, insert_events

NOW = datetime(2026, 6, 15, 13, 45, 30, 999999, tzinfo=UTC)


@pytest.mark.parametrize(
    ("given", "period", "expected"),
    [
        ("2026-06-14T23:59:59.999999Z", "day", "2026-06-14T00:00:00Z"),
        ("2026-06-14T23:59:59", "day", "2026-06-14T00:00:00Z"),  # without a zone: UTC
        ("2026-06-15T01:30+02:00", "day", "2026-06-14T00:00:00Z"),  # 14 June in UTC
        ("2026-06-14T23:30-02:00", "day", "2026-06-15T00:00:00Z"),
        (" 2026-06-14 ", "day", "2026-06-14T00:00:00Z"),
        (date(2026, 6, 14), "day", "2026-06-14T00:00:00Z"),  # YAML parses 2026-06-14 as a date
        (datetime(2026, 6, 14, 3, 4), "day", "2026-06-14T00:00:00Z"),
        (None, "day", "2026-06-15T00:00:00Z"),
        ("2026-06-14T23:59:59.999999Z", "hour", "2026-06-14T23:00:00Z"),
        ("2026-06-14T23:00:00Z", "hour", "2026-06-14T23:00:00Z"),
        ("2026-06-14T10:15+05:30", "hour", "2026-06-14T04:00:00Z"),
        (None, "hour", "2026-06-15T13:00:00Z"),
    ],
)
def test_as_of_is_rounded_down_to_the_end_of_a_period(given, period, expected):
    assert text(resolve(given, period, NOW)) == expected


def test_ciris_traces_from_must_not_be_before_1970():
    assert text(traces_from({"traces_from": "1970-01-01"})) == "1970-01-01T00:00:00Z"
    with pytest.raises(InputError, match="1969-12-31T22:00:00Z, but must be in the year 1970 or later"):
        traces_from({"traces_from": "1970-01-01T00:00+02:00"})


def test_embedded_run_scores_up_to_the_end_of_the_newest_period(database, monkeypatch):
    """First the sample is loaded, then found. Then it has another trace, and at last there are only events."""
    used = []
    monkeypatch.setattr(AfterRun, "run", lambda _, __, as_of, **___: used.append(as_of) or NOW)
    project = load_project(REPOSITORY, database.profiles_dir)

    def run(as_of=None):
        after = AfterRun(RunRecord("run"), for_machines=True)
        run_embedded(project, as_of, after, full_refresh=False, allow_rescoring=False)
        return used[-1]

    assert run() == run() == SAMPLE["as_of"]
    assert run("2026-06-10") == "2026-06-10"
    database.execute(
        "insert into cirislens.covenant_traces (trace_id, agent_id_hash, \"timestamp\") values ('t', 'mine', now())"
    )
    assert run() == text(datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0))
    database.execute("drop table cirislens.covenant_traces")
    with database.connect() as connection:
        create_engine_tables(connection)
        insert_events(connection, [("t", "ACTION_RESULT", 1, NOW, "mine", {})])
    assert run() is None
    assert database.execute("select to_regclass('cirislens.covenant_traces')") == [(None,)]
