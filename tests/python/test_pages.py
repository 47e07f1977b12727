"""Tests of pages and report on the sample: texts, safe with any name, and usable in a browser. test_shown_numbers.py
compares their numbers with the marts."""

from __future__ import annotations

import csv
import html
import io
import json
import os
import re
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import Mock
from urllib.parse import parse_qsl, urlsplit

import psycopg
import pytest
from starlette.testclient import TestClient

import command_line
from ciris_scoring.basics.decimals import cut
from ciris_scoring.basics.errors import CirisError, InputError
from ciris_scoring.basics.kinds import KINDS
from ciris_scoring.basics.run_lock import run_lock
from ciris_scoring.basics.terminal import fitted
from ciris_scoring.lab.embedded import SCHEMA
from ciris_scoring.lab.simulation.sample import SAMPLE
from ciris_scoring.marts.evidence import RULES
from ciris_scoring.marts.marts import Marts
from ciris_scoring.marts.verdict import Raised, Steady, verdict
from ciris_scoring.marts.words import COMPONENT_WORDS, LOSS_WORDS
from ciris_scoring.serve import report
from ciris_scoring.serve.api.database import Database as ServedDatabase
from ciris_scoring.serve.pages import charts, pages, words
from ciris_scoring.serve.pages.links import ReportLinks, ServedLinks
from conftest import Database
from html_text import Parsed, cells, text_of, with_names
from pipeline import MARTS
from serving import LINK, asking, read, running, visited

AS_OF = datetime.fromisoformat(SAMPLE["as_of"])
HOSTILE = [
    "</script><script>document.title='owned'</script>",
    "<img src=x onerror=document.title='owned'>",
    "\" onmouseover=\"document.title='owned'",
    "'><svg onload=document.title='owned'>",
    "Emoji 👩‍🚀🏳️‍🌈",
    "\u202eright to left\u2066",
    "אבג מלון",
    "{{ 7 * 7 }}{% raw %}",
    "a\nb\x1b[31m",
    "x" * 255,
]


@pytest.fixture
def marts(scored_sample: Database) -> Iterator[psycopg.Connection]:
    """A connection whose changes are rolled back, with the marts' schema in the search path."""
    with scored_sample.connect() as connection, connection.transaction(force_rollback=True):
        connection.execute(f"set local search_path to {SCHEMA}, {SCHEMA}_intermediate")
        yield connection


@pytest.fixture(scope="module")
def client(served: ServedDatabase) -> Iterator[TestClient]:
    with asking(served) as client:
        client.headers["accept"] = "text/html"
        yield client


@pytest.fixture(scope="module")
def address(client: TestClient) -> Iterator[str]:
    with running(client.app) as port:
        yield f"http://127.0.0.1:{port}/"


def instead(page: Callable[..., str], *asked: Any, **more: Any) -> pages.Instead:
    """Return the message page that replaces a page."""
    with pytest.raises(pages.Instead) as said:
        page(*asked, **more)
    return said.value


# --- compared with the marts -----------------------------------------------------------------------------------------


SURE = "91 % sure that it reaches 0.6"


@pytest.mark.parametrize(
    ("reached", "status", "raised", "expected", "reason"),
    [
        ((0.6, 0.65), "final", "", "grant", SURE),
        ((0.5999, 0.6), "final", "", "keep", SURE),
        ((0.5, 0.5999), "final", "", "withhold", SURE),
        ((0.6, 0.65), "final", "low_capacity warning", "grant", SURE),
        ((0.6, 0.65), "final", "low_capacity critical", "review", f"{SURE}; low capacity since 2026-05-02"),
        ((0.5, 0.65), "final", "falling warning", "review", f"{SURE}; falling since 2026-05-02"),
        ((0.5, 0.65), "final", "shared_key red_flag", "review", f"{SURE}; key of another agent since 2026-05-02"),
        ((0.5, 0.55), "final", "silent warning", "withhold", f"{SURE}; silent since 2026-05-02"),
        ((0.6, 0.65), "provisional", "", "wait", f"{SURE}, but provisional: too little history"),
        (None, "insufficient_data", "episode warning", "wait", "too few traces for a score; episode since 2026-05-02"),
        (None, "final", "", "wait", "no steady score yet: a rescore adds it"),
    ],
)  # fmt: skip
def test_verdict_follows_from_probability_status_and_what_is_raised(
    reached, status, raised, expected, reason
):
    """A score of 0.7 with the upper bound 0.8 and the fixed loss 0.0789: the logarithms of the losses beyond 0.0789
    at 0.6, 0.7 and 0.8 are -0.8396, -1.2809 and -1.9367, so z = 0.4413 / (0.6558 / 1.96) = 1.319."""
    steady = Steady(
        *((0.7, 0.8, *reached) if reached else [None] * 4), fixed_loss=0.0789, published=(0.5, 0.99)
    )
    since = datetime(2026, 5, 2, tzinfo=UTC)
    alerts = [Raised("a", *raised.split(), since=since, until=AS_OF)] if raised else []
    found = verdict(0.6, steady, status, alerts)
    assert (found.verdict, found.reason) == (expected, reason)
    assert found.probability == (pytest.approx(0.9066, abs=0.00005) if reached else None)


