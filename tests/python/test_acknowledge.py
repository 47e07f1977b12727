"""Tests of acknowledgements: the command, its rights, two people at once, and the texts that readers see."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from operator import itemgetter
from pathlib import Path
from typing import Any

import psycopg
import pytest

from ciris_scoring.basics.project import load_project
from ciris_scoring.job.acknowledge import write
from ciris_scoring.lab.embedded import SCHEMA
from ciris_scoring.serve.api.settings import Settings
from command_line import command, refused, succeeded
from conftest import REPOSITORY, Database
from serving import LINK, SCORING, asking, opened, read, reader

TABLE = f"{SCHEMA}.ciris_acknowledgements"
TODAY = datetime.now(UTC).date()
SEEN = ("--by", "Ana", "--reason", "disk replaced", "--until", str(TODAY))


@pytest.fixture(autouse=True)
def empty(sample_copy: Database) -> None:
    sample_copy.execute(f"drop table if exists {TABLE}")


def acknowledged(sample: Database, *arguments: str) -> str:
    """Run `acknowledge`, which must succeed, and return its output."""
    return succeeded(command(sample, "acknowledge", *arguments)).stdout


def listed(sample: Database, name: str) -> dict[str, Any]:
    """Return the JSON document that a command prints."""
    return json.loads(command(sample, name, "--json").stdout)


def test_acknowledged_alert_is_marked_and_listed_last_and_changes_no_score(sample_copy: Database):
    before = listed(sample_copy, "fleet")["agents"]
    assert acknowledged(sample_copy, "Link", "broken_chain", *SEEN).startswith("broken_chain of ")
    seen = f"seen by Ana until {TODAY}: disk replaced"

    last = listed(sample_copy, "alerts")["alerts"][-1]
    assert (last["agent_id_hash"], last["kind"], last["seen"]["seen_by"]) == (LINK, "broken_chain", "Ana")
    assert command(sample_copy, "alerts").stdout.split("\n\n")[1].splitlines()[-1].strip() == seen
    assert f"About broken chain: {seen}" in command(sample_copy, "explain", "Link").stdout
    after = listed(sample_copy, "fleet")["agents"]
    places = [[row["agent_id_hash"] for row in rows].index(LINK) for rows in (before, after)]
    assert places[0] < places[1]
    assert before[places[0]].pop("acknowledged") == []
    assert after[places[1]].pop("acknowledged") == [f"broken_chain: {seen}"]
    assert sorted(before, key=itemgetter("agent_id_hash")) == sorted(after, key=itemgetter("agent_id_hash"))

    assert "disk replaced" in acknowledged(sample_copy)
    acknowledged(sample_copy, "Link", "broken_chain", "--by", "Ben", "--withdraw")
    found = listed(sample_copy, "acknowledge")
    entries = [(one["action"], one["seen_by"]) for one in found["log"]]
    assert (found["acknowledgements"], entries) == ([], [("withdraw", "Ben"), ("acknowledge", "Ana")])


def test_server_shows_acknowledgement_at_once_and_stays_read_only(sample_copy: Database):
    with (
        opened(load_project(REPOSITORY, sample_copy.profiles_dir)) as database,
        asking(database, Settings(version_seconds=0)) as client,
    ):
        first = client.get(f"{SCORING}/capacity/Link").json()
        assert [one["seen"] for one in first["raised"]] == [None]
        acknowledged(sample_copy, "Link", "broken_chain", *SEEN)
        second = client.get(f"{SCORING}/capacity/Link").json()
        assert [one["seen"]["reason"] for one in second["raised"]] == ["disk replaced"]
        assert (second["verdict"], second["verdict_reason"]) == (first["verdict"], first["verdict_reason"])
        assert client.post(f"{SCORING}/alerts").status_code == 405
        for path in ("/", "/alerts", "/agent?agent_id=Link"):
            assert "seen by Ana until" in client.get(path).text, path


def test_acknowledgement_ends_after_its_last_day_or_when_alert_changes(sample_copy: Database):
    acknowledged(sample_copy, "Mire", "low_capacity", *SEEN)
    for change, ends in {
        "reason = 'x'": False,
        f"until = '{TODAY - timedelta(days=1)}'": True,
        f"until = '{TODAY}', severity = 'warning'": True,  # acknowledged as a warning, critical now
        # The alert ended after 1 June and was raised again on 10 June.
        "severity = 'critical', written_at = '2026-06-01'": True,
    }.items():
        sample_copy.execute(f"update {TABLE} set {change}")
        rows = listed(sample_copy, "alerts")["alerts"]
        [mire] = [row for row in rows if row["agent_name"] == "Mire" and row["kind"] == "low_capacity"]
        assert (mire["seen"] is None) is ends, change


def test_concurrent_acknowledgements_are_all_in_the_log(sample_copy: Database):
    acknowledged(sample_copy, "Link", "broken_chain", *SEEN)
    project = load_project(REPOSITORY, sample_copy.profiles_dir)
    names = [f"Person {number}" for number in range(4)]
    with ThreadPoolExecutor(4) as pool:
        found = pool.map(lambda name: write(project, "Link", "broken_chain", name, "x", str(TODAY)), names)
        rows, replaced = zip(*sorted(found, key=lambda pair: pair[0].acknowledgement_id), strict=True)
    assert {row.seen_by for row in rows} == set(names)
    # Each acknowledgement replaces the previous acknowledgement.
    assert [row.seen_by for row in replaced] == ["Ana", *(row.seen_by for row in rows[:-1])]


def test_acknowledgements_need_a_right_to_read_and_a_right_to_write(sample_copy: Database, tmp_path: Path):
    asked = ("acknowledge", "Link", "broken_chain", *SEEN)
    with sample_copy.connect() as connection, reader(sample_copy, "watcher", tmp_path) as watcher:
        error, hint = refused(command(watcher, *asked))
        assert "may create it" in error
        assert f"grant select, insert on {TABLE} to watcher" in hint.replace('"', "")
        acknowledged(sample_copy, "Link", "broken_chain", *SEEN)
        assert "Ana" in acknowledged(watcher)  # readers of the alerts may read acknowledgements
        assert "permission denied" in refused(command(watcher, *asked))[0]
        columns = "agent_id_hash, kind, action, severity, seen_by, reason, until"
        connection.execute(f"grant insert ({columns}) on {TABLE} to watcher")
        acknowledged(watcher, "Hush", "silent", *SEEN)
        roles = [row["role_name"] for row in read(connection, f"select role_name from {TABLE} order by 1")]
        assert roles == ["postgres", "watcher"]
        connection.execute(f"revoke all on {TABLE} from watcher")
        assert "Nothing" in acknowledged(watcher) and command(watcher, "fleet").exit_code == 0
        connection.execute(f"alter table {TABLE} owner to watcher")
        error, hint = refused(command(sample_copy, *asked))
        assert "owner of the marts" in error and "alter table" in hint
        with pytest.raises(psycopg.errors.CheckViolation):
            connection.execute(
                f"insert into {TABLE} (agent_id_hash, kind, action, seen_by) values ('a', 'b', 'acknowledge', 'c')"
            )


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["Link"], "KIND and --by and --reason and --until missing"),
        (["Link", "silent", *SEEN], "no alert or red flag 'silent' now"),
        (["Nobody", "silent", *SEEN], "No agent is named 'Nobody'"),
        (["Link", "broken_chain", *SEEN[:-1], "2020-01-01"], "which is in the past"),
        (["Link", "broken_chain", *SEEN[:-1], "soon"], "not a day"),
        (["Link", "broken_chain", "--by", "a\nb", *SEEN[2:]], "--by is"),
        (["Link", "broken_chain", "--by", "Ana", "--withdraw"], "No acknowledgement"),
        (["Link", "broken_chain", *SEEN, "--withdraw"], "cannot be combined with"),
        (["--by", "Ana"], "AGENT and KIND are missing"),
    ],
)
def test_wrong_value_is_refused_and_writes_nothing(sample_copy: Database, arguments, expected):
    error, _ = refused(command(sample_copy, "acknowledge", *arguments), 2)
    assert expected in error
    assert listed(sample_copy, "acknowledge") == {"acknowledgements": [], "log": []}
