"""Red flags of selective reporting (certainty.md §5): a share x of n is compared with the agent's own earlier share or
with the fleet's.

The comparison is the agent's own baseline if the baseline is large enough, else the fleet's median in the same window.
The median is also used if the baseline itself would raise the red flag when compared with the median, because a record
may have been selective from its first day.
"""

from collections.abc import Iterator, Mapping
from math import lgamma
from typing import Any, NamedTuple

import numpy as np

from ciris_scoring.basics.decimals import percent, rounded
from ciris_scoring.basics.kinds import FLAGS, Kind
from ciris_scoring.statistics import residuals
from ciris_scoring.statistics.inputs import Booleans, Floats, Integers

FIELDS = (
    "action_was_overridden",
    "idma_fragility_flag",
    "coherence_passed",
    "action_success",
    "csdma_plausibility_score",
    "conscience_passed",
)
"""Fields whose absence is a red flag, in the order of the elements of array columns of ``int_windows`` (certainty.md
§5)."""

MEDIAN_WEIGHT = 4
"""Weight of the fleet's median. In a comparison, the median counts as a sample that is four times as large as the
window's sample, because the median summarises many agents (certainty.md §5). The value is a choice; docs/signs.md was
measured with it."""

LEAST_EXPECTED = 0.005
"""Share of a field's values that honest agents omit by accident. The fleet's median counts as at least this share
(certainty.md §5, "Chance"). The value is an assumption; docs/signs.md was measured with it."""


class Rule(NamedTuple):
    """Thresholds of a red flag, from its file in ``kinds/flags``. They are not scoring parameters, because no score
    depends on them. They were set by ``make bench BENCH=red-flags``, so that an honest agent raises each red flag in at
    most 1 % of windows (docs/signs.md, "False alarms")."""

    found: int = 1
    """Smallest count in the window; 1 for red flags that no honest agent raises."""
    share: float | None = None
    """Smallest share in the window."""
    excess: float | None = None
    """Smallest difference between the share in the window and the share that it is compared with."""
    z: float | None = None
    """Smallest difference between the window's share and the share that it is compared with, in standard errors."""
    ratio: float | None = None
    """Smallest ln of traces per day in the window divided by traces per day in the baseline or by their median."""
    chance: float | None = None
    """Largest probability, by chance alone, of the count in the window or a larger count."""
    of_baseline: int = 30
    """Smallest number of traces or deferrals in a baseline with which a window is compared."""
    baseline_days: float = -np.inf
    """Length in days of the shortest baseline with which a window is compared. Traces per day of a shorter baseline
    vary too much."""
    of_median: int = 30
    """Smallest number of traces or deferrals of an agent whose share counts in the fleet's median."""
    days_to_judge: int | None = None
    """Age in days from which a deferral without a judgement counts as unresolved."""

    @property
    def compares(self) -> bool:
        """Whether the rule has a threshold that compares the window with the baseline or the fleet's median."""
        return (self.excess, self.z, self.ratio, self.chance) != (None,) * 4


RULES = {flag.id: Rule(**flag.thresholds) for flag in FLAGS.values() if flag.counts}
"""Rules of the red flags that compare counts, by id of the red flag."""
DAYS_TO_JUDGE = int(FLAGS["deferrals_left_open"].thresholds["days_to_judge"])
"""Days after which a deferral without a judgement counts as unresolved."""


class Raised(NamedTuple):
    """A red flag that is raised: a row of ``fct_record_signs``."""

    row: int
    """Index of the row of ``int_windows``: an agent, as-of and window."""
    red_flag: str
    field: str | None
    value: float
    comparison_value: float | None
    compared_with: str | None
    z: float | None
    message: str


Inputs = Mapping[str, Any]
"""Columns of ``int_windows``: (n,), or (n, length) for arrays. Rows of the same as-of and window are adjacent."""


