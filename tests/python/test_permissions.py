"""Tests of permissions by name: the seed permissions.csv, and the verdicts for each permission."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest
from starlette.testclient import TestClient

from ciris_scoring.lab.embedded import SCHEMA
from ciris_scoring.show.api.settings import Settings
from command_line import command, refused
from conftest import Database
from serving import SCORING, asking, problem, reader

TOOL_USE, AUTONOMY = ("Tool use", 0.6, 7), ("Autonomy", 0.85, 30)


@pytest.fixture
def client(sample_copy: Database) -> Iterator[TestClient]:
    with asking(sample_copy, Settings(version_seconds=0)) as client:
        yield client


@pytest.fixture
def connection(sample_copy: Database) -> Iterator[psycopg.Connection]:
    with sample_copy.connect() as connection:
        connection.execute(f"alter table {SCHEMA}.permissions rename to shipped_permissions")
        yield connection
        connection.execute(f"drop table if exists {SCHEMA}.permissions")
        connection.execute(f"alter table {SCHEMA}.shipped_permissions rename to permissions")


def seed(connection: psycopg.Connection, *rows: tuple[object, ...]) -> None:
    """Create the table permissions with columns of type text, which dbt chooses if a value is not a number."""
    connection.execute(f"create table {SCHEMA}.permissions (name text, threshold text, window_days text)")
    for row in rows:
        connection.execute(f"insert into {SCHEMA}.permissions values (%s, %s, %s)", row)


NAMES = ("permission", "verdict_threshold", "window_days")


def test_the_seed_ships_standard_operation(client, sample_copy):
    """Every page, report and command names the permission that a verdict is about."""
    of_agent = client.get(f"{SCORING}/factors/Link").json()
    [found] = of_agent["permissions"]
    assert [found[name] for name in NAMES] == [of_agent[name] for name in NAMES] == ["Standard operation", 0.6, 7]
    for text in (
        client.get("/").text,
        client.get("/agent?agent_id=Mire").text,
        command(sample_copy, "fleet").stdout,
        command(sample_copy, "report", "--output", "-").stdout,
    ):
        assert "for Standard operation (0.6 in 7 days)" in text


def test_without_seed_there_is_one_permission_without_name(client, connection, sample_copy):
    answer = client.get(f"{SCORING}/factors/Link").json()
    assert (answer["permission"], answer["verdict_threshold"], answer["permissions"]) == (None, 0.6, [])
    for text in (client.get("/").text, command(sample_copy, "fleet").stdout):
        assert "for 0.6 in 7 days" in text
    _, hint = refused(command(sample_copy, "fleet", "--permission", "Tool use"), 2)
    assert "docs/deciding.md" in hint


def test_api_pages_and_commands_show_permissions(client, connection, sample_copy):
    seed(connection, AUTONOMY, TOOL_USE)
    answer = client.get(f"{SCORING}/factors/Link").json()["permissions"]
    assert [tuple(one[name] for name in NAMES) for one in answer] == [TOOL_USE, AUTONOMY]

    same = {"threshold": AUTONOMY[1], "window_days": AUTONOMY[2]}
    expected = client.get(f"{SCORING}/capacity/fleet", params=same).json()["agents"]
    found = client.get(f"{SCORING}/capacity/fleet", params={"permission": "Autonomy"}).json()
    assert (found["window_days"], found["agents"]) == (30, expected)
    one = client.get(f"{SCORING}/capacity/Link", params={"permission": "Autonomy"}).json()
    assert [one[name] for name in ("verdict", *NAMES)] == ["withhold", *AUTONOMY]
    for params in ({"permission": "autonomy"}, {"permission": "Autonomy", "window_days": 7}):
        refusal = client.get(f"{SCORING}/capacity/fleet", params=params)
        assert (refusal.status_code, refusal.json()["allowed"]) == (422, ["Tool use", "Autonomy"])

    agent = client.get("/agent", params={"agent_id": "Link"}).text
    first, second = "for Tool use (0.6 in 7 days)", "for Autonomy (0.85 in 30 days)"
    assert first in client.get("/").text and second in client.get("/", params=same).text
    assert first in agent and second in agent
    assert first in command(sample_copy, "fleet").stdout
    for arguments in (("fleet",), ("explain", "Link")):
        assert second in command(sample_copy, *arguments, "--permission", "Autonomy").stdout
    assert command(sample_copy, "report", "--output", "-").stdout.count(second) == 14


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ([TOOL_USE, (None, "0.6", "7")], "permissions.csv has the row null, '0.6', '7', which must have a name"),
        ([("Files", "1.1", "7")], "the row 'Files', '1.1', '7', which must have a name, a threshold in [0, 1] and a"),
        ([("Files", "nan", "7")], "'nan'"),
        ([("Files", None, "7")], "'Files', null, '7'"),
        ([("Files", "0.6", "8")], "a published window; there are 7 and 30"),
    ],
)  # fmt: skip
def test_message_names_the_wrong_row_its_value_and_the_remedy(connection, sample_copy, rows, words):
    seed(connection, *rows)
    error, hint = refused(command(sample_copy, "fleet"))
    assert words in error and "dbt seed" in hint


def test_wrong_row_does_not_affect_answers_without_a_score(client, connection, caplog):
    seed(connection, ("Files", "2", "7"))
    for path in (f"{SCORING}/capacity/fleet", "/"):
        answer = client.get(path)
        assert answer.status_code == 500 and "permissions.csv has the row" in answer.text
        assert "dbt seed" in answer.text and "permissions.csv has the row" in caplog.messages[-1]
    for path in (f"{SCORING}/parameters", "/readyz"):
        assert client.get(path).status_code == 200


def test_refusal_of_a_reader_without_right_names_the_grant(connection, sample_copy, tmp_path, caplog):
    seed(connection, TOOL_USE)
    with reader(sample_copy, "onlooker", tmp_path) as onlooker:
        connection.execute(f"revoke select on {SCHEMA}.permissions from onlooker")
        error, hint = refused(command(onlooker, "fleet"))
        assert f"no right to read {SCHEMA}.permissions" in error
        assert f"grant select on {SCHEMA}.permissions" in hint
        with asking(onlooker, Settings(version_seconds=0)) as client:
            refusal = problem(client.get(f"{SCORING}/capacity/fleet"), 403, "no-right")
            assert f"no right to read {SCHEMA}.permissions" in refusal["detail"]
            assert f"grant select on {SCHEMA}.permissions" in caplog.text
            connection.execute(f"grant select on {SCHEMA}.permissions to onlooker")
            connection.execute(f"revoke select on {SCHEMA}.fct_trace_checks from onlooker")
            problem(client.get(f"{SCORING}/evidence/Link?component=i_chain"), 403, "no-right")
            assert "permission denied for view fct_trace_checks" in caplog.text
            assert "The server may not read this" in client.get("/", headers={"Accept": "text/html"}).text
        connection.execute(f"grant select on {SCHEMA}.fct_trace_checks to onlooker")
        assert "for Tool use (0.6 in 7 days)" in command(onlooker, "fleet").stdout
