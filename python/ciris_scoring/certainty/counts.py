"""Counts per agent and period for design effects, intervals, the steady score and changes.

Seven rates have bad events among trials, and calibration has successes among judged traces.
"""

from typing import NamedTuple

import numpy as np

from ciris_scoring.kinds.components import COMPONENT_ROWS
from ciris_scoring.names import REQUIRED_FIELDS
from ciris_scoring.windows.arrays import Floats, Integers, between, running_total
from ciris_scoring.windows.drift import METRICS, N_BINS
from ciris_scoring.windows.reading import Numbers

RATES = tuple(one.component for one in COMPONENT_ROWS if one.is_rate)
"""The components that are rates, in the order of the rates in all arrays. Events of a rate are the outcomes that lower
the score."""
COUNTED = (*RATES, "ece")
"""The eight quantities that are counted per day: events of the rates, and successes for calibration."""
FIELDS_PER_TRACE = len(REQUIRED_FIELDS)
"""Number of fields that coverage counts in each trace (scoring.md §4)."""
EVENT_UNITS: Floats = np.array([1.0 / FIELDS_PER_TRACE if rate == "i_coverage" else 1.0 for rate in COUNTED])
"""Traces per event of each quantity in ``COUNTED``: a missing field is a tenth of a trace."""

SIGNALS = "n_signals_corroborated", "n_signals_uncorroborated"
INCOHERENT = tuple(f"{name} - {name.replace('signals', 'coherent')}" for name in SIGNALS)
EVENTS = {
    "d_identity": "n_identity_changes",
    "k_contradiction": "n_overridden",
    "i_chain": "n_traces - n_chain_valid",
    "i_coverage": f"{FIELDS_PER_TRACE} * n_traces - n_fields_present",
    "i_replay": "n_replay_sampled - n_replay_succeeded",
    "u_unsafe": "n_unsafe",
    "s_score": " + ".join(INCOHERENT),
}
"""Bad events of each rate, from columns of ``int_agent_periods``."""
TRIALS = {
    "i_replay": "n_replay_sampled",
    "s_score": " + ".join(SIGNALS),
    "ece": "n_judged",
}
"""Trials of the quantities whose trials are not all traces."""
NUMBERS = Numbers(
    {"n_traces": "n_traces", "n_gaps": "n_chain_gaps"},
    {
        "events": (f"array[{', '.join(EVENTS[rate] for rate in RATES)}]", len(RATES)),
        "trials": (f"array[{', '.join(TRIALS.get(one, 'n_traces') for one in COUNTED)}]", len(COUNTED)),
        "signals": (f"array[{', '.join(INCOHERENT + SIGNALS)}]", 4),
        "judged": ("judged_by_bin", N_BINS),
        "successes": ("successes_by_bin", N_BINS),
        "confidence": ("confidence_by_bin", N_BINS),
        "histograms": (" || ".join(f"{metric}_histogram" for metric in METRICS), len(METRICS) * N_BINS),
    },
)
"""Numbers that are read from ``int_agent_periods``."""


class Counts(NamedTuple):
    """Counts per agent and scoring period, (agents, periods, ...); 0 in a period without traces.

    Periods are consecutive. The first one begins at the longest lookback horizon before the first scored as-of, or is
    the first period with traces. Earlier periods count as empty.
    """

    n_gaps: Integers
    """Gaps in the audit numbers."""
    events: Integers
    """Events of each quantity in ``COUNTED``. An event of coverage is a missing field, one of calibration a success."""
    trials: Integers
    """Trials of each quantity in ``COUNTED``."""
    signals: Integers
    """Incoherent signals, corroborated and not, then all signals, corroborated and not."""
    judged: Integers
    """Traces with confidence and outcome, by bin of confidence, like the next two fields."""
    successes: Integers
    confidence: Integers
    """Sums in ``CONFIDENCE_UNITS``."""
    histograms: Integers
    """(agents, periods, 3, 10), the histograms in the order of ``METRICS``."""

    @classmethod
    def of(cls, numbers: Integers) -> "Counts":
        """Return the counts in an array (agents, periods, numbers) of ``NUMBERS``."""
        found = {name: NUMBERS.of(numbers, name) for name in cls._fields}
        found["events"] = np.concatenate([found["events"], found["successes"].sum(axis=-1, keepdims=True)], axis=-1)
        found["histograms"] = found["histograms"].reshape(*numbers.shape[:2], len(METRICS), N_BINS)
        return cls(**found)


class Pairs(NamedTuple):
    """The n pairs of an agent and an as-of; (n,) each."""

    agent: Integers
    as_of: Integers
    """Number of periods in the arrays before the as-of."""


def nested(per_period: Integers, pairs: Pairs, days: tuple[int, ...], periods_per_day: int) -> Floats:
    """Return sums over windows of some days that end at the as-of of each pair, (n, windows, ...)."""
    as_of = pairs.as_of[:, None]
    starts = as_of - np.array(days) * periods_per_day
    return between(running_total(per_period), pairs.agent[:, None], starts, as_of).astype(np.float64)


def day_sums(per_period: Integers, periods_per_day: int) -> Integers:
    """Return sums over the 24 hours that end at each period end, (agents, periods + 1, ...).

    Days are counted backwards from the as-of, so a window always contains whole days, also with hourly periods. Periods
    before the arrays count as empty.
    """
    days = running_total(per_period)
    days[:, periods_per_day:] -= days[:, :-periods_per_day].copy()
    return days


def totals_of_days(per_day: Integers, periods_per_day: int) -> Integers:
    """Return running totals of daily quantities, (agents, periods + 1, q): element t is the sum over the days that end
    at t, t − 1 day, t − 2 days, and so on."""
    agents, ends, width = per_day.shape
    days = -(-ends // periods_per_day)
    padded = np.zeros((agents, days * periods_per_day, width), dtype=np.int64)
    padded[:, :ends] = per_day
    by_day = padded.reshape(agents, days, periods_per_day, width)
    np.cumsum(by_day, axis=1, out=by_day)
    return padded[:, :ends]
