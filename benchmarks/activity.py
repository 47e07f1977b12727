"""What the server is busy with during a run of dbt, seen by looking at it every few milliseconds.

dbt's own times of its queries will not do: its threads wait for each other in Python, which doubles the time of short
ones.
"""

import time
from collections import defaultdict
from collections.abc import Iterator, Set
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import Event

from ciris_scoring.basics.connection import APPLICATION_NAME, connect
from ciris_scoring.basics.project import Project

INTERVAL_SECONDS = 0.01

NO_NODE = "dbt's own queries"
PYTHON_MODEL = "model.ciris_scoring.int_windows"
"""It computes in its transaction, while its session is idle."""

# dbt begins its statements with a comment that names the node. Its begin and commit have none.
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
    """Seconds in which a query of dbt ran in the database, or the Python model; parallel ones are not counted twice."""

    seconds: float = 0.0
    building_seconds: float = 0.0
    """For something else than a test: a model, a seed, dbt itself."""
    testing_seconds: float = 0.0
    seconds_by_node: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    """By dbt's id of the node (`model.ciris_scoring.dim_agents`)."""

    def add(self, nodes: Set[str], seconds: float) -> None:
        """Count a time in which queries of these nodes ran."""
        testing = {node for node in nodes if node.startswith("test.")}
        self.seconds += seconds if nodes else 0.0
        self.building_seconds += seconds if nodes - testing else 0.0
        self.testing_seconds += seconds if testing else 0.0
        for node in nodes:
            self.seconds_by_node[node] += seconds


@contextmanager
def watched(project: Project) -> Iterator[Activity]:
    """Watch what dbt does in the project's database, from another session, until the end of the block."""
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
