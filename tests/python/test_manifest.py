"""Tests of all models and data tests in dbt's manifest: tests before the marts block, tables have keys, and
incremental models find the rows that they replace by an index.
"""

from __future__ import annotations

import re

import pytest
from dbt.contracts.graph.manifest import Manifest
from dbt.contracts.graph.nodes import GenericTestNode, ModelNode, SeedNode, SingularTestNode

from ciris_scoring.lab import embedded
from ciris_scoring.lab.embedded import Server
from conftest import REPOSITORY, Database
from test_bad_input import parsed

# Exceptions, each with its reason. An exception that is no longer needed fails the test, too.
BLOCKING_FROM_A_THRESHOLD_ON = {
    "assert_every_source_row_is_checked": "traces arrive while a run is in progress; from 1 % on something is wrong",
}
TABLES_WITHOUT_KEY = {
    "stg_cirislens__incomplete_event_traces": "a trace stands there as often as it was found with later events",
}
REPLACED_WHOLE = {
    # Depends only on code, seeds and variables.
    *["int_scoring_parameters", "dim_scoring_parameters", "dim_scoring_windows", "dim_capacity_categories"],
    # Has a row for each agent or deferral, any of which a run can change.
    *["int_agents", "dim_agents", "fct_data_quality", "int_deferral_verdicts"],
    # Describes a single run.
    *["int_scoring_run", "int_source_periods"],
}


@pytest.fixture(scope="module")
def manifest(tmp_path_factory: pytest.TempPathFactory) -> Manifest:
    """The project as dbt parses it without a server."""
    folder = tmp_path_factory.mktemp("profiles")
    server = Server("localhost", 5432, "nobody", folder)
    embedded.write_profile(folder, server)
    return parsed(Database(server, "nobody", folder), None)


def models(manifest: Manifest) -> list[ModelNode]:
    return [node for node in manifest.nodes.values() if isinstance(node, ModelNode)]


def primary_key(model: ModelNode) -> list[str]:
    """Return the columns of a model's primary key, or none."""
    keys = [constraint for constraint in model.constraints if constraint.type == "primary_key"]
    assert len(keys) <= 1, model.name
    return keys[0].columns if keys else []


def test_every_data_test_before_the_marts_blocks(manifest: Manifest) -> None:
    before = {
        node.unique_id
        for node in manifest.nodes.values()
        if isinstance(node, ModelNode | SeedNode) and not node.original_file_path.startswith("models/marts")
    }
    tests = {
        node.name: node.config
        for node in manifest.nodes.values()
        if isinstance(node, GenericTestNode | SingularTestNode) and before.intersection(node.depends_on.nodes)
    }
    assert tests.keys() == {"assert_every_source_row_is_checked"}
    assert {name for name, config in tests.items() if config.severity.upper() != "ERROR"} == set()
    assert {
        name for name, config in tests.items() if (config.warn_if, config.error_if) != ("!= 0", "!= 0")
    } == BLOCKING_FROM_A_THRESHOLD_ON.keys()
    assert {name for name, config in tests.items() if config.where or config.limit is not None} == set()
    assert not manifest.disabled


def tables(manifest: Manifest) -> list[ModelNode]:
    return [model for model in models(manifest) if model.config.materialized == "replace_range"]


def test_every_table_has_a_key(manifest: Manifest) -> None:
    without_key = {model.name for model in tables(manifest) if not primary_key(model)}
    assert without_key == TABLES_WITHOUT_KEY.keys()


def test_every_increment_finds_its_rows_by_index(manifest: Manifest) -> None:
    ranges = {model.name: model.config.meta.get("range") for model in tables(manifest)}
    assert {name for name, column in ranges.items() if column is None} == REPLACED_WHOLE
    for model in tables(manifest):
        assert model.config.meta.keys() <= {"range", "package_version"}, model.name
        column = ranges[model.name]
        indexes = [primary_key(model), *(index["columns"] for index in model.config.get("indexes") or [])]
        first = [columns[0] for columns in indexes if columns]
        assert column is None or column in first, f"no index of {model.name} begins with {column}"


def test_no_view_reads_an_ephemeral_model(manifest: Manifest) -> None:
    """An ephemeral model can contain the times of a run, and a run skips views that are unchanged."""
    ephemeral = {model.unique_id for model in models(manifest) if model.is_ephemeral_model}
    views = [model for model in models(manifest) if model.config.materialized == "replace_view"]
    assert [view.name for view in views if ephemeral & set(view.depends_on.nodes)] == []


def test_every_macro_is_described_above_it() -> None:
    bare = [
        f"{path.stem}: {found[1]}"
        for path in sorted((REPOSITORY / "macros").rglob("*.sql"))
        for text in [path.read_text("utf-8")]
        for found in re.finditer(r"{%-? macro (\w+)", text)
        if not text[: found.start()].rstrip().endswith("#}")
    ]
    assert bare == []
