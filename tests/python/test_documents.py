"""Tests of README and docs: outputs, parameters and links. REWRITE_DOCUMENTS=1 rewrites the results in queries.md."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from ciris_scoring.database.terminal import aligned, fitted
from ciris_scoring.lab.simulation.sample import SAMPLE
from ciris_scoring.show.tables import fleet_table
from command_line import command
from conftest import REPOSITORY
from pipeline import MARTS, kept_parsed

DOCUMENTS = sorted([*REPOSITORY.glob("*.md"), *(REPOSITORY / "docs").glob("*.md")])
README = (REPOSITORY / "README.md").read_text()
QUERIES = REPOSITORY / "docs/queries.md"
CONFIGURATION = REPOSITORY / "docs/configuration.md"
ROWS_SHOWN = 4
CELL_WIDTH = 60


def blocks(text: str, language: str = "") -> list[str]:
    """Return the code blocks of a document."""
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)


# --- README ----------------------------------------------------------------------------------------------------------


def test_readme_says_how_large_the_sample_is(marts):
    [n_traces] = marts.execute("select count(*) from cirislens.covenant_traces").fetchone()
    agents, days = SAMPLE["agents"], SAMPLE["days"]
    assert f"({agents} agents, {days} days, {n_traces:,}" in README


def test_readme_shows_the_fleet_that_a_run_prints(marts):
    [shown] = [block for block in blocks(README) if block.startswith("Fleet at ")]
    printed = fleet_table(marts, MARTS, datetime.fromisoformat(SAMPLE["as_of"]))
    assert shown.strip() == printed


def test_readme_shows_the_explanation_that_the_command_prints(scored_sample):
    [shown] = [block for block in blocks(README) if block.startswith("$ ciris-scoring explain")]
    line, _, excerpts = shown.partition("\n")
    with kept_parsed(scored_sample.profiles_dir):
        printed = command(scored_sample, *line.split()[2:]).stdout
    for excerpt in filter(None, map(str.strip, excerpts.split("...\n"))):
        _, found, printed = printed.partition(excerpt)
        assert found, excerpt


# --- queries and their results ---------------------------------------------------------------------------------------


def test_the_queries_have_the_results_that_are_shown(marts):
    page = QUERIES.read_text()

    def with_result(found: re.Match[str]) -> str:
        cursor = marts.execute(found["query"])
        columns = [column.name for column in cursor.description or ()]
        return f"```sql\n{found['query']}```\n```\n{result_text(columns, cursor.fetchall())}\n```\n"

    expected, n = re.subn(r"```sql\n(?P<query>.*?)```\n```\n.*?\n```\n", with_result, page, flags=re.DOTALL)
    assert n == page.count("\n## ") - 1, "only the log of runs has no result, because it differs for each run"
    if os.environ.get("REWRITE_DOCUMENTS"):
        QUERIES.write_text(expected)
    assert page == expected, "REWRITE_DOCUMENTS=1 pytest tests/python/test_documents.py"
    marts.execute(blocks(page, "sql")[-1])


def result_text(columns: Sequence[str], rows: Sequence[tuple[Any, ...]]) -> str:
    """Format the first rows of a query's result and the number of the remaining rows."""
    lines = aligned(columns, [[cell(value) for value in row] for row in rows[:ROWS_SHOWN]])
    more = len(rows) - ROWS_SHOWN
    return "\n".join([*lines, *([f"... and {more} more"] if more > 0 else [])])


def cell(value: Any) -> str:
    """Format a value: numbers to four decimals, times in UTC to the second, long texts truncated."""
    match value:
        case None:
            return ""
        case bool():
            return "yes" if value else "no"
        case float() | Decimal():
            return f"{round(float(value), 4) + 0.0:.4f}".rstrip("0").rstrip(".")  # adding 0.0 converts -0
        case datetime():
            return f"{value:%Y-%m-%d %H:%M:%S}".removesuffix(" 00:00:00")
        case _:
            return fitted(str(value), CELL_WIDTH)


def test_the_query_that_compares_parameters_has_rows(marts):
    """The sample has only one schema, which replaces the second schema of the query."""
    [query] = re.findall(r"```sql\n(.*?)```", CONFIGURATION.read_text(), re.DOTALL)
    assert marts.execute(query.replace("ciris_beside.", "ciris.")).fetchall()


# --- tables, links, versions -----------------------------------------------------------------------------------------


def test_documented_parameters_have_the_published_defaults(marts):
    rows = re.findall(r"^\| (`[\w`, ]+`) \| ([^|]*) \| .*? \| ", CONFIGURATION.read_text(), re.MULTILINE)
    listed = {name: default for names, default in rows for name in re.findall(r"\w+", names)}
    listed = {name: default for name, default in listed.items() if not name.startswith("ciris_")}
    published = marts.execute("select parameter_name, parameter_value from dim_scoring_parameters").fetchall()
    assert listed.keys() == {name for name, _ in published}
    for name, value in published:
        default = listed[name].removesuffix(" each").replace("empty", "")
        if default in ("true", "false", "") or value is None:
            assert default == (value or "")
        else:
            assert float(default) == float(value), name


def anchors(document: Path) -> set[str]:
    """Return the anchors that GitHub creates for the headings of a document."""
    headings = re.findall(r"^#+ (.*)$", document.read_text(), re.MULTILINE)
    plain = (re.sub(r"\[(.*?)\]\(.*?\)", r"\1", heading).lower() for heading in headings)
    return {re.sub(r"[^\w\- ]", "", heading).replace(" ", "-") for heading in plain}


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda document: document.name)
def test_every_link_has_a_target(document):
    without_code = re.sub(r"^```.*?^```$", "", document.read_text(), flags=re.DOTALL | re.MULTILINE)
    for target in re.findall(r"\]\(([^)\s]+)\)", without_code):
        if re.match(r"\w+:", target):
            continue
        name, _, anchor = target.partition("#")
        goal = (document.parent / name).resolve() if name else document
        assert goal.exists(), target
        assert not anchor or anchor in anchors(goal), target
