"""Tests of the API on the sample: lists, names of agents, the OpenAPI document, the server, and loss of the database.

test_shown_numbers.py compares the answers with the marts. Wrong parameters are in test_bad_values.py.
"""

from __future__ import annotations

import contextlib
import csv
import http.client
import io
import itertools
import json
import re
import socket
from collections import defaultdict
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from importlib.metadata import version
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, quote, urlsplit
from uuid import uuid4

import psycopg
import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from prometheus_client.parser import text_string_to_metric_families
from psycopg.rows import dict_row
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi import checks as openapi_checks
from starlette.testclient import TestClient

import command_line
from ciris_scoring.database.project import Project, load_project
from ciris_scoring.errors import InputError
from ciris_scoring.lab.embedded import SCHEMA
from ciris_scoring.lab.simulation.sample import SAMPLE
from ciris_scoring.show.api.app import create_app
from ciris_scoring.show.api.database import CSV
from ciris_scoring.show.api.database import Database as ServedDatabase
from ciris_scoring.show.api.endpoints import api
from ciris_scoring.show.api.problems import Problem
from ciris_scoring.show.api.settings import Settings, settings_of
from ciris_scoring.show.formats import time_text
from conftest import REPOSITORY, Database
from html_text import cells
from serving import KEY, LINK, SCORING, asking, problem, reader, running

AS_OF = datetime.fromisoformat(SAMPLE["as_of"])
MORPHEUS, ECHO = "da3f08513aac60cf", "e835d1c17f9256da"
READER = "ciris_api"
# The tests change the marts, so the server must look for a new publication at every request.
SETTINGS = Settings(version_seconds=0)


