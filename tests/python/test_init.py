"""Tests of `ciris-scoring init`, which writes the project into a folder, and of the wheel that contains the project.

`make release` also installs the wheel in an empty environment.
"""

from __future__ import annotations

import shutil
import stat
import sys
import tempfile
import zipfile

import pytest

from ciris_scoring.database.project import load_project
from ciris_scoring.project_files import PARTS
from command_line import PROGRAMS, invoke, printed, succeeded
from conftest import REPOSITORY


def test_wheel_contains_the_project_and_nothing_else(tmp_path):
    """The wheel contains the package and the dbt plugin for Python models, but neither benchmarks nor tests."""
    sources = tmp_path / "sources"
    for name in filter(None, printed("git", "ls-files", "-z", cwd=REPOSITORY).split("\0")):
        (sources / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(REPOSITORY / name, sources / name)
    options = ["--quiet", "--no-deps", "--no-build-isolation", "--wheel-dir", str(tmp_path)]
    printed(sys.executable, "-m", "pip", "wheel", *options, ".", cwd=sources)
    [wheel] = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        contents = {name: archive.read(name) for name in archive.namelist()}
    inside = "ciris_scoring/dbt_project/"
    carried = {name.removeprefix(inside): contents[name] for name in contents if name.startswith(inside)}
    expected = {
        str(path.relative_to(REPOSITORY)): path.read_bytes()
        for part in PARTS
        for path in ([REPOSITORY / part] if (REPOSITORY / part).is_file() else (REPOSITORY / part).rglob("*"))
        if path.is_file()
    }
    assert carried == expected
    tops = {name.partition("/")[0] for name in contents if ".dist-info/" not in name}
    assert tops == {"ciris_scoring", "dbt_postgres_python.py"}


def test_project_that_init_writes_can_be_loaded_and_is_not_overwritten(tmp_path):
    folder = tmp_path / "new"
    done = succeeded(invoke("init", folder))
    assert "ciris-scoring run --embedded" in done.stdout
    project = load_project(folder, folder)
    assert project.variables["source_schema"] == "cirislens"
    assert stat.S_IMODE((folder / "profiles.yml").stat().st_mode) == 0o600
    schedule = (folder / "schedule.crontab").read_text()
    assert f"cd {folder.resolve()} && {PROGRAMS / 'ciris-scoring'} run" in schedule
    before = {path: path.stat().st_mtime_ns for path in folder.rglob("*")}
    again = invoke("init", folder)
    assert again.exit_code == 2 and "already has dbt_project.yml" in again.stderr
    assert {path: path.stat().st_mtime_ns for path in folder.rglob("*")} == before


@pytest.mark.slow
def test_project_that_init_writes_scores_the_sample(monkeypatch):
    """The commands are those of docs/installing.md. The project is not in pytest's folder, because PostgreSQL never
    runs as root and could not enter it if root runs the tests.
    """
    monkeypatch.delenv("DBT_TARGET_PATH")
    program = PROGRAMS / "ciris-scoring"
    with tempfile.TemporaryDirectory() as folder:
        printed(program, "init", folder)
        try:
            fleet = printed(program, "run", "--embedded", cwd=folder)
        finally:
            stopped = printed(program, "stop", "--delete", cwd=folder)
        assert "Haven (aff0528b)" in fleet and "ciris-scoring stop" in fleet
        assert stopped == "The embedded PostgreSQL has stopped.\n"
        assert printed(program, "stop", cwd=folder) == "No embedded PostgreSQL is running here.\n"