def test_agent_page_shows_losses_and_verdict(marts):
    text = text_of(pages.agent_page(marts, MARTS, "Link"))
    assert "Largest losses it can repair: missing audit numbers, 0.205; deferrals judged poor" in text
    assert "The record is not continuous: 28 gaps, 5 rewinds and 6 repeated numbers" in text
    page = pages.agent_page(marts, MARTS, "Link", threshold=0.7)
    assert "Withhold at threshold 0.7: at most 1 % sure that it reaches 0.7; broken chain." in text_of(page)
    assert "y1=30% y2=30% class=threshold" in page and "href=#level" in page


WHY = {
    "Mire": "Review: Stuck in a fragile episode (rigidity) since 2026-06-09 09:04, 135 h. … Ask whoever runs the agent",
    "Link": "Withhold: The record is not continuous: 28 gaps, 5 rewinds and 6 repeated numbers … where the missing",
    "Latch": "Withhold: Signs with a key that is unknown, revoked or expired, since 2026-05-31 01:26 (312 traces). …",
    "Sprout": "Wait: New: first trace 2026-06-10 06:40. No large loss; … final from 2026-06-25",
    "Fable": "Grant: No large loss; most by decisions that do not replay, 0.046.",
    "Haven": "Grant: No large loss; … In 30 days: deferrals left open since 2026-06-14.",
    "Hush": "Review: No trace since 2026-06-11 19:42. … whether it still acts",
    "Bravo": "Withhold: 2 of 5 deferrals were rejected.",
    "Driftwood": "Grant: Drifts away from its earlier behaviour, most in alignment",
    "Paradox": "Withhold: 13 of 141 traces were overridden by the conscience.",
}


def test_fleet_page_gives_cause_and_remedy(marts):
    rows = {row[0].split()[0]: row for row in cells(pages.fleet_page(marts, MARTS)) if len(row) == 16}
    for name, said in WHY.items():
        shown = f"{rows[name][1].split()[0]}: {rows[name][2]}"
        assert all(part in shown for part in said.split(" …")), shown
    assert rows["Latch"][8].startswith("Low capacity Untrusted key")


def test_events_are_told_once_for_neighbouring_days(marts):
    def text_about(agent: str) -> str:
        return " ".join(text_of(pages.agent_page(marts, MARTS, agent)).split())

    [counted] = read(
        marts,
        "select count(*) as n from fct_trace_checks where agent_id_hash = %s and is_counted"
        " and (is_chain_gap or is_chain_rewind or is_chain_duplicate)"
        " and traced_at >= (select min(as_of) from fct_fleet_capacity)",
        LINK,
    )
    text = text_about(LINK)
    assert text.count("chain broken, ") == 1 and f"chain broken, {counted['n']} traces" in text
    text = text_about("Morpheus")
    assert "renamed: Haven → Proteus" in text and "renamed: Proteus → Morpheus" in text
    day = AS_OF - timedelta(10)
    marts.execute("update fct_capacity_scores set parameter_set_id = 'other' where as_of < %s", [day])
    assert f"{day:%Y-%m-%d} parameters changed: other → " in text_about(LINK)


# --- unfinished runs and missing data --------------------------------------------------------------------------------


def test_unfinished_run_is_reported(marts, scored_sample):
    """The page says so while a run is in progress, and after a run has ended without a publication."""
    assert "class=state" not in pages.fleet_page(marts, MARTS)
    for age, said in ((timedelta(days=3), "are 3 days old"), (timedelta(hours=3), None)):
        page = pages.fleet_page(marts, MARTS, now=AS_OF + age)
        assert ("class=old>The verdicts below" in page) is (said is not None) and (said or "") in page
    marts.execute(
        f"insert into {SCHEMA}_intermediate.int_runs (run_id, started_at, command, as_of)"
        f" select gen_random_uuid(), now(), 'dbt', as_of + interval '1 day' from {SCHEMA}_intermediate.int_scoring_run"
    )
    page = pages.fleet_page(marts, MARTS)
    assert "The last run published nothing." in page and '<a href="runs">' in page
    with scored_sample.connect() as other, run_lock(other, SCHEMA):
        assert "A run is in progress" in pages.alerts_page(marts, MARTS)
    marts.execute(
        "update fct_fleet_capacity set as_of = as_of + interval '23 hours' where as_of = %s",
        [AS_OF - timedelta(days=1)],
    )
    hourly = pages.fleet_page(marts, MARTS, now=AS_OF + timedelta(hours=3))
    assert "class=old>The verdicts below are 3 hours old" in hourly


