"""Command-line options that several commands share."""

import contextlib
import functools
import math
import os
import shlex
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ciris_scoring.database import terminal
from ciris_scoring.errors import InputError, NoProfile

if TYPE_CHECKING:  # importing dbt takes a second, so only the commands that need it import it
    from ciris_scoring.database.project import Project

Command = Callable[..., None]


FOLDER = click.Path(path_type=Path, file_okay=False)
INSTALL = "in a checkout of the repository: pip install '.[{}]'"
"""Command that installs an extra. It gives pip a path, because the package is not on PyPI, where another package may
have its name."""


@contextlib.contextmanager
def extra(name: str) -> Iterator[None]:
    """Say how to install an extra if an import in the block fails.

    :param name: name of the extra, or several names separated by commas.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        raise InputError(
            f"This needs the package {error.name}, which is not installed.",
            f"Install the extra {name.replace(',', ' and ')}, {INSTALL.format(name)}",
        ) from error


class Number(click.FloatRange):
    """Parameter type of a finite number in a range. click accepts NaN in every range."""

    def convert(self, value: Any, parameter: click.Parameter | None, context: click.Context | None) -> float:
        """Return the number, or fail if it is not finite or out of range."""
        number: float = super().convert(value, parameter, context)
        if not math.isfinite(number):
            self.fail(f"{value!r} is not a finite number.", parameter, context)
        return number


def with_options(*options: Callable[[Command], Command]) -> Callable[[Command], Command]:
    """Combine options into one decorator. ``--help`` lists them in this order."""

    def add(command: Command) -> Command:
        for option in reversed(options):
            command = option(command)
        return command

    return add


@dataclass(frozen=True)
class Place:
    """Options of a command that select the project and the target."""

    target: str | None
    profiles_dir: Path | None
    project_dir: Path | None
    variables: str | None
    """Argument of ``--vars``."""
    embedded: bool

    def words(self) -> str:
        """Return the options as words of a command, each with a space before it."""
        given = {"target": self.target, "profiles-dir": self.profiles_dir, "project-dir": self.project_dir}
        given["vars"] = self.variables
        words = [f" --{name} {shlex.quote(str(value))}" for name, value in given.items() if value is not None]
        return "".join([*words, " --embedded" if self.embedded else ""])

    def cli_vars(self) -> dict[str, Any]:
        """Return the variables of ``--vars``."""
        from ciris_scoring.database.project import parse_vars

        return parse_vars(self.variables)

    def project(self) -> "Project":
        """Load the project with the target and the variables of the options."""
        from ciris_scoring.database.project import STATE_FOLDER, find_project, load_project

        if self.embedded and (self.target or self.profiles_dir):
            raise InputError(
                "--embedded brings its own profile, so it cannot be combined with --target or --profiles-dir.",
                "Leave out either --embedded or the other options.",
            )
        cli_vars, project_dir, profiles_dir = self.cli_vars(), self.project_dir, self.profiles_dir
        if self.embedded:
            with extra("embedded"):
                from ciris_scoring.lab import embedded

            project_dir = find_project(project_dir)
            profiles_dir = project_dir / STATE_FOLDER
            embedded.write_profile(profiles_dir, embedded.start(profiles_dir))
            return load_project(project_dir, profiles_dir, embedded.TARGET, cli_vars, embedded.PROFILE)
        return load_project(project_dir, profiles_dir, self.target, cli_vars)

    def published(self) -> "Project":
        """Load the project for a command that only reads scores. Without a profile, it reads the embedded database that
        `run --embedded` has made in this project."""
        from ciris_scoring.database.project import STATE_FOLDER, find_project

        try:
            return self.project()
        except NoProfile:
            state_folder = find_project(self.project_dir) / STATE_FOLDER
            if self.target or not (state_folder / "profiles.yml").exists():
                raise
        terminal.progress(f"Reading the embedded database in {os.path.relpath(state_folder)}.")
        return replace(self, embedded=True).project()


project_dir_option = click.option(
    "--project-dir",
    type=FOLDER,
    help="Folder of dbt_project.yml. [default: $DBT_PROJECT_DIR, this folder or one above it]",
)
_PLACE_OPTIONS = with_options(
    click.option("--target", help="Target in the profile. [default: $DBT_TARGET, the profile's default target]"),
    click.option(
        "--profiles-dir",
        type=FOLDER,
        help="Folder of profiles.yml. [default: $DBT_PROFILES_DIR, this folder, ~/.dbt]",
    ),
    project_dir_option,
    click.option(
        "--vars",
        "variables",
        metavar="YAML",
        help="dbt variables, as a YAML dictionary: '{name: value}'.",
    ),
    click.option(
        "--embedded",
        is_flag=True,
        help="Use the PostgreSQL that comes with the package, and start it if necessary. `ciris-scoring run "
        "--embedded` loads and scores the sample there.",
    ),
    click.option("--quiet", "-q", is_flag=True, help="Print no progress, only results, warnings and errors."),
)


def database_options(command: Command) -> Command:
    """Add the options of every command that uses a database. The command gets them as its parameter `place`."""

    @functools.wraps(command)
    def with_place(*arguments: Any, quiet: bool, **options: Any) -> None:
        terminal.be_quiet(quiet)
        place = Place(**{one.name: options.pop(one.name) for one in fields(Place)})
        command(*arguments, place=place, **options)

    return _PLACE_OPTIONS(with_place)


def fleet_options(*, agents: int, days: int, traces_per_day: float) -> Callable[[Command], Command]:
    """Add the options that describe a simulated fleet, with the given default values."""
    at_least_one = click.IntRange(min=1)
    return with_options(
        click.option("--agents", type=at_least_one, default=agents, show_default=True, help="Number of agents."),
        click.option("--days", type=at_least_one, default=days, show_default=True, help="Days of traces."),
        click.option(
            "--traces-per-day",
            type=Number(min=0, min_open=True),
            default=traces_per_day,
            show_default=True,
            help="Mean number of traces per agent and day.",
        ),
        click.option(
            "--seed",
            type=click.IntRange(min=0),
            default=1,
            show_default=True,
            help="The same seed gives the same fleet.",
        ),
    )
