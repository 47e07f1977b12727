"""The speeds that the project has set itself, each for the size of fleet that it is stated for."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from benchmarks.measure import Measurements
from benchmarks.reads import HISTORY, LATEST
from benchmarks.verdicts import Limit, Verdict

GROWTH_LENGTHS = (30, 60, 120)
"""Days of history at which an increment must cost the same."""

TOLERANCE = 0.1
"""How far the number of traces may be from a stated size, as a share of it."""


@dataclass(frozen=True)
class Target:
    """A limit on something measured."""

    what: str
    limit: Limit
    of: Callable[[Measurements], float | None]
    flaw_of: Callable[[Measurements], str] = lambda measured: ""


@dataclass(frozen=True)
class StatedSize:
    """A size of fleet for which targets are stated."""

    agents: int
    days: int
    n_traces: int
    targets: tuple[Target, ...]

    def is_size_of(self, measured: Measurements) -> bool:
        """Whether a fleet has this size."""
        return (measured.fleet.agents, measured.days) == (self.agents, self.days) and (
            abs(measured.n_traces / self.n_traces - 1) <= TOLERANCE
        )


def _read_target(name: str, milliseconds: float) -> Target:
    return Target(
        name,
        Limit(milliseconds, "ms"),
        lambda measured: measured.reads[name].seconds * 1000,
        lambda measured: "" if measured.reads[name].by_index else "without an index",
    )


def _gibibytes(n: int | None) -> float | None:
    return None if n is None else n / 2**30


READ_TARGETS = (_read_target(LATEST, 2), _read_target(HISTORY, 5))

STATED_SIZES = (
    StatedSize(
        agents=200,
        days=60,
        n_traces=1_000_000,
        targets=(
            Target(
                "full history, database time",
                Limit(16, "x (b)"),
                lambda measured: measured.history.scoring_seconds / measured.specification_seconds,
            ),
            Target(
                "daily increment, database time",
                Limit(2, "x (b)"),
                lambda measured: measured.increment.scoring_seconds / measured.specification_seconds,
            ),
            Target("daily increment, wall time", Limit(8, "s"), lambda m: m.increment_wall_seconds),
            *READ_TARGETS,
        ),
    ),
    StatedSize(
        agents=10_000,
        days=90,
        n_traces=10_000_000,
        targets=(
            Target(
                "full history, wall time",
                Limit(30, "min"),
                lambda measured: measured.history.wall_seconds / 60,
            ),
            Target(
                "full history, memory",
                Limit(1, "GiB"),
                lambda measured: _gibibytes(measured.history.peak_bytes),
            ),
            Target("daily increment, wall time", Limit(60, "s"), lambda m: m.increment_wall_seconds),
            *READ_TARGETS,
        ),
    ),
)
MILLION = STATED_SIZES[0]

GROWTH_LIMIT = Limit(1.2, "x the cheapest")


def judge(measured: list[Measurements]) -> list[Verdict]:
    """Judge every target that is stated for what was measured."""
    verdicts = [
        target.limit.judge(target.what, target.of(one), target.flaw_of(one))
        for one in measured
        for size in STATED_SIZES
        if size.is_size_of(one)
        for target in size.targets
    ]
    return [*verdicts, *_growth(measured)]


def _growth(measured: list[Measurements]) -> Iterator[Verdict]:
    lengths = tuple(one.days for one in measured)
    if lengths != GROWTH_LENGTHS or not any(MILLION.is_size_of(one) for one in measured):
        return
    seconds = [one.increment.scoring_seconds for one in measured]
    what = f"dearest increment over {', '.join(map(str, lengths))} days of history"
    yield GROWTH_LIMIT.judge(what, max(seconds) / min(seconds))
