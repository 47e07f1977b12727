"""Commands as a user gives them, in this process or in one of their own."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import click
from click.testing import CliRunner, Result

from ciris_scoring.cli import main
from conftest import REPOSITORY, Database


def invoke(*arguments: str | Path, command: click.Command = main) -> Result:
    """Run a command; a traceback would be a bug."""
    result = CliRunner().invoke(command, list(map(str, arguments)))
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exc_info
    return result


def printed(*command: str | Path, **options: Any) -> str:
    """Run a program that must succeed; return what it prints."""
    done = subprocess.run(command, capture_output=True, text=True, check=False, **options)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def at(database: Database, project: Path = REPOSITORY) -> list[str]:
    """Options that name a database and a project."""
    return ["--profiles-dir", str(database.profiles_dir), "--project-dir", str(project)]


def refused(result: Result, exit_code: int = 1) -> tuple[str, str]:
    """The error and the hint of a command that failed before it printed any result: one line each."""
    assert result.exit_code == exit_code, result.output
    assert result.stdout == ""
    *_, error, hint = result.stderr.splitlines()
    assert error.startswith("Error: ")
    assert hint.startswith("Hint: ")
    return error, hint
