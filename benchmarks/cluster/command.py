"""The benchmark of a cluster from beginning to end: the measurements, the tables, the targets."""

import click

from benchmarks.arriving import FleetOptions
from benchmarks.cluster.measure import ClusterMeasurements, measure_cluster
from benchmarks.cluster.table import cluster_tables, costs_of, is_model, on_workers, times_plain
from benchmarks.measure import check_variables
from benchmarks.verdicts import Limit, Verdict, announce
from ciris_scoring.basics.project import Project
from ciris_scoring.trial.simulation.load import Progress

MOST_ON_COORDINATOR = Limit(10, "%")
MOST_PROCESSORS = Limit(1.66, "x plain")
"""What a trial needed that distributed every table, and nothing else."""
STATED_FROM = 450_000
"""Traces; the coordinator's part hardly grows, and of a small fleet it is most."""


def run_cluster_bench(
    project: Project,
    fleet: FleetOptions,
    days: int,
    increments: int,
    progress: Progress,
    *,
    keep: bool = False,
) -> bool:
    """Measure, and print the tables on stdout.

    The parameters and errors are those of `measure_cluster`.

    :returns: whether both sides have the same scores, and every target that is stated for this fleet is met.
    """
    check_variables(project)
    measured = measure_cluster(project, fleet, days, increments, progress, keep=keep)
    click.echo(cluster_tables(measured))
    return announce(judge(measured)) and measured.n_different == 0


def judge(measured: ClusterMeasurements) -> list[Verdict]:
    """Judge what is stated for a fleet of this size."""
    if measured.n_traces < STATED_FROM:
        return []
    costs = costs_of({side: cost.history for side, cost in measured.sides.items()}, is_model)
    on_coordinator = 100 * (1 - on_workers(costs))
    return [
        MOST_ON_COORDINATOR.judge("models' processor time on the coordinator", on_coordinator),
        MOST_PROCESSORS.judge("models' processor time of the cluster", times_plain(costs)),
    ]
