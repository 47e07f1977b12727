"""Tests of the package when another dbt project uses it: integration_tests/ is the root project."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml
from dbt.cli.main import dbtRunner

from ciris_scoring.database.dbt import read_relations
from ciris_scoring.database.project import Project, load_project
from ciris_scoring.errors import DbtFailed, ProfileError, RunRefused
from ciris_scoring.job.run import run
from ciris_scoring.job.run_log import RunRecord
from ciris_scoring.lab.embedded import SCHEMA, Server
from ciris_scoring.show.explain import read_explanation
from command_line import at
from conftest import REPOSITORY, Database, fresh_database
from nasty_fleet import START, nasty_fleet
from pipeline import load_rows, score
from serving import SCORING, asking
from test_bad_input import marts as fingerprints

FIRST, SECOND = START + timedelta(days=5), START + timedelta(days=6)
ANOTHER_PACKAGE = """
name: audit
version: "1.0.0"
on-run-start: "{{ env_var('AUDIT_AT_START', '') }}"
on-run-end: "{{ env_var('AUDIT_AT_END', '') }}"
"""
"""A package whose hooks dbt runs before those of ciris_scoring, because of its name."""


@dataclass
class Consumer:
    """Another dbt project, and a database with sources in the schema `lens`."""

    folder: Path
    database: Database

    def load(self) -> Project:
        return load_project(self.folder, self.database.profiles_dir)

    def dbt(self, *command: str) -> Any:
        return dbtRunner().invoke([*command, *at(self.database, self.folder), "--quiet"])


@pytest.fixture(scope="module")
def consumer(embedded_postgres: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Consumer]:
    """The project, scored as of FIRST by plain dbt in an empty database. dbt must not warn."""
    folder = tmp_path_factory.mktemp("theirs") / "consumer"
    shutil.copytree(REPOSITORY / "integration_tests", folder, ignore=shutil.ignore_patterns("target", "dbt_packages"))
    other = folder.with_name("audit")
    other.mkdir()
    (other / "dbt_project.yml").write_text(ANOTHER_PACKAGE)
    packages = folder / "packages.yml"
    packages.write_text(packages.read_text().replace("../", str(REPOSITORY)) + f"  - local: {other}\n")
    with (
        pytest.MonkeyPatch.context() as patch,
        fresh_database(embedded_postgres, tmp_path_factory.mktemp("database")) as database,
        database.connect() as connection,
    ):
        patch.setenv("DBT_TARGET_PATH", str(folder / "target"))
        load_rows(connection, nasty_fleet(6, days=6))
        connection.execute("alter schema cirislens rename to lens")
        theirs = Consumer(folder, database)
        assert theirs.dbt("deps").success
        variables = ("--vars", f"{{ciris_as_of: '{FIRST.isoformat()}'}}")
        built = theirs.dbt("--warn-error", "build", *variables)
        assert built.success, built.exception
        assert not [result for result in built.result if result.node.resource_type == "unit_test"]
        yield theirs


@pytest.mark.slow
def test_marts_are_in_the_schemas_of_the_root_project(consumer):
    relations = read_relations(consumer.load())
    assert str(relations.places["dim_agents"]) == "trust.scored_agents"
    assert set(relations.schemas) == {"trust", "staging", "intermediate"}
    [[n]] = consumer.database.execute("select count(*) from trust.scored_agents")
    assert n > 0
    schemas = consumer.database.execute("select nspname from pg_namespace where nspname !~ '^pg_'")
    assert (SCHEMA,) not in schemas
    tables = "select relname from pg_class where relnamespace = 'reports'::regnamespace and relkind = 'r'"
    stored = {"visits", "scored_table", "scored_increments", "scored_snapshot"}
    assert {name for (name,) in consumer.database.execute(tables)} == stored


@pytest.mark.slow
def test_views_survive_runs(consumer):
    """When dbt replaces a relation, it drops all views that read it. Views of the root project read the marts."""
    consumer.database.execute("create schema of_their_own")
    consumer.database.execute(
        """
        create view of_their_own.alerted with (security_invoker = true) as
        select agents.agent_label, alerts.kind, quality.n, windows.baseline_days, lost.loss_component
        from trust.scored_agents as agents
        left join trust.fct_capacity_alerts as alerts using (agent_id_hash)
        left join trust.fct_data_quality as quality using (agent_id_hash)
        left join trust.fct_score_attribution as lost using (agent_id_hash)
        left join trust.dim_scoring_windows as windows on lost.window_days = windows.window_days;
        create view of_their_own.about_views as select agent_label from of_their_own.alerted;
        create view public.in_their_search_path as select agent_id_hash from trust.fct_capacity_scores
        """
    )
    options = "select reloptions from pg_class where oid = 'of_their_own.alerted'::regclass"
    for full_refresh in (False, True):
        score(consumer.database.profiles_dir, SECOND, full_refresh=full_refresh, project_dir=consumer.folder)
        n_agents = consumer.database.execute("select count(distinct agent_label) from of_their_own.alerted")
        assert consumer.database.execute("select count(*) from trust.scored_agents") == n_agents
        for view in ("of_their_own.about_views", "public.in_their_search_path"):
            assert consumer.database.execute(f"select 1 from {view} limit 1")
        assert consumer.database.execute(options) == [(["security_invoker=true"],)]


@pytest.mark.slow
def test_api_serves_marts_of_the_root_project(consumer):
    with asking(consumer.load()) as client:
        fleet = client.get(f"{SCORING}/capacity/fleet")
        page = client.get("/")
    assert fleet.status_code == 200 and fleet.json()["agents"]
    assert page.status_code == 200 and fleet.json()["agents"][0]["agent_id_hash"] in page.text


@pytest.mark.slow
def test_permissions_are_a_seed_of_the_root_project(consumer):
    """The seed is in the schema of the root project's seeds, and replaces the seed of the package."""
    file = consumer.folder / "seeds" / "permissions.csv"
    file.parent.mkdir()
    file.write_text("name,threshold,window_days\nTool use,1,7\nAutonomy,0.85,30\n")
    try:
        assert consumer.dbt("seed", "--select", "permissions").success
        schema = "select schemaname from pg_tables where tablename = 'permissions'"
        assert (SCHEMA,) in consumer.database.execute(schema)
        [[agent]] = consumer.database.execute("select min(agent_id_hash) from trust.scored_agents")
        explained = read_explanation(consumer.load(), agent, permission="Tool use")
        assert (explained["permission"], explained["verdict_threshold"]) == ("Tool use", 1)
    finally:
        shutil.rmtree(file.parent)
        consumer.database.execute(f"drop schema if exists {SCHEMA} cascade")