def test_message_explains_why_nothing_is_published(marts, database):
    with database.connect() as empty:
        for page in (pages.fleet_page, pages.alerts_page, pages.parameters_page):
            assert "No score is published yet" in page(empty, MARTS)
    assert "Published: 7 and 30 days" in instead(pages.fleet_page, marts, MARTS, window_days=8).html
    marts.execute("delete from fct_capacity_scores; delete from fct_fleet_capacity")
    assert "No agent has sent a trace" in pages.fleet_page(marts, MARTS)
    assert json.loads(report.as_json(Marts(marts, MARTS), None))["agents"] == []
    away = pages.message_page("The database is away", ["It <cannot> be reached."])
    assert "It &lt;cannot&gt; be reached." in away and "<nav" not in away


def test_missing_traces_are_counted_and_agents_without_any_are_named(marts):
    """At the earlier as-of, one agent of the sample has too few traces."""
    as_of = AS_OF - timedelta(days=4)
    [row] = [row for row in cells(pages.fleet_page(marts, MARTS, as_of=as_of)) if "Sprout" in row[0]]
    assert (row[1].split()[0], row[7]) == ("Wait", "too few traces, 9 missing")
    assert "9 too few" in pages.agent_page(marts, MARTS, "Sprout", as_of=as_of)
    marts.execute("delete from fct_capacity_scores where agent_id_hash = %s and as_of = %s", [LINK, AS_OF])
    assert "1 agent without a trace in this window" in text_of(pages.fleet_page(marts, MARTS))
    assert pages.agent_page(marts, MARTS, LINK)
    marts.execute("delete from fct_capacity_scores where agent_id_hash = %s", [LINK])
    assert "No score in this window" in instead(pages.agent_page, marts, MARTS, LINK).html


# --- safe with any name ----------------------------------------------------------------------------------------------


def rename(connection: psycopg.Connection) -> None:
    """Give hostile names to the first agents."""
    agents = read(connection, f"select agent_id_hash from {SCHEMA}.dim_agents order by agent_id_hash")
    for agent, name in zip(agents, HOSTILE, strict=False):
        for table in ("fct_capacity_scores", "dim_agents", "fct_capacity_alerts"):
            query = f"update {SCHEMA}.{table} set agent_name = %s where agent_id_hash = %s"
            connection.execute(query, [name, agent["agent_id_hash"]])


def test_names_are_escaped(marts):
    plain = Parsed(pages.report_page(marts, MARTS))
    rename(marts)
    page = Parsed(pages.report_page(marts, MARTS))
    assert [tag for tag, _ in page.tags] == [tag for tag, _ in plain.tags]
    assert not [name for _, attributes in page.tags for name in attributes if name.startswith("on")]
    identifiers = [a["id"] for _, a in page.tags if "id" in a]
    assert len(set(identifiers)) == len(identifiers)
    assert {a["href"] for tag, a in page.tags if tag in ("a", "use")} <= {f"#{one}" for one in identifiers}
    seen = {re.sub(r"[\x00-\x1f\u202e\u2066]", "\N{REPLACEMENT CHARACTER}", name) for name in HOSTILE}
    assert {fitted(name, 40) for name in seen} <= page.names
    titles = {attributes["title"] for tag, attributes in page.tags if tag == "bdi" and "title" in attributes}
    assert titles == {name for name in seen if len(name) > 40}
    for name in HOSTILE:
        html = pages.agent_page(marts, MARTS, name)
        title = re.search(r"<title>(.*?)</title>", html, re.DOTALL)
        assert title and "<" not in title[1] and "\u202e" not in title[1]


def test_links_hold_any_hash():
    links = ServedLinks(frozenset({"i_chain"}))
    assert links.agent("../a b&c?#é", 7) == "agent?agent_id=hash%3A..%2Fa+b%26c%3F%23%C3%A9&window_days=7"
    assert links.evidence("a", "ece", AS_OF, 7) is None
    within = ReportLinks.to([LINK, "a b", "<x>"])
    found = [within.agent(agent, 7) for agent in (LINK, "a b", "<x>", "other")]
    assert found == [f"#{LINK}", "#agent-1", "#agent-2", "#fleet"]


# --- the report ------------------------------------------------------------------------------------------------------


def test_large_report_shows_the_agents_that_need_attention_most(marts, monkeypatch):
    sections = pages.report_page(marts, MARTS).partition("<details class=")[2].rpartition("</details>")[0]
    assert len(sections.encode()) / 14 < 4_000, "500 agents with a history of 45 days fit in two megabytes"
    for module in (pages, report):
        monkeypatch.setattr(module, "MAX_AGENTS", 5)
    html = pages.report_page(marts, MARTS)
    assert html.count("<details class=") == 5 and "9 more agents" in html
    document = json.loads(report.as_json(Marts(marts, MARTS), 7))
    assert (len(document["agents"]), document["agents_not_shown"]) == (5, 9)


def test_report_without_scores_is_refused(database, tmp_path):
    file = tmp_path / "fleet.html"
    file.write_text("older")
    result = command_line.invoke("report", "--output", file, *command_line.at(database))
    assert result.exit_code == 1 and "No score is published" in result.stderr
    assert file.read_text() == "older"


