"""A database of the benchmark's own on the server of a profile, so that it cannot touch anybody's traces or scores."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import psycopg
import yaml
from psycopg import sql

from ciris_scoring.basics.connection import connect, one_row, where
from ciris_scoring.basics.errors import DatabaseError
from ciris_scoring.basics.project import PREFIX, Project, load_project

NAME = "ciris_bench"
MARK = "made by the benchmark of ciris-scoring"
"""Comment on the database; one without it is somebody else's."""

_DATABASE = sql.Identifier(NAME)


@contextmanager
def own_database(project: Project, *, keep: bool = False) -> Iterator[Project]:
    """Create the database, and give the same project with the database as its target; drop it at the end.

    One that an earlier benchmark has left is replaced.

    :param project: names the server and the role, which may create databases.
    :param keep: leave the database at the end.
    :raises DatabaseError: the role may not create databases, or the name is taken.
    """
    with connect(project) as connection:
        _require_right(connection, project)
        _drop_leftover(connection, project)
        connection.execute(sql.SQL("create database {}").format(_DATABASE))
        connection.execute(sql.SQL("comment on database {} is {}").format(_DATABASE, sql.Literal(MARK)))
    try:
        with TemporaryDirectory(prefix="ciris-bench-") as folder:
            _write_profile(Path(folder), project)
            # The database is new, and so without Citus, whatever the project's own has.
            cli_vars = {**project.cli_vars, f"{PREFIX}distribution": "none"}
            yield load_project(project.project_dir, Path(folder), project.target_name, cli_vars)
    finally:
        if not keep:
            with connect(project) as connection:
                connection.execute(sql.SQL("drop database if exists {} with (force)").format(_DATABASE))


def _require_right(connection: psycopg.Connection, project: Project) -> None:
    query = "select rolname, rolcreatedb or rolsuper from pg_roles where rolname = current_user"
    role, may_create = one_row(connection.execute(query))
    if not may_create:
        grant = sql.SQL("alter role {} createdb").format(sql.Identifier(role)).as_string(connection)
        raise DatabaseError(
            f"Role {role!r} may not create a database in {where(project)}; the benchmark works in one of its own.",
            f"As a superuser: {grant}; or measure on a server of its own: make bench",
        )


def _drop_leftover(connection: psycopg.Connection, project: Project) -> None:
    query = "select shobj_description(oid, 'pg_database') from pg_database where datname = %s"
    found = connection.execute(query, [NAME]).fetchone()
    if found is None:
        return
    if found != (MARK,):
        raise DatabaseError(
            f"Database {NAME!r} at {project.credentials.host} exists, and no benchmark has made it.",
            "The benchmark works in a database of that name: rename yours, or drop it if nobody needs it.",
        )
    try:
        connection.execute(sql.SQL("drop database {}").format(_DATABASE))
    except psycopg.errors.ObjectInUse as error:
        raise DatabaseError(
            f"Database {NAME!r} at {project.credentials.host} is in use, perhaps by another benchmark.",
            "Wait until it has ended, or close what is connected to the database.",
        ) from error


def _write_profile(folder: Path, project: Project) -> None:
    """Copy the project's target for the benchmark's database; expressions in it stay as they are, secrets unread."""
    profiles = yaml.safe_load((project.profiles_dir / "profiles.yml").read_text())
    output = profiles[project.profile_name]["outputs"][project.target_name]
    output.pop("database", None)  # dbt's other name for dbname
    output["dbname"] = NAME
    profile = {"target": project.target_name, "outputs": {project.target_name: output}}
    (folder / "profiles.yml").write_text(yaml.safe_dump({project.profile_name: profile}, sort_keys=False))