@pytest.fixture(scope="module")
def project(sample_copy: Database, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    """The project with the profile of a role that may only read the marts."""
    with reader(sample_copy, READER, tmp_path_factory.mktemp("reader")) as database:
        yield load_project(REPOSITORY, database.profiles_dir)


@pytest.fixture(scope="module")
def client(project: Project) -> Iterator[TestClient]:
    with asking(project, SETTINGS) as client:
        yield client


@pytest.fixture(scope="module")
def port(client: TestClient) -> Iterator[int]:
    """Number of the port on which the API is served."""
    with running(client.app) as served_on:
        yield served_on


@pytest.fixture(scope="module")
def marts(sample_copy: Database) -> Iterator[psycopg.Connection]:
    """Connection as the owner of the marts, with the marts' schema in the search path."""
    with sample_copy.connect() as connection:
        connection.execute(f"set search_path to {SCHEMA}")
        connection.row_factory = dict_row
        yield connection


def get(client: TestClient, path: str, **parameters: Any) -> Any:
    """Return an answer with status 200."""
    response = client.get(SCORING + path, params=parameters)
    assert response.status_code == 200, response.text
    assert response.headers["content-type"] == "application/json"
    return response.json()


def enter(marts: psycopg.Connection, outcome: str | None) -> str:
    """Add a run to the run log and return its id. Without an outcome the run is unfinished."""
    run_id = str(uuid4())
    marts.execute(
        f"insert into {SCHEMA}_intermediate.int_runs (run_id, started_at, command, outcome)"
        " values (%s, now(), 'run', %s)",
        [run_id, outcome],
    )
    return run_id


@contextlib.contextmanager
def changed(marts: psycopg.Connection, table: str, statement: str, values: Sequence[Any] = ()) -> Iterator[None]:
    """Change a mart and log a publication. Restore the mart afterwards."""
    marts.execute(f"create table {table}_before as select * from {table}")
    try:
        marts.execute(statement, values)
        enter(marts, "published")
        yield
    finally:
        marts.execute(f"truncate {table}; insert into {table} select * from {table}_before")
        marts.execute(f"drop table {table}_before")
        enter(marts, "published")


# --- lists -----------------------------------------------------------------------------------------------------------


def test_fleet_begins_with_the_highest_score_and_has_every_agent(client, marts):
    """On 11 June, Sprout has too few traces."""
    as_of = datetime(2026, 6, 11, tzinfo=UTC)
    query = "select agent_id_hash, capacity_score from fct_capacity_scores where as_of = %s and window_days = 7"
    expected = {row["agent_id_hash"]: row["capacity_score"] for row in marts.execute(query, [as_of])}
    found = get(client, "/capacity/fleet", as_of="2026-06-11")["agents"]
    assert {one["agent_id_hash"]: one["composite_score"] for one in found} == expected
    *scores, without = [one["composite_score"] for one in found]
    assert scores == sorted(scores, reverse=True) and without is None and found[-1]["agent_name"] == "Sprout"
    names = [one["agent_name"] for one in get(client, "/capacity/fleet", sort="agent_name")["agents"]]
    assert names == sorted(names)
    urgent = get(client, "/capacity/fleet", sort="attention")["agents"]
    assert urgent[0]["agent_name"] == "Latch", "as on the page of the fleet"


@pytest.mark.parametrize(
    ("path", "members", "key", "query"),
    [
        ("evidence/Link?component=q_deferral", "deferrals", "deferral_id", f"""
            select deferral_id as key from fct_deferral_values
            where agent_id_hash = '{LINK}' and is_judged and created_at between '2026-06-08' and '2026-06-15'
                and judged_from < '2026-06-15'"""),
        ("evidence/Link?component=i_chain", "traces", "trace_id", f"""
            select trace_id as key from fct_trace_checks
            where agent_id_hash = '{LINK}' and is_counted and not is_chain_valid
                and traced_at >= '2026-06-08' and traced_at < '2026-06-15'"""),
    ],
)  # fmt: skip
def test_list_has_all_rows_of_the_mart_as_json_and_csv(client, marts, path, members, key, query):
    expected = sorted(row["key"] for row in marts.execute(query))
    found = client.get(f"{SCORING}/{path}").json()[members]
    assert sorted(row[key] for row in found) == expected != []
    assert sorted(row[key] for row in table(client, f"/{path}")) == expected
    if members == "traces":
        assert client.get(f"{SCORING}/{path}&limit=2").json()[members] == found[:2]


def table(client: TestClient, path: str) -> list[dict[str, str]]:
    """Return the rows of an answer as CSV."""
    answer = client.get(SCORING + path, params={**dict(parse_qsl(urlsplit(path).query)), "format": "csv"})
    assert (answer.status_code, answer.headers["content-type"]) == (200, f"{CSV}; charset=utf-8")
    return list(csv.DictReader(io.StringIO(answer.text)))


def test_history_has_all_requested_days(client, marts):
    published = [row["as_of"] for row in marts.execute("select distinct as_of from fct_fleet_capacity order by 1")]
    earlier = datetime(2026, 6, 3, tzinfo=UTC)
    for asked, as_of, days in (({}, AS_OF, 30), ({"as_of": "2026-06-03", "days": 2}, earlier, 2)):
        found = get(client, "/history/Link", **asked)
        expected = [time_text(one) for one in published if as_of - timedelta(days=days) <= one <= as_of]
        assert [one["as_of"] for one in found["history"]] == expected
        assert (found["period_days"], found["as_of"]) == (days, time_text(as_of))
        assert found["current_score"] == found["history"][-1]["composite_score"]


def test_probes_say_that_the_server_runs_and_marts_are_readable(client, marts):
    assert client.get("/healthz").json() == {"status": "ok"}
    before = (datetime.now(UTC) - AS_OF).total_seconds()
    ready = client.get("/readyz").json()
    after = (datetime.now(UTC) - AS_OF).total_seconds()
    assert ready["as_of"] == time_text(AS_OF) and before <= ready["as_of_age_seconds"] <= after
    marts.execute("alter table dim_agents rename to dim_agents_away")
    try:
        assert "no dim_agents" in problem(client.get("/readyz"), 503, "not-published")["detail"]
        response = client.get(f"{SCORING}/capacity/Link")
        assert (response.status_code, response.headers["retry-after"]) == (503, "2")
    finally:
        marts.execute("alter table dim_agents_away rename to dim_agents")
    assert client.get("/readyz").status_code == 200


# --- refused requests ------------------------------------------------------------------------------------------------

NEAREST = [f"2026-06-{day:02}T00:00:00Z" for day in range(6, 16)]
REFUSED: list[tuple[str, int, str, str, dict[str, Any]]] = [
    *((f"{SCORING}/{path}?window_days=8", 422, "bad-parameter", "there are 7 and 30", {"allowed": [7, 30]})
        for path in ("capacity/fleet", "alerts")),
    *((f"{SCORING}/{path}as_of=2026-06-10T07:00:00Z", 404, "no-score",
        "Nearest: 2026-06-10T00:00:00Z and 2026-06-11T00:00:00Z.", {"as_ofs": NEAREST})
        for path in (*("capacity/Link?", "capacity/fleet?", "alerts?", "history/Link?"),
                     "evidence/Link?component=i_chain&")),
    (f"{SCORING}/capacity/Lnik", 404, "unknown-agent", "'Link'",
        {"agents": [{"agent_id_hash": LINK, "agent_name": "Link"}]}),
    (f"{SCORING}/capacity/Link?window_days=0&threshold=x", 422, "bad-parameter", "", {"errors": [
        {"parameter": "window_days", "message": "is '0': Input should be greater than or equal to 1"},
        {"parameter": "threshold",
         "message": "is 'x': Input should be a valid number, unable to parse string as a number"}]}),
    (f"{SCORING}/capacity/Link?as_at=2026-06-10&_=1&utm", 422, "bad-parameter", "'as_at' is not a parameter here",
        {"allowed": ["threshold", "permission", "window_days", "as_of"]}),
    ("/nothing", 404, "not-found", "'/nothing'", {}),
]  # fmt: skip


def test_refused_request_lists_allowed_or_nearest_values(client):
    for path, status, kind, detail, members in REFUSED:
        found = problem(client.get(path), status, kind)
        assert detail in found["detail"], found
        assert {name: found[name] for name in members} == members, path
    for method in ("POST", "PUT", "DELETE", "PATCH"):
        response = client.request(method, f"{SCORING}/alerts", content=b"x" * 100_000)
        problem(response, 405, "method-not-allowed")
        assert response.headers["allow"] == "GET, HEAD"


# --- identifying agents ----------------------------------------------------------------------------------------------

LABEL = "Link (4107c26f)"
BOTH = {LINK, ECHO}
OF_AN_AGENT = ("capacity/{}", "factors/{}", "history/{}", "evidence/{}?component=d_identity")


@pytest.mark.parametrize(
    ("change", "asked"),
    [
        # Morpheus was called Haven and Proteus earlier. Another agent is called Haven now.
        ("", {"Haven": "aff0528b", "Haven (da3f0851)": MORPHEUS, "Proteus": MORPHEUS}),
        ("agent_name = 'Link'", {
            "Link": BOTH, LINK: LINK, LINK[:4]: LINK, LABEL: LINK, "Link 4107c26f": LINK, f"hash:{LINK}": LINK}),
        # Echo takes the hash or the label of Link. Nobody may then get Echo's score in place of Link's.
        (f"agent_name = '{LINK}'", {LINK: BOTH, f"hash:{LINK}": LINK}),
        (f"agent_name = '{LINK[:8]}'", {LINK[:8]: BOTH, f"hash:{LINK}": LINK}),
        (f"agent_name = '{LABEL}'", {LABEL: BOTH, f"hash:{LINK}": LINK}),
        ("agent_id_hash = 'Link'", {"Link": {LINK, "Link"}, f"hash:{LINK}": LINK}),
        (f"former_names = array['{LINK}', '{LINK[:6]}']",
            {LINK: LINK, LINK[:6]: BOTH, f"hash:{LINK}": LINK}),
    ],
    ids=["former", "name", "hash", "beginning", "label", "hash like a name", "former hash"],
)  # fmt: skip
def test_text_identifies_one_agent_or_is_refused_with_all_matching_agents(client, marts, change, asked):
    statement = f"update dim_agents set {change or 'agent_name = agent_name'} where agent_id_hash = '{ECHO}'"
    with changed(marts, "dim_agents", statement):
        for endpoint, (text, expected) in itertools.product(OF_AN_AGENT, asked.items()):
            path = f"{SCORING}/{endpoint.format(quote(text, safe=''))}"
            if isinstance(expected, set):
                found = problem(client.get(path), 409, "ambiguous-agent")
                assert {agent["agent_id_hash"] for agent in found["agents"]} == expected
                assert "'hash:" in found["detail"]
            else:
                assert client.get(path).json()["agent_id_hash"].startswith(expected), path


def test_agent_with_any_name_can_be_requested(port, marts):
    name = """../a/b?c#%41 ü探👩‍👧\u202e"><script>'; --"""
    statement = "update dim_agents set agent_name = %s where agent_id_hash = %s"
    with (
        changed(marts, "dim_agents", statement, [name, LINK]),
        contextlib.closing(http.client.HTTPConnection("127.0.0.1", port)) as connection,
    ):
        connection.request("GET", f"{SCORING}/factors/{quote(name, safe='')}")
        answer = connection.getresponse()
        assert (answer.status, json.load(answer)["agent_id_hash"]) == (200, LINK)


# --- the OpenAPI document --------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def fuzzed(project: Project) -> Any:
    """OpenAPI document of an application that accepts every host name, because schemathesis chooses the name."""
    asked = create_app(ServedDatabase(project), Settings(version_seconds=60, local_names_only=False))
    return schemathesis.openapi.from_asgi("/openapi.json", asked)


CHECKS = [
    not_a_server_error,
    openapi_checks.status_code_conformance,
    openapi_checks.content_type_conformance,
    openapi_checks.response_headers_conformance,
    openapi_checks.response_schema_conformance,
    openapi_checks.positive_data_acceptance,
    openapi_checks.negative_data_rejection,
    openapi_checks.unsupported_method,
]


def is_within_schema(case: schemathesis.Case) -> bool:
    """Return whether a request is certainly valid. The schema cannot express that window and permission must exist."""
    asked = case.query or {}
    return "permission" not in asked and str(asked.get("window_days")) in ("None", "7", "30")


@pytest.mark.parametrize("operation", ["healthz", "readyz", *(one.operation_id for one in api.routes)])
def test_answers_match_the_openapi_document(fuzzed, operation):
    asked = fuzzed.find_operation_by_id(operation)
    for mode in GenerationMode:
        if mode == GenerationMode.NEGATIVE and not asked.definition.raw.get("parameters"):
            continue  # no parameter to fuzz

        cases = asked.as_strategy(generation_mode=mode)
        if mode == GenerationMode.POSITIVE:
            cases = cases.filter(is_within_schema)

        @given(case=cases)
        @settings(max_examples=12, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
        def check(case: schemathesis.Case) -> None:
            case.call_and_validate(checks=CHECKS)
            if "agent_id" in case.path_parameters:
                case.path_parameters["agent_id"] = LINK
                case.call_and_validate(checks=CHECKS[:-2])

        check()


# --- the cache -------------------------------------------------------------------------------------------------------


def test_answer_stays_cached_until_a_publication(client, marts):
    path = f"{SCORING}/capacity/fleet"
    enter(marts, "published")
    first, again = (client.get(path) for _ in range(2))
    etag = first.headers["etag"]
    assert again.headers["etag"] == etag and first.headers["cache-control"] == "public, no-cache"
    assert again.content == first.content, "the member timestamp is the same, too"
    for tags in (etag, etag.removeprefix("W/"), f'"x", {etag}'):
        unchanged = client.get(path, headers={"If-None-Match": tags})
        assert (unchanged.status_code, unchanged.content, unchanged.headers["etag"]) == (304, b"", etag)
    assert client.get(path, headers={"If-None-Match": '"x"'}).status_code == 200
    assert client.get(f"{path}?window_days=30").headers["etag"] != etag
    statement = (
        "update fct_capacity_scores set capacity_score = 0.123 "
        "where agent_id_hash = %s and as_of = %s and window_days = 7"
    )
    with changed(marts, "fct_capacity_scores", statement, [LINK, AS_OF]):
        newer = client.get(path, headers={"If-None-Match": etag})
        assert newer.status_code == 200 and newer.headers["etag"] != etag
        assert 0.123 in {agent["composite_score"] for agent in newer.json()["agents"]}


def test_answers_are_not_cached_while_a_run_is_unfinished(client, marts):
    """While a run is unfinished, and after it has failed or was killed, some marts may be old and others new."""
    seen: set[str] = set()

    def new_tags() -> int:
        """Send two requests, and return how many of the two entity tags are new."""
        before = len(seen)
        for _ in range(2):
            seen.add(client.get(f"{SCORING}/capacity/fleet").headers["etag"])
        return len(seen) - before

    assert new_tags() == 1
    enter(marts, "refused")
    assert new_tags() == 1
    run_id = enter(marts, None)
    enter(marts, "refused")  # This run is refused, because another run is unfinished.
    for outcome in (None, "failed", "interrupted"):
        query = f"update {SCHEMA}_intermediate.int_runs set outcome = %s where run_id = %s"
        marts.execute(query, [outcome, run_id])
        assert new_tags() == 2
    for outcome in ("built", "published"):
        enter(marts, outcome)
        assert new_tags() == 1
    # The server's clock was corrected, so the last run is not the newest one by its time.
    newest = enter(marts, "published")
    query = f"update {SCHEMA}_intermediate.int_runs set started_at = '2020-01-01' where run_id = %s"
    marts.execute(query, [newest])
    assert new_tags() == 1


def test_uncached_answer_has_the_newest_publication(project, marts):
    """The server looks for a new publication only once an hour. In between, the newest as-of changes."""
    newest = time_text(AS_OF - timedelta(days=1))
    with asking(project, Settings(version_seconds=3600)) as client, contextlib.ExitStack() as stack:
        get(client, "/parameters")
        for table in ("fct_capacity_scores", "fct_fleet_capacity", "fct_capacity_alerts"):
            statement = f"delete from {table} where as_of = %s"
            stack.enter_context(changed(marts, table, statement, [AS_OF]))
        assert get(client, "/capacity/fleet")["as_of"] == newest
        history = get(client, "/history/Link")
        assert history["as_of"] == history["history"][-1]["as_of"] == newest
        alerts = get(client, "/alerts")
        assert {alerts["as_of"], *(one["as_of"] for one in alerts["alerts"])} == {newest}


def test_cache_stays_within_its_size(project, marts):
    """An answer larger than the cache is not kept. The least recently used answers are dropped."""
    paths = [
        f"{SCORING}/capacity/{row['agent_id_hash']}"
        for row in marts.execute("select agent_id_hash from dim_agents").fetchall()
    ]
    large = f"{SCORING}/capacity/fleet"
    with asking(project, Settings(version_seconds=60, cache_bytes=20_000)) as client:
        asked = [*paths, large, large, paths[-1], paths[0]]
        for path in asked:
            assert client.get(path).status_code == 200
        kept = client.app.state.answers
        assert 0 < kept._n_bytes == sum(map(len, kept._kept.values())) <= 20_000
        shown = [path for path, _ in kept._kept]
        assert large not in shown and shown[-2:] == asked[-2:]


# --- keys --------------------------------------------------------------------------------------------


def test_key_is_required_except_for_probes(project):
    with asking(project, Settings(key=KEY)) as client:
        path = f"{SCORING}/capacity/Link"
        wrong: list[dict[str, str]] = [{}, {"X-API-Key": KEY[:-1]}, {"X-API-Key": "ü"}]
        wrong += [{"Authorization": value} for value in (f"Bearer {KEY}x", "Basic !", "Basic /w==", "Basic é", KEY)]
        for headers in wrong:
            response = client.get(path, headers={k: v.encode() for k, v in headers.items()})
            problem(response, 401, "key-required")
            assert "Bearer" in response.headers["www-authenticate"]
            assert KEY not in response.text
        for given in ({"X-API-Key": KEY}, {"Authorization": f"Bearer {KEY}"}):
            response = client.get(path, headers=given)
            assert (response.status_code, response.headers["cache-control"]) == (200, "private, no-cache")
        assert client.get(path, auth=("anybody", KEY)).status_code == 200
        assert [client.get(path).status_code for path in ("/", "/metrics", "/openapi.json")] == [401] * 3
        assert client.get("/metrics", headers={"X-API-Key": KEY}).status_code == 200
        assert client.get("/healthz").status_code == client.get("/readyz").status_code == 200
    assert "0123456789" not in repr(Settings(key=KEY))


def test_key_is_required_unless_host_is_loopback(monkeypatch):
    def settled(host: str, no_auth: bool = False) -> Settings:
        return settings_of(host, 8000, no_auth)

    monkeypatch.delenv("CIRIS_API_KEY", raising=False)
    for host in ("127.0.0.1", "::1", "localhost", "127.8.9.1"):
        local = settled(host)
        assert (local.key, local.local_names_only) == (None, True)
    for host in ("0.0.0.0", "::", "192.0.2.1", "example.org", ""):
        with pytest.raises(InputError, match="no API key is set"):
            settled(host)
    assert settled("0.0.0.0", no_auth=True).local_names_only is False
    monkeypatch.setenv("CIRIS_API_KEY", KEY)
    assert settled("0.0.0.0").key == settled("127.0.0.1").key == KEY
    assert settled("0.0.0.0", no_auth=True).key is None
    monkeypatch.setenv("CIRIS_API_KEY", "short")
    with pytest.raises(InputError, match="at least 16"):
        settled("0.0.0.0")


def test_answers_have_security_headers_and_foreign_hosts_are_refused(client):
    for path in ("/healthz", f"{SCORING}/alerts", "/nothing", "/"):
        headers = client.get(path).headers
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["x-frame-options"] == "DENY"
        assert "frame-ancestors 'none'" in headers["content-security-policy"]
        assert "server" not in headers
    evil = ("evil.example", "evil.example:80", "localhost.evil.example", "localhost:evil.example", "[::1]evil.example")
    for host in (*evil, "[::2]", ""):
        problem(client.get("/healthz", headers={"Host": host}), 421, "host-not-served")
    for host in ("localhost:8000", "127.0.0.1", "127.8.9.1:8000", "[::1]:8000", "LOCALHOST", "[::1]"):
        assert client.get("/healthz", headers={"Host": host}).status_code == 200


def test_head_has_the_headers_of_get(client):
    for path in (f"{SCORING}/history/Link", f"{SCORING}/capacity/nobody", "/", "/metrics"):
        asked, head = client.get(path), client.head(path)
        assert (head.status_code, head.content) == (asked.status_code, b""), path
        assert head.headers.keys() == asked.headers.keys()


def test_browser_gets_every_error_as_a_page(project, away, client):
    browser = {"Accept": "text/html,application/xhtml+xml,*/*;q=0.8"}
    with asking(project, Settings(key=KEY)) as without_key:
        answers = [without_key.get("/", headers=browser)]
    for path in (f"{SCORING}/capacity/nobody", "/a/b//nowhere", f"{SCORING}/alerts?x=%3Cscript%3E"):
        answers.append(client.get(path, headers=browser))
    answers.append(client.post("/alerts", headers=browser))
    answers.append(client.get("/alerts", headers={**browser, "Host": "evil.example"}))
    with asking(away) as without_database:
        answers.append(without_database.get(f"{SCORING}/alerts", headers=browser))
    with asking(project, raise_server_exceptions=False) as failing:
        failing.app.state.answers.publication = lambda: 1 / 0
        answers.append(failing.get(f"{SCORING}/alerts", headers=browser))
        found = failing.get(f"{SCORING}/alerts")
        assert problem(found, 500, "internal") and "division" not in found.text
    assert [answer.status_code for answer in answers] == [401, 404, 404, 422, 405, 421, 503, 500]
    for answer in answers:
        assert answer.headers["content-type"] == "text/html; charset=utf-8"
        assert "frame-ancestors 'none'" in answer.headers["content-security-policy"]
        assert "<script>" not in answer.text.partition("<main")[2].partition("</main>")[0]
        way_back = re.search(r'<a href="([^"]+)">Back to the fleet</a>', answer.text)[1]
        assert answer.url.join(way_back).path == "/", (answer.url, way_back)
    assert "WWW-Authenticate" in answers[0].headers


def test_docs_page_describes_every_endpoint_and_field(client):
    document = client.get("/openapi.json").json()
    page = client.get("/docs")
    assert "frame-ancestors 'none'" in page.headers["content-security-policy"]
    shown = " ".join(cell for row in cells(page.text) for cell in row)
    for path, methods in document["paths"].items():
        assert f"GET {path}<" in page.text
        assert all(one["name"] in shown for one in methods["get"].get("parameters", ()))
    for schema in document["components"]["schemas"].values():
        for name, field in schema.get("properties", {}).items():
            assert name in shown and ("$ref" in field or field["description"].replace("`", "") in shown)
    links = set(re.findall(r'href="#(s-\w+)"', page.text))
    assert links and links <= set(re.findall(r'id="(s-\w+)"', page.text))


# --- database sessions -----------------------------------------------------------------------------------------------


def test_database_sessions_are_read_only_and_have_a_time_limit(sample_copy):
    owner = load_project(REPOSITORY, sample_copy.profiles_dir)  # a role that may write
    names = ("transaction_read_only", "transaction_isolation", "timezone", "statement_timeout")
    database = ServedDatabase(owner, connections=1, statement_timeout=0.3)
    found = database.read(lambda c: [c.execute(f"show {name}").fetchone()[0] for name in names])
    assert found == ["on", "repeatable read", "UTC", "300ms"]
    for statement, kind in (
        (f"delete from {SCHEMA}.dim_agents", "away"),
        ("select pg_sleep(600)", "busy"),
        ("select pg_terminate_backend(pg_backend_pid())", "away"),
    ):
        with pytest.raises(Problem) as refusal:
            database.read(lambda c, statement=statement: c.execute(statement))
        assert refusal.value.kind == f"database-{kind}"
    assert database.read(lambda c: c.execute("select 1").fetchone()) == (1,)


def test_answers_are_503_until_the_database_is_back(project, sample_copy):
    paths = [f"{SCORING}/capacity/fleet", f"{SCORING}/capacity/Link", "/readyz", "/"]
    allow = f"alter database {sample_copy.name} allow_connections "
    with (
        asking(project, SETTINGS) as client,
        psycopg.connect(sample_copy.server.conninfo("postgres"), autocommit=True) as owner,
    ):

        def statuses() -> set[int]:
            with ThreadPoolExecutor(4) as pool:
                answers = list(pool.map(client.get, 4 * paths))
            assert {one.headers.get("retry-after") for one in answers if one.status_code == 503} <= {"2"}
            return {answer.status_code for answer in answers}

        assert statuses() == {200}
        owner.execute(allow + "false")
        try:
            assert statuses() == {503}
        finally:
            owner.execute(allow + "true")
        assert statuses() == {200}


@pytest.fixture
def away(project: Project, tmp_path: Path) -> Project:
    """The project with a server that is down."""
    profile = (project.profiles_dir / "profiles.yml").read_text()
    (tmp_path / "profiles.yml").write_text(profile.replace("port: ", "port: 1"))
    return load_project(REPOSITORY, tmp_path)


def test_server_starts_while_its_database_is_away(away):
    with asking(away, SETTINGS) as client:
        problem(client.get("/readyz"), 503, "database-away")
        assert client.get("/healthz").status_code == 200
        page = client.get("/")
        assert (page.status_code, page.headers["retry-after"]) == (503, "2")
        assert "The database is away" in page.text
        found = metrics(client)
        assert found["marts_readable"] == {(): 0} and "agents" not in found


# --- metrics ---------------------------------------------------------------------------------------------------------


def metrics(client: TestClient) -> dict[str, dict[tuple[str, ...], float]]:
    """Return the values of each metric by the values of its labels, in the order of the labels' names."""
    answer = client.get("/metrics")
    assert answer.status_code == 200 and answer.headers["content-type"].startswith("text/plain; version=")
    found: dict[str, dict[tuple[str, ...], float]] = defaultdict(dict)
    for family in text_string_to_metric_families(answer.text):
        for sample in family.samples:
            labels = tuple(value for _, value in sorted(sample.labels.items()))
            found[sample.name.removeprefix("ciris_scoring_")][labels] = sample.value
    return found


def test_metrics_have_age_outcome_and_version(client, marts):
    """test_shown_numbers.py compares the numbers of agents and alerts with the marts."""
    [newest] = marts.execute("select max(scored_at) as publication, max(as_of) as data from fct_capacity_scores")
    before = datetime.now(UTC)
    found = metrics(client)
    for name, moment in newest.items():
        least, most = ((now - moment).total_seconds() for now in (before, datetime.now(UTC)))
        assert least <= found[f"{name}_age_seconds"][()] <= most
    assert found["marts_readable"] == {(): 1} and found["build_info"] == {(version("ciris-scoring"),): 1}
    assert [outcome for outcome, is_last in found["last_run"].items() if is_last] == [("published",)]
    assert len(found["agents"]) == 12  # six categories in two windows, including categories without agents


def test_metrics_omit_categories_that_are_not_in_the_specification(client, marts):
    """The seed of categories can be edited, but the marts count only the specification's categories."""
    rename = "update dim_capacity_categories set category = 'excellent' where category = 'high_capacity'"
    with changed(marts, "dim_capacity_categories", rename):
        found = {category for category, _ in metrics(client)["agents"]}
    assert found == {"high_fragility", "moderate", "healthy", "none", "no_traces"}


# --- the command serve -----------------------------------------------------------------------------------------------


def test_serve_refuses_a_port_that_is_in_use(project):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        result = command_line.command(project, "serve", "--port", taken.getsockname()[1])
    error, _ = command_line.refused(result, 2)
    assert "Cannot serve on 127.0.0.1, port" in error
