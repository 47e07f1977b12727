"""Run the server until it is stopped."""

import contextlib
import socket

from ciris_scoring.database.project import Project
from ciris_scoring.database.terminal import say
from ciris_scoring.errors import InputError, one_line
from ciris_scoring.show.api.app import create_app
from ciris_scoring.show.api.connections import BACKLOG, LimitedServer
from ciris_scoring.show.api.database import Database
from ciris_scoring.show.api.settings import Settings


def serve(project: Project, settings: Settings) -> None:
    """Serve the scores of a project until the process is told to stop."""
    with listen(settings.host, settings.port) as listening:
        database = Database(project, settings.connections, settings.statement_timeout)
        database.open()
        with contextlib.closing(database):
            host = f"[{settings.host}]" if ":" in settings.host else settings.host
            guarded = "an API key is required" if settings.key is not None else "no API key is required"
            address = f"http://{host}:{listening.getsockname()[1]}"
            # After Ctrl-C, uvicorn stops the server and then raises KeyboardInterrupt.
            with contextlib.suppress(KeyboardInterrupt):
                say(f"Serving {project.schema} on {address}, {guarded}. Stop it with Ctrl-C.")
                LimitedServer(create_app(database, settings)).run(sockets=[listening])


def listen(host: str, port: int) -> socket.socket:
    """Open the listening socket. Raise an InputError if the address does not exist or is in use."""
    try:
        # asyncio sets TCP_NODELAY only on sockets that were created with the protocol number.
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, proto=socket.IPPROTO_TCP, flags=socket.AI_PASSIVE
        )[0]
        listening = socket.socket(family, kind, protocol)
        try:
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listening.bind(address)
            listening.listen(BACKLOG)
        except OSError:
            listening.close()
            raise
    except (OSError, UnicodeError) as error:
        raise InputError(
            f"Cannot serve on {host}, port {port}: {one_line(error)}.",
            "Choose another address with --host and --port.",
        ) from error
    return listening
