"""Tests of pages that only a server has (evidence, red flags, runs, data quality, comparison) and of interactive
pages in a browser (charts, shared views).
"""

from __future__ import annotations

import contextlib
import csv
import html
import io
import re
from collections.abc import Iterator
from functools import partial

import psycopg
import pytest
from starlette.testclient import TestClient

from ciris_scoring.basics.kinds import KINDS
from ciris_scoring.lab.embedded import SCHEMA
from ciris_scoring.marts.evidence import RULES
from ciris_scoring.marts.words import COMPONENT_WORDS, LOSS_WORDS
from ciris_scoring.serve.api.database import Database as ServedDatabase
from ciris_scoring.serve.pages import pages, words
from conftest import Database
from html_text import cells, with_names
from pipeline import MARTS
from serving import LINK, asking, running, visited


@pytest.fixture(scope="module")
def client(served: ServedDatabase) -> Iterator[TestClient]:
    with asking(served) as client:
        client.headers["accept"] = "text/html"
        yield client


@pytest.fixture
def marts(scored_sample: Database) -> Iterator[psycopg.Connection]:
    """A connection whose changes are rolled back, with the marts' schema in the search path."""
    with scored_sample.connect() as connection, connection.transaction(force_rollback=True):
        connection.execute(f"set local search_path to {SCHEMA}, {SCHEMA}_intermediate")
        yield connection


# --- evidence --------------------------------------------------------------------------------------------------------


def test_a_component_leads_to_its_traces(client):
    """Follows each link of the agent's page and compares the traces with the API's evidence."""
    page = client.get("/agent?agent_id=Link").text
    links = [html.unescape(link) for link in re.findall(r'href="(evidence\?[^"]*)"', page)]
    components = {re.search(r"component=(\w+)", link)[1] for link in links}
    assert components == (RULES.keys() - {"s_score"}) | {"sigma", "q_deferral"}
    for link in links:
        if "q_deferral" in link:
            listed = csv.DictReader(
                io.StringIO(client.get(f"/{link.replace('evidence?', 'evidence.csv?')}").text)
            )
            shown = cells(client.get(f"/{link}").text)[1:]
            assert [row["deferral_id"] for row in listed] == [row[1] for row in shown] and shown
            continue
        answer = client.get(f"/{link.replace('evidence?', 'evidence.csv?')}")
        assert answer.headers["content-type"] == "text/csv; charset=utf-8"
        assert answer.headers["content-disposition"].startswith("attachment; filename=")
        rows = list(csv.DictReader(io.StringIO(answer.text)))
        component = re.search(r"component=(\w+)", link)[1]
        params = {"component": pages.OF_PARTS.get(component, component), "limit": 1000}
        asked = {"params": params, "headers": {"accept": "application/json"}}
        api = client.get(f"/api/v1/scoring/evidence/{LINK}", **asked)
        for column in ("traced_at", "trace_id", "selected_action", "audit_sequence_number"):
            expected = [str(trace[column]) for trace in api.json()["traces"]]
            assert [row[column] for row in rows] == expected, column
        shown = client.get(f"/{link}").text
        assert f"{len(rows):,} trace" in shown
        assert [row[1] for row in cells(shown)[1:]] == [row["trace_id"] for row in rows][:50]


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
    monkeypatch.setattr(pages, "EVIDENCE_ON_A_PAGE", 4)
    link, found, n_pages = "evidence?agent_id=Link&component=i_coverage&_=2", [], 0
    while link:
        page = client.get(f"/{link}").text
        found += cells(page)[1:]
        n_pages += 1
        following = re.search(r'href="([^"]*)" rel=next', page)
        link = html.unescape(following[1]) if following else None
    assert n_pages > 3
    assert found[:50] == everything


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


