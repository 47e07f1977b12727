"""What the intervals are computed from: sums per agent and period, the rows that are scored, the parameters."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Booleans = NDArray[np.bool_]

METRICS = ("csdma_plausibility_score", "dsdma_domain_alignment", "coherence_level")
"""The metrics whose histograms measure drift, in the order of the arrays."""


LEAST_HOURS = 0.01
"""Duration in hours that shorter episodes count as, so that a second more or less is no variation."""

LEAST_LOG_HOURS = float(np.log(LEAST_HOURS))


class PeriodSums(NamedTuple):
    """Sums per agent and scoring period (a UTC day or hour); a period without traces is 0 everywhere.

    Shapes begin with (agents, periods); the periods follow each other without gaps. They begin the longest memory
    (window and baseline, or window and coherence memory) before the first scored as-of, or with the agents' first
    period: what precedes them counts as nothing. The names are those of ``int_agent_periods`` unless noted.
    """

    n_traces: Integers
    n_identity_changes: Integers
    n_overridden: Integers
    n_chain_valid: Integers
    n_fields_present: Integers
    """Of ten per trace."""
    n_replay_sampled: Integers
    n_replay_succeeded: Integers
    n_unsafe: Integers
    n_signals_corroborated: Integers
    n_signals_uncorroborated: Integers
    n_coherent_corroborated: Integers
    n_coherent_uncorroborated: Integers
    n_judged: Integers
    """(agents, periods, 10), ``judged_by_bin``."""
    sum_confidence: Floats
    """(agents, periods, 10), ``confidence_by_bin``."""
    n_successes: Integers
    """(agents, periods, 10), ``successes_by_bin``."""
    histograms: Integers
    """(agents, periods, 3, 10), the histograms in the order of ``METRICS``."""
    n_recoveries: Integers
    """Fragile episodes that ended in the period (``int_agent_events``)."""
    log_recovery_hours: Floats
    """Sum of the natural logarithms of their durations in hours, of at least ``LEAST_LOG_HOURS`` each."""
    log_recovery_hours_squared: Floats
    """Sum of the squares of these."""


class Places(NamedTuple):
    """The n scored rows; (n,) each: those with a trace in their window."""

    agent: Integers
    as_of: Integers
    """The as-of as the number of periods that precede it in the arrays."""
    window: Integers
    """Index into the windows."""

    def of_window(self, window: int) -> tuple[NDArray[np.intp], Integers, Integers]:
        """Return the positions, agents and as-ofs of a window's rows."""
        at = np.flatnonzero(self.window == window)
        return at, self.agent[at], self.as_of[at]


class Rows(NamedTuple):
    """The n scored rows: every one has at least one trace in its window. All arrays are (n,)."""

    agent: Integers
    """Index of the agent in the chunk's arrays."""
    as_of: Integers
    """The as-of as the number of periods of the arrays that precede it, 1 to the number of periods."""
    window: Integers
    """Index into the windows."""
    mttr_hours: Floats
    """As published; 0 without an episode."""
    n_episodes: Integers
    """Episodes in ``mttr_hours``: recovered in the window, and the open one."""
    rho_regression: Floats
    """As published."""
    q_deferral: Floats
    """As published; 1 where nothing was judged."""
    n_judged_deferrals: Integers
    mttr_hours_steady: Floats
    """The same four over the steady days (certainty.md §4b), at least the window."""
    n_steady_episodes: Integers
    q_deferral_steady: Floats
    n_steady_deferrals: Integers


class Window(NamedTuple):
    """A row of ``scoring_windows``, in days."""

    window_days: int
    baseline_days: int
    coherence_days: int

    @property
    def memory_days(self) -> int:
        """Days before an as-of that its row depends on."""
        return self.window_days + max(self.baseline_days, self.coherence_days)


class Parameters(NamedTuple):
    """The published parameters that the intervals use, with their names in ``int_scoring_parameters``."""

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
    episode_z: float = 2.935


class Level(NamedTuple):
    """Standard normal quantiles of an interval's two sides."""

    z_worse: float
    """Towards a worse score."""
    z_better: float
    """Towards a better score."""


METHOD_VERSION = 4
"""Version of the method. It is counted up when limits change."""

SCORE_LEVEL = Level(1.645, 1.96)
"""Of the components where the score's limits are combined from them: losses are bounded below."""

PUBLISHED_LEVEL = Level(1.96, 1.96)
"""Of the published limits of components and factors."""
