"""What must hold of every model and data test, read from dbt's manifest: that the blocking tests block, that keys are
kept by the tables themselves, and that increments find what they rewrite by index."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from dbt.cli.main import dbtRunner
from dbt.contracts.graph.manifest import Manifest
from dbt.contracts.graph.nodes import GenericTestNode, ModelNode, SeedNode, SingularTestNode

from ciris_scoring import embedded
from ciris_scoring.embedded import Server
from conftest import REPOSITORY

# Each exception with its reason. One that is no longer needed fails too.
NOT_BLOCKING = {
    "warn_late_traces_need_a_rescore": "late traces are known to be in no final score; somebody may rescore",
    "warn_scores_waiting_for_ciris_scoring_resilience": "true between the two halves of every run in plain dbt",
}
BLOCKING_FROM_A_THRESHOLD_ON = {
    "assert_every_source_row_is_judged": "traces arrive while a run is at work; from 1 % on something is wrong",
}
TABLES_WITHOUT_UNIQUE_INDEX = {
    "int_score_publications": "a log: every run appends its row",
    "dim_scoring_windows": "a copy of a seed that has one",
    "dim_capacity_categories": "a copy of a seed that has one",
    "dim_scoring_parameters": "a copy of int_scoring_parameters, which has one",
    "fct_data_quality": "a copy of int_data_quality, which has one",
    "fct_capacity_alerts": "a few rows, each kind's of tables that have one by agent, as-of and window",
}
INCREMENTAL_WITHOUT_RANGE = {
    "int_resilience_scores": "ciris-scoring resilience writes its rows, dbt none",
    "int_score_limits": "ciris-scoring resilience writes its rows, dbt none",
    "int_interval_fleet_values": "ciris-scoring resilience writes its rows, dbt none",
    "int_score_publications": "a log: every run appends its row and rewrites none",
    "int_run_attempts": "a log: ciris-scoring writes its rows, dbt none",
}
REWRITTEN_WHOLE = {
    *["int_agents", "dim_agents", "dim_days", "dim_scoring_windows", "dim_capacity_categories"],
    *["dim_scoring_parameters", "fct_data_quality", "fct_capacity_alerts", "int_capacity_scores"],
}
"""As many rows as agents, days or parameters, each of which a run may change; and what one run publishes."""


@pytest.fixture(scope="module")
def manifest(tmp_path_factory: pytest.TempPathFactory) -> Manifest:
    """The project as dbt parses it, which asks no server."""
    folder = tmp_path_factory.mktemp("profiles")
    embedded.write_profile(folder, Server("localhost", 5432, "nobody", folder))
    outcome = dbtRunner().invoke(
        ["parse", "--project-dir", str(REPOSITORY), "--profiles-dir", str(folder), "--quiet"]
    )
    assert outcome.exception is None
    assert isinstance(outcome.result, Manifest)
    return outcome.result


def models(manifest: Manifest) -> list[ModelNode]:
    return [node for node in manifest.nodes.values() if isinstance(node, ModelNode)]


def before_the_marts(manifest: Manifest) -> set[str]:
    """Ids of the models and seeds that stand before the marts."""
    marts = {model.unique_id for model in models(manifest) if is_mart(model)}
    return {n.unique_id for n in manifest.nodes.values() if isinstance(n, ModelNode | SeedNode)} - marts


def is_mart(model: ModelNode) -> bool:
    return Path(model.original_file_path).parts[:2] == ("models", "marts")


def index_columns(model: ModelNode, *, unique: bool = False) -> list[list[str]]:
    """Columns of each index in a model's config, of the unique ones only if asked."""
    indexes = model.config.get("indexes") or []
    return [index["columns"] for index in indexes if index.get("unique") or not unique]


def primary_key(model: ModelNode) -> list[str]:
    """Columns of the primary key that a model declares; none without."""
    keys = [constraint for constraint in model.constraints if constraint.type == "primary_key"]
    assert len(keys) <= 1, model.name
    return keys[0].columns if keys else []


def test_every_data_test_before_the_marts_blocks(manifest: Manifest) -> None:
    before = before_the_marts(manifest)
    tests = {
        node.name: node.config
        for node in manifest.nodes.values()
        if isinstance(node, GenericTestNode | SingularTestNode) and before.intersection(node.depends_on.nodes)
    }
    assert len(tests) > 30
    not_blocking = {name for name, config in tests.items() if config.severity.upper() != "ERROR"}
    assert not_blocking == NOT_BLOCKING.keys()
    with_thresholds = {
        name for name, config in tests.items() if (config.warn_if, config.error_if) != ("!= 0", "!= 0")
    }
    assert with_thresholds == BLOCKING_FROM_A_THRESHOLD_ON.keys()
    narrowed = {
        name
        for name, config in tests.items()
        if not config.enabled or config.where or config.limit is not None
    }
    assert narrowed == set()
    disabled = {node.name for nodes in manifest.disabled.values() for node in nodes}
    assert disabled == set()


def test_every_declared_key_is_a_unique_index(manifest: Manifest) -> None:
    for model in models(manifest):
        if key := primary_key(model):
            unique = [sorted(columns) for columns in index_columns(model, unique=True)]
            assert sorted(key) in unique, f"{model.name} has no unique index on {key}"


def test_every_table_has_a_key(manifest: Manifest) -> None:
    tables = [model for model in models(manifest) if model.config.materialized in ("table", "incremental")]
    without_index = {model.name for model in tables if not index_columns(model, unique=True)}
    assert without_index == TABLES_WITHOUT_UNIQUE_INDEX.keys()
    # With an enforced contract dbt would make the constraint too, a second index on the same columns.
    undeclared = {model.name for model in tables if not primary_key(model) and not model.contract.enforced}
    assert undeclared == set()


def test_every_increment_finds_its_rows_by_index(manifest: Manifest) -> None:
    incremental = [model for model in models(manifest) if model.config.materialized == "incremental"]
    whole = {model.name for model in incremental if model.config.meta.get("rewritten") == "whole"}
    assert whole == REWRITTEN_WHOLE
    incremental = [model for model in incremental if model.name not in whole]
    ranges = {
        model.name: [
            model.config.meta[name] for name in ("scored_range", "judged_range") if name in model.config.meta
        ]
        for model in incremental
    }
    assert {name for name, columns in ranges.items() if not columns} == INCREMENTAL_WITHOUT_RANGE.keys()
    for model in incremental:
        assert len(ranges[model.name]) <= 1, f"{model.name} declares two ranges"
        for column in ranges[model.name]:
            first = [columns[0] for columns in index_columns(model)]
            assert column in first, f"no index of {model.name} begins with {column}"


def test_every_macro_is_described_above_it() -> None:
    bare = [
        f"{path.stem}: {found[1]}"
        for path in sorted((REPOSITORY / "macros").rglob("*.sql"))
        for text in [path.read_text("utf-8")]
        for found in re.finditer(r"{%-? macro (\w+)", text)
        if not text[: found.start()].rstrip().endswith("#}")
    ]
    assert bare == []
