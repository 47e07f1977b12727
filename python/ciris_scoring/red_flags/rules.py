"""Red flags of selective reporting (certainty.md §5): a share x of n is compared with the agent's own earlier share or
with the fleet's.

The comparison is the agent's own baseline if the baseline is large enough, else the fleet's median in the same window.
The median is also used if the baseline itself would raise the red flag when compared with the median, because a record
may have been selective from its first day.
"""

from collections.abc import Iterator, Mapping
from fractions import Fraction
from math import lgamma
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ciris_scoring.kinds import FLAGS, Kind
from ciris_scoring.numbers_as_text import percent, rounded
from ciris_scoring.red_flags.counts import FIELDS
from ciris_scoring.windows import arrays
from ciris_scoring.windows.arrays import Booleans, Floats, Integers

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
    times: float | None = None
    """Smallest number of traces per day in the window, as a multiple of that in the baseline or of the fleet's median.
    """
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
        return (self.excess, self.z, self.times, self.chance) != (None,) * 4


RULES = {flag.id: Rule(**flag.thresholds) for flag in FLAGS.values() if flag.counts}
"""Rules of the red flags that compare counts, by id of the red flag."""


class Shares(NamedTuple):
    """Exact quotients of integers, such as 7 of 10 traces. A share is unknown where ``of`` is 0.

    A share that equals a threshold must reach it. With doubles it may not: 0.7 - 0.3 is less than 0.4. So shares are
    compared by products of integers. They are Python's integers, because the products exceed 64 bits.
    """

    found: NDArray[Any]
    of: NDArray[Any]

    @classmethod
    def exact(cls, found: Integers, of: Integers) -> "Shares":
        """Return the quotients of two arrays of integers."""
        return cls(found.astype(object), of.astype(object))

    def at(self, rows: Any) -> "Shares":
        """Return the shares of some rows."""
        return Shares(self.found[rows], self.of[rows])

    @property
    def value(self) -> Floats:
        """The quotients as doubles; NaN where they are unknown."""
        return _ratio(self.found.astype(np.float64), self.of.astype(np.float64))

    def reaches(self, times: float, other: "Shares") -> Booleans:
        """Return whether each share is at least ``times`` the other share; False where one of them is unknown."""
        a, b = Fraction(str(times)).as_integer_ratio()
        known: Booleans = (self.of > 0) & (other.of > 0)
        known &= b * self.found * other.of >= a * other.found * self.of
        return known

    def exceeds(self, other: "Shares", least: float) -> Booleans:
        """Return whether each share minus the other share is at least ``least``; False where one of them is unknown."""
        a, b = Fraction(str(least)).as_integer_ratio()
        known: Booleans = (self.of > 0) & (other.of > 0)
        known &= b * (self.found * other.of - other.found * self.of) >= a * self.of * other.of
        return known

    def is_significant(self, other: "Shares", other_size: Any, z: float) -> Booleans:
        """Return whether :func:`excess_z` of each share and the other share is at least ``z``.

        :param other_size: size of the sample whose share is ``other``.
        """
        (x, n), (y, m) = self, other
        a, b = Fraction(str(z)).as_integer_ratio()
        more = x * m - y * n
        in_both = x * m + y * other_size  # the pooled share is in_both / (m * size)
        size = n + other_size
        significant: Booleans = more > 0
        significant &= (b * more) ** 2 * other_size * size >= a**2 * n * in_both * (m * size - in_both)
        return significant


ONE = Shares(np.array(1, dtype=object), np.array(1, dtype=object))


class Raised(NamedTuple):
    """A red flag that is raised: a row of ``fct_red_flags``."""

    row: int
    """Index of the row: an agent, as-of and window."""
    red_flag: str
    field: str | None
    value: float
    comparison_value: float | None
    compared_with: str | None
    z: float | None
    message: str


