"""Tests of silent agents (scoring.md §1) in increments: late traces, a return, a retirement, and the end of a silence.

Each increment equals a full refresh and the reference implementation.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from cases.notation import TRACES_FROM, Case, T, ago, traces
from ciris_scoring.database.project import load_project
from ciris_scoring.lab.embedded import SCHEMA
from ciris_scoring.marts.alerts import since_before
from ciris_scoring.marts.marts import Marts
from ciris_scoring.project_files import copy_project
from ciris_scoring.show.explain import page, read_explanation
from ciris_scoring.show.report import read_report
from ciris_scoring.show.tables import fleet_table
from conftest import REPOSITORY, Database
from pipeline import differences_from_reference, differences_from_refresh, insert_rows, load_rows, relations, score
from serving import SCORING, asking

VARIABLES = {"ciris_traces_from": TRACES_FROM.isoformat(), "ciris_scoring_parameters": {"silent_forget_days": 21}}
AGENTS = {name: f"{name:_<16}" for name in ("gone", "late", "back", "retired", "rare", "never", "again")}
RETIRED = {AGENTS["retired"]: ago(6), AGENTS["again"]: ago(22)}
FLEET = Case(
    "silent agents in increments",
    [
        *traces(ago(40), 90, agent="gone", every=timedelta(hours=4)),
        *traces(ago(40), 120, agent="late", every=timedelta(hours=4)),
        *traces(ago(40), 90, agent="back", every=timedelta(hours=4)),
        *traces(ago(3), 5, agent="back"),
        *traces(ago(40), 90, agent="retired", every=timedelta(hours=4)),
        *traces(ago(40), 40, agent="rare"),
        *traces(ago(25), 5, agent="rare"),
        *traces(ago(25), 5, agent="never"),
        *traces(ago(40), 90, agent="again", every=timedelta(hours=4)),
        *traces(ago(20), 60, agent="again", every=timedelta(hours=4)),
    ],
    hashes=AGENTS,
)
"""With 90 traces an agent is silent from 25 days before T on, with 120 traces from 20 days before T on. An agent is
forgotten after 21 days."""
LATE = Case("late traces", traces(ago(5), 3, agent="late"), hashes=AGENTS)
"""Traces of five days before T that arrive after the scores of four days before T."""
RUNS = (ago(22), ago(12), ago(4), ago(2), T)


@pytest.fixture
def retiring(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the project in which two agents are retired. One of them sends traces again."""
    project = tmp_path / "project"
    copy_project(REPOSITORY, project)
    with (project / "seeds/retired_agents.csv").open("a") as seed:
        for agent, retired_at in RETIRED.items():
            seed.write(f"{agent},{retired_at.isoformat()},switched off\n")
    monkeypatch.setenv("DBT_TARGET_PATH", str(tmp_path / "target"))
    return project


def wrong(database: Database, project: Path, period: str) -> Iterator[str]:
    """Score in increments and once from scratch, and yield the differences."""
    variables = VARIABLES | {"ciris_scoring_period": period}
    with database.connect() as connection:
        load_rows(connection, FLEET.sources)
        for as_of in RUNS:
            if as_of == ago(2):
                rows = [row | {"trace_id": f"late {row['trace_id']}"} for row in LATE.traces_of_source()]
                insert_rows(connection, "covenant_traces", rows)
            score(database.profiles_dir, as_of, variables, project_dir=project)
        as_ofs = [T - timedelta(hours=hours) for hours in (0, 1, 24, 25, 47, 48, 96, 144, 145, 240, 360)]
        yield from differences_from_reference(
            connection,
            T,
            period=period,
            as_ofs=None if period == "day" else as_ofs,
            parameters=VARIABLES["ciris_scoring_parameters"],
            retired=RETIRED,
            traces_from=TRACES_FROM,
        )
        statuses = dict(
            connection.execute(
                f"select agent_id_hash, score_status from {SCHEMA}.fct_capacity_scores where as_of = %s"
                " and window_days = 7",
                [T],
            ).fetchall()
        )
        expected = {"late": "insufficient_data", "back": "insufficient_data", "again": "no_traces"}
        if statuses != {AGENTS[name]: status for name, status in expected.items()}:
            yield f"statuses at T: {statuses}"
    yield from differences_from_refresh(database, T, variables, project)


