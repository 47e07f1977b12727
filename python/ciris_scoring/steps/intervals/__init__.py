"""Intervals of the capacity score (certainty.md §3): the range that chance alone explains.

**Estimated** is the score that the agent's behaviour would have in expectation. Everything is closed form, vectorised
over rows, free of random numbers, and the same to the bit however agents and rows are cut into chunks, and wherever
the arrays begin.

**Use.** For each chunk of :func:`agents_per_chunk` agents, :func:`sum_fleet`; the sums of all chunks joined by
:func:`joined_sums` give :func:`fleet_values`, into which those of final as-ofs are written as stored; then for each
chunk again :func:`compute_intervals`. With hourly periods a chunk holds hours and ``periods_per_day`` is 24.

**Additive quantities.** With y_d events among n_d trials on day d, a row needs sums over the days of its window and of
its baseline:

======================  ==================================================  =========================================
of                      per day                                             for
======================  ==================================================  =========================================
7 rates                 y, n, y², yn, n², [n > 0]                           point, Wilson limits, design effect
calibration             n_b, y_b (10 each), y·n_b (10), n_b·n_c (55), y²,   ECE per bin, design effect around each
                        [n > 0]; Σ confidence by bin (window only)          day's expectation Σ_b n_b p_b
3 histograms            h_b (10), n·h_b (10), h_b·h_c (55), n², [n > 0]     KL, tr V, tr V²
replay                  n·y/s and n²/s per period (s sampled)               stratified estimate, its effective sample
episodes                recoveries, Σ ln hours, Σ ln² hours                 the fleet's coefficient of variation
======================  ==================================================  =========================================

S needs the weights of signals over the coherence memory (see ``coherence``). The rates are ``d_identity`` and
``k_contradiction`` (traces), ``i_chain`` (traces that are not valid), ``i_coverage`` (missing fields in tenths of a
trace), ``i_replay`` (of the sample), ``u_unsafe``, and ``s_score`` (incoherent signals of all signals). Counts are
int64 and roll by addition and subtraction, exactly; the few sums of real numbers are added up per window in a fixed
order. A day is the 24 hours that end at the as-of or a whole number of days before it, also when periods are hours.

**Readings** where certainty.md leaves room:

- Days without trials do not count. "days − 2" is days less means: a part (window, baseline) in which only one outcome
  occurs tells nothing about how days differ, so its days do not count.
- ``icc`` is averaged with the weight of the agent's own ratio, over all agents with a row at that as-of and window.
  A design effect that it implies is at least 0.1.
- ``ece``: a day's residual is Σ_b (y_b − n_b p_b), its expectation with independent traces Σ_b p_b(1 − p_b) n_b …,
  and clustering adds √(p_b(1 − p_b) p_c(1 − p_c)) per pair of traces of bins b and c.
- V of a histogram is Σ_d e_d e_dᵀ over √(p_b p_c), window and baseline together; a metric's own tr V² is corrected
  for chance, and shrunk together with tr V.
- The artefact of pseudo-counts is the divergence that both windows would show at the distribution of the two
  together. Where KL is 0, 4F is at its limit, the mean of (t2/t1) · 2/n_h.
- The coefficient of variation is that of a log-normal with the variance of the logarithms of durations, pooled within
  agents with 3 or more recovered episodes in window and baseline, and 1.8 as a prior worth 10 degrees of freedom.
- The untruncated centre of drift may be negative, and R at it above norm(1): that makes up for the noise of the
  other components. The limits of R end at norm(0) and norm(1), the score's at norm(1).
- With ``integrity_floor`` the limits of I_int are floored as its value is, where they enter the score's.
- A component estimated as 0 drives the interval. An unmeasured S is 0, and so are both its limits.
- Limits of factors and components exist for every row; those of the score are null (NaN) below ``min_traces``.
- Published limits of factors and components are at 1.96 on both sides, and ``ece``'s worse side wider still; the
  score's are combined from narrower ones, at 1.645 towards worse.
"""

from ciris_scoring.steps.intervals.effects import (
    FleetSums,
    FleetValues,
    empty_fleet_sums,
    fleet_values,
    joined_sums,
)
from ciris_scoring.steps.intervals.inputs import (
    LEAST_LOG_HOURS,
    METHOD_VERSION,
    SCORE_LEVEL,
    Parameters,
    PeriodSums,
    Rows,
    Window,
)
from ciris_scoring.steps.intervals.rows import (
    COMPONENTS,
    FACTORS,
    Intervals,
    agents_per_chunk,
    compute_intervals,
    sum_fleet,
)

__all__ = [
    "COMPONENTS",
    "FACTORS",
    "LEAST_LOG_HOURS",
    "METHOD_VERSION",
    "FleetSums",
    "FleetValues",
    "Intervals",
    "Parameters",
    "PeriodSums",
    "Rows",
    "SCORE_LEVEL",
    "Window",
    "agents_per_chunk",
    "compute_intervals",
    "empty_fleet_sums",
    "fleet_values",
    "joined_sums",
    "sum_fleet",
]
