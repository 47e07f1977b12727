"""Tests of all models and data tests in dbt's manifest: tests before the marts block, tables have keys, and
incremental models find the rows that they replace by an index.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from dbt.cli.main import dbtRunner
from dbt.contracts.graph.manifest import Manifest
from dbt.contracts.graph.nodes import GenericTestNode, ModelNode, SeedNode, SingularTestNode

from ciris_scoring.lab import embedded
from ciris_scoring.lab.embedded import Server
from conftest import REPOSITORY

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
    """Return the ids of models and seeds that the marts depend on."""
    marts = {model.unique_id for model in models(manifest) if is_mart(model)}
    return {n.unique_id for n in manifest.nodes.values() if isinstance(n, ModelNode | SeedNode)} - marts


def is_mart(model: ModelNode) -> bool:
    return Path(model.original_file_path).parts[:2] == ("models", "marts")


def index_columns(model: ModelNode) -> list[list[str]]:
    """Return the columns of each index of a table, those of the key first."""
    return [primary_key(model), *(index["columns"] for index in model.config.get("indexes") or [])]


def primary_key(model: ModelNode) -> list[str]:
    """Return the columns of a model's primary key, or none."""
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
    assert tests.keys() == {"assert_every_source_row_is_checked"}
    not_blocking = {name for name, config in tests.items() if config.severity.upper() != "ERROR"}
    assert not_blocking == set()
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


def tables(manifest: Manifest) -> list[ModelNode]:
    return [model for model in models(manifest) if model.config.materialized == "replace_range"]


def test_every_table_is_written_by_one_materialization(manifest: Manifest) -> None:
    kinds = {model.config.materialized for model in models(manifest)}
    assert kinds == {"replace_range", "replace_view", "ephemeral"}


def test_every_table_has_a_key_and_columns_with_types(manifest: Manifest) -> None:
    without_key = {model.name for model in tables(manifest) if not primary_key(model)}
    assert without_key == TABLES_WITHOUT_KEY.keys()
    without_type = [
        f"{model.name}.{column.name}"
        for model in tables(manifest)
        for column in model.columns.values()
        if not column.data_type
    ]
    assert without_type == []


def test_every_increment_finds_its_rows_by_index(manifest: Manifest) -> None:
    ranges = {model.name: model.config.meta.get("range") for model in tables(manifest)}
    assert {name for name, column in ranges.items() if column is None} == REPLACED_WHOLE
    for model in tables(manifest):
        assert model.config.meta.keys() <= {"range", "package_version"}, model.name
        column = ranges[model.name]
        first = [columns[0] for columns in index_columns(model) if columns]
        assert column is None or column in first, f"no index of {model.name} begins with {column}"


def test_no_view_reads_an_ephemeral_model(manifest: Manifest) -> None:
    """An ephemeral model can contain the times of a run, and a run skips views that are unchanged."""
    ephemeral = {model.unique_id for model in models(manifest) if model.is_ephemeral_model}
    views = [model for model in models(manifest) if model.config.materialized == "replace_view"]
    assert [view.name for view in views if ephemeral & set(view.depends_on.nodes)] == []


def test_texts_that_dbt_writes_to_files_are_ascii() -> None:
    """Compiled SQL contains comments, and dbt writes it in the encoding of the locale, which may be C."""
    folders = ("models", "tests/singular")
    paths = [path for folder in folders for path in (REPOSITORY / folder).rglob("*.sql")]
    assert len(paths) > 40
    bare = {path.stem: re.sub(r"{#.*?#}", "", path.read_text("utf-8"), flags=re.DOTALL) for path in paths}
    assert [name for name, text in bare.items() if not text.isascii()] == []


def test_every_macro_is_described_above_it() -> None:
    bare = [
        f"{path.stem}: {found[1]}"
        for path in sorted((REPOSITORY / "macros").rglob("*.sql"))
        for text in [path.read_text("utf-8")]
        for found in re.finditer(r"{%-? macro (\w+)", text)
        if not text[: found.start()].rstrip().endswith("#}")
    ]
    assert bare == []


def test_pipeline_diagram_in_contributing_matches_the_models(manifest: Manifest) -> None:
    """CONTRIBUTING lists the models in an order in which none reads a later one, each in its folder."""
    picture = (REPOSITORY / "CONTRIBUTING.md").read_text().split("cirislens.*\n")[1].split("```")[0]
    folder = ""
    drawn: dict[str, str] = {}
    for line in picture.splitlines():
        folder = (re.match(r"\s+v\s+(\w+)", line) or [folder, folder])[1]
        drawn |= {name: folder for name in re.findall(r"\b(?:stg|int|fct)_\w+", line)}
    assert len(drawn) >= 15
    nodes = {node.name: node for node in manifest.nodes.values() if node.resource_type == "model"}
    for number, (name, place) in enumerate(drawn.items()):
        assert place in nodes[name].fqn, name
        later = set(list(drawn)[number:]) & {parent.split(".")[-1] for parent in nodes[name].depends_on.nodes}
        assert not later, f"{name} is drawn before {', '.join(later)}, which it reads"
