"""What a server reads a project's marts through, and an application on a real socket."""

import contextlib
import threading
from collections.abc import Iterator

from fastapi import FastAPI

from ciris_scoring.basics.project import Project
from ciris_scoring.serve.api.connections import LimitedServer
from ciris_scoring.serve.api.database import Database
from ciris_scoring.serve.api.server import listen


@contextlib.contextmanager
def opened(project: Project, connections: int = 2, statement_timeout: float = 15) -> Iterator[Database]:
    database = Database(project, connections, statement_timeout)
    database.open()
    with contextlib.closing(database):
        yield database


@contextlib.contextmanager
def running(app: FastAPI) -> Iterator[int]:
    """The application while it is served; its port."""
    listening = listen("127.0.0.1", 0)
    serving = LimitedServer(app)
    thread = threading.Thread(target=serving.run, kwargs={"sockets": [listening]})
    thread.start()
    try:
        yield listening.getsockname()[1]
    finally:
        serving.should_exit = True
        thread.join()
        listening.close()
