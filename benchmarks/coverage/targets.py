"""What the intervals must do (certainty.md §3 and 4), and whether they did."""

from collections.abc import Iterator, Sequence

from benchmarks.coverage.cases import SIZES
from benchmarks.coverage.episode import FalseAlarms
from benchmarks.coverage.falling import ANY_KIND, Dropped, Unchanged
from benchmarks.coverage.measure import Measured
from benchmarks.verdicts import Verdict
from ciris_scoring.statistics.intervals import COMPONENTS, FACTORS

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

STEADY_COVERAGE = (0.92, 0.97)
STEADY_ERROR = 0.08

UNCHANGED_RAISED = 0.005
FOUND = 0.75
STATED_DROPS = ("0.2 at 600 traces", "0.4 at 100 traces")
"""Drops of which so many are to be found within 7 days."""

SECONDS_OF_FULL_HISTORY = 600.0
ROWS_OF_FULL_HISTORY = 10_000 * 90 * 2


def judge_cells(cells: Sequence[Measured]) -> Iterator[Verdict]:
    """Plausible agents: coverage of score and factors, median widths."""
    for cell in cells:
        yield _between(f"coverage, {cell.name}", cell.coverage, *CELL)
    yield _between("mean coverage of the cells", sum(c.coverage for c in cells) / len(cells), *MEAN_OF_CELLS)
    for cell in cells:
        worst = min(cell.factor_coverage)
        name = FACTORS[cell.factor_coverage.index(worst)]
        yield _at_least(f"coverage of {name}, the least of the factors, {cell.name}", worst, FACTOR)
    for cell in cells:
        if cell.name.startswith(tuple(f"n = {n}," for n in SIZES if n >= LEAST_TRACES_OF_ECE)):
            covered = cell.component_coverage[COMPONENTS.index("ece")]
            yield _at_least(f"coverage of ece, {cell.name}", covered, ECE)
    for (days, n), stated in STATED_WIDTHS.items():
        if n not in SIZES:
            continue
        for cell in cells:
            if cell.name.startswith(f"n = {n}, {days} days,"):
                most = stated * WIDTH_ALLOWANCE
                yield Verdict(
                    f"median width, {cell.name}",
                    f"at most {most:.3f}",
                    f"{cell.median_width:.3f}",
                    cell.median_width <= most,
                )


def judge_steady(cells: Sequence[Measured]) -> Iterator[Verdict]:
    """certainty.md §4b, the steady score of plausible agents: coverage of the long run, and error, at 600 traces."""
    for cell in cells:
        if cell.name.startswith("n = 600, 7 days,"):
            yield _between(
                f"coverage of the steady score, {cell.name}", cell.steady.coverage, *STEADY_COVERAGE
            )
            yield Verdict(
                f"error of the steady score, {cell.name}",
                f"at most {STEADY_ERROR:.3f}",
                f"{cell.steady.error:.3f}",
                cell.steady.error <= STEADY_ERROR,
            )


def judge_episode(cells: Sequence[FalseAlarms]) -> Iterator[Verdict]:
    """The alert episode of agents whose events come and go at a steady rate."""
    for cell in cells:
        yield Verdict(
            f"days that raise episode, {cell.name}",
            f"at most {UNCHANGED_RAISED:.1%}",
            f"{cell.raised:.2%}",
            cell.raised <= UNCHANGED_RAISED,
        )


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
            yield Verdict(
                "the perfect agent's interval ends at the best score",
                "always",
                f"{agent.ends_at_best:.1%}",
                agent.ends_at_best == 1.0,
            )


def judge_falling(unchanged: Sequence[Unchanged], dropped: Sequence[Dropped]) -> Iterator[Verdict]:
    """Alerts on unchanged agents, and on those with a planted drop, all kinds of it together."""
    for one in unchanged:
        yield Verdict(
            f"falling, {one.name}",
            f"at most {UNCHANGED_RAISED:.1%} of days",
            f"{one.raised:.2%}",
            one.raised <= UNCHANGED_RAISED,
        )
    for drop in dropped:
        if drop.kind == ANY_KIND and drop.name.startswith(STATED_DROPS):
            yield _at_least(f"found within 7 days, {drop.name}", drop.within_a_window, FOUND)


def judge_speed(rows_per_second: float) -> Verdict:
    """Time that 10,000 agents, 90 as-ofs and 2 windows would take."""
    seconds = ROWS_OF_FULL_HISTORY / rows_per_second
    return Verdict(
        "10,000 agents, 90 as-ofs, 2 windows",
        f"at most {SECONDS_OF_FULL_HISTORY:.0f} s",
        f"{seconds:.0f} s",
        seconds <= SECONDS_OF_FULL_HISTORY,
    )


def _at_least(what: str, share: float, least: float) -> Verdict:
    return Verdict(what, f"at least {least:.0%}", f"{share:.1%}", share >= least)


def _between(what: str, share: float, least: float, most: float) -> Verdict:
    return Verdict(what, f"{least:.1%} to {most:.1%}", f"{share:.1%}", least <= share <= most)
