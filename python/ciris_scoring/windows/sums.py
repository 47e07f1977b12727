"""Sums and counts of every scored window, from which factors, alerts and red flags are computed.

Sums of the window and of its baseline are defined in scoring.md §3 to §7, sums of the steady days in certainty.md §4
and §4b, and sums that red flags compare in certainty.md §5.

There are two kinds of sums. Counts of traces are additive: a window is the difference of two running totals. Counts of
deferrals and fragile episodes are not additive, because an outcome counts only at as-ofs at which it was known. Each
deferral and episode counts from a first as-of until an end (half-open). A running sum of +1 and −1 gives the count at
every as-of.

All sums are int64, so a result is exact and does not depend on where the arrays begin. Real numbers are counted in
fixed units, such as ``VALUE_UNITS``. A unit is so small that rounding does not show in a score of three decimals, and
so large that a running total fits 64 bits.
"""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from ciris_scoring.windows.inputs import (
    DAYS_TO_JUDGE,
    LEAST_LOG_HOURS,
    Columns,
    Floats,
    Integers,
    Parameters,
    PeriodSums,
    Places,
    Window,
)
from ciris_scoring.windows.rolling import between, running_total

NEVER = np.iinfo(np.int64).max // 4
"""Period of an event that was not known at the run's as-of. It is a quarter of the largest int64, so that adding the
lengths of windows does not overflow."""

MICROSECONDS_PER_HOUR = 3_600_000_000
VALUE_UNITS, CONFIDENCE_UNITS = 1_000_000_000, 100_000_000_000
"""Number of integer units per 1 in running totals of the values of deferrals, and of confidences. 9e7 traces with
confidence 1 fit 64 bits."""
LOG_UNITS, SQUARE_UNITS = 1_000_000_000_000, 10_000_000_000
"""Number of integer units per 1 in running totals of logarithms of hours, and of their squares. Squares within a single
period, and fractions of replay's success weights, are in ``LOG_UNITS`` too."""

ARRAYS = ("n_checked", "n_unreported", "n_contradicted")
"""Counters that are arrays, with one element for each field of ``inputs.FIELDS``."""
BASELINE_COUNTS = (
    *("n_traces", "n_trivial", "n_renumbered", "n_repeated_decisions", "n_shared_key", "n_new_keys"),
    *ARRAYS,
)
"""Counters that are also summed over the baseline, because red flags compare them."""


class Deferrals(NamedTuple):
    """m deferrals; (m,) each. Periods are indices into the arrays of :class:`PeriodSums`, and may be negative."""

    agent: Integers
    """Index of the agent in the arrays."""
    created: Integers
    """Period in which the deferral was raised."""
    judged: Integers
    """Period in which the outcome became known; ``NEVER`` if it was not known before the run's as-of."""
    value: Integers
    """Value of the outcome in [0, 1], in ``VALUE_UNITS``."""
    is_escalated: Integers
    """1 if the status is ESCALATED, else 0."""


class FragileEpisodes(NamedTuple):
    """Fragile episodes: one value per episode in each array, (m,). Episodes of an agent are in the order of its traces.
    Periods are indices into the arrays of :class:`PeriodSums`; before the first period they are negative.
    """

    agent: Integers
    detected: Integers
    """Period of the detection."""
    recovered: Integers
    """Period of the recovery; ``NEVER`` if the episode had not ended before the run's as-of."""
    mode: Integers
    """Number of the failure mode."""
    detected_microseconds: Integers
    """Time of the detection, in microseconds since the start of the arrays' first period."""
    microseconds: Integers
    """Duration in microseconds; 0 if the episode had not ended."""

    def ended(self) -> "FragileEpisodes":
        """Return the episodes that had ended before the run's as-of."""
        return FragileEpisodes._make(values[self.recovered < NEVER] for values in self)


class Events(NamedTuple):
    """Deferrals and fragile episodes of agents."""

    deferrals: Deferrals
    episodes: FragileEpisodes
    first_period: Integers
    """(agents,) period of each agent's first trace; it may be negative."""


