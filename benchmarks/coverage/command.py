"""The proof from beginning to end: simulate every case, print the tables and the verdicts."""

import time
from collections.abc import Callable, Iterable, Sequence

import click
import numpy as np

from benchmarks.coverage.behaviour import DayEffects, draw, draw_events
from benchmarks.coverage.cases import (
    WINDOWS,
    Case,
    cells,
    edge_agents,
    simulated,
    special_cases,
)
from benchmarks.coverage.episode import STEADILY, FalseAlarms, false_alarms
from benchmarks.coverage.falling import CELLS, DROPS, KINDS, Dropped, Unchanged, dropped, together, unchanged
from benchmarks.coverage.measure import PARAMETERS, Measured, measure
from benchmarks.coverage.targets import (
    judge_cells,
    judge_edges,
    judge_episode,
    judge_falling,
    judge_special,
    judge_speed,
    judge_steady,
)
from benchmarks.verdicts import Verdict, announce
from ciris_scoring.basics.terminal import aligned
from ciris_scoring.statistics.design_effects import fleet_values
from ciris_scoring.statistics.inputs import Rows
from ciris_scoring.statistics.intervals import COMPONENTS, FACTORS, compute_intervals, sum_fleet

COVERAGE_HEADINGS = (
    "",
    "rows",
    "score",
    "of days",
    "above",
    "below",
    *FACTORS,
    "width",
    "median",
    "at best",
)
UNCHANGED_HEADINGS = ("falling: unchanged agents", "agent-days", "alerts", "agents in 28 days")
DROPPED_HEADINGS = ("falling: drop of the true score", "what got worse", "agents", "in 7 days", "in 28 days")

CAPTION = """\
Shares of intervals that hold the truth: of the score (of days: the truth of the days as they were drawn; above and
below: the truth lies beyond the upper or the lower limit) and of each factor. Then the median width of the score's
interval, the median score, and the share of intervals that end at norm(1), the best score there is. Each second table
has the published limits of the components."""

AS_OFS_TIMED = 90
AGENTS_TIMED = 100

STEADY_HEADINGS = (
    *("steady coverage", "width", "steady", "error", "of steady", "right category", "by steady"),
    *("low >= 0.6", "steady low", "decided at 0.6", "by steady "),
)
EPISODE_HEADINGS = ("episode, events at a steady rate", "longer", "more often", "judged worse", "raised")

Progress = Callable[[str], None]


