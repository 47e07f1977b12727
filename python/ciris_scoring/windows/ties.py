"""Count pairs of traces with equal plausibility, alignment or coherence, and traces with close plausibilities.

The red flags `repeated_records` and `constant_value` compare these counts (certainty.md §5). They are not sums over
scoring periods, so the traces of each window are counted.
"""

from typing import NamedTuple

import numpy as np

from ciris_scoring.windows.inputs import Integers, Places, Window

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
    """Numbers of traces, and of pairs of equal traces, of n rows; (n,) each, named as in ``int_windows``."""

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


def count_ties(scored: Scored, rows: Places, windows: tuple[Window, ...], periods_per_day: int) -> Ties:
    """Count the traces, and the pairs of equal traces, in each row's window (certainty.md §5, "repeated_records").

    :param scored: the m traces of the agents, in any order; traces outside the windows do not count.
    :param rows: the n rows.
    :param periods_per_day: 1 or 24.
    """
    n_agents = int(max(rows.agent.max(initial=-1), scored.agent.max(initial=-1))) + 1
    scored = Scored._make(values[np.argsort(scored.period, kind="stable")] for values in scored)
    plausibility, others = np.divmod(scored.triple, BASE * BASE)
    alignment, coherence = np.divmod(others, BASE)
    complete = (alignment != ABSENT) & (coherence != ABSENT)
    plausibilities = _of_one_score(scored.agent, scored.period, plausibility, n_agents)
    agent, period = scored.agent[complete], scored.period[complete]
    triples, number = np.unique(agent * BASE**3 + scored.triple[complete], return_inverse=True)
    kinds = [
        _Values(period, number, np.searchsorted(triples, np.arange(n_agents + 1) * BASE**3)),
        *(_of_one_score(agent, period, score[complete], n_agents) for score in (plausibility, alignment, coherence)),
    ]
    result = Ties(*np.zeros((len(Ties._fields), len(rows.agent)), dtype=np.int64))
    for window, as_of in sorted(set(zip(rows.window.tolist(), rows.as_of.tolist(), strict=True))):
        at = np.flatnonzero((rows.window == window) & (rows.as_of == as_of))
        of_row = rows.agent[at]
        first = as_of - windows[window].window_days * periods_per_day
        counts = plausibilities.counts(first, as_of)
        result.n_plausibilities[at] = plausibilities.by_agent(counts)[of_row]
        result.n_close_plausibilities[at] = _most_within(counts.reshape(n_agents, BASE))[of_row]
        for values, pairs in zip(kinds, result[3:], strict=True):
            counts = values.counts(first, as_of)
            pairs[at] = values.by_agent(counts * (counts - 1) // 2)[of_row]
        result.n_triples[at] = values.by_agent(counts)[of_row]
    return result


class _Values(NamedTuple):
    """Values of plausibility, alignment or coherence, or of all three together, of m traces. Each distinct value of an
    agent has a number. Two agents never share a number."""

    period: Integers
    """(m,) scoring periods, ascending."""
    number: Integers
    """(m,) number of the value of each trace."""
    starts: Integers
    """(agents + 1,) first number of each agent: agent a has the numbers in [starts[a], starts[a + 1])."""

    def counts(self, first: int, end: int) -> Integers:
        """Return how many traces of the periods [first, end) have each value, by number."""
        within = slice(*np.searchsorted(self.period, (first, end)))
        return np.bincount(self.number[within], minlength=self.starts[-1])

    def by_agent(self, amounts: Integers) -> Integers:
        """Return sums of amounts by agent, (agents,), from amounts by number."""
        return np.diff(np.concatenate([[0], np.cumsum(amounts)])[self.starts])


def _most_within(counts: Integers) -> Integers:
    """Return the largest number of traces in any range of ``CLOSE`` thousandths, from counts by value (agents, ...)."""
    total = np.cumsum(counts, axis=1)
    total[:, CLOSE + 1 :] -= total[:, : -CLOSE - 1].copy()
    result: Integers = total.max(axis=1)
    return result


def _of_one_score(agent: Integers, period: Integers, score: Integers, n_agents: int) -> _Values:
    """Return the values of plausibility, alignment or coherence. The digit serves as the number of a value."""
    return _Values(period, agent * BASE + score, np.arange(n_agents + 1) * BASE)
