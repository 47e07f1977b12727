"""Processor time of the server's processes during a run of dbt, on the coordinator of a cluster and on its workers.

What Linux says of each process (`/proc/PID/schedstat`, nanoseconds), read by the servers themselves, so that it works
from another machine, for a role that may read files of the server.
"""

import json
from collections import defaultdict
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import Event

import psycopg

from benchmarks.activity import NO_NODE
from ciris_scoring.basics.connection import APPLICATION_NAME, connect, one_row
from ciris_scoring.basics.errors import DatabaseError
from ciris_scoring.basics.project import Project

COORDINATOR_SECONDS = 0.01
WORKERS_SECONDS = 0.2
"""How often each is looked at; what a process does between the last look at it and its end is lost."""

KEPT_CONNECTIONS = "-c citus.max_cached_conns_per_worker=64"
"""Options of the sessions of a run that is watched: their connections to workers stay, and can be looked at."""

# Processes that work for a client, by the one that answers the client, with dbt's id of the node that they work for.
ON_COORDINATOR = """
    select
        coalesce(processes.leader_pid, processes.pid) as client,
        processes.pid,
        substring(processes.query from '"node_id": "([^"]+)"') as node,
        split_part(pg_read_file('/proc/' || processes.pid || '/schedstat', 0, 100, true), ' ', 1) as nanoseconds
    from pg_stat_activity as processes
    where
        processes.datname = current_database()
        and processes.backend_type in ('client backend', 'parallel worker')
        and processes.application_name <> %(python)s
        and coalesce(processes.leader_pid, processes.pid) <> all(%(watchers)s)
    """

# A worker's process names the coordinator's process that it works for: ten digits of it are its pid.
ON_WORKERS = """
    select node.nodeid, answer.result
    from run_command_on_workers($$
        select coalesce(json_agg(json_build_array(pid, client, nanoseconds)), '[]')
        from (
            select
                pid,
                substring(application_name from 'gpid=([0-9]+)')::bigint % 10000000000 as client,
                split_part(pg_read_file('/proc/' || pid || '/schedstat', 0, 100, true), ' ', 1) as nanoseconds
            from pg_stat_activity
            where
                datname = current_database()
                and application_name like 'citus_internal gpid=%'
                and pid <> pg_backend_pid()
        ) as processes
        where nanoseconds <> ''
    $$) as answer
    inner join pg_dist_node as node on answer.nodename = node.nodename and answer.nodeport = node.nodeport
    where answer.success
    """


@dataclass
class ProcessorTime:
    """Seconds of processor time, by dbt's id of the node (`model.ciris_scoring.dim_agents`)."""

    coordinator: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    workers: dict[str, float] = field(default_factory=lambda: defaultdict(float))


@contextmanager
def watched_processors(project: Project) -> Iterator[ProcessorTime]:
    """Watch the processes that work for dbt, until the end of the block.

    :raises DatabaseError: a session fails, or the role may not read files of the server.
    """
    stop = Event()
    with connect(project) as on_coordinator, connect(project) as on_workers, ThreadPoolExecutor(2) as pool:
        watch = _Watch([on_coordinator.info.backend_pid, on_workers.info.backend_pid])
        looks = [(watch.coordinator, on_coordinator, COORDINATOR_SECONDS)]
        if project.is_distributed:
            looks.append((watch.workers, on_workers, WORKERS_SECONDS))
        try:
            _require_files(on_coordinator)
            for look, connection, _ in looks:
                look(connection)
        except psycopg.errors.InsufficientPrivilege as error:
            raise DatabaseError(
                "The role may not read files of the server, so processor time cannot be measured.",
                "Measure as a superuser, or have one grant pg_read_server_files to the role on every node.",
            ) from error
        watch.begin()
        futures = [pool.submit(_repeat, *each, stop) for each in looks]
        try:
            yield watch.taken
        finally:
            stop.set()
        for future in futures:
            future.result()


def _require_files(connection: psycopg.Connection) -> None:
    if one_row(connection.execute("select pg_read_file('/proc/self/schedstat', 0, 1, true) is null"))[0]:
        raise DatabaseError(
            "The server's system does not say what processor time its processes take.",
            "It is Linux that does, in /proc/PID/schedstat; measure on a server that runs on Linux.",
        )


def _repeat(
    look: Callable[[psycopg.Connection], None], connection: psycopg.Connection, seconds: float, stop: Event
) -> None:
    while not stop.wait(seconds):
        look(connection)


class _Watch:
    """What has been seen so far, by two sessions at once: each writes its own half of it."""

    def __init__(self, watchers: list[int]):
        self.taken = ProcessorTime()
        self._watchers = watchers
        self._node_of: dict[int, str] = {}
        """What each process that answers a client works for, or did last."""
        self._seen: dict[tuple[int, int], int] = {}
        """Nanoseconds of each process, by node of the cluster (0: coordinator) and pid."""

    def begin(self) -> None:
        """Forget what was done before, but for how far each process was."""
        self.taken = ProcessorTime()

    def coordinator(self, connection: psycopg.Connection) -> None:
        """Look at the coordinator, or the one server that there is."""
        values = {"python": APPLICATION_NAME, "watchers": self._watchers}
        for client, pid, node, nanoseconds in connection.execute(ON_COORDINATOR, values).fetchall():
            done_for = self._node_of.get(
                client
            )  # what it has done since the last look it did for what it did then
            if node and client == pid:
                self._node_of[client] = node
            if nanoseconds:
                node_done_for = done_for or self._node_of.get(client, NO_NODE)
                self._add(self.taken.coordinator, (0, pid), int(nanoseconds), node_done_for)

    def workers(self, connection: psycopg.Connection) -> None:
        """Have every worker look at itself."""
        for cluster_node, processes in connection.execute(ON_WORKERS).fetchall():
            for pid, client, nanoseconds in json.loads(processes):
                if client not in self._watchers:
                    node = self._node_of.get(client, NO_NODE)
                    self._add(self.taken.workers, (cluster_node, pid), int(nanoseconds), node)

    def _add(self, taken: dict[str, float], process: tuple[int, int], nanoseconds: int, node: str) -> None:
        seen = self._seen.get(process, 0)
        # A smaller number is that of another process with the pid of one that has ended.
        taken[node] += (nanoseconds - seen if nanoseconds >= seen else nanoseconds) / 1e9
        self._seen[process] = nanoseconds