def scored_places(n_traces: Integers, windows: tuple[Window, ...], periods_per_day: int, first_as_of: int) -> Places:
    """Return the rows to score, ordered by agent, as-of and window. A row is scored if its window contains a trace
    (scoring.md §1).

    :param n_traces: (agents, periods) numbers of traces.
    :param periods_per_day: 1 or 24.
    :param first_as_of: number of periods in the arrays before the earliest as-of to score.
    """
    total = running_total(n_traces)
    ends = np.arange(first_as_of, total.shape[1])
    found = []
    for index, window in enumerate(windows):
        starts = np.maximum(ends - window.window_days * periods_per_day, 0)
        agent, as_of = np.nonzero(total[:, ends] > total[:, starts])
        found.append(np.stack([agent, as_of + first_as_of, np.full(len(agent), index)]))
    places = np.concatenate(found, axis=1)
    order = np.lexsort(places[::-1])
    return Places(*places[:, order])


def window_columns(
    sums: PeriodSums,
    counts: Mapping[str, Integers],
    events: Events,
    places: Places,
    windows: tuple[Window, ...],
    parameters: Parameters,
    periods_per_day: int,
) -> Columns:
    """Compute the sums and counts of n rows, by the names of the columns of ``int_windows``.

    :param counts: (agents, periods, ...) counters that are only summed over windows (``reading.COUNT_COLUMNS``).
    :param places: the n rows. Windows do not begin before the first period of the arrays; baselines may.
    :param parameters: ``n_steady_deferrals`` and the other columns of steady days count over ``steady_days``, or over
        the window if that is longer.
    :param periods_per_day: 1 or 24.
    :returns: (n,) or (n, k) int64; float64 for success weights of replay and values of deferrals.
    """
    shape = (sums.n_traces.shape[0], sums.n_traces.shape[1] + 1)
    additive = _additive(sums, counts)
    totals = {name: running_total(values) for name, values in additive.items()}
    columns: Columns = {}
    for index, window in enumerate(windows):
        at = np.flatnonzero(places.window == index)
        agent, as_of = places.agent[at], places.as_of[at]
        length = window.window_days * periods_per_day
        start = as_of - length
        parts: Columns = {name: between(total, agent, start, as_of) for name, total in totals.items()}
        for name in BASELINE_COUNTS:
            begin = start - window.baseline_days * periods_per_day
            parts[f"baseline_{name}"] = between(totals[name], agent, begin, start)
        steady = parameters.steady_days * periods_per_day
        counted = deferral_columns(events.deferrals, window, steady, periods_per_day, shape)
        counted |= episode_columns(events.episodes, length, steady, shape)
        parts |= {name: values[agent, as_of] for name, values in counted.items()}
        for name, values in parts.items():
            column = columns.setdefault(name, np.zeros((len(places.agent), *values.shape[1:]), values.dtype))
            column[at] = values
    return _in_units(columns, places, periods_per_day)


def confidence_in_units(sums: PeriodSums) -> Integers:
    """Return the sums of confidence as integers in ``CONFIDENCE_UNITS``, (agents, periods, 10). Integers can be added
    exactly."""
    return np.rint(sums.confidence_by_bin * CONFIDENCE_UNITS).astype(np.int64)


def _additive(sums: PeriodSums, counts: Mapping[str, Integers]) -> dict[str, Integers]:
    """Return the counters of ``int_agent_periods`` (read by ``reading._sums``) that are summed over periods.

    Replay's success weight is split into whole traces and a fraction in ``LOG_UNITS``.
    """
    sampled = np.maximum(sums.n_replay_sampled, 1)
    # Success weight of a period with n traces: n · succeeded / sampled, an estimate stratified by period (scoring.md
    # §4; Cochran 1977, Sampling Techniques, ch. 5).
    weight = sums.n_traces * sums.n_replay_succeeded
    return {
        "n_traces": sums.n_traces,
        "n_identity_changes": sums.n_identity_changes,
        "n_overridden": sums.n_overridden,
        "n_chain_valid": sums.n_chain_valid,
        "n_chain_gaps": sums.n_chain_gaps,
        "n_fields_present": sums.n_fields_present,
        "n_replay_sampled": sums.n_replay_sampled,
        "n_unsafe": sums.n_unsafe,
        "n_signals_corroborated": sums.n_signals_corroborated,
        "n_signals_uncorroborated": sums.n_signals_uncorroborated,
        **counts,
        "n_judged": sums.judged_by_bin.sum(axis=-1),
        "excess_confidence": confidence_in_units(sums) - sums.successes_by_bin * CONFIDENCE_UNITS,
        "replay_whole": weight // sampled,
        "replay_rest": weight % sampled * LOG_UNITS // sampled,
    }


