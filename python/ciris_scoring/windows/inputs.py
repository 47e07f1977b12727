"""Arrays and parameters that the statistics take: sums per agent and period, rows to score, windows."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ciris_scoring.kinds import FLAGS

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Booleans = NDArray[np.bool_]
Columns = dict[str, NDArray[Any]]
"""Arrays (n, ...) by the names of their columns."""

METRICS = ("csdma_plausibility_score", "dsdma_domain_alignment", "coherence_level")
"""The metrics whose histograms measure drift, in the order of the metrics in all arrays (scoring.md §5)."""

FIELDS = (
    "action_was_overridden",
    "idma_fragility_flag",
    "coherence_passed",
    "action_success",
    "csdma_plausibility_score",
    "conscience_passed",
)
"""Fields whose absence is a red flag, in the order of the elements of array columns of ``int_windows`` (certainty.md
§5)."""

DAYS_TO_JUDGE = int(FLAGS["deferrals_left_open"].thresholds["days_to_judge"])
"""Days after which a deferral without a judgement counts as unresolved."""

LEAST_HOURS = 0.01
"""Shortest duration of an episode in hours. Shorter durations count as 0.01 hours (certainty.md §4 and §4b). Otherwise
a difference of one second between very short episodes would be a large difference of logarithms."""

LEAST_LOG_HOURS = float(np.log(LEAST_HOURS))
"""Natural logarithm of ``LEAST_HOURS``."""


def ratio(numerator: Floats | Integers, denominator: Floats | Integers, otherwise: Floats | float = 0.0) -> Floats:
    """Return numerator / denominator, broadcast; ``otherwise`` where the denominator is not above 0, or is NaN."""
    shape = np.broadcast(numerator, denominator).shape
    result = np.array(np.broadcast_to(otherwise, shape), dtype=np.float64)
    return np.divide(numerator, denominator, out=result, where=denominator > 0)


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
