"""Run commands in this process or in a new one."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import click
from click.testing import CliRunner, Result

from ciris_scoring.cli import main
from conftest import REPOSITORY, Database


def invoke(*arguments: str | Path, command: click.Command = main) -> Result:
    """Run a command in this process and fail if it raises an exception."""
    result = CliRunner().invoke(command, list(map(str, arguments)))
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exc_info
    return result


def printed(*command: str | Path, **options: Any) -> str:
    """Run a program, fail if it does not succeed, and return its output."""
    done = subprocess.run(command, capture_output=True, text=True, check=False, **options)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def at(database: Database, project: Path = REPOSITORY) -> list[str]:
    """Return the options that name a database and a project."""
    return ["--profiles-dir", str(database.profiles_dir), "--project-dir", str(project)]


def refused(result: Result, exit_code: int = 1) -> tuple[str, str]:
    """Return error and hint of a command that failed without a result; each must be one line."""
    assert result.exit_code == exit_code, result.output
    assert result.stdout == ""
    *_, error, hint = result.stderr.splitlines()
    assert error.startswith("Error: ")
    assert hint.startswith("Hint: ")
    return error, hint
