"""Tests of pages and report on the sample: equal to the marts, safe with any name, and usable in a browser."""

from __future__ import annotations

import csv
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
from urllib.parse import parse_qsl, urlsplit

import psycopg
import pytest
from click.testing import Result

import command_line
from ciris_scoring.basics.decimals import cut
from ciris_scoring.basics.errors import CirisError, InputError
from ciris_scoring.basics.run_lock import run_lock
from ciris_scoring.basics.terminal import fitted
from ciris_scoring.lab.embedded import SCHEMA
from ciris_scoring.lab.simulation.sample import SAMPLE
from ciris_scoring.marts import agents
from ciris_scoring.marts.marts import Marts
from ciris_scoring.marts.verdict import Raised, Steady, verdict
from ciris_scoring.marts.words import LOSS_WORDS, named
from ciris_scoring.serve import report
from ciris_scoring.serve.pages import charts, pages, words
from ciris_scoring.serve.pages.links import ReportLinks, ServedLinks
from conftest import Database
from html_text import Parsed
from pipeline import MARTS
from serving import LINK, read, visited

AS_OF = datetime.fromisoformat(SAMPLE["as_of"])
NOW = AS_OF + timedelta(hours=3)
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
def marts(sample_copy: Database) -> Iterator[psycopg.Connection]:
    """A connection whose changes are rolled back, with the marts' schema in the search path."""
    with sample_copy.connect() as connection, connection.transaction(force_rollback=True):
        connection.execute(f"set local search_path to {SCHEMA}")
        yield connection


def invoke(command: str, database: Database, *arguments: str | Path) -> Result:
    return command_line.invoke(command, *arguments, *command_line.at(database))


def instead(page: Callable[..., str], *asked: Any, **more: Any) -> pages.Instead:
    """Return the message page that replaces a page."""
    with pytest.raises(pages.Instead) as said:
        page(*asked, **more)
    return said.value


def shown(value: float | None) -> str:
    return "–" if value is None else cut(value, 3)


# --- compared with the marts -----------------------------------------------------------------------------------------


SURE = "91 % sure that it reaches 0.6"


@pytest.mark.parametrize(
    ("reached", "status", "raised", "expected", "reason"),
    [
        ((0.6, 0.65), "final", [], "grant", SURE),
        ((0.5999, 0.6), "final", [], "keep", SURE),
        ((0.5, 0.5999), "final", [], "withhold", SURE),
        ((0.6, 0.65), "final", ["low_capacity warning"], "grant", SURE),
        ((0.6, 0.65), "final", ["low_capacity critical"], "review", f"{SURE}; low capacity since 2026-05-02"),
        (
            (0.5, 0.65),
            "final",
            ["falling warning", "shared_key red_flag"],
            "review",
            f"{SURE}; falling since 2026-05-02; key of another agent since 2026-05-02",
        ),
        ((0.5, 0.55), "final", ["silent warning"], "withhold", f"{SURE}; silent since 2026-05-02"),
        ((0.6, 0.65), "provisional", [], "wait", f"{SURE}, but provisional: too little history"),
        (
            (None, None),
            "insufficient_data",
            ["episode warning"],
            "wait",
            "too few traces for a score; episode since 2026-05-02",
        ),
        ((None, None), "final", [], "wait", "no steady score, which a rescore fills"),
    ],
)
def test_verdict_follows_from_probability_status_and_what_is_raised(
    reached, status, raised, expected, reason
):
    """A score of 0.7 with the upper bound 0.8 and the fixed loss 0.0789: the logarithms of the losses beyond 0.0789
    at 0.6, 0.7 and 0.8 are -0.8396, -1.2809 and -1.9367, so z = 0.4413 / (0.6558 / 1.96) = 1.319."""
    since = datetime(2026, 5, 2, tzinfo=UTC)
    scores = (0.7, 0.8, *reached) if reached[0] else [None] * 4
    steady = Steady(*scores, fixed_loss=0.0789, published=(0.5, 0.99))
    found = verdict(
        0.6, steady, status, [Raised("a", *one.split(), since=since, until=AS_OF) for one in raised]
    )
    assert (found.verdict, found.reason) == (expected, reason)
    if reached[0]:
        assert found.probability == pytest.approx(0.9066, abs=0.00005)


