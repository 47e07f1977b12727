"""The speeds that the project has set itself, each for the size of fleet that it is stated for."""

from collections.abc import Iterator

from benchmarks.measure import Measurements
from benchmarks.reads import HISTORY, LATEST
from benchmarks.verdicts import Verdict, within

GROWTH_LENGTHS = (30, 60, 120)
"""Days of history at which an increment must cost the same."""

TOLERANCE = 0.1
"""How far the number of traces may be from a stated size, as a share of it."""


def judge(measured: list[Measurements]) -> list[Verdict]:
    """Judge every target that is stated for what was measured."""
    verdicts = [verdict for one in measured for verdict in _of_size(one)]
    return [*verdicts, *_growth(measured)]


def _of_size(one: Measurements) -> Iterator[Verdict]:
    if _is_million(one):
        full, increment = (
            run.scoring_seconds / one.specification_seconds for run in (one.history, one.increment)
        )
        yield within("full history, database time", full, 16, "x (b)")
        yield within("daily increment, database time", increment, 2, "x (b)")
        yield within("daily increment, wall time", one.increment_wall_seconds, 8, "s")
    elif _has_size(one, 10_000, 90, 10_000_000):
        peak = one.history.peak_bytes
        yield within("full history, wall time", one.history.wall_seconds / 60, 30, "min")
        yield within("full history, memory", None if peak is None else peak / 2**30, 1, "GiB")
        yield within("daily increment, wall time", one.increment_wall_seconds, 60, "s")
    else:
        return
    for name, milliseconds in ((LATEST, 2), (HISTORY, 5)):
        read = one.reads[name]
        flaw = "" if read.by_index else "without an index"
        yield within(name, read.seconds * 1000, milliseconds, "ms", flaw)


def _growth(measured: list[Measurements]) -> Iterator[Verdict]:
    lengths = tuple(one.days for one in measured)
    if lengths == GROWTH_LENGTHS and any(map(_is_million, measured)):
        seconds = [one.increment.scoring_seconds for one in measured]
        what = f"dearest increment over {', '.join(map(str, lengths))} days of history"
        yield within(what, max(seconds) / min(seconds), 1.2, "x the cheapest")


def _is_million(one: Measurements) -> bool:
    return _has_size(one, 200, 60, 1_000_000)


def _has_size(one: Measurements, agents: int, days: int, n_traces: int) -> bool:
    of_size = (one.fleet.agents, one.days) == (agents, days)
    return of_size and abs(one.n_traces / n_traces - 1) <= TOLERANCE
