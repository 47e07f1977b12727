"""What a cluster costs beside plain PostgreSQL, as tables for people."""

from collections.abc import Callable, Iterator, Mapping

from benchmarks.cluster.measure import (
    CLUSTER,
    COPIED,
    EQUAL_WITHIN,
    LOCAL,
    PLAIN,
    SPREAD,
    ClusterMeasurements,
    RunCost,
)
from benchmarks.table import SHOWN_SHARE, bytes_text, ratio_text, seconds_text
from ciris_scoring.basics.terminal import aligned

CAPTION = """\
Time is that in which at least one query of the model ran. Processor time is that of the processes that worked for it:
of the server or, on the cluster, of the coordinator and of all workers. Processes are looked at every 10 ms, on workers
every 200 ms, so that short models may have some of each other's; the sums are right."""
COSTS = ("plain", "processors", "cluster", "coordinator", "workers", "on workers", "x plain")
SIZES = ("on disk, MB", PLAIN, CLUSTER)

_Costs = tuple[float, ...]
"""Plain time and processor time, time of the cluster, processor time of the coordinator and of the workers; seconds."""


def cluster_tables(measured: ClusterMeasurements) -> str:
    """All tables, and what was compared."""
    fleet = measured.fleet
    history = {side: cost.history for side, cost in measured.sides.items()}
    increment = {side: cost.increment for side, cost in measured.sides.items()}
    parts = (
        f"Benchmark of {fleet.agents:,} agents, {measured.days} days and {measured.n_traces:,} traces "
        f"(seed {fleet.seed})\non {measured.server}",
        _cost_table(f"{measured.days} as-ofs, every window", history),
        _cost_table("a daily increment", increment),
        CAPTION,
        "\n".join(aligned(SIZES, _size_rows(measured), SIZES[1:])),
        f"Of {measured.n_scores:,} scores, {measured.n_different:,} differ by more than {EQUAL_WITHIN:g}.",
    )
    return "\n\n".join(parts)


def costs_of(runs: Mapping[str, RunCost], is_meant: Callable[[str], bool]) -> _Costs:
    """Sum over the nodes that are meant."""
    plain, cluster = runs[PLAIN], runs[CLUSTER]
    columns = (
        plain.activity.seconds_by_node,
        plain.processors.coordinator,
        cluster.activity.seconds_by_node,
        cluster.processors.coordinator,
        cluster.processors.workers,
    )
    return tuple(sum(seconds for node, seconds in column.items() if is_meant(node)) for column in columns)


def is_model(node: str) -> bool:
    """Whether a node is a model or a seed."""
    return node.startswith(("model.", "seed."))


def is_test(node: str) -> bool:
    """Whether a node is a test."""
    return node.startswith("test.")


def on_workers(costs: _Costs) -> float:
    """The share of the cluster's processor time that was the workers'."""
    *_, coordinator, workers = costs
    return workers / (coordinator + workers) if coordinator + workers else 0.0


def times_plain(costs: _Costs) -> float:
    """Processor time of the cluster, in that of plain PostgreSQL."""
    _, plain, _, coordinator, workers = costs
    return (coordinator + workers) / plain if plain else float("nan")


def _cost_table(name: str, runs: Mapping[str, RunCost]) -> str:
    headings = (name, *COSTS)
    return "\n".join(aligned(headings, _cost_rows(runs), COSTS))


def _cost_rows(runs: Mapping[str, RunCost]) -> Iterator[tuple[str, ...]]:
    def row(name: str, costs: _Costs) -> tuple[str, ...]:
        *seconds, share, ratio = (*costs, on_workers(costs), times_plain(costs))
        return (name, *map(seconds_text, seconds), f"{share:.0%}", ratio_text(ratio))

    everything = costs_of(runs, lambda node: True)
    least = SHOWN_SHARE * sum(everything[-2:])
    for is_meant, whole in ((is_model, "all models"), (is_test, "all tests")):
        nodes = {node for run in runs.values() for node in run.nodes if is_meant(node)}
        by_node = {node: costs_of(runs, node.__eq__) for node in nodes}
        shown = {node: sum(costs[-2:]) for node, costs in by_node.items() if sum(costs[-2:]) >= least}
        for node in sorted(shown, key=shown.__getitem__, reverse=True):
            yield row(f"  {node.split('.')[2]}", by_node[node])
        yield row(
            f"  {len(nodes - shown.keys())} others", costs_of(runs, (nodes - shown.keys()).__contains__)
        )
        yield row(whole, costs_of(runs, is_meant))
    yield row("everything", everything)
    walls = [seconds_text(runs[side].wall_seconds) for side in (PLAIN, CLUSTER)]
    yield ("wall time", walls[0], "", walls[1], "", "", "", "")


def _size_rows(measured: ClusterMeasurements) -> Iterator[tuple[str, ...]]:
    for name, sizes in (
        ("sources", {side: cost.source_bytes for side, cost in measured.sides.items()}),
        ("tables of ours", {side: cost.own_bytes for side, cost in measured.sides.items()}),
    ):
        for place in (SPREAD, COPIED, LOCAL):
            if any(place in of_side for of_side in sizes.values()):
                yield f"{name}, {place}", *(bytes_text(sizes[side].get(place, 0)) for side in SIZES[1:])