def test_report_replaces_a_file_and_the_target_of_a_symbolic_link(tmp_path, monkeypatch):
    (tmp_path / "reports").mkdir()
    file, link = tmp_path / "reports" / "fleet.html", tmp_path / "link.html"
    for target in (Path("reports/fleet.html"), file):
        link.unlink(missing_ok=True)
        link.symlink_to(target)
        for text in ("first", "second"):  # the file does not exist at first
            report.check_place(link)
            report.write(text, link)
            assert link.readlink() == target and file.read_text() == text and not file.is_symlink()
        file.unlink()
    file.write_text("older")
    file.chmod(0o640)
    with monkeypatch.context() as patch, pytest.raises(CirisError, match="No space left"):
        patch.setattr(report.os, "replace", Mock(side_effect=OSError(28, "No space left on device")))
        report.write("newer", file)
    assert file.read_text() == "older" and list(file.parent.iterdir()) == [file]
    report.write("newer", file)
    assert file.read_text() == "newer" and file.stat().st_mode & 0o777 == 0o640


def test_a_report_is_written_to_a_device_a_pipe_or_an_open_file(tmp_path, monkeypatch):
    """Devices and pipes remain; an open file keeps its earlier content. A disk is refused."""
    pipe, opened_file = tmp_path / "pipe", tmp_path / "out"
    os.mkfifo(pipe)
    opened_file.write_text("before ")
    with ThreadPoolExecutor(1) as reader, opened_file.open("a") as stream:
        received = reader.submit(pipe.read_text)
        for place in (Path("/dev/null"), pipe, Path(f"/dev/fd/{stream.fileno()}")):
            report.check_place(place)
            report.write("text", place)
        assert received.result(30) == "text"
    assert Path("/dev/null").is_char_device() and pipe.is_fifo()
    assert opened_file.read_text() == "before text"
    with pytest.raises(CirisError, match="No space left"):
        report.write("text", Path("/dev/full"))
    monkeypatch.setattr(Path, "is_block_device", lambda _: True)
    with pytest.raises(InputError, match="it is a disk"):
        report.check_place(tmp_path / "disk")


def test_links_identify_an_agent_whose_hash_is_the_name_of_another(marts):
    """Another agent has the hash as its name. The links must still lead to the agent with the hash."""
    marts.execute("update dim_agents set agent_name = %s where agent_name = 'Fable'", [LINK])
    several = instead(pages.agent_page, marts, MARTS, LINK)
    assert several.status == 409 and "2 agents have or had this name" in several.html
    agent = f"hash:{LINK}"
    choices = pages.compare_page(marts, MARTS, agent)
    shown = [
        *(several.html, choices, pages.compare_page(marts, MARTS, agent, "Latch")),
        *(page(marts, MARTS, agent) for page in (pages.agent_page, pages.red_flags_page)),
        pages.evidence_page(marts, MARTS, agent, "i_chain"),
        *(page(marts, MARTS) for page in (pages.fleet_page, pages.alerts_page)),
    ]
    for tags in (Parsed(page).tags for page in shown):
        queries = [parse_qsl(urlsplit(a["href"]).query) for tag, a in tags if tag == "a" and "href" in a]
        given = [value for query in queries for name, value in query if name in ("agent_id", "other_id")]
        given += [a["value"] for tag, a in tags if tag == "input" and a.get("name") == "agent_id"]
        assert given and all(value.startswith("hash:") for value in given), given
    options = [a["value"] for tag, a in Parsed(choices).tags if tag == "option" and "value" in a]
    assert len(options) == 13 and all(value.startswith("hash:") for value in options)


# --- evidence --------------------------------------------------------------------------------------------------------


def test_a_component_leads_to_its_traces(client):
    """Follows each link of the agent's page and compares the traces with the API's evidence."""
    page = client.get("/agent?agent_id=Link").text
    links = [html.unescape(link) for link in re.findall(r'href="(evidence\?[^"]*)"', page)]
    components = {re.search(r"component=(\w+)", link)[1]: link for link in links}
    assert components.keys() == (RULES.keys() - {"s_score"}) | {"sigma", "q_deferral"}
    for component, link in components.items():
        answer = client.get(f"/{link.replace('evidence?', 'evidence.csv?')}")
        assert answer.headers["content-disposition"].startswith("attachment; filename=")
        rows = list(csv.DictReader(io.StringIO(answer.text)))
        shown = client.get(f"/{link}").text
        key = "deferral_id" if component == "q_deferral" else "trace_id"
        assert [row[1] for row in cells(shown)[1:]] == [row[key] for row in rows][:50]
        if key == "trace_id":
            params = {"component": pages.OF_PARTS.get(component, component), "limit": 1000}
            asked = {"params": params, "headers": {"accept": "application/json"}}
            api = client.get(f"/api/v1/scoring/evidence/{LINK}", **asked).json()["traces"]
            columns = ("traced_at", "trace_id", "selected_action", "audit_sequence_number")
            found = [[row[column] for column in columns] for row in rows]
            assert found == [[str(trace[column]) for column in columns] for trace in api]
            assert f"{len(rows):,} trace" in shown


