"""The proof from beginning to end: simulate, print the tables, and judge them by what certainty.md states."""

from collections.abc import Callable, Iterable, Iterator, Sequence

import click

from benchmarks.coverage.cases import SIZES, cells, edge_agents, special_cases
from benchmarks.coverage.measure import Measured, measure
from benchmarks.coverage.watch import (
    CLUSTERED,
    DIFFERING,
    KINDS,
    PLAIN,
    PLANTED,
    WEEKLY,
    Seen,
    Unchanged,
    seen,
    unchanged,
)
from benchmarks.coverage.watch import SIZES as SIZES_WATCHED
from benchmarks.coverage.year import Accuracy, Outcome, a_year, accuracies, outcomes
from benchmarks.verdicts import Verdict, announce
from ciris_scoring.basics.terminal import aligned
from ciris_scoring.steps.intervals import COMPONENTS, FACTORS

CELL = (0.93, 0.98)
MEAN_OF_CELLS = (0.945, 0.97)
FACTOR = 0.92
SPECIAL = 0.87
PERFECT = "all perfect"
STATED_WIDTHS = {
    (7, 30): 0.61,
    (7, 100): 0.45,
    (7, 600): 0.38,
    (7, 2_000): 0.36,
    (30, 30): 0.53,
    (30, 100): 0.39,
    (30, 600): 0.34,
    (30, 2_000): 0.33,
}
"""Median widths by window and traces; the most is 10 % above."""
WIDTH_ALLOWANCE = 1.1
ECE, LEAST_TRACES_OF_ECE = 0.93, 600

LONG_RUN, ERROR = (0.92, 0.97), 0.08
CALM = (PLAIN, DIFFERING, WEEKLY, CLUSTERED)
"""Kinds of days on which so few agent-days may raise an alert."""
FALLING, EPISODE, EPISODE_MONTH = 0.005, 0.004, 0.006
FOUND = 0.75
"""Of a drop of 0.2, within 28 days."""

Progress = Callable[[str], None]


PARTS = ("intervals", "year", "alarms")


