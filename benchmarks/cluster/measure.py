"""A Citus cluster beside plain PostgreSQL: what scoring the same traces costs either, one after the other.

The plain tables are local ones of the coordinator, in the same database, so that both have the same settings.
"""

import os
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta

import psycopg
from psycopg import sql

from benchmarks import jobs
from benchmarks.activity import Activity, watched
from benchmarks.arriving import Arriving, FleetOptions, daily_runs, settle
from benchmarks.cluster.processors import KEPT_CONNECTIONS, ProcessorTime, watched_processors
from benchmarks.database import own_schemas
from benchmarks.fresh_process import in_fresh_process
from ciris_scoring.basics.connection import connect, one_row
from ciris_scoring.basics.dbt import read_relations
from ciris_scoring.basics.errors import DatabaseError
from ciris_scoring.basics.project import PREFIX, Project
from ciris_scoring.basics.terminal import say
from ciris_scoring.trial.simulation.load import Progress

PLAIN, CLUSTER = "plain", "cluster"
DISTRIBUTIONS = {PLAIN: "none", CLUSTER: "citus"}
EQUAL_WITHIN = 1e-12

SPREAD, COPIED, LOCAL = "spread over workers", "a copy on every machine", "on the coordinator"
"""Where a table stands."""


@dataclass(frozen=True)
class RunCost:
    """What one run took."""

    activity: Activity
    processors: ProcessorTime
    wall_seconds: float

    @property
    def nodes(self) -> set[str]:
        """All of dbt's that were seen at work."""
        return {*self.activity.seconds_by_node, *self.processors.coordinator, *self.processors.workers}


