"""Red flags of selective reporting (certainty.md §5): x of n, against the agent's own or the fleet's share.

A baseline that is large enough is compared with. Else it is the fleet's median in the same window, and also where the
baseline itself would raise the sign against that: a record may have been polished from its first day.
"""

from collections.abc import Iterator, Mapping
from math import lgamma
from typing import Any, NamedTuple

import numpy as np

from ciris_scoring.basics.decimals import percent, rounded
from ciris_scoring.basics.kinds import FLAGS, Kind
from ciris_scoring.statistics.inputs import Booleans, Floats, Integers

FIELDS = (
    "action_was_overridden",
    "idma_fragility_flag",
    "coherence_passed",
    "action_success",
    "csdma_plausibility_score",
    "conscience_passed",
)
"""Verdicts whose absence is a red flag, in the order of the arrays of int_windows."""

MEDIAN_WEIGHT = 4
"""The median counts for so many times the window's own number: it rests on many agents."""

LEAST_EXPECTED = 0.005
"""Share that is expected where the fleet's median is lower: what honest agents leave out by accident."""


class Rule(NamedTuple):
    """Thresholds of a red flag, as its file in ``kinds`` names them.

    A share that nobody else has needs three traces to be no accident; a key may be replaced now and then; a fleet that
    grows raises nothing, unless by trivial traces.
    """

    found: int = 1
    """Least number of what is counted. Where no other threshold is given, no honest agent has one."""
    share: float | None = None
    """Least share."""
    excess: float | None = None
    """Least difference of the shares."""
    z: float | None = None
    """Least number of standard errors of that difference."""
    ratio: float | None = None
    """Least logarithm of the ratio of traces per day."""
    chance: float | None = None
    """Greatest probability that chance finds as many."""
    of_baseline: int = 30
    """Least number of which a baseline consists."""
    baseline_days: float = -np.inf
    """Least length of a baseline in days: traces per day of a baseline that has hardly begun say nothing."""
    of_median: int = 30
    """The same as ``of_baseline``, of an agent in the fleet's median."""
    days_to_judge: int | None = None
    """Days that an authority has to judge a deferral before it counts as left open."""

    @property
    def compares(self) -> bool:
        """Whether it takes more than a count or a share to raise it."""
        return (self.excess, self.z, self.ratio, self.chance) != (None,) * 4


RULES = {flag.id: Rule(**flag.thresholds) for flag in FLAGS.values() if flag.counts}
DAYS_TO_JUDGE = int(FLAGS["deferrals_left_open"].thresholds["days_to_judge"])


class Raised(NamedTuple):
    """A red flag that is raised, as in ``fct_record_signs``."""

    row: int
    """Index of the agent, as-of and window."""
    sign: str
    field: str | None
    value: float
    comparison_value: float | None
    compared_with: str | None
    z: float | None
    message: str


Inputs = Mapping[str, Any]
"""Columns of ``int_windows``: (n,) or, of arrays, (n, length). Rows of one as-of and window stand together."""


def raised_signs(inputs: Inputs) -> Iterator[Raised]:
    """Judge the rows of whole fleets.

    :param inputs: also with ``fleet``, (n,), a number of each as-of and window, ascending.
    """
    for count in _counts(inputs):
        yield from _raised(count, inputs)
    yield from _repeated_records(inputs)


class _Count(NamedTuple):
    """x of n of every row, and y of m of what an agent is compared with before the fleet."""

    flag: Kind
    field: str | None
    found: Integers
    of: Integers
    earlier_found: Integers
    earlier_of: Integers


def _counts(inputs: Inputs) -> Iterator[_Count]:
    """Counts that each red flag compares, for each field where they are arrays; without a baseline, none of it."""
    none = np.zeros_like(inputs["n_traces"])
    for flag in (FLAGS[name] for name in RULES):
        counts = [
            inputs[flag.counts[name]] if name in flag.counts else none
            for name in ("found", "of", "baseline_found", "baseline_of")
        ]
        if counts[0].ndim == 1:
            yield _Count(flag, None, *counts)
            continue
        for at, of_field in enumerate(FIELDS):
            yield _Count(flag, of_field, *(some[:, at] if some.ndim > 1 else some for some in counts))


