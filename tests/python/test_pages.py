"""Tests of pages and report on the sample: their texts, hostile names, files, and use in a browser.

test_shown_numbers.py compares the numbers with the marts.
"""

from __future__ import annotations

import csv
import html
import io
import os
import re
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import psycopg
import pytest
from starlette.testclient import TestClient

import command_line
from ciris_scoring.database.project import Project
from ciris_scoring.database.run_lock import run_lock
from ciris_scoring.database.terminal import fitted
from ciris_scoring.errors import CirisError
from ciris_scoring.kinds import KINDS
from ciris_scoring.lab.embedded import SCHEMA
from ciris_scoring.lab.simulation.sample import SAMPLE
from ciris_scoring.marts.asking import SAMPLE as SAMPLE_AGENT
from ciris_scoring.marts.evidence import RULES
from ciris_scoring.marts.marts import Marts
from ciris_scoring.marts.reference import COMPONENT_WORDS, LOSS_WORDS
from ciris_scoring.names import FACTORS
from ciris_scoring.numbers_as_text import cut
from ciris_scoring.show import report, view, words
from ciris_scoring.show.pages import charts, other
from ciris_scoring.show.pages.agent import EVIDENCE_ON_A_PAGE, agent_page, evidence_page
from ciris_scoring.show.pages.base import Instead, message_page
from ciris_scoring.show.pages.fleet import alerts_page, fleet_page
from ciris_scoring.show.pages.other import glossary_page, parameters_page, report_page, runs_page
from conftest import Database
from html_text import cells, elements, text_of
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


@pytest.fixture(scope="module")
def client(sample_project: Project) -> Iterator[TestClient]:
    with asking(sample_project) as client:
        client.headers["accept"] = "text/html"
        yield client


@pytest.fixture(scope="module")
def address(client: TestClient) -> Iterator[str]:
    with running(client.app) as port:
        yield f"http://127.0.0.1:{port}/"


def instead(page: Callable[..., str], *asked: Any, **more: Any) -> Instead:
    """Return the message page that is shown in place of the requested page."""
    with pytest.raises(Instead) as said:
        page(*asked, **more)
    return said.value


# --- unfinished runs and missing data --------------------------------------------------------------------------------


def test_pages_report_an_unfinished_run(marts, scored_sample):
    assert "class=state" not in fleet_page(marts, MARTS)
    marts.execute(
        f"insert into {SCHEMA}_intermediate.int_runs (run_id, started_at, command, as_of)"
        f" select gen_random_uuid(), now(), 'dbt', as_of + interval '1 day' from {SCHEMA}_intermediate.int_scoring_run"
    )
    page = fleet_page(marts, MARTS)
    assert "The last run published nothing." in page and '<a href="runs">' in page
    with scored_sample.connect() as other, run_lock(other, SCHEMA):
        assert "A run is in progress" in alerts_page(marts, MARTS)


def test_fleet_page_says_how_old_its_verdicts_are(marts):
    """The age of the sample says nothing, so its pages say that it is the sample."""
    assert "<p class=old>" not in fleet_page(marts, MARTS) and "sample data" in fleet_page(marts, MARTS)
    marts.execute("update dim_agents set agent_id_hash = 'other' where agent_id_hash = %s", [SAMPLE_AGENT[1]])
    for hours, is_old in ((3, False), (72, True)):
        page = fleet_page(marts, MARTS, now=AS_OF + timedelta(hours=hours))
        assert ("<p class=old>The verdicts below are 3 days old" in page) is is_old
        assert "sample data" not in page


def test_message_page_explains_why_there_is_no_score(marts, database):
    with database.connect() as empty:
        for page in (fleet_page, alerts_page, parameters_page):
            assert "No score is published yet" in page(empty, MARTS)
    with marts.transaction(force_rollback=True):
        marts.execute("alter table fct_verdicts rename to elsewhere")
        page = fleet_page(marts, MARTS)
        assert "Another version of the project built the marts" in page and "no fct_verdicts." in page
    assert "there are 7 and 30." in instead(fleet_page, marts, MARTS, window_days=8).html
    marts.execute("delete from fct_capacity_scores; delete from fct_fleet_capacity")
    assert "No agent has sent a trace" in fleet_page(marts, MARTS)
    document = other.report_document(Marts(marts, MARTS), view.choose(Marts(marts, MARTS)))
    assert (document["agents"], document["fleet"], document["as_of"]) == ([], None, None)
    away = message_page("The database is away", ["It <cannot> be reached."])
    assert "It &lt;cannot&gt; be reached." in away and "<nav" not in away