def run_coverage(rows: int, seed: int, progress: Progress, parts: Sequence[str] = PARTS) -> bool:
    """Measure and print on stdout.

    :param rows: agents per case of the intervals; for every 125 a fleet of 50 lives a year, and half of them, in whole
        fleets of 100, are watched for alerts.
    :param progress: is given the name of what was measured.
    :returns: whether every stated figure is met.
    """
    verdicts: list[Verdict] = []
    if "intervals" in parts:
        verdicts += _measure_intervals(rows, seed, progress)
    if "year" in parts:
        verdicts += _measure_year(max(rows // 125, 1), seed, progress)
    if "alarms" in parts:
        verdicts += _measure_alarms(max(rows // 2, 1), seed, progress)
    return announce(verdicts, only_missed=True)


def _measure_intervals(rows: int, seed: int, progress: Progress) -> list[Verdict]:
    verdicts: list[Verdict] = []
    for title, cases, judge in (
        ("plausible agents", cells(), judge_cells),
        ("special cases", special_cases(), judge_special),
        ("edge agents, 600 traces in 7 days", edge_agents(), judge_edges),
    ):
        results = []
        for case in cases:
            results.append(measure(case, rows, seed))
            progress(case.name)
        _show(
            (title, "rows", "score", "of days", "above", "below", *FACTORS, *WIDTHS), map(_coverage, results)
        )
        _show((title, *COMPONENTS), ((one.name, *map(_percent, one.component_coverage)) for one in results))
        verdicts += judge(results)
    return verdicts


WIDTHS = ("width", "median", "at best")


def _coverage(one: Measured) -> tuple[str, ...]:
    shares = (one.coverage, one.coverage_of_days, one.too_low, one.too_high, *one.factor_coverage)
    return (
        one.name,
        f"{one.rows:,}",
        *map(_percent, shares),
        f"{one.median_width:.3f}",
        f"{one.median_score:.3f}",
        _percent(one.ends_at_best),
    )


def _measure_year(fleets: int, seed: int, progress: Progress) -> list[Verdict]:
    years = []
    for number in range(fleets):
        years.append(a_year(seed, number))
        progress(f"year of fleet {number + 1} of {fleets}")
    accuracy, outcome = list(accuracies(years)), list(outcomes(years))
    _show(
        ("score, against the long run", "coverage", "width", "error", "jumps", "decided at 0.6"),
        (
            (one.name, _percent(one.coverage), *(f"{value:.3f}" for value in one[2:5]), _percent(one.decided))
            for one in accuracy
        ),
    )
    _show(
        (
            "permission at 0.6, decided by",
            "wrong grants",
            "wrong denials",
            "changes a year",
            "days to take away",
        ),
        (
            (
                *(one.policy, _percent(one.wrong_grants), _percent(one.wrong_denials)),
                *(f"{one.changes:.1f}", f"{one.days_to_take_away:.0f}"),
            )
            for one in outcome
        ),
    )
    return list(judge_year(accuracy, outcome))


def _measure_alarms(agents: int, seed: int, progress: Progress) -> list[Verdict]:
    calm = []
    for kind in KINDS:
        for n in SIZES_WATCHED:
            calm.append(unchanged(kind, n, agents, seed))
            progress(f"{kind} days, {n} traces")
    _show(
        (
            "days of unchanged agents",
            "traces",
            "agent-days",
            "falling, week",
            "falling",
            "episode",
            "30 days",
        ),
        (
            (one.kind, f"{one.n}", f"{one.agent_days:,}", *(f"{share:.2%}" for share in one[3:]))
            for one in calm
        ),
    )
    changed = []
    for planted in PLANTED:
        for days_differ in (False, True):
            changed.append(seen(planted, days_differ, agents // 2, seed))
        progress(planted.name)
    _show(
        (
            *("seen", "traces", "days", "agents", "in 7 days", "14", "28"),
            *("falling, week", "episode, 30 days", "median day"),
        ),
        (
            (
                *(one.name, f"{one.n}", "differ" if one.days_differ else "alike", f"{one.agents}"),
                *(*map(_percent, one[4:9]), f"{one.days:.0f}"),
            )
            for one in changed
        ),
    )
    return [*judge_calm(calm), *judge_seen(changed)]


def _percent(share: float) -> str:
    return f"{share:.1%}"


def _show(headings: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> None:
    click.echo("\n".join(aligned(headings, list(rows), set(headings[1:]))) + "\n")


# --- What is stated (certainty.md §3 to 4b) ------------------------------------------------------------------------


def judge_cells(measured: Sequence[Measured]) -> Iterator[Verdict]:
    """Plausible agents: coverage of score and factors, median widths."""
    for cell in measured:
        yield _between(f"coverage, {cell.name}", cell.coverage, *CELL)
    mean = sum(cell.coverage for cell in measured) / len(measured)
    yield _between("mean coverage of the cells", mean, *MEAN_OF_CELLS)
    for cell in measured:
        worst = min(cell.factor_coverage)
        name = FACTORS[cell.factor_coverage.index(worst)]
        yield _at_least(f"coverage of {name}, the least of the factors, {cell.name}", worst, FACTOR)
    for cell in measured:
        if cell.name.startswith(tuple(f"n = {n}," for n in SIZES if n >= LEAST_TRACES_OF_ECE)):
            covered = cell.component_coverage[COMPONENTS.index("ece")]
            yield _at_least(f"coverage of ece, {cell.name}", covered, ECE)
    for (days, n), stated in STATED_WIDTHS.items():
        for cell in measured:
            if cell.name.startswith(f"n = {n}, {days} days,"):
                yield _at_most(f"median width, {cell.name}", cell.median_width, stated * WIDTH_ALLOWANCE)


def judge_special(cases: Sequence[Measured]) -> Iterator[Verdict]:
    """Special cases: coverage of the score."""
    for case in cases:
        yield _at_least(f"coverage, {case.name}", case.coverage, SPECIAL)


def judge_edges(agents: Sequence[Measured]) -> Iterator[Verdict]:
    """Edge agents: the perfect one's interval ends at the best score there is.

    Its own score lies less than 0.001 below that: with windows of different size, pseudo-counts alone give it a trace
    of drift.
    """
    for agent in agents:
        if agent.name == PERFECT:
            yield _at_least("the perfect agent's interval ends at the best score", agent.ends_at_best, 1.0)


def judge_year(accuracy: Sequence[Accuracy], outcome: Sequence[Outcome]) -> Iterator[Verdict]:
    """The steady score against the long run; it grants wrongly less often than any other way to decide."""
    for one in accuracy:
        if one.name == "steady":
            yield _between("coverage of the long run, steady score", one.coverage, *LONG_RUN)
            yield _at_most("error of the steady score", one.error, ERROR)
    *others, steady = outcome
    least = min(one.wrong_grants for one in others)
    yield Verdict(
        "wrong grants by the steady interval",
        f"fewer than {least:.1%}",
        f"{steady.wrong_grants:.1%}",
        steady.wrong_grants < least,
    )


def judge_calm(measured: Sequence[Unchanged]) -> Iterator[Verdict]:
    """Alerts on agents that do not change, on days on which nothing happens."""
    for one in measured:
        if one.kind in CALM:
            on = f"on {one.kind} days, {one.n} traces"
            yield _at_most(f"falling {on}", one.falling, FALLING, "{:.2%}")
            yield _at_most(f"episode {on}", one.episode, EPISODE, "{:.2%}")
            yield _at_most(f"episode of 30 days {on}", one.episode_month, EPISODE_MONTH, "{:.2%}")


def judge_seen(measured: Sequence[Seen]) -> Iterator[Verdict]:
    """A drop of 0.2 is found."""
    for one in measured:
        if one.name == PLANTED[0].name:
            on = "days that differ" if one.days_differ else "days alike"
            yield _at_least(f"found within 28 days, {one.name}, {on}", one.in_28_days, FOUND)


def _at_least(what: str, share: float, least: float) -> Verdict:
    return Verdict(what, f"at least {least:.0%}", f"{share:.1%}", share >= least)


def _at_most(what: str, value: float, most: float, form: str = "{:.3f}") -> Verdict:
    return Verdict(what, f"at most {form.format(most)}", form.format(value), value <= most)


def _between(what: str, share: float, least: float, most: float) -> Verdict:
    return Verdict(what, f"{least:.1%} to {most:.1%}", f"{share:.1%}", least <= share <= most)
