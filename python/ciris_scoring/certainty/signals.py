"""Effective number of the signals of S (certainty.md §3, "Rates").

A signal of period p enters S with the weight w A_p (:class:`States` defines w, f and σ_max). A_p
is the mean over the period ends t in the window of f^(t − p − 1)/σ_max(t), which counts as 0 if p is not in the horizon
of t. If signals are independent with variance v, S has the variance v · Q with Q = Σ_p A_p² (w_c² n_c,p + w_u² n_u,p),
if period p has n_c,p corroborated and n_u,p uncorroborated signals. The rate of 1/Q independent signals has the same
variance, so 1/Q is the effective number of signals (Kish 1992, Journal of Official Statistics 8, 183–200).
"""

from typing import NamedTuple

import numpy as np

from ciris_scoring.windows.inputs import Floats, Integers, Parameters, PeriodSums, Window, ratio
from ciris_scoring.windows.rolling import decayed_sum


class States(NamedTuple):
    """Coherence states at each period end, (agents, periods + 1) each, as in ``int_sustained_coherence``.

    σ(t) = Σ w f^k over the coherent signals in [t − M, t), and σ_max(t) is the same sum over all signals. w is the
    weight of a signal: w_c if corroborated, else w_u. k is its age in whole periods, f the decay factor per period, and
    M the lookback horizon (scoring.md §7).
    """

    sigma: Floats
    sigma_max: Floats

    @classmethod
    def of(cls, sums: PeriodSums, window: Window, parameters: Parameters, periods_per_day: int) -> "States":
        """Compute the states for the lookback horizon of a window.

        :param periods_per_day: 1 or 24.
        """
        keep = 1 - parameters.decay_per_day / periods_per_day
        memory = window.coherence_days * periods_per_day
        corroborated, uncorroborated = parameters.w_corroborated, parameters.w_uncorroborated
        coherent = corroborated * sums.n_coherent_corroborated + uncorroborated * sums.n_coherent_uncorroborated
        every = corroborated * sums.n_signals_corroborated + uncorroborated * sums.n_signals_uncorroborated
        return cls(decayed_sum(coherent, memory, keep), decayed_sum(every, memory, keep))

    def measured_ends(self, length: int) -> Floats:
        """Return how many of the last ``length`` period ends have a signal in their horizon, (agents, periods + 1)."""
        return decayed_sum((self.sigma_max > 0)[:, 1:].astype(np.float64), length)


def effective_signals(
    sums: PeriodSums,
    agent: Integers,
    as_of: Integers,
    window: Window,
    parameters: Parameters,
    periods_per_day: int,
) -> Floats:
    """Return the effective number of signals of n rows, all of the same window; 0 where S is unmeasured.

    :param agent: (n,) indices of agents in ``sums``.
    :param as_of: (n,) numbers of periods in ``sums`` before the as-of.
    :param periods_per_day: 1 or 24.
    """
    length = window.window_days * periods_per_day
    states = States.of(sums, window, parameters, periods_per_day)
    n_ends = states.measured_ends(length)[agent, as_of]
    first, last = (int(as_of.min()), int(as_of.max())) if len(as_of) else (1, 1)
    squares = (
        parameters.w_corroborated**2 * sums.n_signals_corroborated
        + parameters.w_uncorroborated**2 * sums.n_signals_uncorroborated
    )
    inverse = ratio(np.ones(states.sigma_max.shape), states.sigma_max)
    keep, memory = 1 - parameters.decay_per_day / periods_per_day, window.coherence_days * periods_per_day
    squared_weight = _squared_weights(squares, inverse, keep, length, memory, first, last)
    variance = squared_weight[agent, as_of - first] / np.maximum(n_ends, 1.0) ** 2
    return ratio(np.ones_like(variance), variance)


def _squared_weights(
    squares: Floats, inverse: Floats, keep: float, length: int, memory: int, first: int, last: int
) -> Floats:
    """Compute Σ_p (Σ_t f^(t − p − 1)/σ_max(t))² · squares_p at the as-ofs ``first`` to ``last``.

    The docstring of the module defines p, t, f and σ_max. The inner sum of period p is f times the inner sum of period
    p + 1, plus the term of the period end p + 1 if it lies in the window, minus the term of the period end whose
    lookback horizon no longer contains p.

    :param squares: (agents, periods) sums of squared weights of the signals.
    :param inverse: (agents, periods + 1) 1/σ_max at each period end; 0 where σ_max is 0.
    :returns: (agents, last − first + 1).
    """
    reach = length + memory
    padded_squares = np.pad(squares, ((0, 0), (reach, 0)))
    padded_inverse = np.pad(inverse, ((0, 0), (reach, 0)))
    width = last - first + 1
    inner = np.zeros((len(squares), width))
    total = np.zeros_like(inner)
    for back in range(1, reach):  # the period p is `back` periods before the as-of
        inner *= keep
        position = reach + first - back
        if back <= length:
            inner += padded_inverse[:, position + 1 : position + 1 + width]
        if back > memory:
            forgotten = position + memory + 1
            inner -= keep**memory * padded_inverse[:, forgotten : forgotten + width]
        total += inner * inner * padded_squares[:, position : position + width]
    return total