# --- hostile names ---------------------------------------------------------------------------------------------------


def rename(connection: psycopg.Connection) -> None:
    """Give hostile names to the first agents."""
    agents = read(connection, f"select agent_id_hash from {SCHEMA}.dim_agents order by agent_id_hash")
    for agent, name in zip(agents, HOSTILE, strict=False):
        for table in ("fct_capacity_scores", "dim_agents", "fct_capacity_alerts"):
            query = f"update {SCHEMA}.{table} set agent_name = %s where agent_id_hash = %s"
            connection.execute(query, [name, agent["agent_id_hash"]])


def test_names_of_agents_are_escaped(marts):
    plain = elements(report_page(marts, MARTS))
    rename(marts)
    page = report_page(marts, MARTS)
    found = elements(page)
    assert [name for name, _ in found] == [name for name, _ in plain]
    assert not [name for _, attributes in found for name in attributes if name.startswith("on")]
    seen = {re.sub(r"[\x00-\x1f\u202e\u2066]", "\N{REPLACEMENT CHARACTER}", name) for name in HOSTILE}
    names = {text_of(name) for name in re.findall(r"<bdi[^>]*>(.*?)</bdi>", page, re.DOTALL)}
    assert {fitted(name, 40) for name in seen} <= names
    titles = {attributes["title"] for name, attributes in found if name == "bdi" and "title" in attributes}
    assert titles == {name for name in seen if len(name) > 40}
    for name in HOSTILE:
        html = agent_page(marts, MARTS, name)
        title = re.search(r"<title>(.*?)</title>", html, re.DOTALL)
        assert title and "<" not in title[1] and "\u202e" not in title[1]


# --- files of the report ---------------------------------------------------------------------------------------------


def test_report_without_scores_is_refused(database, tmp_path):
    file = tmp_path / "fleet.html"
    file.write_text("older")
    result = command_line.invoke("report", "--output", file, *command_line.at(database))
    assert result.exit_code == 1 and "No score is published" in result.stderr
    assert file.read_text() == "older"


def test_report_is_replaced_at_once_or_written_into_a_device_or_pipe(tmp_path):
    file, link = tmp_path / "fleet.html", tmp_path / "link.html"
    link.symlink_to("fleet.html")
    for text in ("first", "second"):
        report.check_place(link)
        report.write(text, link)
        assert (link.is_symlink(), file.read_text()) == (True, text)
    read, written = os.pipe()
    for place in (Path("/dev/null"), Path(f"/dev/fd/{written}")):
        report.check_place(place)
        report.write("text", place)
    os.close(written)
    with open(read) as stream:
        assert stream.read() == "text"
    with pytest.raises(CirisError, match="No space left on device"):
        report.write("text", Path("/dev/full"))
    assert sorted(tmp_path.iterdir()) == [file, link]


def test_links_identify_an_agent_whose_hash_is_the_name_of_another_agent(marts):
    """Fable takes the hash of Link as its name. The links to Link must still lead to Link."""
    marts.execute("update dim_agents set agent_name = %s where agent_name = 'Fable'", [LINK])
    several = instead(agent_page, marts, MARTS, LINK)
    assert several.status == 409 and "2 agents are or were called" in several.html
    agent = f"hash:{LINK}"
    for page in (
        *(several.html, fleet_page(marts, MARTS), alerts_page(marts, MARTS)),
        agent_page(marts, MARTS, agent),
        evidence_page(marts, MARTS, agent, "i_chain"),
    ):
        tags = elements(page)
        queries = [parse_qsl(urlsplit(a["href"]).query) for tag, a in tags if tag == "a" and "href" in a]
        given = [value for query in queries for name, value in query if name == "agent_id"]
        given += [a["value"] for tag, a in tags if tag == "input" and a.get("name") == "agent_id"]
        assert given and all(value.startswith("hash:") for value in given), given


# --- traces behind a component ---------------------------------------------------------------------------------------


