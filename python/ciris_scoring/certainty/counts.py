"""The quantities of an agent that are counted per day, for design effects, intervals, the steady score and changes.

Seven rates have bad events among trials, and calibration has successes among judged traces.
"""

import numpy as np

from ciris_scoring.kinds.components import COMPONENT_ROWS
from ciris_scoring.names import REQUIRED_FIELDS
from ciris_scoring.windows.inputs import Floats, Integers, PeriodSums

RATES = tuple(one.component for one in COMPONENT_ROWS if one.is_rate)
"""The components that are rates, in the order of the rates in all arrays. Events of a rate are the outcomes that lower
the score."""

FIELDS_PER_TRACE = len(REQUIRED_FIELDS)
"""Number of fields that coverage counts in each trace (scoring.md §4)."""

COUNTED = (*RATES, "ece")
"""The eight quantities that are counted per day: events of the rates, and successes for calibration."""

EVENT_UNITS: Floats = np.array([1.0 / FIELDS_PER_TRACE if rate == "i_coverage" else 1.0 for rate in COUNTED])
"""Traces per event of each quantity in ``COUNTED``: a missing field is a tenth of a trace."""


def daily_counts(sums: PeriodSums) -> tuple[Integers, Integers]:
    """Return the numbers of events and of trials of each quantity in ``COUNTED``, (agents, periods, 8). An event of
    coverage is a missing field, and an event of calibration a success."""
    signals = sums.n_signals_corroborated + sums.n_signals_uncorroborated
    coherent = sums.n_coherent_corroborated + sums.n_coherent_uncorroborated
    events = {
        "d_identity": sums.n_identity_changes,
        "k_contradiction": sums.n_overridden,
        "i_chain": sums.n_traces - sums.n_chain_valid,
        "i_coverage": FIELDS_PER_TRACE * sums.n_traces - sums.n_fields_present,
        "i_replay": sums.n_replay_sampled - sums.n_replay_succeeded,
        "u_unsafe": sums.n_unsafe,
        "s_score": signals - coherent,
        "ece": sums.successes_by_bin.sum(axis=-1),
    }
    judged = sums.judged_by_bin.sum(axis=-1)
    trials = {"i_replay": sums.n_replay_sampled, "s_score": signals, "ece": judged}
    return (
        np.stack([events[one] for one in COUNTED], axis=-1).astype(np.int64),
        np.stack([trials.get(one, sums.n_traces) for one in COUNTED], axis=-1).astype(np.int64),
    )