def _in_units(columns: Columns, places: Places, periods_per_day: int) -> Columns:
    """Return the columns as published: sums in fixed units become real numbers, and the open episode gets its
    duration."""
    period = 24 * MICROSECONDS_PER_HOUR // periods_per_day
    columns["replay_success_weight"] = columns.pop("replay_whole") + columns.pop("replay_rest") / LOG_UNITS
    since = columns.pop("open_since")
    columns["open_microseconds"] = columns["n_open_episodes"] * places.as_of * period - since
    for name in ("value_of_judged_deferrals", "value_of_steady_deferrals"):
        columns[name] = columns[name] / VALUE_UNITS
    return columns


def _counted(
    agent: Integers,
    first: Integers,
    end: Integers,
    shape: tuple[int, int],
    amount: Integers | int = 1,
) -> Integers:
    """Return the sum of the amounts that are valid at each as-of, (agents, periods + 1).

    Each amount is valid from ``first`` until ``end`` (half-open).
    """
    deltas = np.zeros(shape, dtype=np.int64)
    first = np.maximum(first, 0)
    valid = (first < end) & (first < shape[1])
    amounts = np.broadcast_to(np.asarray(amount, dtype=np.int64), agent.shape)
    np.add.at(deltas, (agent[valid], first[valid]), amounts[valid])
    valid &= end < shape[1]
    np.subtract.at(deltas, (agent[valid], end[valid]), amounts[valid])
    np.cumsum(deltas, axis=1, out=deltas)
    return deltas


def deferral_columns(
    deferrals: Deferrals, window: Window, steady: int, periods_per_day: int, shape: tuple[int, int]
) -> dict[str, Integers]:
    """Return counts and values of the deferrals (``int_deferral_values``) raised in [T − since, T − until), at each T.

    Judged deferrals count from the time at which their outcome was known (scoring.md §6). A deferral older than
    ``DAYS_TO_JUDGE`` is unresolved if nobody had judged it by T. A deferral of the baseline is unresolved if nobody had
    judged it by the start of the window (certainty.md §5).

    :param steady: number of periods that the columns of the steady score look back, at least ``length``.
    :param shape: number of agents, and number of as-ofs.
    :returns: arrays of that shape by column; values are in ``VALUE_UNITS``.
    """
    agent, created, judged, value, is_escalated = deferrals
    length = window.window_days * periods_per_day
    baseline = window.baseline_days * periods_per_day
    to_judge = DAYS_TO_JUDGE * periods_per_day

    def known(since: int, until: int, amount: Integers | int = 1) -> Integers:
        first = np.maximum(created + until, judged) + 1
        return _counted(agent, first, created + since + 1, shape, amount)

    def raised(since: int, until: int) -> Integers:
        return _counted(agent, created + until + 1, created + since + 1, shape)

    def unresolved(since: int, until: int, known_later: int) -> Integers:
        end = np.minimum(created + since, judged + known_later) + 1
        return _counted(agent, created + until + 1, end, shape)

    long = max(length, steady)
    due, earlier_due = (length + to_judge, to_judge), (length + baseline + to_judge, length + to_judge)
    return {
        "n_judged_deferrals": known(length, 0),
        "value_of_judged_deferrals": known(length, 0, value),
        "n_steady_deferrals": known(long, 0),
        "value_of_steady_deferrals": known(long, 0, value),
        "n_escalated_deferrals": known(length, 0, is_escalated),
        "n_raised_deferrals": raised(length, 0),
        "n_older_deferrals": raised(*due),
        "n_unresolved_deferrals": unresolved(*due, 0),
        "n_earlier_older_deferrals": raised(*earlier_due),
        "n_earlier_unresolved_deferrals": unresolved(*earlier_due, length),
    }


def episode_columns(episodes: FragileEpisodes, length: int, steady: int, shape: tuple[int, int]) -> dict[str, Integers]:
    """Return counts and durations of the fragile episodes of ``int_agent_events`` at each as-of (scoring.md §5).

    A recovery relapsed if another episode of the same failure mode followed. Of the recoveries of a mode, all but the
    last relapsed. The last one relapsed too if the open episode has this mode. So the number of relapses is
    n_recoveries − n_modes + n_modes_open.

    :param length: number of periods of the window.
    :param steady: number of periods that the columns of the steady score look back, at least ``length``.
    :param shape: number of agents, and number of as-ofs.
    :returns: arrays of that shape by column; durations are in microseconds.
    """
    while_open = episodes.agent, episodes.detected + 1, episodes.recovered + 1, shape
    ended = episodes.ended()

    def recovered(since: int, amount: Integers | int = 1) -> Integers:
        return _counted(ended.agent, ended.recovered + 1, ended.recovered + since + 1, shape, amount)

    columns = {
        "n_open_episodes": _counted(*while_open),
        "open_since": _counted(*while_open, episodes.detected_microseconds),
    }
    for prefix, since in {"": length, "steady_": max(length, steady)}.items():
        columns[f"{prefix}n_recoveries"] = recovered(since)
        columns[f"{prefix}recovery_microseconds"] = recovered(since, ended.microseconds)
    return columns | _of_modes(episodes, ended, length, shape)


