"""95 % intervals of the capacity score, its factors and components (certainty.md §3): the range that chance alone
explains.

The intervals estimate the score that the agent's behaviour would have in expectation. Everything is in closed form,
vectorised over rows and without random numbers. A result is the same to the bit however agents and rows are divided
into chunks, and wherever the arrays begin.

**Use.** Call :func:`sum_fleet` for each chunk of agents, with the sums of the earlier chunks. Pass the total to
:func:`fleet_values`, and the fleet's values to :func:`compute_intervals` for each chunk.

**Sums.** Bounds depend on sums over the days of the window and of its baseline (:class:`DaySums`). S also needs the
weights of signals over its lookback horizon (:mod:`signals`). Events of a rate are the outcomes that lower the score:
traces that are not valid for ``i_chain``, missing fields for ``i_coverage``, incoherent signals for ``s_score``. Counts
are int64 and are added and subtracted exactly. The few sums of real numbers are added for each window in a fixed order.
A day is a period of 24 hours that ends at the as-of or a whole number of days before it, also with hourly periods.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ciris_scoring.basics.components import COMPONENT_ROWS
from ciris_scoring.basics.names import FACTORS
from ciris_scoring.certainty.bounds import (
    Bounds,
    TwoCentred,
    calibration_bounds,
    divergence,
    drift_bounds,
    recovery_bounds,
    wilson,
)
from ciris_scoring.certainty.combination import (
    Loss,
    bounds_of,
    combine,
    driver,
    finite_loss,
    floored,
    loss,
    retention_loss,
)
from ciris_scoring.certainty.design_effects import (
    LEAST_EFFECT,
    FleetSums,
    FleetValues,
    add_correlations,
    add_episodes,
    empty_fleet_sums,
    fleet_effects,
)
from ciris_scoring.certainty.inputs import PUBLISHED_LEVEL, SCORE_LEVEL, Level, Scores
from ciris_scoring.certainty.losses import loss_of_r, loss_of_rate, norm, penalty
from ciris_scoring.certainty.residuals import (
    RATES,
    DaySums,
    DayTotals,
    day_totals,
    variation,
)
from ciris_scoring.certainty.signals import effective_signals
from ciris_scoring.windows.inputs import (
    METRICS,
    Booleans,
    Floats,
    Parameters,
    PeriodSums,
    Places,
    Window,
    ratio,
)
from ciris_scoring.windows.rolling import decayed_sum

COMPONENTS = tuple(one.component for one in COMPONENT_ROWS if one.has_interval)
"""Components with confidence bounds, in the order of the components in (n, 11) arrays. ``rho_regression`` has no
bounds: its observed value is used as if it were exact."""

GOOD_SHARES = tuple(one.component for one in COMPONENT_ROWS if one.is_rate and one.better == "higher")
"""Rates whose published value is the share of good events, such as ``i_chain``."""

WORSE_SIDE_OF_ECE = 1.6
"""Factor of the distance between the centre and the published upper bound of ``ece`` (certainty.md §3). Where gaps do
not exceed their noise, the truncated centre is too low. 1.6 was set by ``benchmarks/coverage`` (measuring.md,
"Intervals"). The score's interval does not need this factor, because the other components compensate."""

_RATE = {rate: index for index, rate in enumerate(RATES)}


class Intervals(NamedTuple):
    """Confidence bounds of n rows. NaN stands for null. ``low`` ≤ published value ≤ ``high`` unless they are null."""

    capacity_score_low: Floats
    """(n,) null without a score, like ``capacity_score_high``."""
    capacity_score_high: Floats
    factor_low: Floats
    """(n, 5) in the order of ``basics.names.FACTORS``, like ``factor_high``."""
    factor_high: Floats
    component: Floats
    """(n, 11) published components in the order of ``COMPONENTS``, each in its unit; neutral where unmeasured."""
    component_low: Floats
    component_high: Floats
    design_effect: Floats
    """(n, 11) design effects, in the order of ``COMPONENTS``; null for ``mttr_hours``, ``q_deferral`` and unmeasured
    components. The design effect of drift is the mean over the metrics."""
    interval_driver: NDArray[np.int64]
    """(n,) index in ``COMPONENTS`` of the component that widens the interval most; −1 without a score, or if components
    do not widen it."""


class _ComponentBounds(NamedTuple):
    """Confidence bounds of the components of n rows, at one level."""

    rates: Bounds
    """(n, 7) rates of bad events, in the order of ``RATES``."""
    gap: TwoCentred
    deferrals: Bounds
    """Quality of judged deferrals."""
    drift: TwoCentred
    recovery: Bounds


