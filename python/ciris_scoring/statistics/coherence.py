"""S and its effective number of signals (scoring.md §7).

σ(t) = Σ w f^k over the coherent signals in [t − M, t), and σ_max(t) is the same sum over all signals. w is the weight
of a signal: w_c if corroborated, else w_u. k is its age in whole periods, f the decay factor per period, and M the
lookback horizon. S at the as-of T is the mean of σ/σ_max over the period ends t in (T − W, T], where W is the length of
the window. Period ends without a signal in their horizon do not count.

A signal of period p therefore enters S with the weight w A_p. A_p is the mean over the period ends t in the window of
f^(t − p − 1)/σ_max(t), which counts as 0 if p is not in the horizon of t. If signals are independent with variance v,
the variance of S is v · Q with Q = Σ_p A_p² (w_c² n_c,p + w_u² n_u,p), where period p has n_c,p corroborated and n_u,p
uncorroborated signals. The rate of 1/Q independent signals has the same variance, so 1/Q is the effective number of
signals (Kish 1992, Journal of Official Statistics 8, 183–200; certainty.md §3, "Rates").
"""

from typing import NamedTuple

import numpy as np

from ciris_scoring.statistics.inputs import Floats, Parameters, PeriodSums, Rows, Window
from ciris_scoring.statistics.residuals import ratio
from ciris_scoring.statistics.rolling import decayed_sum

KEPT_BITS = 44
"""Number of bits to which S is rounded: 13 decimal digits. Lower bits are rounding errors that depend on where sums
begin. Without them, S of unchanged data is the same to the bit in every run."""


class Coherence(NamedTuple):
    """S of n rows, with its effective number of signals and its last σ and σ_max; (n,) each."""

    effective_signals: Floats
    """Number of independent signals of equal weight that would give S the same variance; 0 where S is unmeasured."""
    sigma: Floats
    """σ at the as-of."""
    sigma_max: Floats
    """σ_max at the as-of."""
    s_score: Floats
    """S; exactly 1 where all signals are coherent, exactly 0 where none is, and NaN where S is unmeasured."""


def coherence(
    sums: PeriodSums, rows: Rows, window: Window, parameters: Parameters, periods_per_day: int
) -> Coherence:
    """Compute S of n rows, all of the same window (scoring.md §7).

    :param sums: sums of the agents over at least each window and the ``coherence_days`` before it, or over their whole
        history.
    :param periods_per_day: 1 or 24.
    """
    keep = 1 - parameters.decay_per_day / periods_per_day
    length = window.window_days * periods_per_day
    memory = window.coherence_days * periods_per_day
    corroborated, uncorroborated = parameters.w_corroborated, parameters.w_uncorroborated
    weight = corroborated * sums.n_signals_corroborated + uncorroborated * sums.n_signals_uncorroborated
    coherent = corroborated * sums.n_coherent_corroborated + uncorroborated * sums.n_coherent_uncorroborated
    sigma, sigma_max = decayed_sum(coherent, memory, keep), decayed_sum(weight, memory, keep)
    measured = sigma_max > 0

    def over_ends(values: Floats) -> Floats:
        return decayed_sum(values[:, 1:], length)[rows.agent, rows.as_of]

    n_ends = over_ends(measured.astype(np.float64))
    counted = np.maximum(n_ends, 1.0)

    first, last = (int(rows.as_of.min()), int(rows.as_of.max())) if len(rows.as_of) else (1, 1)
    squares = (
        corroborated**2 * sums.n_signals_corroborated + uncorroborated**2 * sums.n_signals_uncorroborated
    )
    inverse = ratio(np.ones(sigma_max.shape), sigma_max)
    squared_weight = _squared_weights(squares, inverse, keep, length, memory, first, last)
    variance = squared_weight[rows.agent, rows.as_of - first] / counted**2
    mantissa, exponent = np.frexp(over_ends(ratio(sigma, sigma_max)) / counted)
    share = np.ldexp(np.round(np.ldexp(mantissa, KEPT_BITS)), exponent - KEPT_BITS)
    return Coherence(
        effective_signals=ratio(np.ones_like(variance), variance),
        sigma=sigma[rows.agent, rows.as_of],
        sigma_max=sigma_max[rows.agent, rows.as_of],
        s_score=np.where(n_ends > 0, share, np.nan),
    )


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