def test_evidence_of_a_component_lists_its_traces(client):
    """Follow each link from the agent's page to the pages of traces, and compare the traces with CSV and API."""
    page = client.get("/agent?agent_id=Link").text
    links = [html.unescape(link) for link in re.findall(r'href="(evidence\?[^"]*)"', page)]
    every = RULES.keys() | {"q_deferral"}
    linked = {re.search(r"component=(\w+)", link)[1] for link in links}
    assert {"i_chain", "i_coverage", "q_deferral", "s_score"} <= linked <= every
    components = {one: re.sub(r"component=\w+", f"component={one}", links[0]) for one in sorted(every)}
    for component, link in components.items():
        csv_links = re.findall(r'href="(api/[^"]*format=csv)" download', client.get(f"/{link}").text)
        if not csv_links:
            assert "No trace lowered this component" in client.get(f"/{link}").text
            continue
        answer = client.get(f"/{html.unescape(csv_links[0])}")
        key = "deferral_id" if component == "q_deferral" else "trace_id"
        table = list(csv.DictReader(io.StringIO(answer.text)))
        listed = [row[key] for row in table]
        assert {(row["agent_id_hash"], row["as_of"][:10], row["window_days"]) for row in table} <= {
            (LINK, "2026-06-15", "7")
        }
        shown = client.get(f"/{link}").text
        found = [row[1] for row in cells(shown)[1:]]
        assert found == (listed if component == "q_deferral" else listed[:EVIDENCE_ON_A_PAGE]), component
        assert (f"The newest {EVIDENCE_ON_A_PAGE} are below." in shown) is (len(found) < len(listed))
        assert component != "i_coverage" or len(found) < len(listed)


def test_csv_of_the_factors_has_a_row_per_agent_as_of_and_factor(client, marts):
    [link] = re.findall(r'href="(factors\.csv[^"]*)"', client.get("/?window_days=30&days=30").text)
    answer = client.get(f"/{html.unescape(link)}")
    assert answer.headers["content-disposition"] == 'attachment; filename="factors.csv"'
    found = {
        (row["agent_id_hash"], row["agent_label"], row["as_of"], row["factor"]): row["factor_score"]
        for row in csv.DictReader(io.StringIO(answer.text))
    }
    query = "select * from fct_capacity_scores where window_days = 30 and as_of >= %s"
    expected = {
        (row["agent_id_hash"], row["agent_label"], f"{row['as_of']:%Y-%m-%dT%H:%M:%SZ}", name): str(row[column])
        for row in read(marts, query, AS_OF - timedelta(days=30))
        for name, column in FACTORS.items()
    }
    assert found == expected and len(found) > 14 * 29 * 5
    history = re.findall(r'href="(api/[^"]*)" download=history.csv', client.get("/agent?agent_id=Link").text)
    rows = csv.DictReader(io.StringIO(client.get(f"/{html.unescape(history[0])}").text))
    assert {row["agent_id_hash"] for row in rows} == {LINK}


# --- runs, data quality -----------------------------------------------------------------------------------


def test_runs_page_shows_the_error(marts):
    marts.execute("update int_runs set outcome = 'failed', message = 'the disk is full'")
    [failed, *_] = cells(runs_page(marts, MARTS))[1:]
    assert failed[2] == "failed" and failed[-1] == "the disk is full"
    marts.execute("drop table fct_capacity_scores cascade")
    [failed, *_] = cells(runs_page(marts, MARTS))[1:]
    assert failed[-1] == "the disk is full"


def test_quality_page_shows_issues_of_any_year(marts):
    """Python cannot represent the year 20000 or years before 1."""
    marts.execute(
        "insert into fct_data_quality (data_quality_id, agent_id_hash, period_start, issue, n) values"
        " ('a', 'a', '20000-01-01', 'future_trace', 1), ('b', 'a', '0044-03-15 BC', 'implausible_timestamp', 1)"
    )
    newest = {row[3] for row in cells(runs_page(marts, MARTS)) if row[0].endswith(("future_trace", "ble_timestamp"))}
    assert newest == {"20000-01-01", "0044-03-15 BC"}