def sum_fleet(
    sums: PeriodSums,
    rows: Scores | Places,
    windows: tuple[Window, ...],
    *,
    periods_per_day: int = 1,
    others: FleetSums | None = None,
) -> FleetSums:
    """Compute the fleet's sums over a chunk of agents, in the first pass over all chunks.

    :param sums: sums of the chunk's agents.
    :param rows: all scored rows of these agents.
    :param periods_per_day: 1 or 24.
    :param others: sums over the agents of earlier chunks, to which the sums of this chunk are added in place; None
        without earlier chunks.
    :returns: ``others``, or new sums if it is None.
    """
    fleet = others or empty_fleet_sums(len(windows), sums.n_traces.shape[1])
    totals = day_totals(sums, _first_period(rows, windows, periods_per_day), periods_per_day)
    episodes = np.stack([sums.n_recoveries, sums.log_recovery_hours, sums.log_recovery_hours_squared], axis=-1)
    for index, window in enumerate(windows):
        memory = (window.window_days + window.baseline_days) * periods_per_day
        in_memory = decayed_sum(episodes.astype(np.float64), memory)
        part = Places(*(values[rows.window == index] for values in rows[:3]))
        parts = _window_and_baseline(totals, part, window, periods_per_day)
        add_correlations(fleet, part, variation(*parts))
        add_episodes(fleet, part, *np.moveaxis(in_memory[part.agent, part.as_of], -1, 0))
    return fleet


def compute_intervals(
    sums: PeriodSums,
    rows: Scores,
    windows: tuple[Window, ...],
    parameters: Parameters,
    fleet: FleetValues,
    *,
    periods_per_day: int = 1,
) -> Intervals:
    """Compute the confidence bounds of the scores of a chunk of agents, in the second pass (certainty.md §3).

    :param sums: sums of the chunk's agents.
    :param rows: n rows of these agents, in any order. The result has the same order.
    :param fleet: values of the fleet, from :func:`fleet_values`.
    :param periods_per_day: 1 or 24.
    """
    positions, parts = [], []
    totals = day_totals(sums, _first_period(rows, windows, periods_per_day), periods_per_day)
    # Σ t²/s over the periods, for t traces in a period, of which s were sampled for replay.
    replay = ratio(sums.n_traces**2, sums.n_replay_sampled)
    of_bins = np.concatenate([sums.judged_by_bin, sums.successes_by_bin, sums.confidence_by_bin], axis=-1)
    for index, window in enumerate(windows):
        length = window.window_days * periods_per_day
        window_replay, in_bins = decayed_sum(replay, length), decayed_sum(of_bins, length)
        of_window = np.flatnonzero(rows.window == index)
        part = Scores._make(values[of_window] for values in rows)
        bounds = _bounds(
            part,
            *_window_and_baseline(totals, part, window, periods_per_day),
            window_replay[part.agent, part.as_of],
            in_bins[part.agent, part.as_of],
            effective_signals(sums, part.agent, part.as_of, window, parameters, periods_per_day),
            fleet.icc[index, part.as_of],
            fleet.episode_cv[index, part.as_of],
            parameters,
        )
        positions.append(of_window)
        parts.append(bounds)
    order = np.argsort(np.concatenate(positions))
    return Intervals(*(np.concatenate(values)[order] for values in zip(*parts, strict=True)))


def _first_period(rows: Scores | Places, windows: tuple[Window, ...], periods_per_day: int) -> int:
    """Return the earliest period in the window or baseline of any row."""
    longest = max(window.window_days + window.baseline_days for window in windows)
    earliest = int(rows.as_of.min()) if len(rows.as_of) else 0
    return max(earliest - longest * periods_per_day, 0)


def _window_and_baseline(
    totals: DayTotals, rows: Scores | Places, window: Window, periods_per_day: int
) -> tuple[DaySums, DaySums]:
    """Return the sums over the window, and over the baseline, of n rows that all have the same window."""
    start = rows.as_of - window.window_days * periods_per_day
    return (
        totals.between(rows.agent, start, rows.as_of),
        totals.between(rows.agent, start - window.baseline_days * periods_per_day, start),
    )