@pytest.mark.parametrize("resolved_at", ["-infinity", "0044-03-15 BC"])
def test_deferrals_resolved_before_the_year_1_are_listed(marts, resolved_at):
    page = partial(pages.evidence_page, marts, MARTS, LINK, "q_deferral")
    listed = cells(page())
    marts.execute("update int_deferral_verdicts set resolved_at = %s where is_judged", [resolved_at])
    assert cells(page()) == listed


def test_evidence_says_why_a_trace_counts(client):
    said = {
        ("Link", "i_chain"): r"\d+ after \d+; signature verified, key registered / chain \(gap\)",
        ("Link", "i_coverage"): r"[4-9] of 10 fields, without [a-z_, ]+ / (1 field|\d fields) missing",
        ("Latch", "i_chain"): r".*key not registered / chain \(key\)",
        ("Paradox", "k_contradiction"): "action_was_overridden: true / overridden",
        ("Proteus", "d_identity"): "(Haven → Proteus|Proteus → Morpheus) / renamed",
        ("Mire", "mttr_hours"): "failure mode .+ / a fragile episode began",
        ("Echo", "rho_regression"): "failure mode .+ / relapse",
        ("Fable", "i_replay"): "does not follow: .+ / not replayable",
        ("Paradox", "sigma"): "signature not verified / incoherent signal",
    }
    for (agent, component), expected in said.items():
        for window in (7, 30):
            page = client.get(f"/evidence?agent_id={agent}&component={component}&window_days={window}").text
            rows = cells(page)[1:]
            assert window == 7 or rows, (agent, component)
            for row in rows:
                assert re.fullmatch(expected, f"{row[4]} / {row[5]}") or "chain (" in row[5], row


def test_evidence_is_divided_into_pages(client, monkeypatch):
    everything = cells(client.get("/evidence?agent_id=Link&component=i_coverage").text)[1:]
    monkeypatch.setattr(pages, "EVIDENCE_ON_A_PAGE", 10)
    link, found = "evidence?agent_id=Link&component=i_coverage&_=2", []
    while link:
        page = client.get(f"/{link}").text
        found.append(cells(page)[1:])
        following = re.search(r'href="([^"]*)" rel=next', page)
        link = html.unescape(following[1]) if following else None
    assert len(found) > 2 and [row for rows in found for row in rows][:50] == everything


def test_text_that_looks_like_a_formula_is_quoted_in_csv(marts):
    marts.execute(
        "update int_trace_checks set trace_id = '=1+1', selected_action = '@SUM(A1)', is_unsafe = true,"
        " entropy_level = 0.9, action_success = false where not is_chain_valid"
    )
    [unsafe, *_] = csv.DictReader(io.StringIO(pages.evidence_csv(marts, MARTS, "Link", "u_unsafe")))
    assert (unsafe["recorded"], unsafe["counts_because"]) == ("entropy 0.9, action failed", "unsafe")
    text = pages.evidence_csv(marts, MARTS, "Link", "i_chain")
    assert {row["trace_id"] for row in csv.DictReader(io.StringIO(text))} == {"'=1+1"}
    assert "'@SUM(A1)" in text


# --- red flags, runs, data quality -----------------------------------------------------------------------------------


def test_agent_pages_note_earlier_agents_of_the_name(client):
    """A note names each other agent that once had the name of the agent."""
    of_component = "evidence?component="
    for page in ("agent?", "red-flags?", "compare?", f"{of_component}i_chain&", f"{of_component}q_deferral&"):
        answer = client.get(f"/{page}agent_id=Haven")
        assert (
            answer.status_code == 200 and "Another agent once had this name: da3f08513aac60cf." in answer.text
        )
        assert "once had this name" not in client.get(f"/{page}agent_id=Link").text


def test_runs_page_shows_error_and_remedy(marts):
    marts.execute(
        "update int_runs set outcome = 'failed', message = 'the disk is full', remedy = 'Make room.'"
    )
    [failed, *_] = cells(pages.runs_page(marts, MARTS))[1:]
    assert failed[2] == "failed" and failed[-1] == "the disk is full Make room."
    marts.execute("drop table fct_capacity_scores cascade")
    [failed, *_] = cells(pages.runs_page(marts, MARTS))[1:]
    assert failed[-1] == "the disk is full Make room."


def test_quality_page_shows_issues_of_any_year(marts):
    """A trace dated in the future, or before the year 1, does not move the days that have columns."""
    headings, *_ = cells(pages.quality_page(marts, MARTS))
    marts.execute(
        "insert into fct_data_quality (data_quality_id, agent_id_hash, period_start, issue, n) values"
        " ('a', 'a', '20000-01-01', 'future_trace', 1), ('b', 'a', '0044-03-15 BC', 'implausible_timestamp', 1)"
    )
    again, *rows = cells(pages.quality_page(marts, MARTS))
    assert again == headings
    newest = {row[3] for row in rows if "future_trace" in row[0] or "implausible_timestamp" in row[0]}
    assert newest == {"20000-01-01", "0044-03-15 BC"}


