"""S, sustained coherence (scoring.md §7).

σ(t) = Σ w f^k over the coherent signals in [t − M, t), and σ_max(t) is the same sum over all signals. w is the weight
of a signal: w_c if corroborated, else w_u. k is its age in whole periods, f the decay factor per period, and M the
lookback horizon. S at the as-of T is the mean of σ/σ_max over the period ends t in (T − W, T], where W is the length of
the window. Period ends without a signal in their horizon do not count.
"""

from typing import NamedTuple

import numpy as np

from ciris_scoring.windows.inputs import Columns, Floats, Parameters, PeriodSums, Places, Window, ratio
from ciris_scoring.windows.rolling import decayed_sum

KEPT_BITS = 44
"""Number of bits to which S is rounded: 13 decimal digits. Lower bits are rounding errors that depend on where sums
begin. Without them, S of unchanged data is the same to the bit in every run."""


class States(NamedTuple):
    """Coherence states at each period end, (agents, periods + 1) each."""

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


def coherence_columns(
    sums: PeriodSums,
    places: Places,
    windows: tuple[Window, ...],
    parameters: Parameters,
    periods_per_day: int,
) -> Columns:
    """Compute S of n rows, with σ and σ_max at the as-of, by the names of the columns of ``int_windows`` (scoring.md
    §7).

    :param sums: sums of the agents over at least each window and the ``coherence_days`` before it, or over their whole
        history.
    :param periods_per_day: 1 or 24.
    :returns: (n,) each. S is exactly 1 where all signals are coherent, exactly 0 where none is, and NaN where S is
        unmeasured.
    """
    columns: Columns = {name: np.zeros(len(places.agent)) for name in ("sigma", "sigma_max", "s_score")}
    for index, window in enumerate(windows):
        rows = np.flatnonzero(places.window == index)
        at = places.agent[rows], places.as_of[rows]
        length = window.window_days * periods_per_day
        states = States.of(sums, window, parameters, periods_per_day)
        n_ends = states.measured_ends(length)[at]
        ratios = decayed_sum(ratio(*states)[:, 1:], length)[at]
        mantissa, exponent = np.frexp(ratios / np.maximum(n_ends, 1.0))
        share = np.ldexp(np.round(np.ldexp(mantissa, KEPT_BITS)), exponent - KEPT_BITS)
        columns["sigma"][rows], columns["sigma_max"][rows] = states.sigma[at], states.sigma_max[at]
        columns["s_score"][rows] = np.where(n_ends > 0, share, np.nan)
    return columns