def _bounds(
    rows: Scores,
    recent: DaySums,
    baseline: DaySums,
    replay: Floats,
    in_bins: Floats,
    signals: Floats,
    icc: Floats,
    episode_cv: Floats,
    parameters: Parameters,
) -> Intervals:
    """Compute the confidence bounds of n scores of one window.

    :param replay: (n,) Σ t²/s over the window's periods, for t traces in a period, of which s were sampled for replay.
    :param in_bins: (n, 30) judged traces, successes and sums of confidence, each by bin.
    :param signals: (n,) effective numbers of signals.
    :param icc: (n, 11) the fleet's correlations of traces within a day, in the order of ``EFFECTS``.
    :param episode_cv: (n,) the fleet's coefficient of variation of episode durations.
    """
    n_traces = rows.n_traces.astype(np.float64)
    n_rates = len(RATES)
    effects = np.maximum(LEAST_EFFECT, fleet_effects(recent.mean_per_day, icc))
    of_histograms = effects[:, -len(METRICS) :]

    # Rates of bad events, with their effective number of trials.
    published_rates = np.stack([getattr(rows, rate) for rate in RATES], axis=-1)
    bad = np.where([rate in GOOD_SHARES for rate in RATES], 1 - published_rates, published_rates)
    trials = np.repeat(n_traces[:, None], n_rates, axis=1)
    trials[:, _RATE["i_replay"]] = ratio(n_traces**2, replay)
    trials[:, _RATE["s_score"]] = signals
    unmeasured = np.zeros(bad.shape, dtype=np.bool_)
    unmeasured[:, _RATE["i_replay"]] = rows.is_replay_measured == 0
    unmeasured[:, _RATE["s_score"]] = rows.is_s_measured == 0

    # Calibration, deferrals, drift, recovery.
    judged_by_bin, successes, confidence = np.split(in_bins, 3, axis=-1)
    n_judged = np.sum(judged_by_bin, axis=-1)
    divergences = divergence(
        *(recent.histogram, baseline.histogram, of_histograms),
        *(parameters.drift_pseudo_count, parameters.drift_min_sample),
    )
    lost, judged = 1 - rows.q_deferral, rows.n_judged_deferrals.astype(np.float64)

    def at(level: Level) -> tuple[_ComponentBounds, list[Loss]]:
        """Return the bounds of the components at a level, and the losses of each factor's components."""
        bounds = _ComponentBounds(
            _held(wilson(bad, trials / effects[:, :n_rates], level, bad <= 0, bad >= 1), bad, unmeasured),
            calibration_bounds(judged_by_bin, confidence, successes, effects[:, n_rates], level),
            _held(_kept(wilson(lost, judged, level, lost <= 0, lost >= 1)), rows.q_deferral, judged <= 0),
            drift_bounds(divergences, level),
            recovery_bounds(rows.mttr_hours, rows.n_episodes.astype(np.float64), episode_cv, level),
        )
        return bounds, _losses(bad, bounds, rows, parameters)

    _, parts = at(SCORE_LEVEL)
    published, published_parts = at(PUBLISHED_LEVEL)
    factor = np.stack([getattr(rows, column) for column in FACTORS.values()], axis=-1)
    is_scored: Booleans = ~np.isnan(rows.capacity_score)

    # Confidence bounds of factors and score.
    best_r, worst_r = norm(1.0, parameters), norm(0.0, parameters)

    def combined_factors(losses: list[Loss]) -> list[Loss]:
        combined = [combine(part) for part in losses]
        r = combined[2]
        most = np.maximum(loss(worst_r) - r.worse, 0)
        combined[2] = r._replace(worse_distance=np.minimum(r.worse_distance, most))
        return combined

    combined = combined_factors(parts)
    factor_bounds = [bounds_of(one) for one in combined_factors(published_parts)]
    integrity = floored(combined[1], parameters.integrity_floor)
    composite_parts = [combined[0], integrity, *combined[2:]]
    whole = bounds_of(combine(Loss(*(np.stack(of, axis=-1) for of in zip(*composite_parts, strict=True)))))
    factor_low = np.stack([bounds.lower for bounds in factor_bounds], axis=-1)
    factor_high = np.stack([bounds.upper for bounds in factor_bounds], axis=-1)
    factor_low[:, 2] = np.maximum(factor_low[:, 2], worst_r)
    factor_high[:, 2] = np.minimum(factor_high[:, 2], best_r)
    whole_distance = combined[1].worse_distance
    integrity_scale = np.divide(
        integrity.worse_distance,
        whole_distance,
        out=np.ones(len(n_traces)),
        where=(whole_distance > 0) & np.isfinite(whole_distance),
    )
    drivers = driver(parts, {1: integrity_scale})

    # Components in their published units.
    lower, upper = published.rates
    good_lower, good_upper = _kept(published.rates)
    gap = published.gap
    misled = gap.centre + WORSE_SIDE_OF_ECE * (gap.upper - gap.centre)
    own_effects = np.where(unmeasured, np.nan, effects[:, :n_rates])
    n_measured = np.count_nonzero(divergences.measured, axis=-1)
    mean_effect = np.sum(np.where(divergences.measured, of_histograms, 0.0), axis=-1) / np.maximum(n_measured, 1)
    no_effect = np.full(len(n_traces), np.nan)
    components = {
        **{
            rate: (good_lower[:, i], good_upper[:, i], own_effects[:, i])
            if rate in GOOD_SHARES
            else (lower[:, i], upper[:, i], own_effects[:, i])
            for rate, i in _RATE.items()
        },
        "delta_drift": (
            np.clip(published.drift.raw_lower, 0.0, 1.0),
            np.clip(published.drift.upper, 0.0, 1.0),
            np.where(n_measured > 0, mean_effect, np.nan),
        ),
        "mttr_hours": (*published.recovery, no_effect),
        "ece": (
            np.clip(gap.raw_lower, 0.0, 1.0),
            np.clip(misled, 0.0, 1.0),
            np.where(n_judged > 0, effects[:, n_rates], np.nan),
        ),
        "q_deferral": (*published.deferrals, no_effect),
    }
    low, high, design_effect = (
        np.stack([components[component][i] for component in COMPONENTS], axis=-1) for i in range(3)
    )
    value = np.stack([getattr(rows, component) for component in COMPONENTS], axis=-1)
    capacity = rows.capacity_score
    return Intervals(
        capacity_score_low=np.minimum(whole.lower, capacity),
        capacity_score_high=np.maximum(np.minimum(whole.upper, best_r), capacity),
        factor_low=np.minimum(factor_low, factor),
        factor_high=np.maximum(factor_high, factor),
        component=value,
        component_low=np.minimum(low, value),
        component_high=np.maximum(high, value),
        design_effect=design_effect,
        interval_driver=np.where(is_scored, drivers, -1),
    )


