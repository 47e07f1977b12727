"""Simulate agents, print tables, and compare the results with stated figures (docs/measuring.md)."""

from collections.abc import Callable, Iterator, Sequence
from math import inf
from typing import Any, NamedTuple

from benchmarks.coverage import watch
from benchmarks.coverage.cases import cells
from benchmarks.coverage.measure import measure
from benchmarks.coverage.year import a_year, accuracy, calibration, outcomes, together
from benchmarks.table import show
from benchmarks.verdicts import Verdict, compared
from ciris_scoring.database.terminal import say

Row = dict[str, Any]
"""A row of a table: values by heading."""


class Stated(NamedTuple):
    """Stated minimum and maximum of a column of a table."""

    column: str
    least: float = -inf
    most: float = inf
    of: Callable[[Row], bool] = lambda row: True
    """Condition that tells whether the minimum and maximum apply to a row."""


def named(column: str, *names: str) -> Callable[[Row], bool]:
    """Return a condition that holds if the value of a row in ``column`` is one of ``names``."""
    return lambda row: row[column] in names


STEADY = "steady, 7 days", "steady, 30 days"
THRESHOLDS = 0.6, 0.3
"""Thresholds at which probabilities are compared with the long run."""
BY_VERDICT = named("decided by", "steady, 7 days, verdict")
CALM = named("unchanged, days", *watch.KINDS[:2])

PLAUSIBLE_AGENTS = (Stated("score", 0.92, 0.98),)
YEAR = (
    Stated("coverage", 0.92, 0.98, named("score", *STEADY)),
    Stated("error", most=0.045, of=named("score", STEADY[0])),
    Stated("error", most=0.06, of=named("score", STEADY[1])),
)
SHARED_YEAR = (
    Stated("coverage", 0.92, 0.98, named("score", *STEADY)),
    Stated("error", most=0.052, of=named("score", STEADY[0])),
    Stated("error", most=0.068, of=named("score", STEADY[1])),
)
DECISIONS = (
    Stated("wrong grants", most=0.025, of=BY_VERDICT),
    Stated("wrong denials", most=0.1, of=BY_VERDICT),
)
UNCHANGED = (
    Stated("falling", most=0.005, of=CALM),
    Stated("episode", most=0.0045, of=CALM),
)
CHANGED = (Stated("in 28 days", 0.75, of=named("seen", watch.PLANTED[0].name)),)


def judged(rows: Sequence[Row], figures: Sequence[Stated]) -> Iterator[Verdict]:
    """Print a table, and compare its rows with the stated figures."""
    show(rows)
    for row in rows:
        traces = [f"{row['traces']} traces"] if "traces" in row else []
        name = ", ".join([*(text for text in row.values() if isinstance(text, str)), *traces])
        for column, least, most, of in figures:
            if of(row):
                yield compared(f"{column}, {name}", row[column], least, most)


def measure_intervals(rows: int, seed: int) -> list[Verdict]:
    """Measure coverage and widths of intervals, with ``rows`` agents per case."""
    say(f"Measuring {len(cells())} cases.")
    return list(judged([measure(case, rows, seed) for case in cells()], PLAUSIBLE_AGENTS))


def measure_year(rows: int, seed: int) -> list[Verdict]:
    """Measure the scores of a year without, and of a year with shared outages and upgrades. Each has a fleet of 50
    agents for every 125 rows."""
    verdicts: list[Verdict] = []
    for shared in (False, True):
        say("Measuring the year with shared outages and upgrades." if shared else "Measuring the year.")
        standings = together([a_year(seed, number, shared) for number in range(max(rows // 125, 1))])
        accuracies = [accuracy(name, of) for name, of in standings.items()]
        decided = [outcome for name, of in standings.items() for outcome in outcomes(name, of)]
        verdicts += judged(accuracies, SHARED_YEAR if shared else YEAR)
        verdicts += judged([calibration(name, standings[name], t) for t in THRESHOLDS for name in STEADY], ())
        verdicts += judged(decided, DECISIONS)
    return verdicts


def measure_alarms(rows: int, seed: int) -> list[Verdict]:
    """Measure alerts on ``rows / 2`` unchanged and ``rows / 4`` changed agents, in whole fleets of 100."""
    say("Watching agents that do not change.")
    agents = max(rows // 2, 1)
    calm = [watch.unchanged(kind, n, agents, seed) for kind in watch.KINDS for n in watch.SIZES]
    verdicts = list(judged(calm, UNCHANGED))
    say("Watching agents that change.")
    found = [watch.seen(planted, differ, agents // 2, seed) for planted in watch.PLANTED for differ in (False, True)]
    return [*verdicts, *judged(found, CHANGED)]


PARTS: dict[str, Callable[[int, int], list[Verdict]]] = {
    "intervals": measure_intervals,
    "year": measure_year,
    "alarms": measure_alarms,
}
"""Functions of rows and seed. Each measures one part of the benchmark, prints tables and returns comparisons with the
stated figures."""