def test_agent_page_shows_losses_and_verdict(marts):
    page = Parsed(pages.agent_page(marts, MARTS, "Link", now=NOW))
    falling = read(marts, "select message from fct_capacity_alerts where kind = 'falling'")
    parts = {row["message"].partition("Largest new loss: ")[2] for row in falling}
    assert parts and parts <= {f"{named(part)}." for part in LOSS_WORDS}
    assert "Largest losses it can repair: missing audit numbers, 0.205; deferrals judged poor" in page.text
    assert "The record is not continuous: 28 gaps, 5 rewinds and 6 repeated numbers" in page.text
    assert "Withhold at threshold 0.6: 18 % sure that it reaches 0.6; broken chain." in page.text
    at_last = Parsed(pages.agent_page(marts, MARTS, "Link", now=NOW, threshold=0.7))
    assert "Withhold at threshold 0.7: at most 1 % sure that it reaches 0.7; broken chain." in at_last.text
    assert "y1=30% y2=30% class=threshold" in at_last.html and "href=#level" in at_last.html


WHY = {
    "Mire": "Review: Stuck in a fragile episode (rigidity) since 2026-06-09 09:04, 135 h. … Ask whoever runs the agent",
    "Link": "Withhold: The record is not continuous: 28 gaps, 5 rewinds and 6 repeated numbers … where the missing",
    "Latch": "Withhold: Signs with a key that is unknown, revoked or expired, since 2026-05-31 01:26 (312 traces). …",
    "Sprout": "Wait: New: first trace 2026-06-10 06:40. No large loss; … final from 2026-06-25",
    "Fable": "Grant: No large loss; most by decisions that do not replay, 0.046.",
    "Haven": "Grant: No large loss; … In 30 days: deferrals left open since 2026-06-14.",
    "Hush": "Review: No trace since 2026-06-11 19:42. … whether it still acts",
    "Bravo": "Withhold: 2 of 5 deferrals were rejected.",
    "Driftwood": "Grant: Drifts away from its own behaviour before, most in alignment",
    "Paradox": "Withhold: 13 of 141 traces were overridden by the conscience.",
}


def test_fleet_page_gives_cause_and_remedy(marts):
    rows = {row[0].split()[0]: row for row in Parsed(pages.fleet_page(marts, MARTS)).table_rows(16)}
    for name, said in WHY.items():
        shown = f"{rows[name][1].split()[0]}: {rows[name][2]}"
        assert all(part in shown for part in said.split(" …")), shown
    assert rows["Latch"][8].startswith("Low capacity Untrusted key")


def test_unknown_and_ambiguous_agents_get_a_message(marts):
    for nobody in ("", " ", "nobody", "a\0b", "\ud800", "' or true --", "x" * 10_000):
        assert agents.find(Marts(marts, MARTS), nobody).agents == []
        assert "There is no such agent" in instead(pages.agent_page, marts, MARTS, nobody).html
    marts.execute("update dim_agents set agent_name = 'Ally' where agent_name in ('Link', 'Fable')")
    several = instead(pages.agent_page, marts, MARTS, "Ally")
    assert several.status == 409
    page = Parsed(several.html)
    assert "2 agents have or had this name" in page.text
    assert f"agent?agent_id=hash%3A{LINK}&window_days=7" in [
        a.get("href") for tag, a in page.tags if tag == "a"
    ]


def test_events_are_told_once_for_neighbouring_days(marts):
    query = (
        "select count(*) as n from fct_trace_checks where agent_id_hash = %s and is_counted"
        " and (is_chain_gap or is_chain_rewind or is_chain_duplicate)"
        " and traced_at >= (select min(as_of) from fct_fleet_capacity)"
    )
    [counted] = read(marts, query, LINK)
    text = " ".join(Parsed(pages.agent_page(marts, MARTS, LINK)).text.split())
    assert text.count("chain broken, ") == 1 and f"chain broken, {counted['n']} traces" in text
    text = " ".join(Parsed(pages.agent_page(marts, MARTS, "Morpheus")).text.split())
    assert "renamed: Haven → Proteus" in text and "renamed: Proteus → Morpheus" in text
    marts.execute(
        "update fct_capacity_scores set parameter_set_id = 'other' where agent_id_hash = %s and as_of < %s",
        [LINK, AS_OF - timedelta(10)],
    )
    text = " ".join(Parsed(pages.agent_page(marts, MARTS, LINK)).text.split())
    assert f"{AS_OF - timedelta(10):%Y-%m-%d} parameters changed: other → " in text


