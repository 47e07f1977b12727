"""Variables by the names that they had before 0.2.0, without ciris_: they count, with a warning, in dbt as well."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml
from dbt.cli.main import dbtRunner

from ciris_scoring.basics.errors import InputError
from ciris_scoring.basics.project import NEVER_OLD, load_project
from ciris_scoring.project_files import copy_project
from conftest import REPOSITORY, Database

WARNING = "The variable {name} is called ciris_{name} now; 0.3.0 will not know the old name any more."


@pytest.fixture
def kept(tmp_path: Path) -> Path:
    """A project whose dbt_project.yml sets variables as 0.1.0 had them."""
    copy_project(REPOSITORY, tmp_path)
    set_variables(tmp_path, "source_schema: lens", "as_of: null", "scoring_period: hour")
    return tmp_path


def set_variables(folder: Path, *lines: str) -> None:
    file = folder / "dbt_project.yml"
    file.write_text(file.read_text().replace("vars:\n", "\n  ".join(["vars:", *lines]) + "\n", 1))


def test_dbt_and_python_know_the_same_old_names():
    macro = (REPOSITORY / "macros" / "parameters" / "setting.sql").read_text()
    in_dbt = set(re.findall(r"'(\w+)'", macro.split("{% macro names_before_prefix() %}")[1]))
    variables = yaml.safe_load((REPOSITORY / "dbt_project.yml").read_text())["vars"]
    assert {f"ciris_{name}" for name in in_dbt} == set(variables) - NEVER_OLD


def test_they_count(kept, database, capsys):
    project = load_project(kept, database.profiles_dir)
    assert (project.variables["source_schema"], project.variables["scoring_period"]) == ("lens", "hour")
    assert project.variables["as_of"] is None
    told = capsys.readouterr().err
    assert WARNING.format(name="source_schema") in told and "as_of" not in told


def test_they_count_on_the_command_line(database, capsys):
    project = load_project(REPOSITORY, database.profiles_dir, cli_vars={"scoring_period": "hour"})
    assert project.cli_vars == {"ciris_scoring_period": "hour"}
    assert WARNING.format(name="scoring_period") in capsys.readouterr().err


@pytest.mark.parametrize("name", ["source_schema", "ciris_source_schema"])
def test_two_values_are_one_too_many(kept, database, name):
    with pytest.raises(InputError, match="source_schema is set to 'lens' in dbt_project.yml"):
        load_project(kept, database.profiles_dir, cli_vars={name: "elsewhere"})


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ("{}", "lens hour"),
        ("{source_schema: elsewhere}", "elsewhere hour"),
        ("{ciris_scoring_period: day}", "lens day"),
    ],
)
def test_dbt_reads_them_so(kept, database: Database, variables, expected, monkeypatch):
    monkeypatch.setenv("DBT_TARGET_PATH", str(kept / "target"))
    place = ["--project-dir", str(kept), "--profiles-dir", str(database.profiles_dir), "--vars", variables]
    inline = 'select \'{{ source("cirislens", "covenant_traces").schema }} {{ setting("scoring_period") }}\' as read'
    outcome = dbtRunner().invoke(["compile", *place, "--quiet", "--inline", inline])
    assert outcome.success, outcome.exception
    [compiled] = outcome.result.results
    assert compiled.node.compiled_code == f"select '{expected}' as read"


def test_a_run_of_dbt_warns_and_refuses_two_values(kept, database: Database, monkeypatch):
    monkeypatch.setenv("DBT_TARGET_PATH", str(kept / "target"))
    place = ["--project-dir", str(kept), "--profiles-dir", str(database.profiles_dir)]
    warned: list[str] = []
    runner = dbtRunner(callbacks=[lambda event: warned.append(event.info.msg)])
    refused = runner.invoke(["run", *place, "--vars", "{ciris_scoring_period: day}"])
    assert "scoring_period is set to 'hour' by the name that it had before 0.2.0" in str(refused.exception)
    refused = runner.invoke(["run", *place])
    assert "lens.covenant_traces is missing" in str(refused.exception)
    assert any(WARNING.format(name="source_schema") in line for line in warned)
