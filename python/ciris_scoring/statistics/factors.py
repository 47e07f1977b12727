"""Components that are quotients of the sums of a window (scoring.md §4 to §6).

macros/formulas/factors.sql computes the published components by the same formulas. The losses are computed from the
values of this module. tests/python/test_equals_reference.py fails if the two implementations differ.
"""

from typing import NamedTuple

import numpy as np

from ciris_scoring.statistics.inputs import Floats, Integers, Parameters
from ciris_scoring.statistics.residuals import FIELDS_PER_TRACE, ratio
from ciris_scoring.statistics.windows import CONFIDENCE_UNITS, MICROSECONDS_PER_HOUR, Columns


class Components(NamedTuple):
    """Components of n rows; (n,) each, neutral where unmeasured. All but ``mttr_hours`` and counts are in [0, 1]."""

    i_chain: Floats
    i_coverage: Floats
    i_replay: Floats
    ece: Floats
    mttr_hours: Floats
    n_episodes: Integers
    """Number of episodes in ``mttr_hours``: the episodes that ended in the window, and the open episode."""
    rho_regression: Floats
    q_deferral: Floats


def components(columns: Columns, parameters: Parameters) -> Components:
    """Compute the components of n rows (scoring.md §4 to §6).

    :param columns: sums and counts of each row, as returned by
        :func:`ciris_scoring.statistics.windows.window_columns`.
    """
    n = columns["n_traces"]
    n_open, open_time = columns["n_open_episodes"], columns["open_microseconds"]
    is_replayed = parameters.replay_enabled & (columns["n_replay_sampled"] >= parameters.replay_min_sample)
    regressions = columns["n_recoveries"] - columns["n_modes"] + columns["n_modes_open"]
    n_episodes = columns["n_recoveries"] + n_open
    return Components(
        i_chain=columns["n_chain_valid"] / n,
        i_coverage=columns["n_fields_present"] / (FIELDS_PER_TRACE * n),
        i_replay=np.where(is_replayed, columns["replay_success_weight"] / n, 1.0),
        ece=ratio(np.abs(columns["excess_confidence"]).sum(axis=-1) / CONFIDENCE_UNITS, columns["n_judged"]),
        mttr_hours=ratio(columns["recovery_microseconds"] + open_time, n_episodes) / MICROSECONDS_PER_HOUR,
        n_episodes=n_episodes,
        rho_regression=ratio(regressions, columns["n_recoveries"]),
        q_deferral=ratio(columns["value_of_judged_deferrals"], columns["n_judged_deferrals"], 1.0),
    )
