"""The quantities of an agent that are counted per day, for design effects, intervals, the steady score and changes.

Seven rates have bad events among trials, and calibration has successes among judged traces.
"""

import numpy as np

from ciris_scoring.certainty.inputs import PeriodSums, Present
from ciris_scoring.kinds.components import COMPONENT_ROWS
from ciris_scoring.names import REQUIRED_FIELDS
from ciris_scoring.windows.arrays import Floats, Integers, between, running_total

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


def day_sums(per_period: Integers, periods_per_day: int) -> Integers:
    """Compute sums over the 24 hours that end at each period end.

    Days are counted backwards from the as-of, so a window always contains whole days, also with hourly periods.

    :param per_period: (agents, periods, ...) counts.
    :param periods_per_day: 1 or 24.
    :returns: (agents, periods + 1, ...); element t is the sum over the day that ends at period end t. Periods before
        the arrays count as empty.
    """
    agents, periods, *inner = per_period.shape
    totals = np.zeros((agents, periods + 1, *inner), dtype=np.int64)
    if periods_per_day == 1:
        totals[:, 1:] = per_period
        return totals
    np.cumsum(per_period, axis=1, out=totals[:, 1:])
    days = totals.copy()
    days[:, periods_per_day:] -= totals[:, :-periods_per_day]
    return days


def running_totals(per_day: Integers, periods_per_day: int) -> Integers:
    """Compute running totals of daily quantities, in steps of a day.

    :param per_day: (agents, periods + 1, q) daily quantities, such as the results of :func:`day_sums`.
    :param periods_per_day: 1 or 24.
    :returns: the same shape; element t is the sum over the days that end at t, t − 1 day, t − 2 days, and so on.
    """
    agents, ends, width = per_day.shape
    days = -(-ends // periods_per_day)
    padded = np.zeros((agents, days * periods_per_day, width), dtype=np.int64)
    padded[:, :ends] = per_day
    by_day = padded.reshape(agents, days, periods_per_day, width)
    np.cumsum(by_day, axis=1, out=by_day)
    return padded[:, :ends]


def nested(per_period: Integers, present: Present, windows: tuple[int, ...], periods_per_day: int) -> Floats:
    """Return sums over windows that end at the as-of of each pair in ``present``, (n, windows, ...).

    :param per_period: (agents, periods, ...) counts.
    :param windows: lengths of the windows in days.
    :param periods_per_day: 1 or 24.
    """
    as_of = present.as_of[:, None]
    starts = as_of - np.array(windows) * periods_per_day
    return between(running_total(per_period), present.agent[:, None], starts, as_of).astype(np.float64)
