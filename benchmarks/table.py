"""Print the results of benchmarks as tables."""

from collections.abc import Iterator, Mapping, Sequence

import click
import pandas as pd

from benchmarks.measure import Measurements, RunCost

SHOWN = 10
"""Number of models and seeds that are listed, the slowest first."""


def show(rows: Sequence[Mapping[str, object]] | pd.DataFrame) -> None:
    """Print rows as a table. Each row maps headings to figures; its first value is the name of the row."""
    table = pd.DataFrame(rows)
    name = table.columns[0]
    table = table.set_index(name).rename_axis(index=None, columns=name)
    click.echo(table.to_string(float_format="{:,.4f}".format, line_width=140) + "\n")


def show_speed(one: Measurements) -> None:
    """Print the table of the speed benchmark."""
    click.echo(f"Benchmark of {one.agents:,} agents, {one.days} days and {one.n_traces:,} traces (seed {one.seed})\n")
    costs = pd.DataFrame(_costs(one), columns=["what", "seconds", "note"])
    costs.insert(2, "x (b)", costs["seconds"] / one.specification_seconds)
    show(costs)


def _costs(one: Measurements) -> Iterator[tuple[str, float, str]]:
    yield "(b) the specification's SQL", one.specification_seconds, "median, warm; one as-of, one window"
    yield from _run_costs("(c) full history", one.history, f"{one.days} as-ofs, every window")
    yield from _run_costs("(d) daily increment", one.increment, f"the median of {len(one.increments)}")
    yield "    wall time, median", one.increment_wall_seconds, ""


def _run_costs(name: str, run: RunCost, note: str) -> Iterator[tuple[str, float, str]]:
    activity = run.activity
    yield name, activity.building_seconds, note
    nodes = [(s, node) for node, s in activity.seconds_by_node.items() if not node.startswith("test.")]
    for seconds, node in sorted(nodes, reverse=True)[:SHOWN]:
        yield f"      {node.split('.')[-1]}", seconds, ""
    yield "    tests", activity.testing_seconds, ""
    yield "    with the tests", activity.seconds, ""
    yield "    autovacuum", run.autovacuum_seconds, "after the run"
    yield "    dbt itself", run.wall_seconds - activity.seconds, ""
    memory = "not measured" if run.peak_bytes is None else f"{run.peak_bytes / 1e6:.0f} MB"
    yield "    wall time", run.wall_seconds, f"memory {memory}"
