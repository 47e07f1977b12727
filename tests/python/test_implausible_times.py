"""Tests of early traces. Cases and malformed rows have those that are too early to count (tests/cases/cleaning.py)."""

from __future__ import annotations

from datetime import timedelta

from ciris_scoring.lab.embedded import SCHEMA
from conftest import Database
from nasty_fleet import START, nasty_fleet
from pipeline import differences_from_reference, load_rows, score, score_rows

FIRST = "2020-01-01 00:00:00+00"


def test_lone_trace_years_ago_is_scored_in_its_windows(database: Database) -> None:
    """The trace is scored while a window contains it, and the years after it take no time."""
    as_of = START + timedelta(days=12)
    with database.connect() as connection:
        load_rows(connection, nasty_fleet(7))
        connection.execute(
            'insert into cirislens.covenant_traces (agent_id_hash, trace_id, "timestamp", idma_fragility_flag)'
            " values ('lone', 'first', %s::timestamptz, true)",
            [FIRST],
        )
        score(database.profiles_dir, as_of)
        assert connection.execute(
            "select count(*), count(distinct as_of) from ciris.fct_capacity_scores where agent_id_hash = 'lone'"
        ).fetchall() == [(7 + 30, 30)]
        assert connection.execute(
            "select count(*) from ciris_intermediate.int_windows where agent_id_hash = 'lone'"
        ).fetchall() == [(7 + 30,)]
        as_ofs = [START + timedelta(days=d) for d in (-2000, 1, 5, 12)]
        assert differences_from_reference(connection, SCHEMA, as_of, as_ofs=as_ofs) == []


def test_variable_sets_the_first_accepted_time(database: Database) -> None:
    """Earlier traces are ignored. Another value gives another parameter set, because it gives other scores."""
    as_of, first = START + timedelta(days=12), START + timedelta(days=5, hours=7)
    fleet = nasty_fleet(6)
    with database.connect() as connection:
        load_rows(connection, fleet)
        score(database.profiles_dir, as_of, {"ciris_traces_from": first.isoformat()})
        found = score_rows(connection, SCHEMA)
        connection.execute("drop schema ciris cascade; drop schema ciris_intermediate cascade")
        connection.execute('delete from cirislens.covenant_traces where "timestamp" < %s', [first])
        score(database.profiles_dir, as_of)
        expected = score_rows(connection, SCHEMA)
        ours, default = ({row.pop("parameter_set_id") for row in rows.values()} for rows in (found, expected))
        assert found == expected
        assert len(ours) == len(default) == 1
        assert ours != default