@pytest.mark.parametrize(
    "page",
    [
        *("agent?", "red-flags?", "compare?", "compare?other_id=Latch&"),
        *(f"evidence?component={component}&" for component in ("i_chain", "q_deferral")),
    ],
)
def test_agent_pages_note_earlier_agents_of_the_name(client, page):
    answer = client.get(f"/{page}agent_id=Haven")
    assert answer.status_code == 200 and "Another agent once had this name: da3f08513aac60cf." in answer.text
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
    marts.execute("create role only_scores; grant usage on schema ciris to only_scores")
    for mart in pages.Marts(marts, MARTS).relations.places:
        if mart not in ("fct_scoring_runs", "fct_data_quality"):
            with contextlib.suppress(psycopg.errors.UndefinedTable), marts.transaction():
                marts.execute(f"grant select on ciris.{mart} to only_scores")
    marts.execute("set local role only_scores")
    for page in (pages.runs_page, pages.quality_page):
        assert "may not read" in page(marts, MARTS)


# --- comparison and texts --------------------------------------------------------------------------------------------


def test_compare_page_shows_both_agents(client, marts):
    choices = client.get("/compare?agent_id=Link").text
    assert choices.count("<option") == 13 and choices.count("&amp;other_id=") == 10

    def beside(page: str) -> dict[str, list[str]]:
        return {row[0].split()[-1].strip("()"): row for row in cells(with_names(page)) if row[0]}

    rows = beside(client.get("/compare?agent_id=Link&other_id=Latch").text)
    turned = beside(client.get("/compare?agent_id=Latch&other_id=Link").text)
    for name in ("week", "i_chain"):
        left, right = (float(cell.split()[0]) for cell in rows[name][1:3])
        differences = [float(row[name][3].replace("−", "-")) for row in (rows, turned)]
        assert differences == pytest.approx([right - left, left - right], abs=2e-3)
        assert rows[name][4] == turned[name][4] == "apart"
    assert rows["d_identity"][4] == "overlap"
    marts.execute(
        "update fct_capacity_scores set capacity_score_low = null, capacity_score_high = null,"
        " capacity_score_steady = null where agent_id_hash = %s",
        [LINK],
    )
    without = beside(pages.compare_page(marts, MARTS, "Link", "Latch"))
    assert (without["week"][3:], without["run"][3:]) == ([rows["week"][3], "–"], ["–", rows["run"][4]])


def test_every_component_has_a_description(client, marts):
    names = {name for [name] in marts.execute("select distinct component from fct_factor_components")}
    parts = {name for [name] in marts.execute("select distinct loss_component from fct_score_attribution")}
    assert (names, parts) == (COMPONENT_WORDS.keys(), LOSS_WORDS.keys())
    page = re.sub("<wbr>", "", client.get("/agent?agent_id=Link").text)
    for name, said in COMPONENT_WORDS.items():
        assert name == "sigma_max" or re.search(rf"title={name}>(<a[^>]*>)?{said}<", page), name
    glossary = client.get("/glossary").text
    assert not [name for name in KINDS if f" id=g-{name.replace('_', '-')}>" not in glossary]
    issues = [name for [name] in marts.execute("select distinct issue from fct_data_quality")]
    assert issues and all(words.issue(name) != name for name in issues)


# --- in a browser ----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def address(client: TestClient) -> Iterator[str]:
    with running(client.app) as port:
        yield f"http://127.0.0.1:{port}/"


def test_chart_shows_labels_on_mouse_touch_and_keyboard(browser, address):
    with visited(browser, f"{address}agent?agent_id=Link", has_touch=True) as page:
        chart = page.get_by_role("slider", name="Score")
        box = chart.bounding_box()
        page.mouse.move(box["x"] + box["width"] - 1, box["y"] + 40)
        said = page.locator(".told")
        newest = said.inner_text()
        assert re.fullmatch(
            r"2026-06-15 00:00: score 0\.571 \[0\.50, 0\.62\], this week 0\.538 \[0\.31, 0\.67\], 162 traces",
            newest,
        )
        page.touchscreen.tap(box["x"] + 1, box["y"] + 40)
        assert said.inner_text().startswith("2026-05-02")
        chart.focus()
        page.keyboard.press("End")
        assert said.inner_text() == newest == chart.get_attribute("aria-valuetext")
        page.keyboard.press("ArrowLeft")
        assert said.inner_text().startswith("2026-06-14")
        page.keyboard.press("Home")
        page.keyboard.press("ArrowLeft")
        assert said.inner_text().startswith("2026-05-02")


