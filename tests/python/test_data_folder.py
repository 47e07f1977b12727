"""Tests of the folder in which the embedded server stores its data."""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from ciris_scoring.errors import DatabaseError
from ciris_scoring.lab import data_folder, embedded


@pytest.fixture
def place(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Folder with a short path. It contains the home and the temporary folder of a user who is not root."""
    folder = data_folder.temporary("ciris-")
    monkeypatch.setattr(data_folder, "_server_is_another_user", lambda: False)
    monkeypatch.setenv("HOME", str(folder / "home"))
    monkeypatch.delenv("XDG_STATE_HOME", raising=False)
    (folder / "tmp").mkdir()
    monkeypatch.setattr(data_folder.tempfile, "gettempdir", lambda: str(folder / "tmp"))
    yield folder
    shutil.rmtree(folder)


@pytest.mark.parametrize(
    ("name", "home", "expected"),
    [
        ("project", "home", "project/.ciris"),
        *((name, "home", "home/.local/state/ciris-scoring") for name in ("a b", "it's", "a,b", "ü" * 50)),
        *(("a b", home, f"tmp/ciris-scoring-{os.geteuid()}") for home in ("a file", "c d")),
    ],
)
def test_data_are_in_the_first_usable_folder(
    place: Path, monkeypatch: pytest.MonkeyPatch, name: str, home: str, expected: str
) -> None:
    """The order of preference is: the project's folder, the user's folder, the folder for temporary files."""
    (place / "a file").touch()
    monkeypatch.setenv("HOME", str(place / home))
    state = place / name / ".ciris"
    assert data_folder.find(state) is None
    folder = data_folder.choose(state)
    assert folder.is_relative_to(place / expected)
    folder.mkdir()
    (folder / "PG_VERSION").touch()
    monkeypatch.setenv("HOME", "/nowhere")
    assert data_folder.find(state) == data_folder.choose(state) == folder
    if folder.parent != state:
        assert stat.S_IMODE(folder.parent.stat().st_mode) == 0o700
        shutil.copytree(place / name, place / "copy")
        assert data_folder.find(place / "copy" / ".ciris") is None
    data_folder.delete(state)
    assert not folder.exists() and list(state.iterdir()) == []


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


def test_user_without_an_entry_in_passwd_is_refused(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """PostgreSQL cannot create its data for such a user, but can start on data that exist."""
    monkeypatch.setattr(embedded.os, "geteuid", lambda: 2**31 - 2)
    with pytest.raises(DatabaseError, match="the user with the id 2147483646 has no entry in /etc/passwd") as caught:
        embedded.start(place / ".ciris")
    assert "useradd --uid 2147483646" in str(caught.value.hint) and "log" not in str(caught.value.hint)
