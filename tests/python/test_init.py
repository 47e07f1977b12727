"""Tests of `ciris-scoring init`: from the installed package to a working project in an empty folder."""

from __future__ import annotations

import os
import re
import shutil
import sys
import tempfile
import zipfile
from pathlib import Path

import pytest
from click.testing import CliRunner

from ciris_scoring import init as init_module
from ciris_scoring.basics.project import load_project
from ciris_scoring.cli import main
from ciris_scoring.project_files import PARTS
from command_line import printed
from conftest import REPOSITORY


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The built wheel."""
    folder = tmp_path_factory.mktemp("wheel")
    sources = folder / "sources"
    for name in filter(None, printed("git", "ls-files", "-z", cwd=REPOSITORY).split("\0")):
        (sources / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(REPOSITORY / name, sources / name)
    options = ["--quiet", "--no-deps", "--no-build-isolation", "--wheel-dir", str(folder)]
    printed(sys.executable, "-m", "pip", "wheel", *options, ".", cwd=sources)
    [file] = folder.glob("*.whl")
    return file


def test_wheel_contains_the_project_and_nothing_else(wheel):
    """The wheel contains the package and the dbt plugin for Python models, but neither benchmarks nor tests."""
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


def test_an_unfolded_project_can_be_loaded_and_is_not_overwritten(tmp_path):
    folder = tmp_path / "new"
    done = CliRunner().invoke(main, ["init", str(folder)])
    assert done.exit_code == 0, done.output
    assert "ciris-scoring run --embedded" in done.stdout
    project = load_project(folder, folder)
    assert project.variables["source_schema"] == "cirislens"
    program = Path(sys.executable).parent / "ciris-scoring"
    assert f"cd {folder.resolve()} && {program} run" in (folder / "schedule.crontab").read_text()
    before = {path: path.stat().st_mtime_ns for path in folder.rglob("*")}
    again = CliRunner().invoke(main, ["init", str(folder)])
    assert again.exit_code == 2 and "already has dbt_project.yml" in again.stderr
    assert {path: path.stat().st_mtime_ns for path in folder.rglob("*")} == before


def test_init_does_not_write_through_a_dangling_link(tmp_path):
    (tmp_path / "profiles.yml").symlink_to("elsewhere.yml")
    again = CliRunner().invoke(main, ["init", str(tmp_path)])
    assert again.exit_code == 2 and "already has profiles.yml" in again.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["profiles.yml"]


def test_help_names_no_files_that_an_installation_lacks():
    for name, command in {"": main, **main.commands}.items():
        told = CliRunner().invoke(main, [*filter(None, [name]), "--help"]).stdout
        assert command.help and not re.search(r"docs/|README|[Mm]akefile|make ", told), name


@pytest.mark.parametrize(
    "folder",
    [
        *(
            "/",
            "/etc/ciris",
            "/usr",
            "/usr/share/ciris",
            "/dev",
            "/proc/ciris",
            "/boot",
            "/var/lib",
            "/tmp",
            "/home",
        ),
        *("/usr/local/bin", "/tmp/../etc/ciris", "//etc", "{folder}/link/ciris"),
    ],
)
def test_a_folder_of_the_system_is_refused(folder, tmp_path, monkeypatch):
    monkeypatch.setattr(init_module, "_write", lambda _: pytest.fail("it would have written"))
    (tmp_path / "link").symlink_to("/etc")
    failed = CliRunner().invoke(main, ["init", folder.replace("{folder}", str(tmp_path))])
    assert failed.exit_code == 2 and "the system" in failed.stderr
    assert "Hint: Name a folder of yours" in failed.stderr


def test_a_folder_that_cannot_be_written_to_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    failed = CliRunner().invoke(main, ["init", str(tmp_path / "file" / "new")])
    assert failed.exit_code == 2
    assert f"cannot be written into {tmp_path / 'file' / 'new'}" in failed.stderr


def test_from_the_wheel_to_a_fleet_table(wheel):
    """Follows README without a checkout: embedded server, sample and fleet table.

    The server of root runs as another user. It cannot be in pytest's folder, which another pytest closes to others.
    """
    with tempfile.TemporaryDirectory() as folder:
        follow_readme(wheel, Path(folder))


def follow_readme(wheel: Path, tmp_path: Path) -> None:
    packages, folder = tmp_path / "packages", tmp_path / "scores"
    install = ["--quiet", "--no-deps", "--target", str(packages), str(wheel)]
    printed(sys.executable, "-m", "pip", "install", *install)

    def command(*arguments: str) -> str:
        code = (
            f"import sys; sys.path.insert(0, {str(packages)!r}); from ciris_scoring.cli import main; main()"
        )
        environment = {name: value for name, value in os.environ.items() if not name.startswith("DBT_")}
        place = folder if folder.exists() else tmp_path
        return printed(sys.executable, "-c", code, *arguments, cwd=place, env=environment)

    assert "ciris-scoring run --embedded" in command("init", str(folder))
    try:
        fleet = command("run", "--embedded")
    finally:
        stopped = command("stop", "--delete")
    assert "make" not in fleet and "ciris-scoring stop" in fleet
    assert stopped == "The embedded PostgreSQL has stopped.\n"
    assert command("stop") == "No embedded PostgreSQL is running here.\n"
    assert "Haven (aff0528b)" in fleet
    assert not (packages / "ciris_scoring" / "dbt_project" / "target").exists()
