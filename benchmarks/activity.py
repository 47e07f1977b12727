"""Measure the time of the database server's queries during a run of dbt, by sampling them every few milliseconds.

The query times that dbt reports are not accurate enough: dbt's threads wait for each other in Python, which doubles the
reported time of short queries.
"""

import time
from collections import defaultdict
from collections.abc import Iterator, Set
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import Event

from ciris_scoring.database.connection import APPLICATION_NAME, connect
from ciris_scoring.database.project import Project

INTERVAL_SECONDS = 0.01

NO_NODE = "dbt's own queries"
PYTHON_MODEL = "model.ciris_scoring.int_windows"
"""dbt's id of the Python model. The model computes in dbt's process, so its time includes the time during which its
session is idle in a transaction."""

# All of dbt's statements except begin and commit begin with a comment that names the node.
ACTIVE = """
    select
        pid,
        substring(query from '"node_id": "([^"]+)"'),
        state = 'active'
    from pg_stat_activity
    where
        datname = current_database()
        and backend_type = 'client backend'
        and state in ('active', 'idle in transaction')
        and application_name <> %s
    """


@dataclass
class Activity:
    """Seconds during which queries of dbt, or the Python model, ran: in total, for building, for tests and by node."""

    seconds: float = 0.0
    building_seconds: float = 0.0
    """Seconds in which at least one query of a model, of a seed or of dbt itself ran."""
    testing_seconds: float = 0.0
    seconds_by_node: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    """Seconds by dbt's id of the node, for example `model.ciris_scoring.dim_agents`."""

    def add(self, nodes: Set[str], seconds: float) -> None:
        """Add ``seconds`` during which queries of ``nodes`` ran."""
        testing = {node for node in nodes if node.startswith("test.")}
        self.seconds += seconds if nodes else 0.0
        self.building_seconds += seconds if nodes - testing else 0.0
        self.testing_seconds += seconds if testing else 0.0
        for node in nodes:
            self.seconds_by_node[node] += seconds


@contextmanager
def watched(project: Project) -> Iterator[Activity]:
    """Sample dbt's activity in the project's database from another session until the end of the block."""
    activity, stop = Activity(), Event()

    def watch() -> None:
        node_of: dict[int, str] = {}
        active: set[str] = set()
        with connect(project) as connection:
            since = time.perf_counter()
            while not stop.wait(INTERVAL_SECONDS):
                rows = connection.execute(ACTIVE, [APPLICATION_NAME]).fetchall()
                now = time.perf_counter()
                activity.add(active, now - since)
                node_of.update({pid: node for pid, node, _ in rows if node})
                nodes = [(node_of.get(pid, NO_NODE), is_active) for pid, _, is_active in rows]
                active = {node for node, is_active in nodes if is_active or node == PYTHON_MODEL}
                since = now

    with ThreadPoolExecutor(1) as pool:
        watcher = pool.submit(watch)
        try:
            yield activity
        finally:
            stop.set()
        watcher.result()