# --- unfinished runs and missing data --------------------------------------------------------------------------------


def test_unfinished_run_is_reported(marts, sample_copy):
    """The page says so while a run is in progress, and after a run has ended without a publication."""
    assert "class=state" not in pages.fleet_page(marts, MARTS)
    old = pages.fleet_page(marts, MARTS, now=AS_OF + timedelta(days=3))
    assert "class=old>The verdicts below are 3 days old" in old
    assert "class=old>The" not in pages.fleet_page(marts, MARTS, now=NOW)
    marts.execute(
        f"insert into {SCHEMA}_intermediate.int_runs (run_id, started_at, command, as_of)"
        f" select gen_random_uuid(), now(), 'dbt', as_of + interval '1 day' from {SCHEMA}_intermediate.int_scoring_run"
    )
    page = pages.fleet_page(marts, MARTS)
    assert "The last run published nothing." in page and '<a href="runs">' in page
    with sample_copy.connect() as other, run_lock(other, SCHEMA):
        assert "A run is in progress" in pages.alerts_page(marts, MARTS)
    marts.execute(
        "update fct_fleet_capacity set as_of = as_of + interval '23 hours' where as_of = %s",
        [AS_OF - timedelta(days=1)],
    )
    assert "class=old>The verdicts below are 3 hours old" in pages.fleet_page(marts, MARTS, now=NOW)


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
    query = (
        "select * from fct_capacity_scores where as_of = %s and window_days = 7 and capacity_score is null"
    )
    [lacking] = read(marts, query, as_of)
    missing = 30 - lacking["n_traces"]
    rows = Parsed(pages.fleet_page(marts, MARTS, as_of=as_of)).table_rows(16)
    [row] = [row for row in rows if row[0].startswith(lacking["agent_name"])]
    assert row[1].split()[0] == "Wait" and row[3] == "–" and row[7] == f"too few traces, {missing} missing"
    assert f"{missing} too few" in pages.agent_page(marts, MARTS, lacking["agent_id_hash"], as_of=as_of)
    marts.execute("delete from fct_capacity_scores where agent_id_hash = %s and as_of = %s", [LINK, AS_OF])
    assert "1 agent without a trace in this window" in Parsed(pages.fleet_page(marts, MARTS)).text
    assert pages.agent_page(marts, MARTS, LINK)
    marts.execute("delete from fct_capacity_scores where agent_id_hash = %s", [LINK])
    assert "No score in this window" in instead(pages.agent_page, marts, MARTS, LINK).html


# --- safe with any name ----------------------------------------------------------------------------------------------


def rename(connection: psycopg.Connection) -> None:
    """Give hostile names to the first agents."""
    for i, name in enumerate(HOSTILE):
        for table in ("fct_capacity_scores", "dim_agents", "fct_capacity_alerts"):
            connection.execute(
                f"update {SCHEMA}.{table} set agent_name = %s where agent_id_hash = (select agent_id_hash "
                f"from {SCHEMA}.dim_agents order by agent_id_hash limit 1 offset %s)",
                [name, i],
            )


def test_names_are_escaped(marts):
    plain = Parsed(pages.report_page(marts, MARTS))
    rename(marts)
    page = Parsed(pages.report_page(marts, MARTS))
    allowed = {"script": 1, "img": 0, "style": 1, "meta": 5}
    for tag, n in allowed.items():
        assert sum(found == tag for found, _ in page.tags) == n
    assert not [name for _, attributes in page.tags for name in attributes if name.startswith("on")]
    assert len(page.tags) == len(plain.tags)
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
    evidence = links.evidence("a/b c", "i_chain", AS_OF, 7)
    assert evidence == (
        "evidence?agent_id=hash%3Aa%2Fb+c&component=i_chain&window_days=7&as_of=2026-06-15T00%3A00%3A00Z"
    )
    assert links.evidence("a", "ece", AS_OF, 7) is None
    within = ReportLinks.to([LINK, "a b", "<x>"])
    assert [within.agent(agent, 7) for agent in (LINK, "a b", "<x>", "other")] == [
        f"#{LINK}", "#agent-1", "#agent-2", "#fleet",
    ]  # fmt: skip


