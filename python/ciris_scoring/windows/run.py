"""Parameters, windows and as-ofs of a run. Times are numbers of periods since 1970-01-01 00:00 UTC."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from ciris_scoring.names import PERIODS
from ciris_scoring.windows.session import Session


class Window(NamedTuple):
    """A row of ``scoring_windows``; lengths in days."""

    window_days: int
    baseline_days: int
    coherence_days: int


class Parameters(NamedTuple):
    """The parameters of ``int_scoring_parameters`` that the statistics use (docs/configuration.md). Benchmarks, which
    have no database, use the defaults."""

    lambda_c: float = 5.0
    mu_c: float = 10.0
    integrity_floor: float = 0.0
    replay_enabled: bool = True
    replay_min_sample: int = 30
    mttr_scale_hours: float = 1.0
    norm_k: float = 5.0
    norm_x0: float = 0.5
    drift_pseudo_count: float = 0.5
    drift_min_sample: int = 30
    decay_per_day: float = 0.05
    w_corroborated: float = 1.0
    w_uncorroborated: float = 0.5
    min_traces: int = 30
    steady_days: int = 90


class Block(NamedTuple):
    """As-ofs that are computed in the same arrays: all from ``first`` to ``last``, both included."""

    first: int
    last: int
    origin: int
    """First period of the arrays."""


class Run(NamedTuple):
    """Parameters, windows and as-ofs of a run."""

    parameters: Parameters
    windows: tuple[Window, ...]
    seconds: int
    """Length of a scoring period: a day or an hour."""
    as_of: int
    """As-of of the run, which is the last as-of that is scored."""
    cutoff: int | None
    """The as-ofs after it are scored; None if all are."""

    @property
    def per_day(self) -> int:
        """Number of scoring periods per day: 1 or 24."""
        return 86_400 // self.seconds

    @property
    def longest_window(self) -> int:
        """Number of periods of the longest window."""
        return max(window.window_days for window in self.windows) * self.per_day

    @property
    def baseline_horizon(self) -> int:
        """Longest time in days before an as-of that a window with its baseline covers."""
        return max(window.window_days + window.baseline_days for window in self.windows)

    def time(self, number: int) -> datetime:
        """Return the start of a period."""
        return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=number * self.seconds)


def number(moment: str, run: Run) -> str:
    """Return SQL for the number of the period that contains a time."""
    return f"floor(extract(epoch from {moment}) / {run.seconds})::int8"


def read_run(session: Session, inputs: Mapping[str, str]) -> Run:
    """Read the parameters, the windows and the as-ofs of this run from relations with the names ``inputs``."""
    values = dict(session.rows(f"select parameter_name, parameter_value::jsonb from {inputs['scoring_parameters']}"))
    windows = f"select window_days, baseline_days, coherence_days from {inputs['scoring_windows']} order by window_days"
    [(period, as_of, cutoff)] = session.rows(
        "select scoring_period, extract(epoch from as_of)::int8, "
        f"case when isfinite(cutoff) then extract(epoch from cutoff)::int8 end from {inputs['scoring_run']}"
    )
    seconds = PERIODS[period] // timedelta(seconds=1)
    return Run(
        Parameters._make(values[name] for name in Parameters._fields),
        tuple(Window(*row) for row in session.rows(windows)),
        seconds,
        as_of // seconds,
        None if cutoff is None else cutoff // seconds,
    )
