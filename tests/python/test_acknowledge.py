"""Tests of acknowledgements: the command, its rights, two people at once, and the texts that readers see."""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path

import psycopg
import pytest
import yaml
from click.testing import Result

import command_line
from ciris_scoring.basics.project import load_project
from ciris_scoring.lab.embedded import SCHEMA
from ciris_scoring.serve.api.settings import Settings
from conftest import REPOSITORY, Database
from serving import LINK, SCORING, asking, opened, read

TABLE = f"{SCHEMA}.ciris_acknowledgements"
TODAY = datetime.now(UTC).date()
SEEN = ("--by", "Ana", "--reason", "disk replaced", "--until", str(TODAY))


@pytest.fixture(scope="module", autouse=True)
def roles(sample_copy: Database) -> Iterator[None]:
    """A reader of the marts, and a person who may acknowledge, both without further rights."""
    with sample_copy.connect() as connection:
        connection.execute(
            f"create role watcher login; create role looker login; grant usage on schema {SCHEMA} to watcher, looker;"
            f"grant select on all tables in schema {SCHEMA} to watcher, looker"
        )
        yield
        connection.execute("drop owned by watcher, looker; drop role watcher, looker")


@pytest.fixture(autouse=True)
def empty(sample_copy: Database) -> None:
    with sample_copy.connect() as connection:
        connection.execute(f"drop table if exists {TABLE}")


def invoke(sample: Database, *arguments: str | Path, user: str | None = None) -> Result:
    place = command_line.at(sample)
    if user is not None:
        folder = sample.profiles_dir / user
        folder.mkdir(exist_ok=True)
        profile = yaml.safe_load((sample.profiles_dir / "profiles.yml").read_text())
        profile["ciris_scoring"]["outputs"]["dev"]["user"] = user
        (folder / "profiles.yml").write_text(yaml.safe_dump(profile))
        place[1] = str(folder)
    return command_line.invoke(*arguments, *place)


def acknowledged(sample: Database, *arguments: str, user: str | None = None) -> str:
    result = invoke(sample, "acknowledge", *arguments, user=user)
    assert result.exit_code == 0, result.output
    return result.stdout


def test_acknowledged_alert_is_marked_last_and_changes_no_score(sample_copy: Database):
    before = json.loads(invoke(sample_copy, "fleet", "--json").stdout)["agents"]
    assert acknowledged(sample_copy, "Link", "broken_chain", *SEEN).startswith("broken_chain of ")
    seen = f"seen by Ana until {TODAY}: disk replaced"

    *_, last = json.loads(invoke(sample_copy, "alerts", "--json").stdout)["alerts"]
    assert (last["agent_id_hash"], last["kind"], last["seen"]["seen_by"]) == (LINK, "broken_chain", "Ana")
    assert invoke(sample_copy, "alerts").stdout.split("\n\n")[1].splitlines()[-1].strip() == seen
    assert f"About broken chain: {seen}" in invoke(sample_copy, "explain", "Link").stdout
    after = json.loads(invoke(sample_copy, "fleet", "--json").stdout)["agents"]
    by_agent = [{row["agent_id_hash"]: row for row in rows} for rows in (before, after)]
    assert by_agent[1][LINK].pop("acknowledged") == [f"broken_chain: {seen}"]
    assert by_agent[0][LINK].pop("acknowledged") == []
    assert by_agent[0] == by_agent[1]
    places = [[row["agent_id_hash"] for row in rows].index(LINK) for rows in (before, after)]
    assert places[0] < places[1]

    listed = json.loads(acknowledged(sample_copy, "--json"))
    assert [one["agent_id_hash"] for one in listed["acknowledgements"]] == [LINK]
    assert "disk replaced" in acknowledged(sample_copy)
    acknowledged(sample_copy, "Link", "broken_chain", "--by", "Ben", "--withdraw")
    listed = json.loads(acknowledged(sample_copy, "--json"))
    assert listed["acknowledgements"] == []
    assert [(one["action"], one["seen_by"]) for one in listed["log"]] == [
        ("withdraw", "Ben"),
        ("acknowledge", "Ana"),
    ]


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