def test_missing_right_to_read_is_explained(marts):
    marts.execute(
        "create role only_scores; grant usage on schema ciris to only_scores;"
        "grant select on all tables in schema ciris to only_scores;"
        "revoke select on ciris.fct_scoring_runs, ciris.fct_data_quality from only_scores;"
        "set local role only_scores"
    )
    for page in (pages.runs_page, pages.quality_page):
        assert "may not read" in page(marts, MARTS)


# --- comparison and texts --------------------------------------------------------------------------------------------


def test_compare_page_shows_both_agents(client, marts):
    def beside(page: str) -> dict[str, list[str]]:
        return {row[0].split()[-1].strip("()"): row[1:] for row in cells(with_names(page)) if row[0]}

    assert client.get("/compare?agent_id=Link").text.count("&amp;other_id=") == 10
    rows = beside(client.get("/compare?agent_id=Link&other_id=Latch").text)
    assert rows["week"] == ["0.538 [0.31, 0.67]", "0.000 [0.00, 0.25]", "−0.538", "apart"]
    assert rows["run"][:2] == ["0.571 [0.50, 0.62]", "0.105 [0.02, 0.24]"]
    assert rows["i_chain"][3] == "apart" and rows["d_identity"][3] == "overlap"
    marts.execute(
        "update fct_capacity_scores set capacity_score_low = null, capacity_score_high = null,"
        " capacity_score_steady = null where agent_id_hash = %s",
        [LINK],
    )
    without = beside(pages.compare_page(marts, MARTS, "Link", "Latch"))
    assert (without["week"][2:], without["run"][2:]) == (["−0.538", "–"], ["–", rows["run"][3]])


def test_every_component_has_a_description(client, marts):
    names = {name for [name] in marts.execute("select distinct component from fct_factor_components")}
    parts = {name for [name] in marts.execute("select distinct loss_component from fct_score_attribution")}
    assert (names, parts) == (COMPONENT_WORDS.keys(), LOSS_WORDS.keys())
    glossary = client.get("/glossary").text
    assert not [name for name in KINDS if f" id=g-{name.replace('_', '-')}>" not in glossary]
    issues = [name for [name] in marts.execute("select distinct issue from fct_data_quality")]
    assert issues and all(words.issue(name) != name for name in issues)


# --- charts ----------------------------------------------------------------------------------------------------------


def test_a_line_goes_through_its_points_and_breaks_at_gaps():
    days = [AS_OF + timedelta(days=i) for i in range(9)]
    frame = charts.Frame.of(days)
    values = [1.0, 1.0, 1.0, 0.5, None, 0.25, 0.25, None, 0.0]
    path = charts.line(frame, zip(days, values, strict=True), 200)
    assert path == "M0 0h2l1 100M5 150h1M8 200h0"
    without_a_day = [(day, 0.5) for day in days if day != days[4]]
    assert charts.line(frame, without_a_day, 200) == "M0 100h3M5 100h3"
    area = charts.area(frame, [(day, 0.0, 1.0) for day in days], 100)
    assert area == "M0 100h8l0-100h-8z"
    assert charts.Frame.of([AS_OF]).share(AS_OF) == 1.0


@pytest.mark.parametrize(
    ("value", "places", "expected"),
    [(0.848, 2, "0.84"), (0.9999999, 3, "0.999"), (1.0, 3, "1.000"), (-0.0129, 2, "-0.01"), (0.3, 1, "0.3")],
)
def test_numbers_are_truncated_to_places(value, places, expected):
    assert cut(value, places) == expected


# --- in a browser ----------------------------------------------------------------------------------------------------


PAGES: dict[str, Callable[..., str]] = {
    "report": pages.report_page,
    "fleet": partial(pages.fleet_page, now=datetime.now(UTC)),
    "agent": partial(pages.agent_page, agent=LINK),
    "alerts": pages.alerts_page,
    "alerts of a kind": partial(pages.alerts_page, kind="low_capacity", severity="critical"),
    "red flags": partial(pages.red_flags_page, window_days=30),
    "red flags of one": partial(pages.red_flags_page, agent=LINK),
    "runs": pages.runs_page,
    "quality": pages.quality_page,
    "evidence": partial(pages.evidence_page, agent=LINK, component="i_chain"),
    "deferrals": partial(pages.evidence_page, agent=LINK, component="q_deferral"),
    "whom to compare with": partial(pages.compare_page, agent=LINK),
    "two agents": partial(pages.compare_page, agent=LINK, other=HOSTILE[0]),
    "parameters": pages.parameters_page,
    "glossary": pages.glossary_page,
    "an error": lambda *marts: instead(pages.agent_page, *marts, "nobody").html,
}