Inputs = Mapping[str, Any]
"""Columns of ``red_flags/counts.py``: (n,), or (n, length). Rows of the same as-of and window are adjacent."""


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
    all_shares = Shares.exact(found, of)
    median = _fleet_medians(all_shares, of >= rule.of_median, inputs["fleet"]).at(candidates)
    x, n, y, m = (values[candidates] for values in (found, of, earlier_found, earlier_of))
    shares, own = all_shares.at(candidates), Shares.exact(y, m)
    at_least = np.maximum(median.value, LEAST_EXPECTED)
    is_own = (m >= rule.of_baseline) & (inputs["baseline_days"][candidates] >= rule.baseline_days)
    if rule.compares:
        is_own &= ~_passes(rule, own, median, MEDIAN_WEIGHT * own.of, at_least)
    other = _chosen(is_own, own, median)
    other_share, other_of = other.value, np.where(is_own, m, MEDIAN_WEIGHT * n)
    expected_share = np.where(is_own, (y + 1) / (m + 1), at_least)
    all_per_day = Shares.exact(inputs["n_traces"], inputs["window_days"])
    per_day, other_per_day = all_per_day.at(candidates), None
    if rule.times is not None:
        baseline_hours = np.rint(24 * inputs["baseline_days"]).astype(np.int64)
        own_per_day = Shares.exact(24 * inputs["baseline_n_traces"], baseline_hours).at(candidates)
        everyone = np.ones(len(of), dtype=bool)
        median_per_day = _fleet_medians(all_per_day, everyone, inputs["fleet"]).at(candidates)
        other_per_day = _chosen(is_own, own_per_day, median_per_day)
    passed = _passes(rule, shares, other, other_of.astype(object), expected_share, per_day, other_per_day)
    z = excess_z(x, n, other_share * other_of, other_of)
    a_day, other_a_day = per_day.value, other_per_day.value if other_per_day else np.full(len(x), np.nan)
    share = shares.value
    published = {
        "counts": (x, other_share * n),
        "shares": (share, other_share),
        "days": (np.log(_ratio(a_day, other_a_day)), other_a_day),
    }[flag.published]
    value, comparison = (np.asarray(values, dtype=np.float64) for values in published)
    for at in np.flatnonzero(passed).tolist():
        row = int(candidates[at])
        numbers = {
            "percent": percent(share[at]),
            "other_percent": percent(other_share[at]),
            "each": rounded(share[at], 2),
            "other_each": rounded(other_share[at], 2),
            "other_found": rounded(other_share[at] * n[at], 1),
            "a_day": rounded(a_day[at], 1),
            "other_a_day": rounded(other_a_day[at], 1),
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
    shares: Shares,
    other: Shares,
    other_size: Any,
    expected_share: Floats,
    per_day: Shares = ONE,
    other_per_day: Shares | None = None,
) -> Booleans:
    """Return whether shares pass all thresholds of a rule.

    A threshold does not pass if a share is unknown, for example because the agent does not have a baseline.
    """
    passed: Booleans = shares.found >= rule.found
    if rule.share is not None:
        passed &= shares.reaches(rule.share, ONE)
    if rule.excess is not None:
        passed &= shares.exceeds(other, rule.excess)
    if rule.z is not None:
        passed &= shares.is_significant(other, other_size, rule.z)
    if rule.times is not None and other_per_day is not None:
        passed &= per_day.reaches(rule.times, other_per_day)
    if rule.chance is not None:
        found, of = (values.astype(np.int64) for values in shares)
        passed &= is_beyond_chance(found, of * expected_share, rule.chance)
    return passed


def _chosen(is_own: Booleans, own: Shares, median: Shares) -> Shares:
    """Return the own share of each row, or the fleet's median."""
    return Shares(*(np.where(is_own, *values) for values in zip(own, median, strict=True)))


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
    of_all = (n * (n - 1) // 2).astype(object)
    product = inputs["equal_plausibilities"].astype(object) * inputs["equal_alignments"] * inputs["equal_coherences"]
    known = n >= least["of"]
    over_chance = Shares(pairs * of_all**2, product)
    medians = _fleet_medians(over_chance, known, inputs["fleet"])
    raised = (
        (pairs >= least["found"])
        & known
        & over_chance.reaches(least["over_chance"], ONE)
        & over_chance.reaches(least["over_median"], medians)
    )
    by_chance, value, median = Shares(product, of_all**2).value, over_chance.value, medians.value
    for row in np.flatnonzero(raised).tolist():
        mean = by_chance[row] * max(median[row], 1.0)
        yield Raised(
            row,
            flag.id,
            None,
            float(value[row]),
            float(median[row]),
            "fleet_median",
            float(pairs[row] / np.sqrt(mean) - np.sqrt(mean)),
            flag.sentences["raised"].format(
                of=n[row],
                found=pairs[row],
                times=rounded(value[row], 1),
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
    return arrays.ratio(x, y, np.nan)


def _fleet_medians(shares: Shares, known: Booleans, fleet: Integers) -> Shares:
    """Return the median of the known shares of each row's fleet; 0 of 0 where the fleet has no known share."""
    numbers, first = np.unique(fleet, return_index=True)
    value, medians = shares.value, []
    for mine in np.split(np.arange(len(fleet)), first[1:]):
        mine = mine[known[mine] & ~np.isnan(value[mine])]
        if not len(mine):
            medians.append((0, 0))
            continue
        order = mine[np.argsort(value[mine], kind="stable")]
        (x, n), (y, m) = (shares.at(order[at]) for at in ((len(order) - 1) // 2, len(order) // 2))
        medians.append((x * m + y * n, 2 * n * m))
    return Shares(*np.array(medians, dtype=object)[np.searchsorted(numbers, fleet)].T)


def _known(value: float) -> float | None:
    return None if np.isnan(value) else float(value)