def test_mark_ends_with_the_day_and_with_the_alert(sample_copy: Database):
    acknowledged(sample_copy, "Mire", "low_capacity", *SEEN)

    def is_seen() -> bool:
        rows = json.loads(invoke(sample_copy, "alerts", "--json").stdout)["alerts"]
        [mire] = [row for row in rows if row["agent_name"] == "Mire" and row["kind"] == "low_capacity"]
        return mire["seen"] is not None

    assert is_seen()
    with sample_copy.connect() as connection:
        for change in (
            f"until = '{TODAY - timedelta(days=1)}'",
            "severity = 'warning'",  # it is critical now
            "written_at = '2026-06-01'",  # it has ended since, and was raised again on 10 June
        ):
            with connection.transaction(force_rollback=False):
                connection.execute(f"create table kept as select * from {TABLE}; update {TABLE} set {change}")
            assert not is_seen()
            connection.execute(
                f"update {TABLE} set until = kept.until, severity = kept.severity, written_at = kept.written_at"
                " from kept; drop table kept"
            )
    assert is_seen()


def test_two_people_at_once_are_both_in_the_log(sample_copy: Database):
    acknowledged(sample_copy, "Link", "broken_chain", *SEEN)
    names = [f"Person {number}" for number in range(4)]
    with ThreadPoolExecutor(4) as pool:
        project = load_project(REPOSITORY, sample_copy.profiles_dir)
        from ciris_scoring.job.acknowledge import write

        found = list(
            pool.map(lambda name: write(project, "Link", "broken_chain", name, "x", str(TODAY)), names)
        )
    rows = sorted((row for row, _ in found), key=lambda row: row.acknowledgement_id)
    assert {row.seen_by for row in rows} == set(names)
    # Each one replaces the one before it.
    assert [before.acknowledgement_id for _, before in sorted(found, key=lambda pair: pair[0].acknowledgement_id)] == [
        rows[0].acknowledgement_id - 1, *(row.acknowledgement_id for row in rows[:-1])
    ]  # fmt: skip


def test_rights_of_readers_and_writers(sample_copy: Database):
    error, hint = command_line.refused(
        invoke(sample_copy, "acknowledge", "Link", "broken_chain", *SEEN, user="watcher")
    )
    assert "may create it" in error and f"grant select, insert on {TABLE} to watcher" in hint.replace('"', "")
    acknowledged(sample_copy, "Link", "broken_chain", *SEEN)
    assert "Ana" in acknowledged(sample_copy, user="watcher")  # readers of the alerts may read it
    error, _ = command_line.refused(
        invoke(sample_copy, "acknowledge", "Link", "broken_chain", *SEEN, user="watcher")
    )
    assert "permission denied" in error
    columns = "agent_id_hash, kind, action, severity, seen_by, reason, until"
    with sample_copy.connect() as connection:
        connection.execute(f"grant insert ({columns}) on {TABLE} to watcher")
        acknowledged(sample_copy, "Hush", "silent", *SEEN, user="watcher")
        assert [row["role_name"] for row in read(connection, f"select role_name from {TABLE} order by 1")] == [
            "postgres", "watcher",
        ]  # fmt: skip
        connection.execute(f"revoke all on {TABLE} from looker")
        assert "Nothing" in acknowledged(sample_copy, user="looker")
        assert invoke(sample_copy, "fleet", user="looker").exit_code == 0
        connection.execute(f"alter table {TABLE} owner to watcher")
        error, hint = command_line.refused(invoke(sample_copy, "acknowledge", "Link", "broken_chain", *SEEN))
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
        (["Link", "broken_chain", *SEEN[:-1], "2020-01-01"], "which is over"),
        (["Link", "broken_chain", *SEEN[:-1], "soon"], "not a day"),
        (["Link", "broken_chain", "--by", " ", *SEEN[2:]], "--by is ' '"),
        (["Link", "broken_chain", "--by", "a\nb", *SEEN[2:]], "--by is"),
        (["Link", "broken_chain", "--by", "Ana", "--withdraw"], "No acknowledgement"),
        (["Link", "broken_chain", *SEEN, "--withdraw"], "does not go with"),
        (["--by", "Ana"], "AGENT and KIND are missing"),
    ],
)
def test_wrong_value_is_refused_and_writes_nothing(sample_copy: Database, arguments, expected):
    error, _ = command_line.refused(invoke(sample_copy, "acknowledge", *arguments), 2)
    assert expected in error
    assert json.loads(acknowledged(sample_copy, "--json")) == {"acknowledgements": [], "log": []}
