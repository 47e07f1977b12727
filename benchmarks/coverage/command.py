"""Simulate, print the tables, and compare the results with the figures that certainty.md states."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from benchmarks.coverage import watch
from benchmarks.coverage.cases import PERFECT, cells, special_cases
from benchmarks.coverage.measure import measure
from benchmarks.coverage.year import a_year, accuracy, outcomes, reviewed, together
from benchmarks.table import show
from benchmarks.verdicts import Verdict, at_least, at_most, between
from ciris_scoring.basics.terminal import say
from ciris_scoring.statistics.intervals import FACTORS

CELL = (0.93, 0.98)
FACTOR = 0.92
SPECIAL = 0.87
ECE, LEAST_TRACES_OF_ECE = 0.93, 600

LONG_RUN = (0.92, 0.975)
MOST_ERROR = {"steady, 7 days": 0.045, "steady, 30 days": 0.06}
RULE = "steady, 7 days, verdict"
WRONG_GRANTS, WRONG_DENIALS = 0.025, 0.085
REVIEWED_FOR_LOST = 0.05
CALM = watch.KINDS[:4]
"""Kinds of days with a stated maximum share of agent-days with an alert."""
MOST_RAISED = {"falling": 0.005, "falling, 30 days": 0.005, "episode": 0.0045}
FOUND = 0.75
"""Minimum share of drops by 0.2 that are found within 28 days."""

Row = dict[str, Any]
"""A row of a table, by heading."""


def measure_intervals(rows: int, seed: int) -> list[Verdict]:
    """Measure coverage and widths of intervals, with ``rows`` agents per case."""
    verdicts: list[Verdict] = []
    for cases, judge in ((cells(), judge_cells), (special_cases(), judge_special)):
        say(f"Measuring {len(cases)} cases.")
        measured = [measure(case, rows, seed) for case in cases]
        show(measured)
        verdicts += judge(measured)
    return verdicts


def measure_year(rows: int, seed: int) -> list[Verdict]:
    """Measure a year of a fleet of 50 agents for every 125 rows."""
    say("Measuring the year.")
    standings = together([a_year(seed, number) for number in range(max(rows // 125, 1))])
    accuracies = [accuracy(name, of) for name, of in standings.items()]
    decided = [outcome for name, of in standings.items() for outcome in outcomes(name, of)]
    reviews = [reviewed(name, of) for name, of in standings.items() if of.lost is not None]
    show(accuracies)
    show(decided)
    show(reviews)
    return [*judge_year(accuracies, decided), *judge_reviews(reviews)]


def measure_alarms(rows: int, seed: int) -> list[Verdict]:
    """Measure alerts on ``rows / 2`` unchanged agents, in whole fleets of 100, and on ``rows / 4`` changed ones."""
    say("Watching agents that do not change.")
    agents = max(rows // 2, 1)
    calm = [watch.unchanged(kind, n, agents, seed) for kind in watch.KINDS for n in watch.SIZES]
    show(calm)
    say("Watching agents that change.")
    found = [
        watch.seen(planted, differ, agents // 2, seed)
        for planted in watch.PLANTED
        for differ in (False, True)
    ]
    show(found)
    return [*judge_calm(calm), *judge_seen(found)]


PARTS: dict[str, Callable[[int, int], list[Verdict]]] = {
    "intervals": measure_intervals,
    "year": measure_year,
    "alarms": measure_alarms,
}
"""Functions that measure and print, given rows and seed."""


# --- Stated figures (certainty.md §3 to 4b) --------------------------------------------------------------------------


def judge_cells(measured: Sequence[Row]) -> Iterator[Verdict]:
    """Judge plausible agents: coverage of the score, its factors and ``ece``."""
    for cell in measured:
        name = cell["case"]
        yield between(f"coverage, {name}", cell["score"], *CELL)
        worst = min(FACTORS, key=cell.__getitem__)
        yield at_least(f"coverage of {worst}, the least of the factors, {name}", cell[worst], FACTOR)
        if cell["traces"] >= LEAST_TRACES_OF_ECE:
            yield at_least(f"coverage of ece, {name}", cell["ece"], ECE)


def judge_special(measured: Sequence[Row]) -> Iterator[Verdict]:
    """Judge special cases: coverage of the score. The perfect agent's interval must end at the best possible score."""
    for case in measured:
        yield at_least(f"coverage, {case['case']}", case["score"], SPECIAL)
        if case["case"] == PERFECT:
            yield at_least("the perfect agent's interval ends at the best score", case["at best"], 1.0)


def judge_year(accuracies: Sequence[Row], decided: Sequence[Row]) -> Iterator[Verdict]:
    """Judge the steady score against the long-run score, and the decisions by its verdict."""
    for score in accuracies:
        if score["score"] in MOST_ERROR:
            yield between(f"coverage of the long run, {score['score']}", score["coverage"], *LONG_RUN)
            yield at_most(f"error, {score['score']}", score["error"], MOST_ERROR[score["score"]])
    for policy in decided:
        if policy["decided by"] == RULE:
            yield at_most("wrong grants by the verdict", policy["wrong grants"], WRONG_GRANTS)
            yield at_most("wrong denials by the verdict", policy["wrong denials"], WRONG_DENIALS)


def judge_reviews(reviews: Sequence[Row]) -> Iterator[Verdict]:
    """Judge how often traces that were lost on the way lead to a review of an agent that would be granted."""
    for row in reviews:
        yield at_most(
            f"reviewed for lost numbers alone, {row['would be granted']}",
            row["for lost numbers alone"],
            REVIEWED_FOR_LOST,
        )


def judge_calm(measured: Sequence[Row]) -> Iterator[Verdict]:
    """Judge alerts on agents that do not change, on unremarkable days."""
    for row in measured:
        kind, n = row["unchanged, days"], row["traces"]
        if kind in CALM:
            for alert, most in MOST_RAISED.items():
                yield at_most(f"{alert} on {kind} days, {n} traces", row[alert], most)


def judge_seen(measured: Sequence[Row]) -> Iterator[Verdict]:
    """Judge whether a drop of 0.2 is found."""
    for row in measured:
        if row["seen"] == watch.PLANTED[0].name:
            what = f"found within 28 days, {row['seen']}, days {row['days']}"
            yield at_least(what, row["in 28 days"], FOUND)