# --- the report ------------------------------------------------------------------------------------------------------


def test_three_hundred_agents_of_sixty_days_fit_in_a_megabyte(marts):
    """The sample's agents are copied many times with a long history. More than 500 agents are not all shown."""
    copy_agents(marts, copies=14, days=60)
    html = pages.report_page(marts, MARTS)
    n_agents = html.count("<details class=")
    assert n_agents >= 200
    print(f"{len(html.encode()) * 300 / n_agents:,.0f} bytes for 300 agents")
    assert len(html.encode()) * 300 / n_agents < 1_000_000
    copy_agents(marts, copies=40, days=0)
    html = pages.report_page(marts, MARTS)
    [counted] = read(
        marts, "select n_agents from fct_fleet_capacity where as_of = %s and window_days = 7", AS_OF
    )
    not_shown = counted["n_agents"] - 500
    assert not_shown > 0 and html.count("<details class=") == 500
    assert f"{not_shown} more agents" in html
    document = json.loads(report.as_json(Marts(marts, MARTS), 7))
    assert (len(document["agents"]), document["agents_not_shown"]) == (500, not_shown)


def copy_agents(connection: psycopg.Connection, copies: int, days: int) -> None:
    """Copy scores and alerts of each agent in the window of 7 days, with at least this many days of history."""
    for mart in ("fct_capacity_scores", "fct_capacity_alerts"):
        columns = [
            row["column_name"]
            for row in read(
                connection,
                "select column_name from information_schema.columns where table_schema = %s and table_name = %s",
                SCHEMA,
                mart,
            )
        ]
        key = mart.removeprefix("fct_").removesuffix("s") + "_id"
        taken = [
            {
                "agent_id_hash": "md5(concat_ws('-', agent_id_hash, copy, %(days)s))",
                "as_of": "as_of - shift",
                "window_start": "window_start - shift",
                key: f"md5(concat_ws('-', {key}, copy, shift, %(days)s))",
            }.get(name, name)
            for name in columns
        ]
        connection.execute(
            f"""
            insert into {mart} ({", ".join(columns)})
            select {", ".join(taken)}
            from {mart}
            cross join generate_series(1, %(copies)s) as copy
            cross join (values (interval '0'), (interval '45 days')) as shifts (shift)
            where
                window_days = 7
                and length(agent_id_hash) = 16
                and (
                    as_of - shift > %(as_of)s - make_interval(days => %(days)s)
                    or shift = interval '0' and as_of = %(as_of)s
                )
            """,
            {"copies": copies, "days": days, "as_of": AS_OF},
        )
    connection.execute(
        """
        update fct_fleet_capacity as capacity set n_agents = (
            select count(*) from fct_capacity_scores as scores
            where scores.as_of = capacity.as_of and scores.window_days = capacity.window_days
        )
        """
    )


def test_report_without_scores_is_refused(database, tmp_path):
    file = tmp_path / "fleet.html"
    file.write_text("older")
    result = invoke("report", database, "--output", file)
    assert result.exit_code == 1 and "No score is published" in result.stderr
    assert file.read_text() == "older"


def test_report_replaces_the_target_of_a_symbolic_link(tmp_path, monkeypatch):
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
    assert not list((tmp_path / "reports").iterdir())
    with monkeypatch.context() as patch, pytest.raises(InputError, match="it is a disk"):
        patch.setattr(Path, "is_block_device", lambda _: True)
        report.check_place(tmp_path / "disk")
    nowhere = tmp_path / "nowhere.html"
    nowhere.symlink_to(tmp_path / "missing" / "fleet.html")
    with pytest.raises(InputError, match="there is no folder"):
        report.check_place(nowhere)
    loop = tmp_path / "loop.html"
    loop.symlink_to(loop)
    with pytest.raises(InputError, match="lead back to themselves"):
        report.check_place(loop)
    with pytest.raises(CirisError, match="cannot be written"):
        report.write("text", loop)
    assert loop.is_symlink()


