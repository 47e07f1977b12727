"""Helpers for tests of the server: queries on the marts, an application on a socket, and a browser."""

import contextlib
import json
import re
import threading
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import psycopg
from fastapi import FastAPI
from httpx2 import Response
from psycopg.rows import dict_row
from starlette.testclient import TestClient

from ciris_scoring.database.project import Project, load_project
from ciris_scoring.lab.embedded import SCHEMA
from ciris_scoring.marts.marts import Marts
from ciris_scoring.show import view
from ciris_scoring.show.api.app import create_app, listen, server
from ciris_scoring.show.api.database import Database
from ciris_scoring.show.api.problems import TYPE
from ciris_scoring.show.api.settings import Settings
from ciris_scoring.show.view import Document
from conftest import REPOSITORY
from conftest import Database as TestDatabase
from pipeline import MARTS

SCORING = "/api/v1/scoring"
KEY = "0123456789abcdef0123456789abcdef"
LINK = "4107c26fee8baae4"


def read(connection: psycopg.Connection, query: str, *values: Any, **named: Any) -> list[dict[str, Any]]:
    """Return the rows of a query as dictionaries."""
    with connection.cursor(row_factory=dict_row) as cursor:
        return cursor.execute(query, named or values).fetchall()


@contextlib.contextmanager
def reader(sample: TestDatabase, role: str, folder: Path) -> Iterator[TestDatabase]:
    """Create a role that may only read the marts, and yield the database with a profile of this role.

    :param folder: folder to which the profile is written.
    """
    profile = (sample.profiles_dir / "profiles.yml").read_text()
    (folder / "profiles.yml").write_text(re.sub("user: .*", f"user: {role}", profile))
    sample.execute(
        f"create role {role} login; grant usage on schema {SCHEMA} to {role};"
        f"grant select on all tables in schema {SCHEMA} to {role}"
    )
    try:
        yield replace(sample, profiles_dir=folder)
    finally:
        sample.execute(f"drop owned by {role}; drop role {role}")


def explanation(connection: psycopg.Connection, agent: str, *asked: Any, since: datetime | None = None) -> Document:
    """Return the document of an agent as `ciris-scoring explain` reads it.

    :param asked: window, as-of, threshold and permission.
    """
    marts = Marts(connection, MARTS)
    return view.explanation(marts, *view.choose_agent(marts, agent, *asked), since)


def asking(project: Project | TestDatabase, settings: Settings | None = None, **options: Any) -> TestClient:
    """Return a test client of the API of a project, or of this project with a database."""
    if isinstance(project, TestDatabase):
        project = load_project(REPOSITORY, project.profiles_dir)
    app = create_app(Database(project), settings or Settings())
    return TestClient(app, base_url="http://localhost", **options)


def problem(answer: Response, status: int, kind: str = "") -> dict[str, Any]:
    """Return the problem document of a refused request. Fail if the document is long or shows code or SQL."""
    assert answer.status_code == status, answer.text[:300]
    assert answer.headers["content-type"] == "application/problem+json"
    document: dict[str, Any] = answer.json()
    assert document["status"] == status and document["title"] and document["detail"]
    assert document["type"].startswith(TYPE) and document["type"].endswith(kind)
    assert len(json.dumps(document, ensure_ascii=False)) < 2_000
    said = answer.text.lower().replace("select pg_sleep", "")
    assert not any(text in said for text in ("traceback", "psycopg", "select"))
    return document


@contextlib.contextmanager
def running(app: FastAPI) -> Iterator[int]:
    """Serve an application on a socket and yield the port number."""
    listening = listen("127.0.0.1", 0)
    serving = server(app)
    thread = threading.Thread(target=serving.run, kwargs={"sockets": [listening]})
    thread.start()
    try:
        yield listening.getsockname()[1]
    finally:
        serving.should_exit = True
        thread.join()
        listening.close()


@contextlib.contextmanager
def visited(browser: Any, address: str, **options: Any) -> Iterator[Any]:
    """Open a page in a browser. Fail if the browser reports an error other than the page's own 404, or contacts
    another host."""
    context = browser.new_context(**options)
    page = context.new_page()
    complaints: list[str] = []
    page.on("console", lambda message: complaints.append(message.text))
    page.on("pageerror", lambda error: complaints.append(str(error)))
    ours = (urlsplit(address)[:2], ("data", ""))
    page.on("request", lambda asked: complaints.extend([asked.url] if urlsplit(asked.url)[:2] not in ours else []))
    page.goto(address)
    yield page
    context.close()
    assert [one for one in complaints if "404" not in one] == []