def _of_modes(
    episodes: FragileEpisodes, ended: FragileEpisodes, length: int, shape: tuple[int, int]
) -> dict[str, Integers]:
    """Return, at each as-of: the number of failure modes with a recovery in the window, the number of these modes with
    an open episode, and, in the window before, the number of modes with a recovery and the number of recoveries."""
    # For each agent and failure mode: the periods with a recovery, and the next period with a recovery.
    keys = np.stack([ended.agent, ended.mode, ended.recovered])
    (agent, mode, period), n = np.unique(keys, axis=1, return_counts=True)
    following = np.full(len(period), NEVER)
    is_followed = (agent[1:] == agent[:-1]) & (mode[1:] == mode[:-1])
    following[:-1][is_followed] = period[1:][is_followed]
    first, end = period + 1, np.minimum(period + length, following) + 1

    # Pairs of a recovery and an episode of the same mode. A pair counts at the as-ofs at which the recovery is in the
    # window and the episode is open.
    recovery, episode = _pairs(agent, mode, episodes)
    both_first = np.maximum(first[recovery], episodes.detected[episode] + 1)
    both_end = np.minimum(end[recovery], episodes.recovered[episode] + 1)
    return {
        "n_modes": _counted(agent, first, end, shape),
        "n_modes_open": _counted(agent[recovery], both_first, both_end, shape),
        "n_earlier_modes": _counted(agent, first + length, end + length, shape),
        "n_earlier_recoveries": _counted(agent, first + length, period + 2 * length + 1, shape, n),
    }


def _pairs(agent: Integers, mode: Integers, episodes: FragileEpisodes) -> tuple[Integers, Integers]:
    """Return the positions of all pairs of a recovery and an episode with the same agent and mode."""
    n_modes = int(max(mode.max(initial=0), episodes.mode.max(initial=0))) + 1
    of_recovery, of_episode = agent * n_modes + mode, episodes.agent * n_modes + episodes.mode
    order = np.argsort(of_episode, kind="stable")
    first = np.searchsorted(of_episode[order], of_recovery, side="left")
    last = np.searchsorted(of_episode[order], of_recovery, side="right")
    n = last - first
    recovery = np.repeat(np.arange(len(agent)), n)
    rank = np.arange(n.sum()) - np.repeat(np.cumsum(n) - n, n)
    return recovery, order[np.repeat(first, n) + rank]


def log_hours(microseconds: Integers) -> Floats:
    """Compute the natural logarithm of each duration in hours, at least ``LEAST_LOG_HOURS`` (certainty.md §4b).

    Logarithms are rounded to 12 decimals, so that sums in ``LOG_UNITS`` are exact.
    """
    with np.errstate(divide="ignore"):
        logs = np.log(microseconds / MICROSECONDS_PER_HOUR)
    return np.round(np.maximum(logs, LEAST_LOG_HOURS), 12).astype(np.float64)


def recovery_sums(episodes: FragileEpisodes, agents: range, shape: tuple[int, int]) -> Columns:
    """Return the three recovery fields of :class:`PeriodSums` for a range of agents.

    :param shape: numbers of agents and of periods.
    """
    mine = (episodes.agent >= agents.start) & (episodes.agent < agents.stop)
    mine &= (episodes.recovered >= 0) & (episodes.recovered < shape[1])
    at = (episodes.agent[mine] - agents.start, episodes.recovered[mine])
    logs = log_hours(episodes.microseconds[mine])
    amounts = {
        "n_recoveries": (np.ones(len(logs)), 1),
        "log_recovery_hours": (logs, LOG_UNITS),
        "log_recovery_hours_squared": (logs * logs, LOG_UNITS),
    }
    columns: Columns = {}
    for name, (values, units) in amounts.items():
        total = np.zeros(shape, dtype=np.int64)
        np.add.at(total, at, np.rint(values * units).astype(np.int64))
        columns[name] = total if units == 1 else total / units
    return columns
