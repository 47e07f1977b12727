"""Test of the example for nginx, which limits the requests and connections of each address. It needs nginx."""

import contextlib
import gzip
import http.client
import re
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from ciris_scoring.database.project import Project
from ciris_scoring.show.api.app import create_app
from ciris_scoring.show.api.database import Database as ServedDatabase
from ciris_scoring.show.api.settings import Settings
from conftest import REPOSITORY
from pipeline import wait_until
from serving import KEY, running

NGINX = shutil.which("nginx") or shutil.which("/usr/sbin/nginx")
EXAMPLE = REPOSITORY / "examples/nginx/ciris-scoring.conf"


@pytest.fixture
def proxy(sample_project: Project, tmp_path: Path) -> Iterator[int]:
    """Port of nginx with the example, but without TLS, before a server with a key. Headers may take 1 s."""
    if NGINX is None:
        pytest.skip("nginx is not installed (Debian: apt-get install nginx-light)")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with running(create_app(ServedDatabase(sample_project), Settings(key=KEY, local_names_only=False))) as behind:
        example = re.sub(r"ssl_certificate.*", "", EXAMPLE.read_text())
        for ours, theirs in (
            ("443 ssl", f"127.0.0.1:{port}"),
            ("127.0.0.1:8000", f"127.0.0.1:{behind}"),
            ("header_timeout 10s", "header_timeout 1s"),
        ):
            assert ours in example
            example = example.replace(ours, theirs)
        paths = " ".join(f"{of}_temp_path {tmp_path};" for of in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
        config = tmp_path / "nginx.conf"
        config.write_text(
            f"daemon off; pid {tmp_path}/pid; error_log {tmp_path}/log;\n"
            f"events {{}}\nhttp {{ access_log off; {paths}\n{example}\n}}"
        )
        with subprocess.Popen([NGINX, "-p", tmp_path, "-c", config]) as process:
            try:
                wait_until(lambda: is_open(port))
                yield port
            finally:
                process.terminate()


def is_open(port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port)):
        return True
    return False


def status_of(port: int, client: str, path: str = "/healthz", key: str = KEY) -> int:
    """Return the status of an answer to a client at an address."""
    with contextlib.closing(http.client.HTTPConnection("127.0.0.1", port, 10, (client, 0))) as connection:
        connection.request("GET", path, headers={"X-API-Key": key})
        return connection.getresponse().status


def test_a_flood_of_one_client_does_not_stop_others(proxy):
    assert status_of(proxy, "127.0.0.2", "/api/v1/scoring/capacity/Link") == 200
    statuses = [status_of(proxy, "127.0.0.3", key=f"guess-{number}") for number in range(120)]
    assert set(statuses) == {200, 429} and statuses[0] == 200, "probes need no key"
    assert status_of(proxy, "127.0.0.2", "/") == 200
    assert status_of(proxy, "127.0.0.2", "/", key="wrong") == 401


def test_answers_are_compressed(proxy):
    with contextlib.closing(http.client.HTTPConnection("127.0.0.1", proxy, 10)) as connection:
        headers = {"X-API-Key": KEY, "Accept-Encoding": "gzip"}
        for path in ("/", "/api/v1/scoring/capacity/fleet", "/api/v1/scoring/capacity/fleet?format=csv"):
            connection.request("GET", path, headers=headers)
            answer = connection.getresponse()
            assert (answer.status, answer.headers["content-encoding"]) == (200, "gzip"), path
            assert b"Link" in gzip.decompress(answer.read())


def test_a_request_that_never_ends_is_disconnected(proxy):
    with socket.create_connection(("127.0.0.1", proxy)) as slow:
        slow.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX-Long: ")
        begun = time.monotonic()
        assert slow.recv(1) == b"" and time.monotonic() - begun < 30
