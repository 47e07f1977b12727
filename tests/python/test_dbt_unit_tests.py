"""Tests that the dbt unit tests pass. Unit tests document the formulas of a model; tests/cases has the edge cases."""

from __future__ import annotations

from datetime import timedelta

from dbt.cli.main import dbtRunner

from command_line import at
from conftest import Database
from nasty_fleet import START, nasty_fleet
from pipeline import kept_parsed, load_rows, score


def test_every_unit_test_passes(database: Database) -> None:
    assert wrong(database) == []


def wrong(database: Database) -> list[str]:
    """Return the names and messages of failing unit tests."""
    # dbt takes the column types of a unit test from existing relations, so the models are built first.
    with database.connect() as connection:
        load_rows(connection, nasty_fleet(1, days=3))
    score(database.profiles_dir, START + timedelta(days=3))
    with kept_parsed(database.profiles_dir):
        outcome = dbtRunner().invoke(["test", "--select", "test_type:unit", *at(database), "--quiet"])
    assert outcome.exception is None
    tests = [result for result in outcome.result if result.node.resource_type == "unit_test"]
    assert len(tests) == 6
    return [f"{result.node.name}: {result.message}" for result in tests if result.status != "pass"]