def test_page_says_that_the_role_may_not_read_its_mart(marts):
    marts.execute(
        "create role only_scores; grant usage on schema ciris to only_scores;"
        "grant select on all tables in schema ciris to only_scores;"
        "revoke select on ciris.fct_scoring_runs, ciris.fct_data_quality from only_scores;"
        "set local role only_scores"
    )
    assert runs_page(marts, MARTS).count("may not read") == 2


def test_every_component_has_a_description(client, marts):
    names = {name for [name] in marts.execute("select distinct component from fct_factor_components")}
    parts = {name for [name] in marts.execute("select distinct loss_component from fct_score_attribution")}
    assert (names, parts) == (COMPONENT_WORDS.keys(), LOSS_WORDS.keys())
    glossary = client.get("/glossary").text
    assert not [name for name in KINDS if f' id="g-{name.replace("_", "-")}">' not in glossary]
    issues = [name for [name] in marts.execute("select distinct issue from fct_data_quality")]
    assert issues and all(words.issue(name) != name for name in issues)


@pytest.mark.parametrize(
    ("value", "places", "expected"),
    [(0.848, 2, "0.84"), (0.9999999, 3, "0.999"), (1.0, 3, "1.000"), (-0.0129, 2, "-0.01"), (0.3, 1, "0.3")],
)
def test_numbers_are_truncated_to_decimal_places(value, places, expected):
    assert cut(value, places) == expected


# --- pages in a browser ----------------------------------------------------------------------------------------------


PAGES: dict[str, Callable[..., str]] = {
    "report": report_page,
    "fleet": partial(fleet_page, now=datetime.now(UTC)),
    "agent": partial(agent_page, agent=LINK),
    "alerts": partial(alerts_page, window_days=30),
    "runs": runs_page,
    "evidence": partial(evidence_page, agent=LINK, component="i_chain"),
    "deferrals": partial(evidence_page, agent=LINK, component="q_deferral"),
    "parameters": parameters_page,
    "glossary": glossary_page,
}