def test_a_report_is_written_to_a_device_a_pipe_or_an_open_file(tmp_path):
    """Devices and pipes remain; an open file keeps its earlier content."""
    device, pipe, opened_file = Path("/dev/null"), tmp_path / "pipe", tmp_path / "out"
    report.check_place(device)
    report.write("text", device)
    assert device.is_char_device()
    os.mkfifo(pipe)
    with ThreadPoolExecutor(1) as reader:
        received = reader.submit(pipe.read_text)
        report.check_place(pipe)
        report.write("text", pipe)
        assert received.result(30) == "text"
    assert pipe.is_fifo()
    opened_file.write_text("before ")
    number = opened_file.stat().st_ino
    with opened_file.open("a") as stream:
        place = Path(f"/dev/fd/{stream.fileno()}")
        report.check_place(place)
        report.write("text", place)
    assert opened_file.read_text() == "before text" and opened_file.stat().st_ino == number
    with pytest.raises(CirisError, match="No space left"):
        report.write("text", Path("/dev/full"))


def test_links_identify_an_agent_whose_hash_is_the_name_of_another(marts):
    """Another agent has the hash as its name. The links must still lead to the agent with the hash."""
    marts.execute("update dim_agents set agent_name = %s where agent_name = 'Fable'", [LINK])
    assert instead(pages.agent_page, marts, MARTS, LINK).status == 409
    agent = f"hash:{LINK}"
    shown = {
        "agent": Parsed(pages.agent_page(marts, MARTS, agent)),
        "compare": Parsed(pages.compare_page(marts, MARTS, agent)),
        "both": Parsed(pages.compare_page(marts, MARTS, agent, "Latch")),
        "evidence": Parsed(pages.evidence_page(marts, MARTS, agent, "i_chain")),
        "red_flags": Parsed(pages.red_flags_page(marts, MARTS, agent)),
        "fleet": Parsed(pages.fleet_page(marts, MARTS)),
        "alerts": Parsed(pages.alerts_page(marts, MARTS)),
    }
    for name, page in shown.items():
        given = [
            value
            for tag, a in page.tags
            if tag == "a" and "href" in a
            for parameter, value in parse_qsl(urlsplit(a["href"]).query)
            if parameter in ("agent_id", "other_id")
        ]
        given += [a["value"] for tag, a in page.tags if tag == "input" and a.get("name") == "agent_id"]
        given += [
            a["value"] for tag, a in page.tags if tag == "option" and "value" in a and name == "compare"
        ]
        assert given and all(value.startswith("hash:") for value in given), (name, given)


def test_a_report_that_cannot_be_written_leaves_the_older_one(tmp_path, monkeypatch):
    file = tmp_path / "fleet.html"
    file.write_text("older")

    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(report.os, "replace", fail)
    with pytest.raises(CirisError, match="No space left"):
        report.write("newer", file)
    assert file.read_text() == "older" and list(tmp_path.iterdir()) == [file]
    monkeypatch.undo()
    file.chmod(0o640)
    report.write("newer", file)
    assert file.read_text() == "newer" and file.stat().st_mode & 0o777 == 0o640


# --- charts ----------------------------------------------------------------------------------------------------------


def vertices(path: str) -> list[list[tuple[int, int]]]:
    """Return the polylines of a path."""
    lines: list[list[tuple[int, int]]] = []
    for command, text in re.findall(r"([Mhlz])([^Mhlz]*)", path):
        numbers = [int(number) for number in re.findall(r"-?\d+", text)]
        if command == "M":
            lines.append([(numbers[0], numbers[1])])
        steps = (
            [(dx, 0) for dx in numbers]
            if command == "h"
            else list(zip(numbers[::2], numbers[1::2], strict=True))
        )
        for dx, dy in steps if command in "hl" else []:
            x, y = lines[-1][-1]
            lines[-1].append((x + dx, y + dy))
    return lines