def test_a_range_of_time_can_be_chosen(browser, address):
    with visited(browser, f"{address}agent?agent_id=Link") as page:
        page.get_by_role("navigation", name="Range of time").get_by_role("link", name="30 days").click()
        assert "days=30" in page.url
        page.get_by_role("slider").focus()
        page.keyboard.press("Home")
        assert page.locator(".told").inner_text().startswith("2026-05-16")


def test_table_headings_stay_visible_when_scrolling(browser, address):
    with visited(
        browser, f"{address}evidence?agent_id=Link&component=i_chain", viewport={"width": 1280, "height": 600}
    ) as page:
        page.evaluate("scrollTo(0, 900)")
        assert page.locator("thead th").first.bounding_box()["y"] == 0


def test_url_restores_the_view(browser, address):
    """Sort order, search, filter, window and as-of are in the URL, and the URL opens the same view."""
    with visited(browser, f"{address}?as_of=2026-06-10") as page:
        page.get_by_role("columnheader", name="Traces").get_by_role("button").click()
        page.get_by_role("columnheader", name="Traces").get_by_role("button").click()
        page.locator("#category").select_option("High Fragility")
        page.get_by_label("Search").fill("r")
        rows = page.locator("#agents tbody tr:visible th").all_inner_texts()
        sent = page.url
        assert "sort=-traces" in sent and "page=" not in sent
        page.get_by_role("link", name="30 days").first.click()
        assert "window_days=30" in page.url and "search=r" in page.url and "as_of=2026-06-10" in page.url
        assert page.get_by_label("Search").input_value() == "r"
        page.go_back()
        assert page.locator("#agents tbody tr:visible th").all_inner_texts() == rows
    assert 0 < len(rows) < 14
    with visited(browser, sent) as page:
        assert page.locator("#agents tbody tr:visible th").all_inner_texts() == rows
        assert page.get_by_role("columnheader", name="Traces").get_attribute("aria-sort") == "descending"
        assert page.locator("#category").input_value() == "High Fragility"


@pytest.mark.parametrize("width", [390, 1280, 1800])
def test_factors_and_names_wrap_well_at_any_width(browser, address, width):
    with visited(browser, f"{address}agent?agent_id=Link", viewport={"width": width, "height": 900}) as page:
        tops = [box.bounding_box()["y"] for box in page.locator(".multiples > div").all()]
        assert len(tops) == 5
        assert tops.count(tops[-1]) > 1 or len(set(tops)) == 5
        page.goto(address)
        for link in page.locator("#agents tbody th bdi").all():
            assert link.evaluate("name => name.getClientRects().length") == 1, link.inner_text()
        if width >= 1280:
            table = page.locator("#agents").locator("xpath=..")
            assert table.evaluate("box => box.scrollWidth <= box.clientWidth")


def test_all_controls_are_reachable_by_keyboard(browser, address):
    with visited(browser, address) as page:
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.textContent") == "Skip to the content"
        seen = set()
        for _ in range(120):
            page.keyboard.press("Tab")
            seen.add(page.evaluate("document.activeElement.id || document.activeElement.getAttribute('role') || "
                                   "document.activeElement.tagName"))  # fmt: skip
            outline = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
            assert outline != "none" or page.evaluate("document.activeElement === document.body")
        assert {"search", "verdict", "category", "alerts", "red_flags", "slider", "BUTTON", "A"} <= seen
