"""Published scores, and pairs of an agent and an as-of, that the certainty is computed from."""

from typing import NamedTuple

from ciris_scoring.certainty.counts import Pairs
from ciris_scoring.windows.arrays import Floats, Integers


class Scores(NamedTuple):
    """Published scores, ordered by agent, as-of and window; (n,) each. Fields have the names of columns of
    ``fct_capacity_scores``, ``int_resilience``, ``int_windows``. An
    unmeasured component has its neutral value."""

    agent: Integers
    """Index of the agent in the arrays of counts."""
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

    @property
    def pairs(self) -> Pairs:
        """The pairs of an agent and an as-of."""
        return Pairs(self.agent, self.as_of)


class Sides(NamedTuple):
    """Sums over recent days, and over the days before them, of n pairs of an agent and an as-of, for alerts."""

    now: Floats
    """(n, days, ...) sums over the recent days, for each number of recent days."""
    before: Floats
    """(n, days, ...) sums over the days before, or (n, ...) if these are the same for every number of recent days."""
