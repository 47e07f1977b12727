"""Two roles: one that scores with exactly the rights of docs/installing.md, and another one that it must not trust."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psycopg

from ciris_scoring.lab.embedded import SCHEMA, Server, write_profile
from conftest import Database, fresh_database


@dataclass(frozen=True)
class Roles:
    """The two roles in a database."""

    database: Database
    scorer: str
    mallory: str

    def connect_as(self, role: str) -> psycopg.Connection:
        return psycopg.connect(f"{self.database.conninfo} user={role}", autocommit=True)

    def target(self, schema: str = SCHEMA, role: str = "") -> Database:
        """Return the database with a profile of a role, by default the scoring role, that publishes into a schema."""
        database = self.database
        path = write_profile(database.profiles_dir, database.server, database=database.name, schema=schema)
        path.write_text(path.read_text().replace("user: postgres", f"user: {role or self.scorer}"))
        return database

    def grant_sources(self, connection: psycopg.Connection) -> None:
        """Let the scoring role read the source tables."""
        connection.execute(
            f"grant usage on schema cirislens to {self.scorer};"
            f"grant select on all tables in schema cirislens to {self.scorer}"
        )

    def filled(self, text: str, **names: object) -> str:
        """Return a text with the names of the roles, and with further names, in place of those in braces."""
        for name, value in (names | {"scorer": self.scorer, "mallory": self.mallory}).items():
            text = text.replace("{" + name + "}", str(value))
        return text


@contextmanager
def two_roles(server: Server, folder: Path, template: str = "template1") -> Iterator[Roles]:
    """Create a database with the two roles, and drop them afterwards."""
    suffix = uuid.uuid4().hex[:8]
    scorer, mallory = f"scorer_{suffix}", f"mallory_{suffix}"
    with psycopg.connect(server.conninfo("postgres"), autocommit=True) as connection:
        for role in (scorer, mallory):
            connection.execute(f"create role {role} login")
    try:
        with fresh_database(server, folder, template) as database:
            with database.connect() as connection:
                connection.execute(
                    f"grant connect, create, temporary on database {database.name} to {scorer}"
                )
            roles = Roles(database, scorer, mallory)
            roles.target()
            yield roles
    finally:
        with psycopg.connect(server.conninfo("postgres"), autocommit=True) as connection:
            connection.execute(f"drop owned by {scorer}, {mallory}; drop role {scorer}, {mallory}")