def _held(bounds: Bounds, value: Floats, unmeasured: Booleans) -> Bounds:
    """Replace both bounds of an unmeasured component by its value, so that the component does not widen an interval."""
    return Bounds(np.where(unmeasured, value, bounds.lower), np.where(unmeasured, value, bounds.upper))


def _kept(bounds: Bounds) -> Bounds:
    """Return the bounds of the share of good events, from the bounds of the rate of bad events."""
    return Bounds(1 - bounds.upper, 1 - bounds.lower)


def _losses(bad: Floats, bounds: _ComponentBounds, rows: Scores, parameters: Parameters) -> list[Loss]:
    """Return the losses of each factor's components, in the order of ``basics.names.FACTORS``."""

    rates, gap, deferrals, drifted, recovery = bounds
    lower, upper = _kept(rates)

    def kept(rate: str) -> tuple[Floats, Floats, Floats, Floats]:
        i = _RATE[rate]
        return 1 - bad[:, i], 1 - bad[:, i], lower[:, i], upper[:, i]

    of_c = [rate for rate in RATES if penalty(rate, parameters) is not None]

    def of_identity(values: Floats) -> Floats:
        return np.stack([loss_of_rate(rate, values[:, _RATE[rate]], parameters) for rate in of_c], axis=-1)

    return [
        finite_loss(*map(of_identity, (bad, rates.upper, bad, rates.lower))),
        retention_loss(kept("i_chain"), kept("i_coverage"), kept("i_replay")),
        _resilience_loss(drifted, recovery, rows, parameters),
        retention_loss(
            (1 - gap.centre, 1 - gap.raw, 1 - gap.upper, 1 - gap.raw_lower),
            (rows.q_deferral, rows.q_deferral, *deferrals),
            kept("u_unsafe"),
        ),
        retention_loss(kept("s_score")),
    ]


def _resilience_loss(drifted: TwoCentred, recovery: Bounds, rows: Scores, parameters: Parameters) -> Loss:
    """Return the losses of the components of R with confidence bounds: drift and time to recovery.

    The loss at the bound of one component is computed with the other component at its value. The loss of both
    components at the centre is counted as a loss of drift.
    """

    def of_r(delta: Floats, hours: Floats) -> Floats:
        return loss_of_r(delta, hours, rows.rho_regression, parameters)

    def side(centre: Floats, limit: Floats, hours: Floats) -> tuple[Floats, Floats]:
        at_centre = of_r(centre, rows.mttr_hours)
        bounds = [of_r(limit, rows.mttr_hours), of_r(centre, hours) - at_centre]
        return np.stack([at_centre, np.zeros_like(at_centre)], axis=-1), np.stack(bounds, axis=-1)

    return finite_loss(
        *side(drifted.centre, drifted.upper, recovery.upper),
        *side(drifted.raw, drifted.raw_lower, recovery.lower),
    )
