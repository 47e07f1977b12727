"""Published scores, and sums per agent and period, that the certainty is computed from."""

from typing import NamedTuple

import numpy as np

from ciris_scoring.windows.arrays import Floats, Integers
from ciris_scoring.windows.drift import METRICS, N_BINS
from ciris_scoring.windows.reading import Numbers


class PeriodSums(NamedTuple):
    """Sums per agent and scoring period (a UTC day or hour); 0 in a period without traces.

    The first axes of every array are agents and periods. Periods are consecutive. The first period begins at the
    longest lookback horizon before the first scored as-of, or is the first period with traces. Earlier periods count as
    empty. Fields have the names of columns of ``int_agent_periods``.
    """

    n_traces: Integers
    n_identity_changes: Integers
    n_overridden: Integers
    n_chain_valid: Integers
    n_chain_gaps: Integers
    n_fields_present: Integers
    n_replay_sampled: Integers
    n_replay_succeeded: Integers
    n_unsafe: Integers
    n_signals_corroborated: Integers
    n_signals_uncorroborated: Integers
    n_coherent_corroborated: Integers
    n_coherent_uncorroborated: Integers
    judged_by_bin: Integers
    """(agents, periods, 10), like the next two fields."""
    successes_by_bin: Integers
    confidence_by_bin: Integers
    """Sums in ``CONFIDENCE_UNITS``."""
    histograms: Integers
    """(agents, periods, 3, 10), the histograms in the order of ``METRICS``."""

    @classmethod
    def of(cls, counts: Integers) -> "PeriodSums":
        """Return the sums in an array (agents, periods, numbers) of ``NUMBERS``."""
        values = [NUMBERS.of(counts, name) for name in NUMBERS.at]
        n = len(cls._fields) - 1
        return cls._make([*values[:n], np.stack(values[n:], axis=2)])


BY_BIN = ("judged_by_bin", "successes_by_bin", "confidence_by_bin", *(f"{metric}_histogram" for metric in METRICS))
NUMBERS = Numbers(
    {name: name for name in PeriodSums._fields[: PeriodSums._fields.index("judged_by_bin")]},
    {name: (name, N_BINS) for name in BY_BIN},
)
"""Columns of ``int_agent_periods`` that become :class:`PeriodSums`."""


class Scores(NamedTuple):
    """Published scores, ordered by agent, as-of and window; (n,) each. Fields have the names of columns of
    ``fct_capacity_scores``, ``int_resilience``, ``int_windows``. An
    unmeasured component has its neutral value."""

    agent: Integers
    """Index of the agent in the arrays of :class:`PeriodSums`."""
    as_of: Integers
    """Number of periods in these arrays before the as-of."""
    window: Integers
    """Index of the window in the list of windows."""
    n_traces: Integers
    n_judged_deferrals: Integers
    n_episodes: Integers
    """Number of episodes in ``mttr_hours``: the episodes that ended in the window, and the open episode."""
    n_open_episodes: Integers
    open_microseconds: Integers
    chain_gaps: Integers
    is_replay_measured: Integers
    """1 if ``i_replay`` is measured, else 0."""
    is_s_measured: Integers
    """1 if S is measured, else 0."""
    d_identity: Floats
    k_contradiction: Floats
    i_chain: Floats
    i_coverage: Floats
    i_replay: Floats
    delta_drift: Floats
    mttr_hours: Floats
    rho_regression: Floats
    ece: Floats
    q_deferral: Floats
    u_unsafe: Floats
    c_score: Floats
    i_int_score: Floats
    r_score: Floats
    i_inc_score: Floats
    s_score: Floats
    capacity_score: Floats
    """NaN if the window has fewer than ``min_traces`` traces."""


class Present(NamedTuple):
    """The n pairs of an agent and an as-of for which the present behaviour is estimated; (n,) each."""

    agent: Integers
    as_of: Integers
    """Number of periods in the arrays before the as-of."""
    n_open: Integers
    """Number of open episodes, 0 or 1."""
    open_log_hours: Floats
    """Logarithm of the hours of the open episode up to the as-of; 0 if no episode is open."""
    effect: Floats
    """Design effects of the rates and of successes, (n, 8), in the order of ``COUNTED``."""
    per_day: Floats
    """Mean number of trials on the day of a trial to which ``effect`` applies, (n, 8)."""
    episode_cv: Floats
    """The fleet's coefficient of variation of episode durations."""


class Sides(NamedTuple):
    """Sums over recent days, and over the days before them, of n pairs of an agent and an as-of, for alerts."""

    now: Floats
    """(n, days, ...) sums over the recent days, for each number of recent days."""
    before: Floats
    """(n, days, ...) sums over the days before, or (n, ...) if these are the same for every number of recent days."""