def _raised(count: _Count, inputs: Inputs) -> Iterator[Raised]:
    """Yield the rows where a count raises its red flag."""
    flag, field, found, of, earlier_found, earlier_of = count
    rule = RULES[flag.id]
    candidates = np.flatnonzero(found >= rule.found)
    if not len(candidates):
        return
    share = _ratio(found, of)
    median = _fleet_medians(np.where(of >= rule.of_median, share, np.nan), inputs["fleet"])[candidates]
    x, n, y, m = (values[candidates] for values in (found, of, earlier_found, earlier_of))
    is_own = (m >= rule.of_baseline) & (inputs["baseline_days"][candidates] >= rule.baseline_days)
    if rule.compares:
        is_own &= ~_passes(rule, y, m, median, MEDIAN_WEIGHT * m, np.maximum(median, LEAST_EXPECTED))
    other_share = np.where(is_own, _ratio(y, m), median)
    other_of = np.where(is_own, m, MEDIAN_WEIGHT * n)
    expected_share = np.where(is_own, (y + 1) / (m + 1), np.maximum(median, LEAST_EXPECTED))
    per_day, ratio = inputs["n_traces"] / inputs["window_days"], None
    other_per_day = np.full(len(candidates), np.nan)
    if rule.ratio is not None:
        own_per_day = _ratio(inputs["baseline_n_traces"], inputs["baseline_days"])[candidates]
        other_per_day = np.where(is_own, own_per_day, _fleet_medians(per_day, inputs["fleet"])[candidates])
        ratio = np.log(_ratio(per_day[candidates], other_per_day))
    passed = _passes(rule, x, n, other_share, other_of, expected_share, ratio)
    z = excess_z(x, n, other_share * other_of, other_of)
    published = {
        "counts": (x, other_share * n),
        "shares": (share[candidates], other_share),
        "days": (ratio, other_per_day),
    }[flag.published]
    value, comparison = (np.asarray(values, dtype=np.float64) for values in published)
    for at in np.flatnonzero(passed).tolist():
        row = int(candidates[at])
        numbers = {
            "percent": percent(share[row]),
            "other_percent": percent(other_share[at]),
            "each": rounded(share[row], 2),
            "other_each": rounded(other_share[at], 2),
            "other_found": rounded(other_share[at] * n[at], 1),
            "a_day": rounded(per_day[row], 1),
            "other_a_day": rounded(other_per_day[at], 1),
        }
        words = {
            "field": field,
            "found": x[at],
            "of": n[at],
            "other": "its own baseline" if is_own[at] else "the fleet's median",
            "window_days": inputs["window_days"][row],
            "days_to_judge": rule.days_to_judge,
        }
        yield Raised(
            row,
            flag.id,
            field,
            float(value[at]),
            _known(comparison[at]),
            "own_baseline" if is_own[at] else "fleet_median",
            _known(z[at]),
            flag.sentences["raised"].format(**words, **numbers),
        )


def _passes(
    rule: Rule,
    found: Integers,
    of: Integers,
    other_share: Floats,
    other_of: Integers | Floats,
    expected_share: Floats,
    ratio: Floats | None = None,
) -> Booleans:
    """Whether counts pass the thresholds of a rule; an unknown comparison passes none."""
    share = _ratio(found, of)
    passed: Booleans = found >= rule.found
    if rule.share is not None:
        passed &= share >= rule.share
    if rule.excess is not None:
        passed &= share - other_share >= rule.excess
    if rule.z is not None:
        passed &= excess_z(found, of, other_share * other_of, other_of) >= rule.z
    if rule.ratio is not None and ratio is not None:
        passed &= ratio >= rule.ratio
    if rule.chance is not None:
        passed &= is_beyond_chance(found, of * expected_share, rule.chance)
    return passed