@pytest.fixture(scope="module")
def files(scored_sample: Database, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Report and pages of a server with hostile names and three agents of the same name."""
    folder = tmp_path_factory.mktemp("hostile")
    found = {name: folder / f"{name}.html" for name in (*PAGES, "plain")}
    with scored_sample.connect() as connection, connection.transaction(force_rollback=True):
        found["plain"].write_text(pages.report_page(connection, MARTS))
        rename(connection)
        connection.execute(
            f"update {SCHEMA}.fct_capacity_scores set agent_name = 'Ally' where agent_id_hash in "
            f"(select agent_id_hash from {SCHEMA}.dim_agents order by agent_id_hash offset 11)"
        )
        for name, page in PAGES.items():
            found[name].write_text(page(connection, MARTS))
    return found


def opened(browser: Any, file: Path, fragment: str = "", **options: Any) -> AbstractContextManager[Any]:
    """Open a file in the browser without a network."""
    return visited(browser, file.as_uri() + fragment, offline=True, **options)


def column(page: Any, number: int) -> list[str]:
    """Return the first words in a column of the table of agents."""
    rows = page.locator(f"#agents tbody tr:visible td:nth-child({number})")
    return [(text.split() or [""])[0] for text in rows.all_inner_texts()]


def test_the_table_is_sorted_filtered_and_folded(browser, files):
    with opened(browser, files["report"]) as page:
        assert "owned" not in page.title()
        heading = page.get_by_role("columnheader", name="Score")
        heading.get_by_role("button").click()
        rising = column(page, 4)
        assert len(rising) == 14 and rising == sorted(rising)
        heading.get_by_role("button").focus()
        page.keyboard.press("Enter")
        assert heading.get_attribute("aria-sort") == "descending"
        assert column(page, 4) == sorted(rising, reverse=True)
        page.get_by_role("columnheader", name="Category").get_by_role("button").click()
        assert page.locator("#agents tbody td:nth-child(8)").first.inner_text() == "High Fragility"
        page.get_by_label("Search").fill("ALLY")
        ally = sorted(column(page, 4))
        assert len(ally) == 3 and page.locator("#shown").inner_text() == "3 of 14 agents"
        page.get_by_label("fold agents of one name").check()
        [folded] = page.locator("#agents tbody tr:visible").all_inner_texts()
        said = r"^Ally × 3[\s\S]*3 scores from (0\.\d{3}) to (0\.\d{3}), median (0\.\d{3})"
        lowest, highest, median = re.search(said, folded).groups()
        assert [lowest, median, highest] == ally
        page.get_by_label("Search").fill("")
        assert len(column(page, 4)) == 12
        page.get_by_label("fold agents of one name").uncheck()
        page.locator("#category").select_option("High Fragility")
        assert all(float(value) < 0.3 for value in column(page, 4)) and column(page, 4)
        page.locator("#category").select_option("all")
        page.locator("#alerts").select_option("Broken chain")
        assert len(column(page, 4)) == 1
        with page.expect_download() as download:
            page.locator("#csv").click()
        headings, row = csv.reader(download.value.path().open(encoding="utf-8"))
        assert headings[:3] == ["Agent", "Verdict", "Why"] and "The record is not continuous" in row[2]
        page.locator("#clear").click()
        page.get_by_label("New since").fill("2026-06-08")
        assert 0 < len(column(page, 4)) < 14
        page.locator("#factors").check()
        assert page.get_by_role("columnheader", name="I_int").is_visible()
        page.get_by_label("Search").fill("nobody at all")
        assert page.locator("#shown").inner_text() == "None of 14 agents fits"
        page.get_by_role("region", name="Agents per verdict").get_by_role("link").nth(1).click()
        assert set(column(page, 2)) == {"Withhold"} and page.get_by_label("Search").input_value() == ""


def test_a_large_fleet_is_shown_page_by_page(browser, marts, tmp_path):
    """Names are sorted by their numbers, regardless of the hashes next to them."""
    marts.execute(
        "update fct_capacity_scores set agent_name = case agent_name when 'Link' then 'Unit' when 'Echo' then 'Unit 10'"
        " when 'Fable' then 'Unit 9' else agent_name end"
    )
    marts.execute(
        """
        insert into fct_capacity_scores
        select (jsonb_populate_record(row, new)).*
        from fct_capacity_scores as row
        cross join generate_series(1, 5) as copy
        cross join lateral (select md5(agent_id_hash || copy) as hash) as copied
        cross join lateral jsonb_build_object('agent_id_hash', hash, 'capacity_score_id', hash) as new
        where window_days = 7 and as_of = %s
        """,
        [AS_OF],
    )
    file = tmp_path / "large.html"
    file.write_text(pages.report_page(marts, MARTS))
    with opened(browser, file) as page:
        assert page.locator("#range").inner_text() == "1 to 25 of 84" and len(column(page, 2)) == 25
        page.get_by_role("button", name="next").click()
        assert page.locator("#range").inner_text() == "26 to 50 of 84"
        page.locator("#verdict").select_option("Wait")
        assert page.locator("#pages").is_hidden() and set(column(page, 2)) == {"Wait"}
        page.locator("#verdict").select_option("all")
        page.get_by_label("Search").fill("unit")
        page.get_by_role("columnheader", name="Agent").get_by_role("button").click()
        names = page.locator("#agents tbody tr:visible th bdi").all_inner_texts()
        assert list(dict.fromkeys(names)) == ["Unit", "Unit 9", "Unit 10"]


def test_a_link_opens_the_section_of_an_agent(browser, files):
    with opened(browser, files["plain"]) as page:
        section = page.locator(f"[id='{LINK}']")
        assert not section.get_by_text("What the score is made of").is_visible()
        page.locator("#agents").get_by_role("link", name="Link").click()
        section.get_by_text("What the score is made of").wait_for(state="visible")
        assert section.locator("svg.over").bounding_box()["height"] > 100
        assert section.locator("use.line").evaluate("use => use.getBoundingClientRect().width") > 300
    with opened(browser, files["plain"], f"#{LINK}") as page:
        page.locator(f"[id='{LINK}']").get_by_text("What the score is made of").wait_for(state="visible")
    with opened(browser, files["plain"], java_script_enabled=False) as page:
        assert page.locator("#agents tbody tr:visible").count() == 14
        assert not page.locator(".tools").first.is_visible()


@pytest.mark.parametrize("name", PAGES)
def test_pages_with_hostile_names_fit_phone_dark_mode_print_and_axe(browser, files, name):
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="axe is not installed")

    def width() -> int:
        return page.evaluate("document.documentElement.scrollWidth")

    def violations(**options: Any) -> list[str]:
        return [one["id"] for one in axe.Axe().run(page, options=options).response["violations"]]

    # The policy is bypassed for the script of the test. Other tests check the policy.
    phone = {"width": 360, "height": 740}
    with opened(browser, files[name], viewport=phone, color_scheme="dark", bypass_csp=True) as page:
        ground = page.evaluate("getComputedStyle(document.body).backgroundColor")
        assert max(map(int, re.findall(r"\d+", ground))) < 60
        assert width() <= 360
        for box in page.locator(".scroll").all():
            assert "gradient" in box.evaluate("box => getComputedStyle(box).backgroundImage")
        page.evaluate(
            "[...document.querySelectorAll('details')].slice(0, 3).forEach(one => { one.open = true })"
        )
        assert width() <= 360
        page.set_viewport_size({"width": 1280, "height": 900})
        assert width() <= 1280
        assert violations(runOnly=["color-contrast"]) == []
        page.emulate_media(color_scheme="light")
        assert violations() == []
        page.set_viewport_size({"width": 1047, "height": 740})  # A4 landscape without margins
        page.emulate_media(media="print")
        assert width() <= 1047
        assert not page.locator(".tools").first.is_visible()


def test_chart_shows_labels_on_mouse_touch_and_keyboard(browser, address):
    with visited(browser, f"{address}agent?agent_id=Link", has_touch=True) as page:
        chart = page.get_by_role("slider", name="Score")
        box = chart.bounding_box()
        page.mouse.move(box["x"] + box["width"] - 1, box["y"] + 40)
        said = page.locator(".told")
        newest = said.inner_text()
        assert newest == (
            "2026-06-15 00:00: score 0.571 [0.50, 0.62], this week 0.538 [0.31, 0.67], 162 traces"
        )
        page.touchscreen.tap(box["x"] + 1, box["y"] + 40)
        assert said.inner_text().startswith("2026-05-02")
        chart.focus()
        page.keyboard.press("End")
        assert said.inner_text() == newest == chart.get_attribute("aria-valuetext")
        page.keyboard.press("ArrowLeft")
        assert said.inner_text().startswith("2026-06-14")
        page.get_by_role("navigation", name="Range of time").get_by_role("link", name="30 days").click()
        assert "days=30" in page.url
        page.get_by_role("slider").focus()
        page.keyboard.press("Home")
        page.keyboard.press("ArrowLeft")
        assert page.locator(".told").inner_text().startswith("2026-05-16")


def test_url_restores_the_view(browser, address):
    """Sort order, search, filter, window and as-of are in the URL, and the URL opens the same view."""
    with visited(browser, f"{address}?as_of=2026-06-10") as page:
        for _ in range(2):
            page.get_by_role("columnheader", name="Traces").get_by_role("button").click()
        page.locator("#category").select_option("High Fragility")
        page.get_by_label("Search").fill("r")
        rows = page.locator("#agents tbody tr:visible th").all_inner_texts()
        sent = page.url
        assert "sort=-traces" in sent and "page=" not in sent and 0 < len(rows) < 14
        page.get_by_role("link", name="30 days").first.click()
        assert "window_days=30" in page.url and "search=r" in page.url and "as_of=2026-06-10" in page.url
        assert page.get_by_label("Search").input_value() == "r"
        page.locator("#agents tbody tr:visible th a").first.click()
        assert "agent?" in page.url and "as_of=2026-06-10" in page.url
    with visited(browser, sent) as page:
        assert page.locator("#agents tbody tr:visible th").all_inner_texts() == rows
        assert page.get_by_role("columnheader", name="Traces").get_attribute("aria-sort") == "descending"
        assert page.locator("#category").input_value() == "High Fragility"
