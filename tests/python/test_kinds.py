"""Tests that marts and documents agree with the files of alerts and red flags in kinds/."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping

import pytest
import yaml

from ciris_scoring.kinds import ALERTS, FLAGS, Kind
from conftest import REPOSITORY
from test_constants import SQL

TABLES = {"signs.md": ("red flag", FLAGS), "deciding.md": ("alert", ALERTS)}


def table(name: str, kinds: Mapping[str, Kind]) -> str:
    """Return the table of alerts or red flags that a document must have."""
    rows = [
        (f"`{kind.id}`", kind.meaning, kind.innocent_causes, f"{kind.ask} {kind.look_at}") for kind in kinds.values()
    ]
    head = f"| {name} | raised when | innocent causes | what to do |\n|---|---|---|---|\n"
    return head + "".join(f"| {' | '.join(row)} |\n" for row in rows)


@pytest.mark.parametrize("document", TABLES)
def test_documents_have_tables_of_alerts_and_red_flags(document: str) -> None:
    """REWRITE_DOCUMENTS=1 writes the tables into the documents."""
    path = REPOSITORY / "docs" / document
    text, made = path.read_text(encoding="utf-8"), table(*TABLES[document])
    head = re.escape(made.splitlines()[0])
    if os.environ.get("REWRITE_DOCUMENTS"):
        text = re.sub(rf"^{head}\n(\|.*\n)*", lambda _: made, text, flags=re.MULTILINE)
        path.write_text(text, encoding="utf-8")
    assert f"\n\n{made}\n" in text, "REWRITE_DOCUMENTS=1 pytest tests/python/test_kinds.py"


@pytest.mark.parametrize(
    ("mart", "column", "kinds"), [("fct_capacity_alerts", "kind", ALERTS), ("fct_red_flags", "red_flag", FLAGS)]
)
def test_marts_accept_exactly_the_alerts_and_red_flags_with_a_file(
    mart: str, column: str, kinds: Mapping[str, Kind]
) -> None:
    """The check constraints of the marts list the kinds that have a file in kinds/."""
    models = yaml.safe_load((REPOSITORY / "models/marts/_marts__models.yml").read_text())["models"]
    [constraints] = [model["constraints"] for model in models if model["name"] == mart]
    [listed] = [one["expression"] for one in constraints if one["type"] == "check" and one.get("columns") == [column]]
    assert sorted(re.findall(r"'(\w+)'", listed)) == list(kinds)


def test_alerts_apply_the_thresholds_of_their_files() -> None:
    model = SQL["models/marts/fct_capacity_alerts.sql"]
    not_thresholds = {"steady_days", "min_traces", "warm_up_days"}
    read = set(re.findall(r"scoring_parameter\('(\w+)'\)", model)) - not_thresholds
    assert read == {name for kind in ALERTS.values() for name in kind.thresholds}