def raised_red_flags(inputs: Inputs) -> Iterator[Raised]:
    """Yield the red flags of n rows (certainty.md §5; docs/signs.md).

    :param inputs: columns of all agents' rows at some as-ofs and windows, and ``fleet``, (n,): number of the as-of and
        window of each row, in ascending order.
    """
    for count in _counts(inputs):
        yield from _raised(inputs, *count)
    yield from _repeated_records(inputs)


def _counts(
    inputs: Inputs,
) -> Iterator[tuple[Kind, str | None, Integers, Integers, Integers, Integers]]:
    """Yield the counts of each red flag, and of each field if the counts are arrays, as arguments of :func:`_raised`.
    For a red flag without a baseline, the baseline's counts are 0."""
    none = np.zeros_like(inputs["n_traces"])
    for flag in (FLAGS[name] for name in RULES):
        counts = [
            inputs[flag.counts[name]] if name in flag.counts else none
            for name in ("found", "of", "baseline_found", "baseline_of")
        ]
        if counts[0].ndim == 1:
            yield flag, None, *counts
            continue
        for at, of_field in enumerate(FIELDS):
            yield flag, of_field, *(some[:, at] if some.ndim > 1 else some for some in counts)


def _raised(
    inputs: Inputs,
    flag: Kind,
    field: str | None,
    found: Integers,
    of: Integers,
    earlier_found: Integers,
    earlier_of: Integers,
) -> Iterator[Raised]:
    """Yield a red flag for each row that raises it.

    :param found: (n,) counts in the window, such as traces without a value.
    :param of: (n,) numbers of items of which ``found`` is a part, such as all traces in the window.
    :param earlier_found: (n,) counts in the baseline, out of ``earlier_of``.
    """
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
    """Return whether counts pass all thresholds of a rule.

    A threshold does not pass if its value is NaN, for example because the agent does not have a baseline.
    """
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
    """Yield the rows with more equal pairs of traces than chance explains (certainty.md §5, "repeated_records").

    By chance, the share of pairs with equal plausibility, alignment and coherence is the product of the shares of pairs
    with one of them equal. This gives the expected number of pairs. If the fleet's median of observed over expected
    pairs is above 1, the expected number is multiplied by the median, because models that round give correlated values.
    z is the number of standard deviations of a Poisson variable by which observed pairs exceed expected pairs.
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
    """Compute the number of standard errors by which the share x/n exceeds the share y/m. This is the two-proportion z
    test with a pooled variance (docs/signs.md). z² is Pearson's chi-square of the 2 × 2 table.

    :returns: z of each row; 0 where the pooled share is 0 or 1, NaN where n or m is 0.
    """
    pooled = _ratio(x + y, n + m)
    error = np.sqrt(pooled * (1 - pooled) * (_ratio(1, n) + _ratio(1, m)))
    return np.where((pooled <= 0) | (pooled >= 1), 0.0, _ratio(_ratio(x, n) - _ratio(y, m), error))


def is_beyond_chance(x: Integers, mean: Floats, chance: float) -> Booleans:
    """Return whether the probability that a Poisson variable is x or more is at most ``chance`` (certainty.md §5,
    "Chance").

    The result is False where x is not above the mean.

    :param x: (n,) counts.
    :param mean: (n,) means of the Poisson variables.
    :param chance: largest probability, such as 0.0001.
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
    """Return x / y; NaN where y is 0 or NaN."""
    return residuals.ratio(x, y, np.nan)


def _fleet_medians(values: Floats, fleet: Integers) -> Floats:
    """Return the median of the values of each row's fleet; NaN where all values of the fleet are NaN."""
    numbers, first = np.unique(fleet, return_index=True)
    medians = np.full(len(numbers), np.nan)
    for at, mine in enumerate(np.split(values, first[1:])):
        known = mine[~np.isnan(mine)]
        if len(known):
            medians[at] = np.median(known)
    return medians[np.searchsorted(numbers, fleet)]


def _known(value: float) -> float | None:
    return None if np.isnan(value) else float(value)