def run_coverage(rows: int, seed: int, progress: Progress) -> bool:
    """Measure everything and print it on stdout.

    :param rows: rows per case, rounded up to whole fleets; a quarter of them watched for the alert ``falling``.
    :param progress: is given the name of what was measured.
    :returns: whether every stated figure is met.
    """
    verdicts: list[Verdict] = []

    def measured(title: str, cases: Iterable[Case]) -> list[Measured]:
        results = []
        for case in cases:
            results.append(measure(case, rows, seed))
            progress(case.name)
        click.echo(coverage_table(title, results) + "\n")
        click.echo(component_table(title, results) + "\n")
        return results

    plausible = measured("plausible agents", cells())
    verdicts += judge_cells(plausible)
    click.echo(steady_table("plausible agents", plausible) + "\n")
    verdicts += judge_steady(plausible)
    verdicts += judge_special(measured("special cases", special_cases()))
    verdicts += judge_edges(measured("edge agents, 600 traces in 7 days", edge_agents()))
    click.echo(CAPTION + "\n")

    watched = max(rows // 4, 1)
    calm = [unchanged(cell, watched, seed) for cell in CELLS]
    click.echo(
        "\n".join(aligned(UNCHANGED_HEADINGS, _unchanged_rows(calm), set(UNCHANGED_HEADINGS[1:]))) + "\n"
    )
    worse = []
    for drop in DROPS:
        of_drop = [dropped(drop, kind, watched, seed) for kind in KINDS]
        worse += [*of_drop, together(of_drop)]
    click.echo("\n".join(aligned(DROPPED_HEADINGS, _dropped_rows(worse), set(DROPPED_HEADINGS[2:]))) + "\n")
    progress("falling")
    verdicts += judge_falling(calm, worse)

    come_and_go = [false_alarms(steadily, rows, seed) for steadily in STEADILY]
    click.echo(episode_table(come_and_go) + "\n")
    verdicts += judge_episode(come_and_go)

    rows_per_second = speed(seed)
    click.echo(f"{rows_per_second:,.0f} rows a second, both passes, {AS_OFS_TIMED} as-ofs and both windows")
    verdicts.append(judge_speed(rows_per_second))

    return announce(verdicts, only_missed=True)


def coverage_table(title: str, results: Sequence[Measured]) -> str:
    """Coverage and widths of some cases."""
    rows = [
        (
            one.name,
            f"{one.rows:,}",
            *(
                f"{share:.1%}"
                for share in (
                    one.coverage,
                    one.coverage_of_days,
                    one.too_low,
                    one.too_high,
                    *one.factor_coverage,
                )
            ),
            f"{one.median_width:.3f}",
            f"{one.median_score:.3f}",
            f"{one.ends_at_best:.1%}",
        )
        for one in results
    ]
    return "\n".join(aligned((title, *COVERAGE_HEADINGS[1:]), rows, set(COVERAGE_HEADINGS[1:])))


def component_table(title: str, results: Sequence[Measured]) -> str:
    """Coverage of the components' limits in the same cases."""
    rows = [(one.name, *(f"{share:.1%}" for share in one.component_coverage)) for one in results]
    return "\n".join(aligned((title, *COMPONENTS), rows, set(COMPONENTS)))


def steady_table(title: str, results: Sequence[Measured]) -> str:
    """The weekly and the steady score, side by side."""
    rows = [
        (
            one.name,
            f"{one.steady.coverage:.1%}",
            *(f"{which.median_width:.3f}" for which in (one.weekly, one.steady)),
            *(f"{which.error:.3f}" for which in (one.weekly, one.steady)),
            *(f"{which.right_category:.1%}" for which in (one.weekly, one.steady)),
            *(f"{which.trusted:.1%}" for which in (one.weekly, one.steady)),
            *(f"{which.decided:.1%}" for which in (one.weekly, one.steady)),
        )
        for one in results
    ]
    return "\n".join(aligned((title, *STEADY_HEADINGS), rows, set(STEADY_HEADINGS)))


def episode_table(results: Sequence[FalseAlarms]) -> str:
    """How often the alert episode is raised of agents whose events come and go at a steady rate."""
    rows = [(one.name, *(f"{share:.2%}" for share in one[1:])) for one in results]
    return "\n".join(aligned(EPISODE_HEADINGS, rows, set(EPISODE_HEADINGS[1:])))


def speed(seed: int) -> float:
    """Rows a second on one core: both passes over agents with 90 as-ofs and two windows."""
    rng = np.random.default_rng(seed)
    longest = WINDOWS[30]
    behaviour, facts, _ = simulated(
        Case("timed", 300, longest), AGENTS_TIMED, rng, extra_days=AS_OFS_TIMED - 1
    )
    sums = draw(behaviour, facts, DayEffects(np.zeros(AGENTS_TIMED)), rng)
    days = facts.n_traces.shape[1]
    as_ofs = list(range(days - AS_OFS_TIMED + 1, days + 1))
    given = [draw_events(0.2, 0.4, facts, as_ofs, window.window_days, rng) for window in WINDOWS.values()]
    n = AGENTS_TIMED * AS_OFS_TIMED
    rows = Rows._make(
        [
            np.tile(np.repeat(np.arange(AGENTS_TIMED), AS_OFS_TIMED), 2),
            np.tile(np.array(as_ofs, dtype=np.int64), 2 * AGENTS_TIMED),
            np.repeat(np.arange(2), n),
            *(np.concatenate([one[i].ravel() for one in given]) for i in (0, 1, 2, 3, 4, 0, 1, 3, 4)),
        ]
    )
    windows = tuple(WINDOWS.values())
    started = time.perf_counter()
    compute_intervals(sums, rows, windows, PARAMETERS, fleet_values(sum_fleet(sums, rows, windows)))
    return 2 * n / (time.perf_counter() - started)


def _unchanged_rows(results: Sequence[Unchanged]) -> list[tuple[str, ...]]:
    return [
        (
            one.name,
            f"{one.agent_days:,}",
            f"{one.raised:.2%}",
            f"{one.agents_raised:.1%}",
        )
        for one in results
    ]


def _dropped_rows(results: Sequence[Dropped]) -> list[tuple[str, ...]]:
    return [
        (
            one.name,
            one.kind,
            f"{one.agents:,}",
            f"{one.within_a_window:.1%}",
            f"{one.ever:.1%}",
        )
        for one in results
    ]