def silent(database: Database, as_of: datetime) -> dict[str, str]:
    """Return the verdict of each silent agent at an as-of, in the window of 7 days."""
    with database.connect() as connection:
        return dict(
            connection.execute(
                f"""
                select agent_id_hash, verdict
                from {SCHEMA}.fct_verdicts
                inner join {SCHEMA}.fct_capacity_scores using (agent_id_hash, as_of, window_days)
                where as_of = %s and window_days = 7 and score_status = 'no_traces'
                """,
                [as_of],
            ).fetchall()
        )


def test_increments_with_silent_agents_equal_full_refresh_and_reference(database: Database, retiring: Path) -> None:
    assert list(wrong(database, retiring, "day")) == []
    assert silent(database, ago(8)) == {AGENTS[name]: "suspend" for name in ("gone", "back", "retired", "rare", "late")}
    assert silent(database, ago(6)) == {AGENTS[name]: "suspend" for name in ("gone", "back", "rare", "late")}


def test_agent_without_a_row_any_more_is_news(database: Database) -> None:
    """Three agents are forgotten 21 days after their last traces."""
    with database.connect() as connection:
        load_rows(connection, FLEET.sources)
    score(database.profiles_dir, T, VARIABLES)
    with database.connect() as connection:
        [news] = [
            news
            for days in range(6)
            if (news := since_before(Marts(connection, relations()), ago(days), 7, [])).ended_alerts
        ]
    labels = ", ".join(f"name of {AGENTS[name]} ({AGENTS[name][:8]})" for name in ("back", "gone", "retired"))
    assert f"{labels}: no row any more; suspend -> no verdict" in news.lines()


def test_every_surface_shows_silent_agents(database: Database) -> None:
    """One of two agents falls silent 30 days before T, when its key is untrusted. It is silent since then."""
    agent = AGENTS["gone"]
    fleet = Case(
        "surfaces",
        [
            *traces(ago(60), 360, agent="gone", every=timedelta(hours=2), signature_key_id="unknown"),
            *traces(ago(60), 720, agent="back", every=timedelta(hours=2)),
        ],
        hashes=AGENTS,
    )
    with database.connect() as connection:
        load_rows(connection, fleet.sources)
    score(database.profiles_dir, T, {"ciris_traces_from": TRACES_FROM.isoformat()})
    project = load_project(REPOSITORY, database.profiles_dir)
    told = read_explanation(project, agent)
    newest = "The newest score is of 2026-03-05: 0.000, High Fragility, withhold."
    assert told["silence"] == f"No trace since 2026-02-28 22:00. {newest}"
    assert " ".join(page(told).split()).startswith(told["silence"])
    assert (told["verdict"], [one["name"] for one in told["raised"]]) == ("suspend", ["silent"])
    assert (told["capacity_score"], told["last_score"]["verdict"]) == (None, "withhold")
    assert told["loss_components"] and told["explained_as_of"] == told["last_score"]["as_of"]
    with asking(project) as client:
        answer = client.get(f"{SCORING}/capacity/fleet").json()
        [found] = [one for one in answer["agents"] if one["agent_id_hash"] == agent]
        assert (found["score_status"], found["composite_score"], found["verdict"]) == ("no_traces", None, "suspend")
        assert answer["fleet"]["n_no_traces"] == 1
        for path in ("capacity", "factors", "history"):
            assert client.get(f"{SCORING}/{path}/{agent}").status_code == 200
        for path, said in {
            "/metrics": 'ciris_scoring_agents{category="no_traces",window_days="7"} 1.0',
            "/": "1 silent",
            f"/agent?agent_id={agent}": newest,
            "/?as_of=2026-03-08": "silent, so no longer measured, untrusted key: ",
        }.items():
            assert said in client.get(path, headers={"accept": "text/html"}).text, path
    with database.connect() as connection:
        text = fleet_table(connection, relations(), T)
        document = json.loads(read_report(connection, relations(), 7, json=True))
    assert re.search(r"\(gone____\) +-  +silent +suspend ", text) and " 1 silent\n" in text
    assert {one["score_status"] for one in document["agents"]} == {"final", "no_traces"}


@pytest.mark.slow
def test_hourly_increments_with_silent_agents_equal_full_refresh_and_reference(
    database: Database, retiring: Path
) -> None:
    assert list(wrong(database, retiring, "hour")) == []
