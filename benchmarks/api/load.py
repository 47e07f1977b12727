"""A load on a server: clients that ask one question after the other, over connections that they keep.

locust brings them. It changes how the process that imports it waits, so a load is put from a process of its own.
"""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from benchmarks.fresh_process import in_fresh_process


@dataclass(frozen=True)
class Question:
    """What is asked, path after path in turn."""

    paths: Sequence[str]
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Load:
    """What a load came to."""

    requests_per_second: float
    p50_ms: float
    p99_ms: float
    n_errors: int
    """Answers other than 200 and 304, and requests without one."""


def put_load(url: str, question: Question, n_requests: int, n_clients: int, n_before: int = 0) -> Load:
    """Send requests from several clients at once, each waiting for its answer before the next.

    :param url: of the server.
    :param n_requests: how many in all.
    :param n_before: requests before these, to warm up.
    """
    return in_fresh_process(_put_load, url, question, n_requests, n_clients, n_before).result


def _put_load(url: str, question: Question, n_requests: int, n_clients: int, n_before: int) -> Load:
    from locust import FastHttpUser, task
    from locust.env import Environment
    from locust.exception import StopUser

    paths = itertools.cycle(question.paths)
    turns = itertools.count()

    class Client(FastHttpUser):
        host = url

        @task
        def ask(self) -> None:
            turn = next(turns)
            if turn == n_before:
                environment.stats.reset_all()
            if turn >= n_before + n_requests:
                raise StopUser
            self.client.get(next(paths), headers=dict(question.headers), name="question")

    environment = Environment(user_classes=[Client])
    runner = environment.create_local_runner()
    runner.start(n_clients, spawn_rate=n_clients)
    assert runner.spawning_greenlet is not None
    runner.spawning_greenlet.join()
    runner.user_greenlets.join()
    total = environment.stats.total
    return Load(
        total.total_rps,
        total.get_response_time_percentile(0.5),
        total.get_response_time_percentile(0.99),
        total.num_failures,
    )
