"""The measurement from beginning to end: start the servers, put load on them in turn, print rates and memory."""

import contextlib
import json
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import click

from benchmarks.api.load import Load, Question, put_load
from benchmarks.errors import BenchFailed
from benchmarks.verdicts import Limit, Verdict, announce
from ciris_scoring.basics.project import Project
from ciris_scoring.basics.terminal import aligned, say

START_SECONDS = 60
ROUNDS = 3
GZIP = {"Accept-Encoding": "gzip"}
"""What browsers and the usual libraries send."""
PLAIN = {"Accept-Encoding": "identity"}
SCORING = "/api/v1/scoring"
LEAST_RATES = {"fleet": 0.6, "one agent": 0.3}
"""Targets, as shares of the rate of the empty answer."""
MOST_GROWTH = 0.1
"""Target: by how much of itself the server's memory may grow from the first tenth of the soak to its end."""
HEADINGS = ("what", "requests/s", "x empty", "p50 ms", "p99 ms", "errors")
CAPTION = """\
Medians of {rounds} rounds of {requests:,} requests each by {clients} clients on this machine. An answer is made once
per publication and kept; "made anew" is a server that keeps none (--cache-mb 0)."""


@dataclass(frozen=True)
class Served:
    """A server that was started."""

    url: str
    process: subprocess.Popen[bytes]

    def memory_mb(self) -> float:
        """Resident memory now."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        [line] = [line for line in status.splitlines() if line.startswith("VmRSS:")]
        return int(line.split()[1]) / 1024


def run_api_bench(
    project: Project, variables: str | None, n_clients: int, n_requests: int, n_soak: int
) -> bool:
    """Measure and print; return whether all targets are met.

    :param project: its target holds the scores that are served.
    :param variables: the argument of ``--vars``.
    :param n_clients: that ask at the same time.
    :param n_requests: per question and round.
    :param n_soak: requests between which memory must not grow; 0 to leave that out.
    :raises BenchFailed: a server does not answer.
    """
    serve = [
        *(sys.executable, "-m", "ciris_scoring.cli", "serve"),
        *("--project-dir", str(project.project_dir), "--profiles-dir", str(project.profiles_dir)),
        *("--target", project.target_name, "--no-auth", "--vars", variables or "{}", "--port"),
    ]
    with (
        served([sys.executable, "-m", "benchmarks.api.empty"], "/") as empty,
        served(serve, "/healthz") as keeping,
        served(serve, "/healthz", "--cache-mb", "0") as forgetting,
    ):
        hashes, etag = _fleet(keeping.url)
        say(f"{len(hashes)} agents with a score in {project.schema}.")
        fleet = f"{SCORING}/capacity/fleet"
        agents = [f"{SCORING}/capacity/{agent_id_hash}" for agent_id_hash in hashes]
        questions: Mapping[str, tuple[Served, Question]] = {
            "empty FastAPI answer": (empty, Question(["/"])),
            "fleet": (keeping, Question([fleet], GZIP)),
            "fleet, not compressed": (keeping, Question([fleet], PLAIN)),
            "fleet, nothing new (304)": (keeping, Question([fleet], {"If-None-Match": etag})),
            "one agent": (keeping, Question(agents, GZIP)),
            "one agent, made anew": (forgetting, Question(agents, GZIP)),
            "fleet, made anew": (forgetting, Question([fleet], GZIP)),
        }
        loads = _loads(questions, n_clients, n_requests)
        soak = _soak(keeping, Question([fleet, *agents], GZIP), n_clients, n_soak)
    _print(loads, n_clients, n_requests)
    return _judge(loads, soak, n_soak)


def _loads(
    questions: Mapping[str, tuple[Served, Question]], n_clients: int, n_requests: int
) -> dict[str, Load]:
    """Ask in turn, round by round, so that a busy moment of the machine meets all."""
    rounds: dict[str, list[Load]] = {what: [] for what in questions}
    for number in range(ROUNDS):
        say(f"Round {number + 1} of {ROUNDS}.")
        for what, (server, question) in questions.items():
            n_before = max(n_clients, n_requests // 10)  # to warm up
            rounds[what].append(put_load(server.url, question, n_requests, n_clients, n_before))
    return {
        what: Load(
            median(load.requests_per_second for load in loads),
            median(load.p50_ms for load in loads),
            median(load.p99_ms for load in loads),
            sum(load.n_errors for load in loads),
        )
        for what, loads in rounds.items()
    }


def _soak(server: Served, question: Question, n_clients: int, n_soak: int) -> tuple[float, float, int]:
    """Memory in MB after a tenth of the requests and after all, and errors meanwhile."""
    if n_soak == 0:
        return 0.0, 0.0, 0
    say(f"{n_soak:,} requests, to see whether memory grows.")
    first = put_load(server.url, question, n_soak // 10, n_clients)
    begun = server.memory_mb()
    rest = put_load(server.url, question, n_soak - n_soak // 10, n_clients)
    return begun, server.memory_mb(), first.n_errors + rest.n_errors


def _print(loads: Mapping[str, Load], n_clients: int, n_requests: int) -> None:
    empty = loads["empty FastAPI answer"].requests_per_second
    rows = [
        (
            what,
            f"{load.requests_per_second:,.0f}",
            f"{load.requests_per_second / empty:.2f}",
            f"{load.p50_ms:.1f}",
            f"{load.p99_ms:.1f}",
            f"{load.n_errors}",
        )
        for what, load in loads.items()
    ]
    click.echo("\n".join(aligned(HEADINGS, rows, HEADINGS[1:])))
    click.echo("\n" + CAPTION.format(rounds=ROUNDS, requests=n_requests, clients=n_clients))


def _judge(loads: Mapping[str, Load], soak: tuple[float, float, int], n_soak: int) -> bool:
    empty = loads["empty FastAPI answer"].requests_per_second
    begun, ended, soak_errors = soak
    n_errors = sum(load.n_errors for load in loads.values()) + soak_errors
    verdicts = [
        Verdict(
            what,
            f"at least {least} x empty",
            f"{loads[what].requests_per_second / empty:.2f}",
            loads[what].requests_per_second >= least * empty,
        )
        for what, least in LEAST_RATES.items()
    ]
    verdicts.append(Limit(0, "errors").judge("every request is answered", n_errors))
    if n_soak:
        growth = Limit(100 * MOST_GROWTH, "%")
        what = f"growth of memory from request {n_soak // 10:,} to {n_soak:,}, {begun:.1f} to {ended:.1f} MB"
        verdicts.append(growth.judge(what, 100 * (ended / begun - 1)))
    return announce(verdicts)


@contextlib.contextmanager
def served(command: Sequence[str], path: str, *options: str) -> Iterator[Served]:
    """Start a server on a free port, the argument behind the command, and stop it at the end."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        port = listening.getsockname()[1]
    url = f"http://127.0.0.1:{port}"
    process = subprocess.Popen([*command, str(port), *options], stderr=subprocess.PIPE)
    try:
        _wait_until_it_answers(process, url + path)
        yield Served(url, process)
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait()
        if process.stderr is not None:
            process.stderr.close()


def _wait_until_it_answers(process: "subprocess.Popen[bytes]", url: str) -> None:
    deadline = time.monotonic() + START_SECONDS
    while True:
        try:
            with urllib.request.urlopen(url):
                return
        except OSError:
            if process.poll() is not None or time.monotonic() > deadline:
                process.kill()
                said = process.stderr.read().decode(errors="replace") if process.stderr else ""
                raise BenchFailed(f"A server does not answer: {said.strip()}") from None
            time.sleep(0.1)


def _fleet(url: str) -> tuple[list[str], str]:
    """Hashes of the agents with a score, and the tag of the fleet's answer."""
    try:
        with urllib.request.urlopen(f"{url}{SCORING}/capacity/fleet") as answer:
            document = json.load(answer)
            etag = answer.headers["ETag"]
    except OSError as error:
        raise BenchFailed(f"The fleet cannot be read: {error}") from error
    hashes = [agent["agent_id_hash"] for agent in document["agents"]]
    if not hashes:
        raise BenchFailed("No agent has a score.", "Score the fleet first with ciris-scoring run.")
    return hashes, etag