@pytest.mark.slow
def test_models_of_the_root_project_build_when_the_package_is_refused(consumer):
    """A build of the package is refused: the as-of is older than the published as-of, and the sources are missing."""
    theirs = ("--select", "package:consumer")
    built = consumer.dbt("build", *theirs, "--vars", "{ciris_as_of: 2021-01-01, ciris_source_schema: nowhere}")
    assert built.success, built.exception
    consumer.database.execute("insert into reports.visits values ('by hand')")
    assert consumer.dbt("build", *theirs).success
    # Three builds and the test have each inserted a row.
    assert consumer.database.execute("select count(*) from reports.visits") == [(4,)]
    assert consumer.dbt("build", *theirs, "--full-refresh").success
    assert consumer.database.execute("select visited from reports.visits") == [("their_own",)]
    refused = consumer.dbt("build", "--select", "package:ciris_scoring", "--full-refresh")
    assert not refused.success and "ciris_allow_rescoring" in str(refused.exception)


def test_project_without_the_package_is_refused(tmp_path, consumer):
    (tmp_path / "dbt_project.yml").write_text("name: other\nprofile: ciris_scoring\n")
    with pytest.raises(ProfileError, match="has no package ciris_scoring"):
        load_project(tmp_path, consumer.database.profiles_dir)


@pytest.mark.parametrize("command", [["build"], ["run"], ["seed"]], ids=" ".join)
def test_nothing_is_written_after_a_failed_hook_of_another_package(consumer, monkeypatch, command):
    """dbt then skips the hooks of ciris_scoring, and builds the nodes nevertheless."""
    schemas = ("trust", "staging", "intermediate")
    before = fingerprints(consumer.database, schemas=schemas)
    monkeypatch.setenv("AUDIT_AT_START", "select 1 / 0")
    failed = consumer.dbt(*command, "--full-refresh")
    assert not failed.success
    ours = [result for result in failed.result if result.node.package_name == "ciris_scoring"]
    written = [result for result in ours if result.node.resource_type in ("model", "seed")]
    assert written and {result.status for result in written} <= {"error", "skipped"}
    messages = [result.message for result in written if result.status == "error"]
    assert all("checks of ciris_scoring at the start of this run were not made" in m for m in messages)
    assert fingerprints(consumer.database, schemas=schemas) == before


