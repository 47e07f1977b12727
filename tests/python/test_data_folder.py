"""Tests of the folder in which the embedded server stores its data."""

from __future__ import annotations

import shutil
import stat
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from ciris_scoring.basics.errors import InputError
from ciris_scoring.lab import data_folder


@pytest.fixture
def place(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A short path that contains home and temporary folder of a user who is not root."""
    folder = data_folder.temporary("ciris-")
    monkeypatch.setattr(data_folder, "_server_is_another_user", lambda: False)
    monkeypatch.setenv("HOME", str(folder / "home"))
    monkeypatch.delenv("XDG_STATE_HOME", raising=False)
    (folder / "tmp").mkdir()
    monkeypatch.setattr(data_folder.tempfile, "gettempdir", lambda: str(folder / "tmp"))
    yield folder
    shutil.rmtree(folder)


def initialise(folder: Path) -> None:
    folder.mkdir()
    (folder / "PG_VERSION").touch()


def test_data_are_in_the_project_folder_if_its_path_is_plain(place: Path) -> None:
    state = place / "project" / ".ciris"
    assert data_folder.find(state) is None
    assert data_folder.choose(state) == state / "pgdata"
    initialise(state / "pgdata")
    assert data_folder.find(state) == state / "pgdata"
    data_folder.delete(state)
    assert list(state.iterdir()) == []
    assert not (place / "home").exists()
    # Data that are already in a path that is too long are kept.
    state = place / ("n" * 100) / ".ciris"
    state.mkdir(parents=True)
    initialise(state / "pgdata")
    assert data_folder.choose(state) == state / "pgdata"


@pytest.mark.parametrize("name", ["a b", "it's", "a,b", "ü" * 50])
def test_data_are_in_home_folder_if_path_is_unusable(
    place: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = place / name / ".ciris"
    folder = data_folder.choose(state)
    assert folder.is_relative_to(place / "home" / ".local" / "state" / "ciris-scoring")
    assert stat.S_IMODE(folder.parent.stat().st_mode) == 0o700
    initialise(folder)
    monkeypatch.setenv("HOME", "/nowhere")
    assert data_folder.find(state) == data_folder.choose(state) == folder

    shutil.copytree(place / name, place / "a copy")
    assert data_folder.find(place / "a copy" / ".ciris") is None

    data_folder.delete(state)
    assert not folder.parent.exists()
    assert data_folder.find(state) is None


@pytest.mark.parametrize("home", ["a file", "a b"])
def test_data_are_in_temporary_folder_without_a_usable_home(
    place: Path, home: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (place / "a file").touch()
    monkeypatch.setenv("HOME", str(place / home))
    folder = data_folder.choose(place / "x y" / ".ciris")
    base = folder.parent.parent
    assert base.parent == place / "tmp"
    assert stat.S_IMODE(base.stat().st_mode) == 0o700


def test_folder_of_another_user_is_not_used(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (place / "a file").touch()
    monkeypatch.setenv("HOME", str(place / "a file"))
    folder = data_folder.choose(place / "x y" / ".ciris")
    folder.parent.parent.chmod(0o777)
    elsewhere = data_folder.choose(place / "z z" / ".ciris")
    assert not elsewhere.is_relative_to(place)
    shutil.rmtree(elsewhere.parent)
    with suppress(OSError):  # the folder belongs to another user
        elsewhere.parent.parent.rmdir()


def test_stops_if_no_folder_is_usable(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(data_folder, "_folders_of_the_user", lambda: [place / "a b"])
    with pytest.raises(InputError, match="path is too long or holds a special character") as caught:
        data_folder.choose(place / "x y" / ".ciris")
    assert "TMPDIR" in caught.value.hint