def _repeated_records(inputs: Inputs) -> Iterator[Raised]:
    """Yield the rows with more equal pairs of traces than chance gives.

    Chance gives the product of the shares of pairs in which each score alone is equal. z is that of a Poisson variable
    with the mean that chance gives, times the fleet's median where that is above 1: models that round give scores that
    hang together.
    """
    flag = FLAGS["repeated_records"]
    least = flag.thresholds
    n, pairs = inputs["n_triples"], inputs["equal_pairs"]
    of_all = n * (n - 1) / 2.0
    product = inputs["equal_plausibilities"] * 1.0 * inputs["equal_alignments"] * inputs["equal_coherences"]
    by_chance = _ratio(product, of_all**2)
    over_chance = np.where(n >= least["of"], _ratio(pairs * of_all**2, product), np.nan)
    median = _fleet_medians(over_chance, inputs["fleet"])
    raised = (
        (pairs >= least["found"])
        & (over_chance >= least["over_chance"])
        & (over_chance >= least["over_median"] * median)
    )
    for row in np.flatnonzero(raised).tolist():
        mean = by_chance[row] * max(median[row], 1.0)
        yield Raised(
            row,
            flag.id,
            None,
            float(over_chance[row]),
            float(median[row]),
            "fleet_median",
            float(pairs[row] / np.sqrt(mean) - np.sqrt(mean)),
            flag.sentences["raised"].format(
                of=n[row],
                found=pairs[row],
                times=rounded(over_chance[row], 1),
                other_times=rounded(median[row], 1),
            ),
        )


def excess_z(x: Any, n: Any, y: Any, m: Any) -> Floats:
    """Standard errors by which the share x/n exceeds y/m: two proportions, pooled.

    :returns: 0 where both shares are 0 or both are 1; NaN where one is unknown.
    """
    pooled = _ratio(x + y, n + m)
    error = np.sqrt(pooled * (1 - pooled) * (_ratio(1, n) + _ratio(1, m)))
    z: Floats = np.where((pooled <= 0) | (pooled >= 1), 0.0, _ratio(_ratio(x, n) - _ratio(y, m), error))
    return z


def is_beyond_chance(x: Integers, mean: Floats, chance: float) -> Booleans:
    """Whether a Poisson variable of this mean is x or more with at most this probability.

    The tail is summed from x on, until nothing is left to add; only where x is above the mean, else it is false.
    """
    result = np.zeros(len(x), dtype=bool)
    above = np.flatnonzero(x > mean)
    k, of = x[above].astype(np.float64), mean[above]
    term = np.exp(k * np.log(of) - of - np.array([lgamma(each + 1) for each in k]))
    tail = np.zeros(len(k))
    for _ in range(20 + int(10 * np.sqrt(k.max(initial=0)))):
        tail += term
        k += 1
        term = term * of / k
    result[above] = tail <= chance
    return result


def _ratio(x: Any, y: Any) -> Floats:
    """x / y, and NaN where y is 0 or unknown."""
    x, y = np.broadcast_arrays(np.asarray(x, dtype=np.float64), np.asarray(y, dtype=np.float64))
    ratio: Floats = np.divide(x, y, out=np.full(x.shape, np.nan), where=(y != 0) & ~np.isnan(y))
    return ratio


def _fleet_medians(values: Floats, fleet: Integers) -> Floats:
    """The median of each row's fleet; NaN where none of it is known."""
    numbers, first = np.unique(fleet, return_index=True)
    medians = np.full(len(numbers), np.nan)
    for at, mine in enumerate(np.split(values, first[1:])):
        known = mine[~np.isnan(mine)]
        if len(known):
            medians[at] = np.median(known)
    return medians[np.searchsorted(numbers, fleet)]


def _known(value: float) -> float | None:
    return None if np.isnan(value) else float(value)
