"""The measurements as tables for people."""

from collections.abc import Iterator, Sequence

from benchmarks.measure import Measurements, RunCost
from benchmarks.reads import READS, Size
from ciris_scoring.basics.terminal import aligned

SHOWN_SHARE = 0.02
"""Models and tables below this share of all are shown as one."""

CAPTION = """\
The time of (c) and (d) is the time in which at least one query of theirs ran in the database, tests' left out and
parallel ones counted once; of the Python model, int_window_statistics, its whole transaction. Models run side by side,
so that theirs add up to more; so do tests, and "with the tests" is less than the sum."""

COST_HEADINGS = ("what", "time", "x (a)", "x (b)", "note")
SIZE_HEADINGS = ("on disk", "table", "indexes", "of source", "note")
MEMORY_HEADINGS = ("memory and temporary files", "peak memory", "temporary files")
GROWTH_HEADINGS = ("days of history", "traces", "(b)", "full history", "increment", "x cheapest", "wall time")

_Row = tuple[str, ...]
_CostRow = tuple[str, float, str]
"""What, seconds, note."""


def tables(measured: Sequence[Measurements]) -> str:
    """All tables of a benchmark: those of each length of history, and one that compares the lengths."""
    parts = [part for one in measured for part in _tables_of_one(one)]
    if len(measured) > 1:
        parts.append(_growth_table(measured))
    return "\n\n".join(parts)


# --- One length of history -----------------------------------------------------------------------------------------


def _tables_of_one(one: Measurements) -> Iterator[str]:
    yield (
        f"Benchmark of {one.fleet.agents:,} agents, {one.days} days and {one.n_traces:,} traces of "
        f"{bytes_text(one.trace_bytes)} (seed {one.fleet.seed})\non {one.server}"
    )
    rows = [_cost(one, *row) for row in _cost_rows(one)]
    yield "\n".join([*aligned(COST_HEADINGS, rows, COST_HEADINGS[1:4]), "", CAPTION])
    yield "\n".join(aligned(SIZE_HEADINGS, _size_rows(one), SIZE_HEADINGS[1:4]))
    yield "\n".join(aligned(MEMORY_HEADINGS, _memory_rows(one), MEMORY_HEADINGS[1:]))


def _cost(one: Measurements, what: str, seconds: float, note: str) -> _Row:
    ratios = (seconds / one.pass_seconds, seconds / one.specification_seconds)
    return (what, seconds_text(seconds), *map(ratio_text, ratios), note)


def _cost_rows(one: Measurements) -> Iterator[_CostRow]:
    yield "(a) one pass over the source", one.pass_seconds, "median, warm"
    yield "(b) the specification's SQL", one.specification_seconds, "median, warm; one as-of, one window"
    yield from _run_rows("(c) full history", one.history, f"{one.days} as-ofs, every window")
    n = len(one.increments)
    yield from _run_rows("(d) daily increment", one.increment, f"the median of {n}" if n > 1 else "one")
    if n > 1:
        yield "    wall time, median", one.increment_wall_seconds, ""
    for name in READS:
        read = one.reads[name]
        found = f"{read.n_rows:,} rows" if read.n_rows != 1 else "1 row"
        by = "by index" if read.by_index else "the whole table read"
        yield f"(e) {name}", read.seconds, f"median; {found}, {by}"


def _run_rows(name: str, run: RunCost, note: str) -> Iterator[_CostRow]:
    yield name, run.scoring_seconds, note
    by_node = run.activity.seconds_by_node
    seconds = {node.split(".")[-1]: s for node, s in by_node.items() if not node.startswith("test.")}
    shown = {node: s for node, s in seconds.items() if s >= SHOWN_SHARE * run.scoring_seconds}
    for node in sorted(shown, key=shown.__getitem__, reverse=True):
        yield f"      {node}", shown[node], ""
    if len(shown) < len(seconds):
        rest = sum(seconds.values()) - sum(shown.values())
        yield f"      {len(seconds) - len(shown)} others", rest, "added up"
    yield "    tests", run.activity.testing_seconds, ""
    yield "    with the tests", run.activity.seconds, ""
    yield "    dbt itself", run.dbt_seconds, "Python's and dbt's start, parsing, between queries"
    yield "    wall time", run.wall_seconds, ""


def _size_rows(one: Measurements) -> Iterator[_Row]:
    whole = one.source_size.table_bytes + one.source_size.index_bytes

    def row(name: str, sizes: Sequence[Size], note: str = "") -> _Row:
        table, index = sum(s.table_bytes for s in sizes), sum(s.index_bytes for s in sizes)
        return (name, bytes_text(table), bytes_text(index), f"{(table + index) / whole:.1%}", note)

    yield row("source, traces", [one.source_size])
    yield row("all tables of ours", one.sizes)
    total = sum(s.table_bytes + s.index_bytes for s in one.sizes)
    shown = [s for s in one.sizes if s.table_bytes + s.index_bytes >= SHOWN_SHARE * total]
    for size in shown:
        yield row(f"  {size.name}", [size])
    others = [size for size in one.sizes if size not in shown]
    yield row(f"  {len(others)} others", others)


def _memory_rows(one: Measurements) -> Iterator[_Row]:
    yield "full history", bytes_text(one.history.peak_bytes), bytes_text(one.history.temporary_bytes)
    yield "daily increment", bytes_text(one.increment.peak_bytes), bytes_text(one.increment.temporary_bytes)


def _growth_table(measured: Sequence[Measurements]) -> str:
    cheapest = min(one.increment.scoring_seconds for one in measured)
    rows = [
        (
            str(one.days),
            f"{one.n_traces:,}",
            seconds_text(one.specification_seconds),
            seconds_text(one.history.scoring_seconds),
            seconds_text(one.increment.scoring_seconds),
            ratio_text(one.increment.scoring_seconds / cheapest),
            seconds_text(one.increment_wall_seconds),
        )
        for one in measured
    ]
    return "\n".join(aligned(GROWTH_HEADINGS, rows, GROWTH_HEADINGS))


# --- Numbers -------------------------------------------------------------------------------------------------------


def seconds_text(seconds: float) -> str:
    """A time, short ones in milliseconds."""
    if seconds < 0.01:
        return f"{seconds * 1000:.2f} ms"
    return f"{seconds:.3f} s" if seconds < 10 else f"{seconds:.1f} s"


def ratio_text(ratio: float) -> str:
    """A ratio, to three digits."""
    return f"{ratio:,.0f}" if ratio >= 100 else f"{ratio:.3g}"


def bytes_text(n: float | None) -> str:
    """A size, to three digits."""
    if n is None:
        return "not measured"
    for unit in ("B", "KB", "MB"):
        if n < 1000:
            return f"{n:.3g} {unit}"
        n /= 1000
    return f"{n:.2f} GB"
