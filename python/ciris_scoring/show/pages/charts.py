"""Convert values of the marts to SVG paths. The paths are short, so that a report can contain hundreds."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import pairwise

HEIGHT = 200
"""Vertical resolution of a chart. The template scales it to the height of the chart."""

Vertex = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Frame:
    """Time range that all charts of a page show."""

    first: datetime
    last: datetime
    step: timedelta
    """Smallest time between neighbouring as-ofs. A line is interrupted where an as-of is missing."""

    @classmethod
    def of(cls, as_ofs: Sequence[datetime]) -> "Frame":
        """Return the time range of a list of as-ofs, which must be in ascending order and not empty."""
        step = min((later - earlier for earlier, later in pairwise(as_ofs)), default=timedelta(days=1))
        return cls(as_ofs[0], as_ofs[-1], step)

    def share(self, moment: datetime) -> float:
        """Return the position of a time: 0 at the left, 1 at the right. It is 1 if the time range is empty."""
        span = self.last - self.first
        return min(1.0, max(0.0, (moment - self.first) / span)) if span else 1.0

    @property
    def width(self) -> int:
        """Number of horizontal coordinates of a path: one for each step."""
        return max(1, round((self.last - self.first) / self.step))

    def percent(self, moment: datetime) -> str:
        """Return the position of a time as a percentage."""
        return percent(self.share(moment))

    @property
    def ticks(self) -> list[datetime]:
        """Times of the axis labels: first, middle and last."""
        middle = self.first + (self.last - self.first) / 2
        return [self.first, middle, self.last] if self.first < self.last else [self.last]


def percent(share: float) -> str:
    """Format a share as a percentage with at most one decimal."""
    return f"{100 * share:.1f}".removesuffix(".0") + "%"


def line(frame: Frame, points: Iterable[tuple[datetime, float | None]]) -> str:
    """Return the SVG path of a line.

    :param points: as-of and value in [0, 1], in order of as-of. The value None interrupts the line.
    """
    runs = _runs(frame, ((moment, None if value is None else (value,)) for moment, value in points))
    return "".join(_path([(x, _y(value)) for x, (value,) in run]) for run in runs)


def area(frame: Frame, points: Iterable[tuple[datetime, float | None, float | None]]) -> str:
    """Return the SVG path of the area between two lines.

    :param points: as-of, lower and upper value in [0, 1], in ascending order. Nulls interrupt the area.
    """
    pairs = ((moment, None if low is None or high is None else (low, high)) for moment, low, high in points)
    paths = []
    for run in _runs(frame, pairs):
        below = [(x, _y(low)) for x, (low, _) in run]
        above = [(x, _y(high)) for x, (_, high) in reversed(run)]
        paths.append(_path(below + above) + "z")
    return "".join(paths)


def _runs(
    frame: Frame, points: Iterable[tuple[datetime, tuple[float, ...] | None]]
) -> Iterator[list[tuple[int, tuple[float, ...]]]]:
    """Yield each sequence of points without a gap. A point is x and its values."""
    run: list[tuple[int, tuple[float, ...]]] = []
    before = None
    for moment, values in points:
        if run and (values is None or (before is not None and moment - before > 1.5 * frame.step)):
            yield run
            run = []
        if values is not None:
            run.append((round(frame.width * frame.share(moment)), values))
        before = moment
    if run:
        yield run


def _y(value: float) -> int:
    return round(HEIGHT * (1 - value))


def _path(vertices: list[Vertex]) -> str:
    """Return the SVG path through vertices in relative coordinates."""
    (first_x, first_y), steps = vertices[0], [(x1 - x0, y1 - y0) for (x0, y0), (x1, y1) in pairwise(vertices)]
    return f"M{first_x} {first_y}l" + " ".join(f"{dx} {dy}" for dx, dy in steps or [(0, 0)])