@pytest.mark.slow
def test_message_of_a_failed_hook_says_whether_the_run_published(consumer, monkeypatch):
    """The hooks fail before those of ciris_scoring, which write the log (docs/package.md)."""
    log = "select outcome, published_at is not null from intermediate.int_runs order by started_at desc"
    before = consumer.database.execute(log)

    def message(full_refresh: bool) -> DbtFailed:
        with pytest.raises(DbtFailed, match="division by zero") as failed:
            run(consumer.load(), SECOND.isoformat(), RunRecord("run"), full_refresh=full_refresh, allow_rescoring=False)
        return failed.value

    with monkeypatch.context() as patch:
        patch.setenv("AUDIT_AT_START", "select 1 / 0")
        refused = message(full_refresh=True)
    assert isinstance(refused, RunRefused) and refused.hint.startswith("Nothing was built.")
    assert consumer.database.execute(log) == before
    monkeypatch.setenv("AUDIT_AT_END", "select 1 / 0")
    failed = message(full_refresh=False)
    assert not isinstance(failed, RunRefused) and failed.hint.startswith("The marts are those of this run.")
    assert consumer.database.execute(log) == [(None, True), *before]


# --- settings of the root project ------------------------------------------------------------------------------------


@pytest.fixture
def build_with(consumer: Consumer) -> Iterator[Callable[..., str]]:
    """Function that adds settings to dbt_project.yml, checks that a build with them is refused and changes no row, and
    returns the message."""
    path = consumer.folder / "dbt_project.yml"
    before = path.read_text()

    def build(settings: dict[str, dict[str, Any]], *options: str) -> str:
        relations = {"schemas": ("trust", "staging", "intermediate", "reports")}
        rows = fingerprints(consumer.database, **relations)
        content = yaml.safe_load(before)
        for section, added in settings.items():
            content[section] = {**content.get(section, {}), **added}
        path.write_text(yaml.safe_dump(content))
        variables = f"{{ciris_as_of: '{SECOND.isoformat()}', ciris_allow_rescoring: true}}"
        refused = consumer.dbt("build", *options, "--vars", variables)
        assert not refused.success and fingerprints(consumer.database, **relations) == rows
        return str(refused.exception)

    yield build
    path.write_text(before)


@pytest.mark.parametrize(
    ("section", "settings", "expected"),
    [
        ("models", {"+materialized": "table"}, "+materialized of model"),
        ("models", {"ciris_scoring": {"marts": {"+contract": {"enforced": False}}}}, "+contract of model"),
        ("data_tests", {"+severity": "warn"}, "+severity of test assert_"),
        ("vars", {"ciris_time_spin": False}, "did you mean ciris_time_spine"),
        (
            "data_tests",
            {"ciris_scoring": {"singular": {"assert_no_traces_have_vanished": {"+enabled": False}}}},
            "+enabled of test assert_no_traces_have_vanished is false",
        ),
    ],
)
def test_settings_of_the_root_are_refused_before_anything_is_written(build_with, section, settings, expected):
    assert expected in build_with({section: settings})


STORED = {"table": "{{ config(materialized='table') }}\n", "incremental": "{{ config(materialized='incremental') }}\n"}
READS = "select count(*) as n from {{ ref('lowest_scores') }}"
"""lowest_scores is a view on the marts."""


@pytest.mark.parametrize("kind", [*STORED, "snapshot"])
def test_stored_model_that_may_read_the_previous_publication_is_refused(consumer, kind):
    """integration_tests has such models with the line that the message prints."""
    path = consumer.folder / "models" / "early.sql"
    text = STORED.get(kind, "") + READS
    if kind == "snapshot":
        path = consumer.folder / "snapshots" / "early.sql"
        settings = "{{ config(unique_key='n', strategy='check', check_cols=['n'], schema='reports') }}\n"
        text = "{% snapshot early %}\n" + settings + READS + "\n{% endsnapshot %}"
    path.write_text(text)
    try:
        refused = consumer.dbt("build", "--vars", f"{{ciris_as_of: '{SECOND.isoformat()}'}}")
    finally:
        path.unlink()
    said = str(refused.exception)
    assert f"{'Snapshot' if kind == 'snapshot' else 'Model'} early (" in said, said
    assert "-- depends_on: {{ ref('ciris_scoring', 'fct_scoring_runs') }}" in said


def test_stored_models_that_follow_the_publication_have_its_rows(consumer):
    [[expected]] = consumer.database.execute("select count(*) from trust.scored_agents")
    for name in ("scored_table", "scored_increments", "scored_snapshot"):
        assert consumer.database.execute(f"select max(n_agents) from reports.{name}") == [(expected,)], name