@dataclass(frozen=True)
class SideCost:
    """What one side took."""

    history: RunCost
    increments: tuple[RunCost, ...]
    source_bytes: Mapping[str, int]
    own_bytes: Mapping[str, int]
    """Size of all tables, indexes included, by place."""

    @property
    def increment(self) -> RunCost:
        """The increment of median wall time."""
        return sorted(self.increments, key=lambda run: run.wall_seconds)[len(self.increments) // 2]


@dataclass(frozen=True)
class ClusterMeasurements:
    """What was measured, by side."""

    fleet: FleetOptions
    days: int
    n_traces: int
    n_scores: int
    server: str
    sides: Mapping[str, SideCost]
    n_different: int
    """Scores that one side has and the other has not, or has otherwise."""


def measure_cluster(
    project: Project,
    fleet: FleetOptions,
    days: int,
    increments: int,
    progress: Progress,
    *,
    keep: bool = False,
) -> ClusterMeasurements:
    """Score the same history and days on either side.

    :param project: its target is the coordinator; nothing else should be at work there.
    :param days: of history.
    :param increments: days that arrive after it, one at a time.
    :param progress: is told how many traces have been written.
    :param keep: leave the schemas at the end.
    :raises CirisError: something expected went wrong.
    """
    with connect(project) as connection:
        server = _server(connection)
    with ExitStack() as schemas:
        projects = {
            side: schemas.enter_context(
                own_schemas(
                    project, f"ciris_bench_{side}", {f"{PREFIX}distribution": distribution}, keep=keep
                )
            )
            for side, distribution in DISTRIBUTIONS.items()
        }
        sides = {
            side: _measure_side(side, of_side, fleet, days, increments, progress)
            for side, of_side in projects.items()
        }
        with connect(project) as connection:
            [n_traces] = one_row(
                connection.execute(
                    sql.SQL("select count(*) from {}").format(
                        sql.Identifier(projects[PLAIN].source_schema, "covenant_traces")
                    )
                )
            )
            n_scores, n_different = _compared(connection, projects)
    return ClusterMeasurements(fleet, days, n_traces, n_scores, server, sides, n_different)


def _measure_side(
    side: str, project: Project, fleet: FleetOptions, days: int, increments: int, progress: Progress
) -> SideCost:
    arriving = Arriving(fleet, days + increments, progress)
    as_of = arriving.start + timedelta(days=days)

    def run(moment: datetime) -> RunCost:
        with _kept_connections(), watched(project) as activity, watched_processors(project) as processors:
            finished = in_fresh_process(jobs.score_at, jobs.place(project), moment)
        return RunCost(activity, processors, finished.seconds)

    with connect(project) as connection:
        say(f"{side}: simulating {fleet.agents:,} agents and {days} days.")
        arriving.load(connection, project, as_of)
        settle(connection, project)
        history, runs = daily_runs(connection, project, arriving, as_of, increments, run)
        return SideCost(
            history,
            runs,
            _bytes_by_place(connection, [project.source_schema]),
            _bytes_by_place(connection, list(read_relations(project).schemas)),
        )


@contextmanager
def _kept_connections() -> Iterator[None]:
    """Have sessions of processes that are started in the block keep their connections to workers."""
    before = os.environ.get("PGOPTIONS")
    os.environ["PGOPTIONS"] = f"{before or ''} {KEPT_CONNECTIONS}".strip()
    try:
        yield
    finally:
        del os.environ["PGOPTIONS"]
        if before is not None:
            os.environ["PGOPTIONS"] = before


def _bytes_by_place(connection: psycopg.Connection, schemas: list[str]) -> dict[str, int]:
    """Size of all tables, indexes included, by where they stand; of tables on every worker, all copies."""
    query = """
        select
            case distributed.partmethod when 'h' then %(spread)s when 'n' then %(copied)s else %(local)s end as place,
            sum(
                case
                    when distributed.logicalrelid is null then pg_total_relation_size(class.oid)
                    else citus_total_relation_size(class.oid)
                end
            )::bigint
        from pg_class as class
        left join pg_dist_partition as distributed on class.oid = distributed.logicalrelid
        where class.relkind = 'r' and class.relnamespace = any(%(schemas)s::regnamespace[])
        group by place
        """
    places = {"spread": SPREAD, "copied": COPIED, "local": LOCAL}
    return dict(connection.execute(query, {"schemas": schemas, **places}).fetchall())


def _compared(connection: psycopg.Connection, projects: Mapping[str, Project]) -> tuple[int, int]:
    """How many scores there are, and how many are not the same on either side."""
    query = sql.SQL("""
        with cluster as materialized (
            select agent_id_hash, as_of, window_days, score_status, capacity_score from {cluster}
        )
        select
            count(*),
            count(*) filter (
                where
                    plain.score_status is distinct from cluster.score_status
                    or (plain.capacity_score is null) <> (cluster.capacity_score is null)
                    or abs(plain.capacity_score - cluster.capacity_score) > {within}
            )
        from {plain} as plain
        full join cluster using (agent_id_hash, as_of, window_days)
        """)
    marts = {side: read_relations(project)["fct_capacity_scores"] for side, project in projects.items()}
    return one_row(connection.execute(query.format(**marts, within=sql.Literal(EQUAL_WITHIN))))


def _server(connection: psycopg.Connection) -> str:
    """What the coordinator is.

    :raises DatabaseError: it is none.
    """
    if one_row(connection.execute("select to_regproc('create_distributed_table') is null"))[0]:
        raise DatabaseError(
            f"{connection.info.dbname!r} has no extension citus, so there is no cluster to measure.",
            "Choose a target whose database is the coordinator's of a cluster, or leave --distribution out.",
        )
    query = """
        select
            current_setting('server_version'),
            (select extversion from pg_extension where extname = 'citus'),
            (select count(*) from pg_dist_node where isactive and shouldhaveshards),
            current_setting('citus.shard_count')
        """
    postgresql, citus, n_workers, n_shards = one_row(connection.execute(query))
    return f"PostgreSQL {postgresql} with Citus {citus}, {n_workers} workers, {n_shards} shards of a table"
