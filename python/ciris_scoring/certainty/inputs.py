"""Published scores that the certainty is computed from."""

from typing import NamedTuple

from ciris_scoring.windows.inputs import Floats, Integers


class Scores(NamedTuple):
    """Published scores, ordered by agent, as-of and window; (n,) each. Fields have the names of columns of
    ``fct_capacity_scores``, ``int_resilience``, ``int_windows`` and, with "steady", ``fct_score_certainty``. An
    unmeasured component has its neutral value."""

    agent: Integers
    """Index of the agent in the arrays of :class:`ciris_scoring.windows.inputs.PeriodSums`."""
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
    n_steady_episodes: Integers
    n_steady_deferrals: Integers
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
    mttr_hours_steady: Floats
    q_deferral_steady: Floats
    c_score: Floats
    i_int_score: Floats
    r_score: Floats
    i_inc_score: Floats
    s_score: Floats
    capacity_score: Floats
    """NaN if the window has fewer than ``min_traces`` traces."""
