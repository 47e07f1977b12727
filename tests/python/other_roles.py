"""Two roles: the scorer, which has exactly the rights of docs/installing.md, and mallory, an attacker."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psycopg

from ciris_scoring.lab.embedded import Server
from conftest import Database, administer, fresh_database


@dataclass(frozen=True)
class Roles:
    """Names of the scoring role and of the attacker, and a database with a dbt profile of the scoring role."""

    database: Database
    scorer: str
    mallory: str

    def grant_sources(self, connection: psycopg.Connection) -> None:
        """Let the scoring role read the source tables."""
        connection.execute(
            f"grant usage on schema cirislens to {self.scorer};"
            f"grant select on all tables in schema cirislens to {self.scorer}"
        )

    def filled(self, text: str, **names: object) -> str:
        """Replace {scorer}, {mallory} and the given names in braces by their values in a text."""
        for name, value in (names | {"scorer": self.scorer, "mallory": self.mallory}).items():
            text = text.replace("{" + name + "}", str(value))
        return text


@contextmanager
def two_roles(server: Server, folder: Path, template: str = "template1") -> Iterator[Roles]:
    """Create a database, the scoring role and the attacker, and drop all three afterwards."""
    suffix = uuid.uuid4().hex[:8]
    scorer, mallory = f"scorer_{suffix}", f"mallory_{suffix}"
    administer(server, f"create role {scorer} login; create role {mallory} login")
    try:
        with fresh_database(server, folder, template) as database:
            database.execute(f"grant connect, create, temporary on database {database.name} to {scorer}")
            profile = database.profiles_dir / "profiles.yml"
            profile.write_text(profile.read_text().replace("user: postgres", f"user: {scorer}"))
            yield Roles(database, scorer, mallory)
    finally:
        administer(server, f"drop owned by {scorer}, {mallory}; drop role {scorer}, {mallory}")
