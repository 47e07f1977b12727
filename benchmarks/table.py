"""The measurements as tables for people."""

from collections.abc import Iterator, Mapping, Sequence

import click
import pandas as pd

from benchmarks.measure import Measurements, RunCost

SHOWN = 10
"""Models and tables that are named: those that take most."""


def show(rows: Sequence[Mapping[str, object]] | pd.DataFrame) -> None:
    """Print rows of figures by their headings, of which the first is the rows' name; shares are from 0 to 1."""
    table = pd.DataFrame(rows)
    name = table.columns[0]
    table = table.set_index(name).rename_axis(index=None, columns=name)
    click.echo(table.to_string(float_format="{:,.4f}".format, line_width=140) + "\n")


def show_speed(measured: Sequence[Measurements]) -> None:
    """Print the tables of each length of history, and one that compares the lengths."""
    for one in measured:
        click.echo(
            f"Benchmark of {one.fleet.agents:,} agents, {one.days} days and {one.n_traces:,} traces "
            f"(seed {one.fleet.seed})\n"
        )
        costs = pd.DataFrame(_costs(one), columns=["what", "seconds", "note"])
        for heading, yardstick in (("x (a)", one.pass_seconds), ("x (b)", one.specification_seconds)):
            costs.insert(costs.shape[1] - 1, heading, costs["seconds"] / yardstick)
        show(costs)
        sizes = pd.DataFrame([one.source_size, *one.sizes]).set_index("name") / 1e6
        sizes.loc["all tables of ours"] = sizes.iloc[1:].sum()
        sizes["of source"] = sizes.sum(axis=1) / sizes.iloc[0].sum()
        top = sizes.sort_values("of source", ascending=False).head(SHOWN + 2)
        show(top.reset_index(names="MB on disk"))
    if len(measured) > 1:
        show(
            [
                _growth(one, min(other.increment.activity.building_seconds for other in measured))
                for one in measured
            ]
        )


def _costs(one: Measurements) -> Iterator[tuple[str, float, str]]:
    yield "(a) one pass over the source", one.pass_seconds, "median, warm"
    yield "(b) the specification's SQL", one.specification_seconds, "median, warm; one as-of, one window"
    yield from _run_costs("(c) full history", one.history, f"{one.days} as-ofs, every window")
    yield from _run_costs("(d) daily increment", one.increment, f"the median of {len(one.increments)}")
    yield "    wall time, median", one.increment_wall_seconds, ""
    for name, read in one.reads.items():
        by = "by index" if read.by_index else "the whole table read"
        yield f"(e) {name}", read.seconds, f"median; rows: {read.n_rows:,}, {by}"


def _run_costs(name: str, run: RunCost, note: str) -> Iterator[tuple[str, float, str]]:
    activity = run.activity
    yield name, activity.building_seconds, note
    nodes = [(s, node) for node, s in activity.seconds_by_node.items() if not node.startswith("test.")]
    for seconds, node in sorted(nodes, reverse=True)[:SHOWN]:
        yield f"      {node.split('.')[-1]}", seconds, ""
    yield "    tests", activity.testing_seconds, ""
    yield "    with the tests", activity.seconds, ""
    yield "    dbt itself", run.wall_seconds - activity.seconds, ""
    memory = "not measured" if run.peak_bytes is None else f"{run.peak_bytes / 1e6:.0f} MB"
    files = f"{run.temporary_bytes / 1e6:.0f} MB"
    yield "    wall time", run.wall_seconds, f"memory {memory}, temporary files {files}"


def _growth(one: Measurements, cheapest: float) -> dict[str, float]:
    increment = one.increment.activity.building_seconds
    return {
        "days of history": one.days,
        "traces": one.n_traces,
        "(b)": one.specification_seconds,
        "full history": one.history.activity.building_seconds,
        "increment": increment,
        "x cheapest": increment / cheapest,
        "wall time": one.increment_wall_seconds,
    }
