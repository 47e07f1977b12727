"""Tests of wrong values in commands, API and pages: a message names each wrong value, and nothing is written.

test_bad_input.py tests input that a run checks against the database, test_variables.py the variables of the project.
"""

from __future__ import annotations

import json
from pathlib import Path
from urllib.parse import quote

import pytest
from starlette.testclient import TestClient

from ciris_scoring.database.project import Project
from ciris_scoring.show.api import endpoints
from ciris_scoring.show.api import pages as api_pages
from ciris_scoring.show.formats import csv_cell, csv_text
from command_line import at, invoke
from conftest import Database
from serving import SCORING, asking, problem

# --- values of command options ---------------------------------------------------------------------------------------

COMMANDS: list[tuple[list[str], list[str]]] = [
    (["run", "--vars", "{ciris_as_of: soon}"], ["The variable ciris_as_of is 'soon'"]),
    (["run", "--vars", "{ciris_as_of: 2026-02-30}"], ["as_of", "2026-02-30"]),
    (["run", "--vars", "{ciris_as_of: 2026-01-01}", "--as-of", "2026-01-01"], ["given twice"]),
    *((["run", "--vars", one], ["--vars", one, "YAML dictionary"]) for one in ("{a: [}", "just words", "[1, 2]", "7")),
    (["run", "--vars", "{ciris_scoring_perid: hour}"], ["'ciris_scoring_perid'", "ciris_scoring_period?"]),
    (["run", "--vars", "{1: 2}"], ["names 1, which is not a variable"]),
    (["run", "--embedded"], ["--embedded brings its own profile"]),
    (["run", "--target", "prod"], ["'prod'"]),
    (["run", "--project-dir", "{folder}"], ["{folder}", "--project-dir"]),
    (["run", "--report", "{folder}"], ["it is a folder"]),
    (["run", "--report", "-"], ["--report is '-'"]),
    (["run", "--as-of", "a\x1b[31m\nb\u202e"], ["--as-of"]),
    (["run", "--from-batches", "x", "--embedded"], ["bring their own database"]),
    (["run", "--keys", "x"], ["--keys is only used with --from-batches"]),
    (["simulate", "--agents", "0"], ["--agents"]),
    (["simulate", "--end", "never"], ["--end is 'never'"]),
    (["simulate", "--end", "2026-06-15T00:30Z"], ["hour"]),
    (["report", "--output", "{folder}/none/fleet.html"], ["there is no folder"]),
    (["serve", "--host", "0.0.0.0"], ["no API key is set", "CIRIS_API_KEY"]),
    (["explain", "Link", "--as-of", "2026-06-14T12:00"], ["2026-06-14T12:00:00Z", "2026-06-14T00:00:00Z and"]),
    (["explain", "Link", "--window-days", "8"], ["A window of 8 days is not published", "there are 7 and 30"]),
    (["explain", "Link", "--since", "2026-06-15"], ["not before the as-of", "earlier as-of"]),
    (["explain", "Link", "--since", "2020-01-01"], ["at 2020-01-01T00:00:00Z", "Nearest: 2026-0"]),
    *((["explain", "Link", f"--threshold={value}"], ["--threshold"]) for value in ("nan", "inf", "2", "-0.1", "high")),
    *((["explain", name], [f"No agent is named '{name}'", "'Link'"]) for name in ("Lnk", "link")),
    *((["init-db", "--vars", json.dumps({"ciris_source_schema": name})], ["ciris_source_schema is ", "63 bytes"])
      for name in ("", " ", "50%", "%s", 'a"b', "o'neil", "a\0b", "\ud800", "x" * 64, "ü" * 32, 5, None)),
    *((["init-db", "--vars", f"ciris_source_schema: {name}"], [f"is '{name}', but", "a schema of PostgreSQL itself"])
      for name in ("information_schema", "pg_catalog")),
    (["init-db", "--vars", "{" * 2_000], ["YAML"]),
    (["load", "x.json", "--vars", "{ciris_distribution: citus}"], ["Batches cannot be loaded into a Citus cluster."]),
    *((["explain", name], ["agent"]) for name in ("", " ", "\udcff", "a\x1b[31m'; drop table x; --%s")),
]  # fmt: skip


@pytest.mark.parametrize(("arguments", "expected"), COMMANDS, ids=range(len(COMMANDS)))
def test_message_has_the_wrong_value_of_an_option(
    scored_sample: Database, tmp_path: Path, monkeypatch, arguments, expected
):
    monkeypatch.delenv("CIRIS_API_KEY", raising=False)
    given = [argument.replace("{folder}", str(tmp_path)) for argument in arguments]
    place = at(scored_sample) if "--project-dir" not in given else at(scored_sample)[:2]
    result = invoke(*given, *place)
    assert result.exit_code == 2, result.output
    assert result.stdout == ""
    assert all(text.replace("{folder}", str(tmp_path)) in result.stderr for text in expected), result.stderr
    assert all(line.isprintable() for line in result.stderr.splitlines()), result.stderr
    assert list(tmp_path.iterdir()) == []


# --- paths -----------------------------------------------------------------------------------------------------------

OPTIONS_WITH_PATHS = [
    *(("check", option) for option in ("--profiles-dir", "--project-dir")),
    *(("run", "--report"), ("report", "--output"), ("init",), ("stop", "--project-dir")),
]


@pytest.mark.parametrize("path", [f"/tmp/{'y' * 300}", "/abcd" * 1_000], ids=["long name", "long path"])
def test_path_that_is_too_long_is_refused(path):
    for arguments in OPTIONS_WITH_PATHS:
        result = invoke(*arguments, path)
        assert result.exit_code == 2 and path[:50] in result.output, arguments


