"""Sums and counts of every scored window (scoring.md §3 to §7).

There are two kinds of sums. Counts of traces are additive: a window is the difference of two running totals. Counts of
deferrals and fragile episodes are not additive, because an outcome counts only at as-ofs at which it was known. Each
deferral and episode counts from a first as-of until an end (half-open). A running sum of +1 and −1 gives the count at
every as-of.

All sums are int64, so a result is exact and does not depend on where the arrays begin. Real numbers are counted in
fixed units. A unit is so small that rounding does not show in a score of three decimals, and so large that a running
total fits 64 bits.
"""

from typing import NamedTuple

import numpy as np

from ciris_scoring.windows.arrays import Integers, running_total

NEVER = np.iinfo(np.int64).max // 4
"""Period of an event that was not known at the run's as-of. It is a quarter of the largest int64, so that adding the
lengths of windows does not overflow."""
UNITS = 1_000_000_000
"""Number of integer units per 1 in sums of the values of deferrals."""
CONFIDENCE_UNITS = 100_000_000_000
"""Number of integer units per 1 in sums of confidences. The sum of 9e7 traces fits 64 bits."""


class Places(NamedTuple):
    """Agent, as-of and window of the n scored rows; (n,) each. A row is scored if its window contains a trace."""

    agent: Integers
    as_of: Integers
    """Number of periods in the arrays before the as-of."""
    window: Integers
    """Index of the window in the list of windows."""


class Deferrals(NamedTuple):
    """m deferrals; (m,) each. Periods are indices into the arrays, and may be negative."""

    agent: Integers
    created: Integers
    """Period in which the deferral was raised."""
    judged: Integers
    """Period in which the outcome became known; ``NEVER`` if it was not known before the run's as-of."""
    value: Integers
    """Value of the outcome in [0, 1], in ``UNITS``."""
    is_escalated: Integers
    """1 if the status is ESCALATED, else 0."""


class FragileEpisodes(NamedTuple):
    """Fragile episodes: one value per episode in each array, (m,). Episodes of an agent are in the order of its traces.
    Periods are indices into the arrays, and may be negative."""

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


def scored_places(n_traces: Integers, window_days: tuple[int, ...], periods_per_day: int, first_as_of: int) -> Places:
    """Return the rows to score, ordered by agent, as-of and window. A row is scored if its window contains a trace
    (scoring.md §1).

    :param n_traces: (agents, periods) numbers of traces.
    :param first_as_of: number of periods in the arrays before the earliest as-of to score.
    """
    total = running_total(n_traces)
    ends = np.arange(first_as_of, total.shape[1])
    starts = [np.maximum(ends - days * periods_per_day, 0) for days in window_days]
    is_scored = np.stack([total[:, ends] > total[:, start] for start in starts], axis=-1)
    agent, as_of, window = np.nonzero(is_scored)
    return Places(agent, as_of + first_as_of, window)


def valid_at(
    agent: Integers, first: Integers, end: Integers, shape: tuple[int, int], amount: Integers | int = 1
) -> Integers:
    """Return the sum of the amounts that are valid at each as-of, (agents, periods + 1).

    Each amount is valid from ``first`` until ``end`` (half-open).

    :param shape: numbers of agents and of as-ofs.
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


def judged_deferrals(deferrals: Deferrals, length: int, shape: tuple[int, int]) -> dict[str, Integers]:
    """Return number and value in ``UNITS``, at each as-of, of the deferrals that were raised in the ``length`` periods
    before and whose outcome was known (scoring.md §6)."""
    first, end = np.maximum(deferrals.created, deferrals.judged) + 1, deferrals.created + length + 1
    return {
        "n_judged_deferrals": valid_at(deferrals.agent, first, end, shape),
        "value_of_judged_deferrals": valid_at(deferrals.agent, first, end, shape, deferrals.value),
    }


def recoveries(episodes: FragileEpisodes, length: int, shape: tuple[int, int]) -> dict[str, Integers]:
    """Return number and total duration, at each as-of, of the episodes that ended in the ``length`` periods before
    (scoring.md §5)."""
    ended = episodes.ended()
    first, end = ended.recovered + 1, ended.recovered + length + 1
    return {
        "n_recoveries": valid_at(ended.agent, first, end, shape),
        "recovery_microseconds": valid_at(ended.agent, first, end, shape, ended.microseconds),
    }


def open_episodes(episodes: FragileEpisodes, period_microseconds: int, shape: tuple[int, int]) -> dict[str, Integers]:
    """Return number and duration so far of the open episodes, at each as-of."""
    while_open = episodes.agent, episodes.detected + 1, episodes.recovered + 1, shape
    n, since = valid_at(*while_open), valid_at(*while_open, episodes.detected_microseconds)
    return {"n_open_episodes": n, "open_microseconds": n * np.arange(shape[1]) * period_microseconds - since}


def recovered_modes(episodes: FragileEpisodes, length: int, shape: tuple[int, int]) -> dict[str, Integers]:
    """Return, at each as-of, the number of failure modes with a recovery in the ``length`` periods before, and the
    number of these modes with an open episode.

    A recovery relapsed if another episode of the same failure mode followed. Of the recoveries of a mode, all but the
    last relapsed. The last one relapsed too if the open episode has this mode. So the number of relapses is
    n_recoveries − n_modes + n_modes_open (scoring.md §5).
    """
    ended = episodes.ended()
    agent, mode, period = np.unique(np.stack([ended.agent, ended.mode, ended.recovered]), axis=1)
    is_followed = (agent[1:] == agent[:-1]) & (mode[1:] == mode[:-1])
    following = np.append(np.where(is_followed, period[1:], NEVER), NEVER)[: len(period)]
    first, end = period + 1, np.minimum(period + length, following) + 1
    # Pairs of a recovery and an episode of the same mode. A pair counts at the as-ofs at which the recovery is in the
    # window and the episode is open.
    n_modes = int(max(mode.max(initial=0), episodes.mode.max(initial=0))) + 1
    of_recovery, of_episode = agent * n_modes + mode, episodes.agent * n_modes + episodes.mode
    order = np.argsort(of_episode, kind="stable")
    begin = np.searchsorted(of_episode[order], of_recovery, side="left")
    n = np.searchsorted(of_episode[order], of_recovery, side="right") - begin
    recovery = np.repeat(np.arange(len(agent)), n)
    rank = np.arange(n.sum()) - np.repeat(np.cumsum(n) - n, n)
    episode = order[np.repeat(begin, n) + rank]
    both_first = np.maximum(first[recovery], episodes.detected[episode] + 1)
    both_end = np.minimum(end[recovery], episodes.recovered[episode] + 1)
    return {
        "n_modes": valid_at(agent, first, end, shape),
        "n_modes_open": valid_at(agent[recovery], both_first, both_end, shape),
    }
