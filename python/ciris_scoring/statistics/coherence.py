"""S and how many traces it rests on (scoring.md §7).

σ(t) = Σ w f^k over the coherent signals in [t − M, t), σ_max(t) the same over all signals: w the weight of a signal,
k its age in whole periods, f = 1 − d · period, M the memory. S is the mean of σ/σ_max over the period ends t in
(T − W, T] that remember a signal.

S averages σ/σ_max over the period ends of the window, so a signal of period p enters it with the weight
A_p = mean over the period ends t of f^(t − p − 1)/σ_max(t), over those t that lie in the window and still remember p.
With independent signals of variance v its variance is v · Σ_p A_p² (w_c² corroborated_p + w_u² uncorroborated_p), which
is that of a rate over 1/Σ signals.
"""

from typing import NamedTuple

import numpy as np

from ciris_scoring.statistics.inputs import Floats, Parameters, PeriodSums, Rows, Window
from ciris_scoring.statistics.residuals import ratio
from ciris_scoring.statistics.rolling import decayed_sum

KEPT_BITS = 44
"""Of S, 13 decimal digits."""


class Coherence(NamedTuple):
    """S of n rows, (n,) each."""

    incoherent: Floats
    """1 − S, exactly 0 or 1 where all signals are alike; 0 where unmeasured."""
    effective_signals: Floats
    """Independent signals of equal weight that would be as certain; 0 where unmeasured."""
    n_ends: Floats
    """Period ends of the window with a signal in memory; S is unmeasured where 0."""
    sigma: Floats
    """The state at the as-of."""
    sigma_max: Floats
    """What it would be if every signal were coherent."""
    s_score: Floats
    """S, exactly 0 or 1 where all signals are alike; NaN where unmeasured."""


def coherence(
    sums: PeriodSums, rows: Rows, window: Window, parameters: Parameters, periods_per_day: int
) -> Coherence:
    """S of the rows, all of one window.

    Every row depends on its own memory alone, whatever the arrays hold beside it.
    """
    keep = 1 - parameters.decay_per_day / periods_per_day
    length = window.window_days * periods_per_day
    memory = window.coherence_days * periods_per_day
    corroborated, uncorroborated = parameters.w_corroborated, parameters.w_uncorroborated
    weight = corroborated * sums.n_signals_corroborated + uncorroborated * sums.n_signals_uncorroborated
    coherent = corroborated * sums.n_coherent_corroborated + uncorroborated * sums.n_coherent_uncorroborated
    lost = corroborated * (sums.n_signals_corroborated - sums.n_coherent_corroborated) + uncorroborated * (
        sums.n_signals_uncorroborated - sums.n_coherent_uncorroborated
    )
    sigma, sigma_max = decayed_sum(coherent, memory, keep), decayed_sum(weight, memory, keep)
    measured = sigma_max > 0

    def of_sigma_max(state: Floats) -> Floats:
        return ratio(state, sigma_max)

    def over_ends(values: Floats) -> Floats:
        result: Floats = decayed_sum(values[:, 1:], length)[rows.agent, rows.as_of]
        return result

    n_ends = over_ends(measured.astype(np.float64))
    counted = np.maximum(n_ends, 1.0)

    first, last = (int(rows.as_of.min()), int(rows.as_of.max())) if len(rows.as_of) else (1, 1)
    squares = (
        corroborated**2 * sums.n_signals_corroborated + uncorroborated**2 * sums.n_signals_uncorroborated
    )
    squared_weight = _squared_weights(
        squares, of_sigma_max(np.ones(sigma_max.shape)), keep, length, memory, first, last
    )
    variance = squared_weight[rows.agent, rows.as_of - first] / counted**2
    lost_share = over_ends(of_sigma_max(decayed_sum(lost, memory, keep))) / counted
    share = over_ends(of_sigma_max(sigma)) / counted
    return Coherence(
        incoherent=np.minimum(lost_share, 1.0),
        effective_signals=ratio(np.ones_like(variance), variance),
        n_ends=n_ends,
        sigma=sigma[rows.agent, rows.as_of],
        sigma_max=sigma_max[rows.agent, rows.as_of],
        s_score=np.where(n_ends > 0, _without_noise(share), np.nan),
    )


def _without_noise(share: Floats) -> Floats:
    """Shares to ``KEPT_BITS``: one that has not moved is the same to the bit, wherever its sums began."""
    mantissa, exponent = np.frexp(share)
    result: Floats = np.ldexp(np.round(np.ldexp(mantissa, KEPT_BITS)), exponent - KEPT_BITS)
    return result


def _squared_weights(
    squares: Floats, inverse: Floats, keep: float, length: int, memory: int, first: int, last: int
) -> Floats:
    """Σ_p (Σ_t f^(t − p − 1)/σ_max(t))² · squares_p at the as-ofs first to last, (agents, last − first + 1).

    The inner sum follows from that of the next period: it decays, gains the period end p + 1 while that is in the
    window, and loses the one that no longer remembers p.

    :param squares: (agents, periods) sums of squared weights of the signals.
    :param inverse: (agents, periods + 1) 1/σ_max at each period end, 0 where there is none.
    """
    reach = length + memory
    padded_squares = np.pad(squares, ((0, 0), (reach, 0)))
    padded_inverse = np.pad(inverse, ((0, 0), (reach, 0)))
    width = last - first + 1
    inner = np.zeros((len(squares), width))
    total = np.zeros_like(inner)
    for back in range(1, reach):  # p is `back` periods before the as-of
        inner *= keep
        position = reach + first - back
        if back <= length:
            inner += padded_inverse[:, position + 1 : position + 1 + width]
        if back > memory:
            forgotten = position + memory + 1
            inner -= keep**memory * padded_inverse[:, forgotten : forgotten + width]
        total += inner * inner * padded_squares[:, position : position + width]
    return total