def test_loop_of_links_is_refused(scored_sample, tmp_path):
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    loop = tmp_path / "a"
    for command in ("check", "stop"):
        result = invoke(command, "--project-dir", loop)
        assert result.exit_code == 2 and str(loop) in result.stderr, (command, result.output)
    assert invoke("report", "--output", loop, *at(scored_sample)).exit_code == 0, "the report replaces the link"


# --- output ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        *((text, "'" + text) for text in ("＝1+1", "＋1", "－1", "＠SUM(A1)", "=1+1", "\tx")),
        # Spreadsheets of many countries separate cells by semicolons, and then ignore quotes inside a line.
        ("Link;=1+1", "Link;'=1+1"), ("a; ＠b;c", "a; '＠b;c"), ("\n=1+1", "'\n'=1+1"), ("a\r-1", "a\r'-1"),
        ("a=b; c-d", "a=b; c-d"),
    ],
)  # fmt: skip
def test_csv_quotes_formulas_at_the_start_of_a_cell_or_after_a_separator(text: str, expected: str) -> None:
    assert csv_cell(text) == expected
    assert csv_text(["n", "name"], [{"n": 1.5, "name": text}]) == f'"n","name"\r\n1.5,"{expected}"\r\n'


# --- API and pages ---------------------------------------------------------------------------------------------------

API: list[tuple[str, list[str], str]] = [
    ("capacity/fleet", ["window_days=0", "window_days=-7", "window_days=7.5", f"window_days={10**100}", "window_days=",
                        "window_days=NaN"], "window_days"),
    ("capacity/fleet", ["limit=1"], "limit"),
    ("capacity/fleet", ["sort=verdict"], "sort"),
    ("capacity/fleet", ["as_of=9999-99-99", "as_of=yesterday"], "as_of"),
    ("capacity/fleet", [f"threshold={value}" for value in ("nan", "inf", "2", "-0.1", "high")], "threshold"),
    ("capacity/fleet", ["windowdays=30"], "windowdays"),
    ("capacity/Link", ["as_of=", "as_of=2026-06-15T25:00", "as_of=9999-12-31T23:59:59-12:00"], "as_of"),
    ("history/Link", ["days=0", "days=401", "days=-1", "days=1e3"], "days"),
    ("alerts", ["threshold=-0.1", "threshold=1.1", "threshold=nan", "threshold=1e999", "threshold=x"], "threshold"),
    ("evidence/Link", ["", "component=", "component=delta_drift", "component=ECE", "component=%00"], "component"),
    ("evidence/Link", ["component=i_chain&limit=0", "component=i_chain&limit=1001"], "limit"),
]  # fmt: skip
PAGES: list[tuple[str, int, str]] = [
    ("/?threshold=2", 422, "threshold"),
    ("/?window_days=8", 404, "there are 7 and 30."),
    ("/agent?agent_id=Link&window_days=5", 404, "there are 7 and 30."),
    ("/alerts?as_of=2020-01-01", 404, "There is no such score"),
    ("/evidence?agent_id=Link&component=ece", 404, "No single trace lowers this component"),
    ("/evidence?agent_id=Link&component=i_chain&as_of=2020-01-01", 404, "Scores exist for 45 as-ofs"),
]  # fmt: skip
HOSTILE = [
    "%00", "a%00b", "%ED%A0%80", "%FF%FE", "x" * 10_240, "9" * 10_240, "9999-12-31T23:59:59-14:00", "-1", "1e999",
    "%F0%9F%92%A9" * 2_000, "%E2%80%AE", "%FF%FE", "..%2f..%2fetc%2fpasswd", "..", "%0d%0aSet-Cookie:%20a=b", "%zz",
    *map(quote, ("' or 1=1 --", "'; drop table ciris.dim_agents; --", "1); select pg_sleep(9) --", "%s", "{schema}")),
]  # fmt: skip
NEEDED = {"agent_id": "Link", "component": "i_chain"}


@pytest.fixture(scope="module")
def client(sample_project: Project) -> TestClient:
    return asking(sample_project, follow_redirects=False, raise_server_exceptions=False)


@pytest.mark.parametrize(("path", "queries", "parameter"), API, ids=lambda one: one if isinstance(one, str) else "")
def test_api_names_the_wrong_parameter(client, path, queries, parameter):
    for query in queries:
        document = problem(client.get(f"{SCORING}/{path}?{query}"), 422)
        assert [error["parameter"] for error in document["errors"]] == [parameter], query


@pytest.mark.parametrize(("path", "status", "said"), PAGES, ids=lambda one: str(one))
def test_wrong_parameter_of_a_page_gets_a_message(client, path, status, said):
    answer = client.get(path, headers={"accept": "text/html"})
    assert (answer.status_code, answer.headers["content-type"]) == (status, "text/html; charset=utf-8")
    assert said in answer.text and "Back to the fleet" in answer.text


def test_hostile_parameter_of_endpoint_or_page_gets_a_normal_answer(client):
    n_parameters = 0
    for route in (*endpoints.api.routes, *api_pages.router.routes):
        names = [field.alias for field in route.dependant.query_params]
        for name in (*names, *(field.alias for field in route.dependant.path_params)):
            n_parameters += 1
            for text in HOSTILE:
                values = NEEDED | {name: text}
                path = route.path.replace("{agent_id:path}", "{agent_id}").format(**values)
                answer = client.get(f"{path}?{'&'.join(f'{n}={values[n]}' for n in names if n in values)}")
                assert answer.status_code in (200, 307, 404, 409, 422), (path, text[:300], answer.text[:300])
                if answer.status_code not in (200, 307) and "html" not in answer.headers["content-type"]:
                    problem(answer, answer.status_code)
                assert "Traceback" not in answer.text and "psycopg" not in answer.text
    assert n_parameters >= 20
