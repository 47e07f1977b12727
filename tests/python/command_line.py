"""Run commands of ciris-scoring in the process of the tests or in a new process."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, TypeVar

from click.testing import CliRunner, Result

from ciris_scoring.cli.commands import main
from conftest import REPOSITORY, Database
from pipeline import PATIENCE_SECONDS, wait_until

PROGRAMS = Path(sys.executable).parent


def invoke(*arguments: object, given: bytes | None = None) -> Result:
    """Run a command in this process and fail if it raises an exception.

    :param given: standard input.
    """
    result = CliRunner().invoke(main, list(map(str, arguments)), input=given)
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exc_info
    return result


def command(database: Database, *arguments: object, given: bytes | None = None) -> Result:
    """Run a command in this process, with the options that select the database and the project."""
    return invoke(*arguments, *at(database), given=given)


R = TypeVar("R")


def succeeded(result: R) -> R:
    """Return the result of a command of ciris-scoring or dbt. Fail if the exit code of the command is not 0."""
    assert result.exit_code == 0, result.output
    return result


def printed(*command: str | Path, **options: Any) -> str:
    """Run a program and return its stdout. Fail if its exit code is not 0."""
    done = subprocess.run(command, capture_output=True, text=True, check=False, **options)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def at(database: Database, project: Path = REPOSITORY) -> list[str]:
    """Return the options that name a database and a project."""
    return ["--profiles-dir", str(database.profiles_dir), "--project-dir", str(project)]


def refused(result: Result, exit_code: int = 1) -> tuple[str, str]:
    """Return error and hint of a refused command. Fail if stderr has control characters or stdout is not empty."""
    assert result.exit_code == exit_code, result.output
    assert result.stdout == ""
    assert all(line.isprintable() for line in result.stderr.splitlines()), result.stderr
    *_, error, hint = result.stderr.splitlines()
    assert error.startswith("Error: ")
    assert hint.startswith("Hint: ")
    return error, hint


class Command:
    """A program in a new process and session. The end of a ``with`` block kills it."""

    def __init__(self, *arguments: str | Path):
        self._stderr, path = tempfile.mkstemp()
        os.unlink(path)
        self._process = subprocess.Popen(
            arguments, stdout=subprocess.DEVNULL, stderr=self._stderr, start_new_session=True
        )

    @property
    def said(self) -> str:
        """Output on stderr so far."""
        return os.pread(self._stderr, 1 << 20, 0).decode()

    def wait_until_said(self, pattern: str) -> None:
        """Wait until stderr matches a pattern. Fail if the program ends without a match."""
        wait_until(lambda: self.has_ended or re.search(pattern, self.said))
        assert re.search(pattern, self.said), f"never said {pattern!r}:\n{self.said}"

    def wait(self) -> int:
        """Wait for the end of the program and return its exit code."""
        return self._process.wait(PATIENCE_SECONDS)

    @property
    def has_ended(self) -> bool:
        return self._process.poll() is not None

    def __enter__(self) -> Command:
        return self

    def __exit__(self, *_: object) -> None:
        if not self.has_ended:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
        os.close(self._stderr)