def test_a_line_goes_through_its_points_and_breaks_at_gaps():
    days = [AS_OF + timedelta(days=i) for i in range(9)]
    frame = charts.Frame.of(days)
    values = [1.0, 1.0, 1.0, 0.5, None, 0.25, 0.25, None, 0.0]
    path = charts.line(frame, zip(days, values, strict=True), 200)
    assert vertices(path) == [
        [(0, 0), (2, 0), (3, 100)],
        [(5, 150), (6, 150)],
        [(8, 200), (8, 200)],
    ]
    without_a_day = [(day, 0.5) for day in days if day != days[4]]
    assert len(vertices(charts.line(frame, without_a_day, 200))) == 2
    area = charts.area(frame, [(day, 0.0, 1.0) for day in days], 100)
    assert vertices(area) == [[(0, 100), (8, 100), (8, 0), (0, 0)]] and area.endswith("z")
    assert charts.Frame.of([AS_OF]).share(AS_OF) == 1.0


@pytest.mark.parametrize(
    ("value", "places", "expected"),
    [(0.848, 2, "0.84"), (0.9999999, 3, "0.999"), (1.0, 3, "1.000"), (-0.0129, 2, "-0.01"), (1e-9, 3, "0.000"),
     (167.8679, 3, "167.867"), (0.3, 1, "0.3")],
)  # fmt: skip
def test_numbers_are_truncated_to_places(value, places, expected):
    assert cut(value, places) == expected


def test_time_since_an_event_uses_the_largest_unit():
    said = [words.ago(seconds) for seconds in (5, 60, 7199, 7200, 172800)]
    assert said == ["just now", "1 minute ago", "119 minutes ago", "2 hours ago", "2 days ago"]


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
def files(sample_copy: Database, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Report and pages of a server with hostile names and three agents of the same name."""
    folder = tmp_path_factory.mktemp("hostile")
    found = {name: folder / f"{name}.html" for name in (*PAGES, "plain")}
    with sample_copy.connect() as connection, connection.transaction(force_rollback=True):
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
        verdicts = [said for said, _ in words.VERDICTS.values()]
        fallen = sum(float(text.replace("−", "-")) < -0.3 for text in column(page, 6) if text[0] in "+−")
        assert fallen and column(page, 2)[fallen:] == sorted(column(page, 2)[fallen:], key=verdicts.index)
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
        assert re.search(r"^Ally × 3[\s\S]*3 scores from (0\.\d{3}) to (0\.\d{3}), median (0\.\d{3})", folded)
        lowest, highest, median = re.findall(r"0\.\d{3}", folded[folded.index("3 scores from") :])[:3]
        assert [lowest, median, highest] == ally
        assert len(column(page, 4)) == 1
        page.get_by_label("Search").fill("")
        assert len(column(page, 4)) == 12
        page.get_by_label("fold agents of one name").uncheck()
        page.locator("#category").select_option("High Fragility")
        assert all(float(value) < 0.3 for value in column(page, 4)) and column(page, 4)
        page.locator("#category").select_option("all")
        page.locator("#alerts").select_option("any")
        assert 0 < len(column(page, 4)) < 14
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
    copy_agents(marts, copies=5, days=0)
    file = tmp_path / "large.html"
    file.write_text(pages.report_page(marts, MARTS))
    with opened(browser, file) as page:
        n_agents = int(page.locator("#shown").inner_text().split()[0])
        assert n_agents > 60 and len(column(page, 2)) == 25
        assert page.locator("#range").inner_text() == f"1 to 25 of {n_agents}"
        page.get_by_role("button", name="next").click()
        assert page.locator("#range").inner_text() == f"26 to 50 of {n_agents}"
        page.locator("#verdict").select_option("Wait")
        assert page.locator("#pages").is_hidden() and set(column(page, 2)) == {"Wait"}
        page.locator("#verdict").select_option("all")
        page.get_by_label("Search").fill("unit")
        page.get_by_role("columnheader", name="Agent").get_by_role("button").click()
        page.emulate_media(media="print")
        page.evaluate("dispatchEvent(new Event('beforeprint'))")
        assert page.locator("#printed").inner_text().startswith("Rows 1 to ")
        page.emulate_media(media="screen")
        page.evaluate("dispatchEvent(new Event('afterprint'))")
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
