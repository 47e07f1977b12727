"""Arrays and parameters that the statistics take: sums per agent and period, rows to score, windows."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Booleans = NDArray[np.bool_]

METRICS = ("csdma_plausibility_score", "dsdma_domain_alignment", "coherence_level")
"""The metrics whose histograms measure drift, in the order of the metrics in all arrays (scoring.md §5)."""

LEAST_HOURS = 0.01
"""Shortest duration of an episode in hours. Shorter durations count as 0.01 hours (certainty.md §4 and §4b). Otherwise
a difference of one second between very short episodes would be a large difference of logarithms."""

LEAST_LOG_HOURS = float(np.log(LEAST_HOURS))
"""Natural logarithm of ``LEAST_HOURS``."""


class PeriodSums(NamedTuple):
    """Sums per agent and scoring period (a UTC day or hour); 0 in a period without traces.

    The first axes of every array are agents and periods. Periods are consecutive. The first period begins at the
    longest lookback horizon before the first scored as-of, or is the first period with traces. Earlier periods count as
    empty. Fields have the names of columns of ``int_agent_periods``, unless their text names another source.
    """

    n_traces: Integers
    n_identity_changes: Integers
    n_overridden: Integers
    n_chain_valid: Integers
    n_chain_gaps: Integers
    n_fields_present: Integers
    """Number of present fields, out of ten per trace."""
    n_replay_sampled: Integers
    n_replay_succeeded: Integers
    n_unsafe: Integers
    n_signals_corroborated: Integers
    n_signals_uncorroborated: Integers
    n_coherent_corroborated: Integers
    n_coherent_uncorroborated: Integers
    judged_by_bin: Integers
    """(agents, periods, 10)."""
    confidence_by_bin: Floats
    """(agents, periods, 10), sums of the confidence of judged traces, by bin of confidence."""
    successes_by_bin: Integers
    """(agents, periods, 10)."""
    histograms: Integers
    """(agents, periods, 3, 10), the histograms in the order of ``METRICS``."""
    n_recoveries: Integers
    """Number of fragile episodes that ended in the period (from ``int_agent_events``)."""
    log_recovery_hours: Floats
    """Sum of the natural logarithms of the durations in hours of the fragile episodes that ended in the period. Each
    logarithm is at least ``LEAST_LOG_HOURS``."""
    log_recovery_hours_squared: Floats
    """Sum of the squares of the logarithms that ``log_recovery_hours`` adds."""


class Places(NamedTuple):
    """Agent, as-of and window of the n scored rows; (n,) each. A row is scored if its window contains a trace."""

    agent: Integers
    as_of: Integers
    """Number of periods in the arrays before the as-of."""
    window: Integers
    """Index of the window in the list of windows."""


class Rows(NamedTuple):
    """The rows of :class:`Places`, with the published components from which bounds are computed; (n,) each."""

    agent: Integers
    as_of: Integers
    window: Integers
    mttr_hours: Floats
    """Mean time to recovery in hours; 0 without an episode."""
    n_episodes: Integers
    """Number of episodes in ``mttr_hours``: the episodes that ended in the window, and the open episode."""
    rho_regression: Floats
    """Share of recoveries that were followed by an episode of the same failure mode."""
    q_deferral: Floats
    """Quality of deferrals; 1 without a judged deferral."""
    n_judged_deferrals: Integers


class Window(NamedTuple):
    """A row of ``scoring_windows``; lengths in days."""

    window_days: int
    baseline_days: int
    coherence_days: int


class Parameters(NamedTuple):
    """The published parameters that the statistics use, with the names of ``int_scoring_parameters``.

    docs/configuration.md gives meaning, unit and range of each; scoring.md has the formulas. Benchmarks, which have no
    database, use the defaults. A test checks that the defaults equal those of the macros.
    """

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

    @property
    def penalties(self) -> dict[str, float]:
        """Loss per unit of each rate of C: λ_C for `d_identity`, μ_C for `k_contradiction` (scoring.md §3). Any other
        rate has the loss −ln(1 − rate)."""
        return {"d_identity": self.lambda_c, "k_contradiction": self.mu_c}


class Level(NamedTuple):
    """Standard normal quantiles of the two sides of an interval, in standard deviations."""

    z_worse: float
    """Quantile of the bound towards a worse score."""
    z_better: float
    """Quantile of the bound towards a better score."""


METHOD_VERSION = 6
"""Version of the method, published as ``interval_method_version``. Increase it whenever confidence bounds change. It is
not part of ``parameter_set_id``, because the score does not depend on it."""

SCORE_LEVEL = Level(1.645, 1.96)
"""Level of the component bounds that are combined into the score's interval (certainty.md §3). Losses are bounded below
by 0, so a smaller quantile suffices on the worse side of a combined interval to cover the truth in 95 % of cases."""

PUBLISHED_LEVEL = Level(1.96, 1.96)
"""Level of the published bounds of components and factors: two-sided 95 % (certainty.md §3)."""
