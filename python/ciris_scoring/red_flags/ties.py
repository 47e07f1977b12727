"""Count pairs of traces with equal plausibility, alignment or coherence, and traces with close plausibilities.

The red flags `repeated_records` and `constant_value` compare these counts (certainty.md §5). They are not sums over
scoring periods, so the traces of each window are counted. From one as-of to the next, only the traces that enter or
leave the window change a count.
"""

from typing import NamedTuple

import numpy as np

from ciris_scoring.windows.arrays import Integers
from ciris_scoring.windows.sums import Places

CLOSE = 60
"""Maximum difference of close plausibilities, in thousandths (certainty.md §5, "constant_value")."""
ABSENT = 1001
"""Digit for a missing plausibility, alignment or coherence. Other digits are 0 to 1000 (thousandths). The macros, which
write the digits, read this constant and ``BASE``."""
BASE = ABSENT + 1
"""Number of different digits."""


class Scored(NamedTuple):
    """Traces that have a plausibility; (m,) each."""

    agent: Integers
    period: Integers
    """Index of the scoring period."""
    triple: Integers
    """Plausibility, alignment and coherence in thousandths, as the three digits of a number in ``BASE``."""


class Ties(NamedTuple):
    """Numbers of traces, and of pairs of equal traces, of n rows; (n,) each."""

    n_plausibilities: Integers
    """Traces with a plausibility."""
    n_close_plausibilities: Integers
    """Largest number of traces of the window whose plausibilities differ by at most ``CLOSE``."""
    n_triples: Integers
    """Traces with plausibility, alignment and coherence."""
    equal_pairs: Integers
    """Pairs of traces counted in ``n_triples`` in which plausibility, alignment and coherence are equal."""
    equal_plausibilities: Integers
    """Pairs of traces counted in ``n_triples`` whose plausibilities are equal."""
    equal_alignments: Integers
    """Pairs of traces counted in ``n_triples`` whose domain alignments are equal."""
    equal_coherences: Integers
    """Pairs of traces counted in ``n_triples`` whose coherences are equal."""


def count_ties(scored: Scored, rows: Places, lengths: tuple[int, ...]) -> Ties:
    """Count the traces, and the pairs of equal traces, in each row's window (certainty.md §5, "repeated_records").

    :param scored: the m traces of the agents, in any order; traces outside the windows do not count.
    :param rows: the n rows.
    :param lengths: number of periods of each window.
    """
    n_agents = int(max(rows.agent.max(initial=-1), scored.agent.max(initial=-1))) + 1
    scored = Scored._make(values[np.argsort(scored.period, kind="stable")] for values in scored)
    plausibility, others = np.divmod(scored.triple, BASE * BASE)
    alignment, coherence = np.divmod(others, BASE)
    complete = (alignment != ABSENT) & (coherence != ABSENT)
    agent, period = scored.agent[complete], scored.period[complete]
    triples, of_triple = np.unique(agent * BASE**3 + scored.triple[complete], return_inverse=True)
    by_digit = np.repeat(np.arange(n_agents), BASE)
    result = Ties(*np.zeros((len(Ties._fields), len(rows.agent)), dtype=np.int64))
    for window, length in enumerate(lengths):
        all_scored = _Window(scored.period, scored.agent * BASE + plausibility, by_digit, n_agents)
        kinds = [_Window(period, of_triple, triples // BASE**3, n_agents)]
        for score in (plausibility, alignment, coherence):
            kinds.append(_Window(period, agent * BASE + score[complete], by_digit, n_agents))
        of_window = np.flatnonzero(rows.window == window)
        for as_of in np.unique(rows.as_of[of_window]).tolist():
            at = of_window[rows.as_of[of_window] == as_of]
            for one in (all_scored, *kinds):
                one.move(as_of - length, as_of)
            of_row = rows.agent[at]
            result.n_plausibilities[at] = all_scored.n[of_row]
            result.n_close_plausibilities[at] = _most_within(all_scored.counts.reshape(n_agents, BASE))[of_row]
            result.n_triples[at] = kinds[0].n[of_row]
            for values, pairs in zip(kinds, result[3:], strict=True):
                pairs[at] = values.pairs[of_row]
    return result


class _Window:
    """Numbers of equal values in a window that moves forward in time.

    :param period: (m,) scoring periods of the traces, ascending.
    :param number: (m,) number of the value of each trace. Two agents never share a number.
    :param agent: agent of each number.
    """

    def __init__(self, period: Integers, number: Integers, agent: Integers, n_agents: int):
        self._period, self._number, self._agent = period, number, agent
        self._within = slice(0, 0)
        self.counts = np.zeros(len(agent), dtype=np.int64)
        """Traces of the window by number."""
        self.n, self.pairs = np.zeros((2, n_agents), dtype=np.int64)
        """Traces of the window, and pairs of them that have an equal value, by agent."""

    def move(self, first: int, end: int) -> None:
        """Move the window to the periods [first, end), neither of which is earlier than before."""
        start, stop = np.searchsorted(self._period, (first, end)).tolist()
        old = self._within
        self._add(slice(max(old.stop, start), stop), 1)
        self._add(slice(old.start, min(old.stop, start)), -1)
        self._within = slice(start, stop)

    def _add(self, traces: slice, sign: int) -> None:
        number, n = np.unique(self._number[traces], return_counts=True)
        agent, before = self._agent[number], self.counts[number]
        after = before + sign * n
        np.add.at(self.n, agent, sign * n)
        np.add.at(self.pairs, agent, (after * (after - 1) - before * (before - 1)) // 2)
        self.counts[number] = after


def _most_within(counts: Integers) -> Integers:
    """Return the largest number of traces in any range of ``CLOSE`` thousandths, from counts by value (agents, ...)."""
    total = np.cumsum(counts, axis=1)
    total[:, CLOSE + 1 :] -= total[:, : -CLOSE - 1].copy()
    result: Integers = total.max(axis=1)
    return result
