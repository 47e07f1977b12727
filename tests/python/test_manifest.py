"""Tests of all models in dbt's manifest: tables have keys, and increments find the rows to replace by an index."""

from __future__ import annotations

import pytest
from dbt.contracts.graph.manifest import Manifest
from dbt.contracts.graph.nodes import GenericTestNode, ModelNode, SeedNode, SingularTestNode

from ciris_scoring.lab import embedded
from ciris_scoring.lab.embedded import Server
from conftest import Database
from test_bad_input import parsed

# Table without a primary key, because the agent can be null.
WITHOUT_KEY = {"stg_cirislens__event_traces"}
REPLACED_WHOLE = {
    # Tables that depend only on code, seeds and variables.
    *["int_scoring_parameters", "dim_scoring_parameters", "dim_scoring_windows", "dim_capacity_categories"],
    # Tables in which a run can change the row of any agent or deferral.
    *["int_agents", "dim_agents", "fct_data_quality", "int_deferral_values"],
    # Table that has only the traces of the run.
    "stg_cirislens__event_traces",
    # Table that describes a single run.
    "int_scoring_run",
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
    """Return the columns of a model's primary key, or an empty list."""
    keys = [constraint for constraint in model.constraints if constraint.type == "primary_key"]
    assert len(keys) <= 1, model.name
    return keys[0].columns if keys else []


def test_data_tests_before_the_marts_stop_a_run(manifest: Manifest) -> None:
    before = {
        node.unique_id
        for node in manifest.nodes.values()
        if isinstance(node, ModelNode | SeedNode) and not node.original_file_path.startswith("models/marts")
    }
    blocking = [
        node
        for node in manifest.nodes.values()
        if isinstance(node, GenericTestNode | SingularTestNode) and before.intersection(node.depends_on.nodes)
    ]
    names = {"assert_every_source_row_is_checked", "assert_no_traces_have_vanished"}
    assert {test.name for test in blocking} == names
    for test in blocking:
        assert (test.config.severity.upper(), test.config.where, test.config.limit) == ("ERROR", None, None)
    assert not manifest.disabled


def tables(manifest: Manifest) -> list[ModelNode]:
    return [model for model in models(manifest) if model.config.materialized == "replace_range"]


def test_every_table_has_a_key(manifest: Manifest) -> None:
    assert {model.name for model in tables(manifest) if not primary_key(model)} == WITHOUT_KEY


def test_every_increment_finds_its_rows_by_index(manifest: Manifest) -> None:
    ranges = {model.name: model.config.meta.get("range") for model in tables(manifest)}
    assert {name for name, column in ranges.items() if column in (None, "all")} == REPLACED_WHOLE
    for model in tables(manifest):
        assert model.config.meta.keys() <= {"range", "package_version"}, model.name
        column = ranges[model.name]
        indexes = [primary_key(model), *(index["columns"] for index in model.config.get("indexes") or [])]
        first = [columns[0] for columns in indexes if columns]
        assert column in (None, "all", *first), f"no index of {model.name} begins with {column}"


def test_no_view_reads_an_ephemeral_model(manifest: Manifest) -> None:
    """A run skips unchanged views, so a view must not contain times of a run, as an ephemeral model can."""
    ephemeral = {model.unique_id for model in models(manifest) if model.is_ephemeral_model}
    views = [model for model in models(manifest) if model.config.materialized == "replace_view"]
    assert [view.name for view in views if ephemeral & set(view.depends_on.nodes)] == []


def test_no_test_stores_its_failures(manifest: Manifest) -> None:
    """dbt would store failing rows in a schema whose owner and rights no run checks, even if only the environment
    variable DBT_STORE_FAILURES is set."""
    tests = [node for node in manifest.nodes.values() if isinstance(node, GenericTestNode | SingularTestNode)]
    assert tests and all(node.config.store_failures is False for node in tests)


def test_models_after_the_inputs_of_a_run_follow_its_row(manifest: Manifest) -> None:
    """int_scoring_run begins the run, and every later model locks its row (macros/run/enter_node.sql)."""
    parents = {node.unique_id: node.depends_on_nodes for node in models(manifest)}
    row = "model.ciris_scoring.int_scoring_run"

    def follows(unique_id: str) -> bool:
        return unique_id == row or any(follows(parent) for parent in parents.get(unique_id, ()))

    before = ("int_scoring_run", "int_built")
    later = [node for node in models(manifest) if "staging" not in node.fqn and node.name not in before]
    assert len(later) > 30
    assert [node.name for node in later if not follows(node.unique_id)] == []
