"""Input of the certainty: counts per agent and period, published scores, and pairs of an agent and an as-of."""

from typing import NamedTuple

import numpy as np

from ciris_scoring.kinds.components import COMPONENT_ROWS
from ciris_scoring.names import REQUIRED_FIELDS
from ciris_scoring.windows.arrays import Floats, Integers, between, running_total
from ciris_scoring.windows.drift import METRICS, N_BINS
from ciris_scoring.windows.reading import Numbers

LOSS_COMPONENTS = tuple(sorted((one for one in COMPONENT_ROWS if one.loss_order), key=lambda one: one.loss_order or 0))
"""Rows of the loss components, in their order (certainty.md §1)."""
RATE_ROWS = tuple(one for one in COMPONENT_ROWS if one.bad_events)
RATES = tuple(one.component for one in RATE_ROWS)
"""The components that are rates. Their events are the outcomes that lower the score."""
VALUES = tuple(one.component for one in LOSS_COMPONENTS if one.better)
"""The loss components that have a value in ``fct_capacity_scores``: all but ``r_ceiling``."""
COUNTED = (*RATES, "ece")
"""The eight quantities that are counted, in the order of all arrays: events of the rates, and successes of judged
traces for calibration."""
FIELDS_PER_TRACE = len(REQUIRED_FIELDS)
EVENT_UNITS: Floats = np.array([1.0 / FIELDS_PER_TRACE if rate == "i_coverage" else 1.0 for rate in COUNTED])
"""Traces per event of each quantity in ``COUNTED``: a missing field is a tenth of a trace."""

SIGNALS = "n_signals_corroborated", "n_signals_uncorroborated"
INCOHERENT = tuple(f"{name} - {name.replace('signals', 'coherent')}" for name in SIGNALS)
NUMBERS = Numbers(
    {"n_traces": "n_traces", "n_gaps": "n_chain_gaps"},
    {
        "events": (f"array[{', '.join(str(one.bad_events) for one in RATE_ROWS)}]", len(RATES)),
        "trials": (f"array[{', '.join(str(one.trials) for one in RATE_ROWS)}, n_judged]", len(COUNTED)),
        "signals": (f"array[{', '.join(INCOHERENT + SIGNALS)}]", 4),
        "judged": ("judged_by_bin", N_BINS),
        "successes": ("successes_by_bin", N_BINS),
        "confidence": ("confidence_by_bin", N_BINS),
        "histograms": (" || ".join(f"{metric}_histogram" for metric in METRICS), len(METRICS) * N_BINS),
    },
)
"""Numbers that are read from ``int_agent_periods``."""


class Counts(NamedTuple):
    """Counts per agent and scoring period, (agents, periods, ...); 0 in a period without traces. Periods before the
    first one, which is the longest lookback horizon before the first scored as-of, count as empty."""

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


class Scores(NamedTuple):
    """Published scores, ordered by agent, as-of and window; (n,) each. Agents, as-ofs and windows are positions in the
    arrays of counts and in the list of windows. Other fields have the names of columns of ``fct_capacity_scores`` and
    ``int_windows``; an unmeasured component has its neutral value. ``n_episodes`` are the episodes in ``mttr_hours``:
    the ended ones of the window and the open one. ``capacity_score`` is NaN with too few traces."""

    agent: Integers
    as_of: Integers
    window: Integers
    n_traces: Integers
    n_judged_deferrals: Integers
    n_episodes: Integers
    n_open_episodes: Integers
    open_microseconds: Integers
    chain_gaps: Integers
    is_replay_measured: Integers
    is_s_measured: Integers
    capacity_score: Floats
    values: Floats
    """(n, components) in the order of ``VALUES``."""

    def of(self, component: str) -> Floats:
        """Return the values of a component, (n,)."""
        return self.values[:, VALUES.index(component)]


class Pairs(NamedTuple):
    """The n pairs of an agent and an as-of, for which numbers are computed once for all windows; (n,) each."""

    agent: Integers
    as_of: Integers
    """Number of periods in the arrays before the as-of."""

    @classmethod
    def of(cls, agent: Integers, as_of: Integers) -> tuple["Pairs", Integers, Integers]:
        """Return the pairs of m rows, ordered by agent and as-of; the first row of each pair; the pair of each row."""
        key = agent * (as_of.max(initial=0) + 1) + as_of
        _, first, pair = np.unique(key, return_index=True, return_inverse=True)
        return cls(agent[first], as_of[first]), first, pair


class Present(NamedTuple):
    """The n pairs of an agent and an as-of for which the present behaviour is estimated; (n,) each: the number of open
    episodes, 0 or 1, and ln of its hours up to the as-of; the design effects of ``COUNTED``, (n, 8); the mean number of
    trials on the day of a trial to which they apply; and the fleet's coefficient of variation of episode durations."""

    pairs: Pairs
    n_open: Integers
    open_log_hours: Floats
    effect: Floats
    per_day: Floats
    episode_cv: Floats


class Sides(NamedTuple):
    """Sums over recent days, (n, days, ...) for each number of recent days, and over the days before them; (n, ...) if
    these are the same for every number of recent days."""

    now: Floats
    before: Floats


def nested(per_period: Integers, pairs: Pairs, days: tuple[int, ...], per_day: int) -> Floats:
    """Return sums over windows of some days that end at the as-of of each pair, (n, windows, ...)."""
    as_of = pairs.as_of[:, None]
    starts = as_of - np.array(days) * per_day
    return between(running_total(per_period), pairs.agent[:, None], starts, as_of).astype(np.float64)


def day_sums(per_period: Integers, per_day: int) -> Integers:
    """Return sums over the 24 hours that end at each period end, (agents, periods + 1, ...). Days are counted backwards
    from the as-of, so a window always contains whole days, also with hourly periods."""
    days = running_total(per_period)
    days[:, per_day:] -= days[:, :-per_day].copy()
    return days


def totals_of_days(values: Integers, per_day: int) -> Integers:
    """Return running totals of daily quantities, (agents, periods + 1, q): sums over the days that end at t, t − 1 day,
    and so on."""
    agents, ends, width = values.shape
    days = -(-ends // per_day)
    padded = np.zeros((agents, days * per_day, width), dtype=np.int64)
    padded[:, :ends] = values
    by_day = padded.reshape(agents, days, per_day, width)
    np.cumsum(by_day, axis=1, out=by_day)
    return padded[:, :ends]