@pytest.fixture(scope="module")
def files(scored_sample: Database, client: TestClient, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Files of the report and the pages, in which agents have hostile names, and three agents are called Ally.

    The file "plain" is the report with the names of the sample.
    """
    folder = tmp_path_factory.mktemp("hostile")
    found = {name: folder / f"{name}.html" for name in (*PAGES, "docs", "plain")}
    found["docs"].write_text(client.get("/docs").text)
    with scored_sample.connect() as connection, connection.transaction(force_rollback=True):
        found["plain"].write_text(report_page(connection, MARTS))
        rename(connection)
        connection.execute(
            f"update {SCHEMA}.fct_capacity_scores set agent_name = 'Ally' where agent_id_hash in "
            f"(select agent_id_hash from {SCHEMA}.dim_agents order by agent_id_hash offset 11)"
        )
        for name, page in PAGES.items():
            found[name].write_text(page(connection, MARTS))
    return found


def opened(browser: Any, file: Path, **options: Any) -> AbstractContextManager[Any]:
    """Open a file in the browser without a network."""
    return visited(browser, file.as_uri(), offline=True, **options)


def column(page: Any, number: int) -> list[str]:
    """Return the first word of each visible cell in a column of the table of agents."""
    rows = page.locator(f"#agents tbody tr:visible td:nth-child({number})")
    return [(text.split() or [""])[0] for text in rows.all_inner_texts()]


def test_table_of_agents_can_be_sorted_and_filtered(browser, files):
    with opened(browser, files["report"]) as page:
        assert "owned" not in page.title()
        heading = page.get_by_role("columnheader", name="Capacity score").first
        heading.get_by_role("button").click()
        page.locator(".filters summary").click()
        rising = column(page, 2)
        assert len(rising) == 14 and rising == sorted(rising)
        heading.get_by_role("button").focus()
        page.keyboard.press("Enter")
        assert heading.get_attribute("aria-sort") == "descending"
        assert column(page, 2) == sorted(rising, reverse=True)
        page.get_by_label("Search").fill("ALLY")
        assert len(column(page, 2)) == 3 and page.locator("#shown").inner_text() == "3 of 14 agents"
        page.get_by_label("Search").fill("broken chain")
        assert len(column(page, 2)) == 1
        page.get_by_label("Search").fill("nobody at all")
        assert page.locator("#shown").inner_text() == "0 of 14 agents"
        page.get_by_label("Search").fill("")
        page.locator("#verdict").select_option("withhold")
        assert len(column(page, 5)) == 5 and all("Withhold" in said for said in column(page, 5))
        page.locator("#category").select_option("healthy")
        assert len(column(page, 5)) < 5


def test_names_are_sorted_by_their_numbers_and_a_report_has_500_agents(browser, marts, tmp_path):
    """Each agent is copied 37 times. "Unit 9" is before "Unit 10"."""
    for name, new_name in (("Echo", "Unit 10"), ("Fable", "Unit 9")):
        marts.execute("update fct_capacity_scores set agent_name = %s where agent_name = %s", [new_name, name])
    for mart, key in (
        *(("fct_capacity_scores", "capacity_score_id"), ("fct_score_certainty", "score_certainty_id")),
        ("fct_verdicts", "verdict_id"),
    ):
        marts.execute(
            f"""
            insert into {mart}
            select (jsonb_populate_record(row, jsonb_build_object('agent_id_hash', hash, '{key}', hash))).*
            from {mart} as row
            cross join generate_series(1, 37) as copy
            cross join lateral (select md5(agent_id_hash || copy) as hash) as copied
            where window_days = 7 and as_of = %s
            """,
            [AS_OF],
        )
    file = tmp_path / "large.html"
    file.write_text(report_page(marts, MARTS))
    assert file.read_text().count("<details class=panel") == 500 and "32 more agents" in file.read_text()
    with opened(browser, file) as page:
        page.locator(".filters summary").click()
        page.get_by_label("Search").fill("unit")
        page.get_by_role("columnheader", name="Agent").get_by_role("button").click()
        names = page.locator("#agents tbody tr:visible th bdi").all_inner_texts()
        assert names == sorted(names, reverse=True) and set(names) == {"Unit 9", "Unit 10"}


def test_csv_of_the_fleet_page_has_all_agents(client):
    [link] = re.findall(r'href="(api/[^"]*)" download=fleet.csv', client.get("/?window_days=30").text)
    rows = list(csv.DictReader(io.StringIO(client.get(f"/{html.unescape(link)}").text)))
    assert {(row["as_of"], row["window_days"]) for row in rows} == {("2026-06-15T00:00:00Z", "30")}
    assert len(rows) == 14


def test_templates_quote_attributes_with_values():
    """A value that is empty would otherwise take the next attribute as its value."""
    for template in Path(charts.__file__).parent.joinpath("templates").glob("*.html"):
        text = re.sub(r"{%.*?%}|{#.*?#}", "", template.read_text("utf-8"), flags=re.DOTALL)
        assert not re.findall(r"""\s[a-z-]+=[^"'\s>{]*{{.*""", text), template.name


def test_a_link_opens_the_section_of_an_agent(browser, files):
    with opened(browser, files["plain"]) as page:
        section = page.locator(f"[id='{LINK}']")
        assert not section.get_by_text("Loss components").is_visible()
        page.locator("#agents").get_by_role("link", name="Link").click()
        section.get_by_text("Loss components").wait_for(state="visible")
    with opened(browser, files["plain"], java_script_enabled=False) as page:
        assert page.locator("#agents tbody tr:visible").count() == 14
        assert not page.locator(".tools").first.is_visible()


@pytest.mark.parametrize("name", [*PAGES, "docs"])
def test_pages_with_hostile_names_fit_phone_dark_mode_print_and_axe(browser, files, name):
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="axe is not installed")

    def width() -> int:
        return page.evaluate("document.documentElement.scrollWidth")

    def violations(**options: Any) -> list[str]:
        return [one["id"] for one in axe.Axe().run(page, options=options).response["violations"]]

    # The page's content security policy would block the script of axe. Other tests check the policy.
    phone = {"width": 360, "height": 740}
    with opened(browser, files[name], viewport=phone, color_scheme="dark", bypass_csp=True) as page:
        ground = page.evaluate("getComputedStyle(document.body).backgroundColor")
        assert max(map(int, re.findall(r"\d+", ground))) < 60
        assert width() <= 360
        page.evaluate("[...document.querySelectorAll('details')].slice(0, 3).forEach(one => { one.open = true })")
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
