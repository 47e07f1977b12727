"""Tests of red flags of selective reporting: counts of equal values, and the thresholds of the flags.

`python -m benchmarks red-flags` measures how often manipulated and honest agents raise them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import combinations

import numpy as np
import pytest

from ciris_scoring.red_flags.counts import FIELDS
from ciris_scoring.red_flags.model import COLUMNS
from ciris_scoring.red_flags.rules import raised_red_flags
from ciris_scoring.red_flags.ties import ABSENT, BASE, Scored, count_ties
from ciris_scoring.windows.sums import Places


def test_counts_of_equal_values_equal_a_direct_count():
    """Three agents have 500 traces in 20 days. Some traces have no alignment or no coherence."""
    rng = np.random.default_rng(7)
    n = 500
    agent, period = rng.integers(0, 3, n), rng.integers(0, 20, n)
    scores = rng.choice([0, 1, 60, 61, 121, 500, 1000], (3, n))
    scores[1:][rng.random((2, n)) < 0.1] = ABSENT
    triple = (scores[0] * BASE + scores[1]) * BASE + scores[2]
    places = [(a, as_of, w) for a in range(3) for as_of in (7, 15, 20) for w in (0, 1)]
    columns = [np.array(values) for values in zip(*places, strict=True)]
    lengths = 7, 30
    rows = Places(*columns)
    found = count_ties(Scored(agent, period, triple), rows, lengths)
    for at, (one, as_of, window) in enumerate(places):
        inside = (agent == one) & (period < as_of) & (period >= as_of - lengths[window])
        mine = scores[:, inside]
        complete = mine[:, (mine != ABSENT).all(axis=0)].T.tolist()
        pairs = list(combinations(complete, 2))
        assert [values[at] for values in found] == [
            mine.shape[1],
            max(np.sum((mine[0] >= low) & (mine[0] <= low + 60)) for low in mine[0]),
            len(complete),
            sum(first == second for first, second in pairs),
            *(sum(first[i] == second[i] for first, second in pairs) for i in range(3)),
        ]


NOTHING = {"fleet": 1, "window_days": 7, "baseline_days": 23.0, "n_traces": 50, "baseline_n_traces": 100}
"""Default inputs of an agent, which raise no red flag. Inputs without a default are 0."""


def per_field(**counts: int) -> list[int]:
    """Return the count of each field, in the order of FIELDS."""
    return [counts.get(field, 0) for field in FIELDS]


def of_success(n: int, unreported: int, before: int, unreported_before: int = 0) -> dict[str, list[int]]:
    """Return how many traces should report action_success, and how many do not, for the window and the baseline."""
    numbers = {"n_checked": n, "n_unreported": unreported}
    numbers |= {"baseline_n_checked": before, "baseline_n_unreported": unreported_before}
    return {name: per_field(action_success=number) for name, number in numbers.items()}


def of_pairs(pairs: int, traces: int = 100, alone: int = 550) -> dict[str, int]:
    """Return the number of pairs of traces that are equal in plausibility, alignment and coherence, and in each alone.

    If 550 of the 4950 pairs of 100 traces are equal in each value, 550^3 / 4950^2 are equal in all three by chance.
    """
    scores = dict.fromkeys(("equal_plausibilities", "equal_alignments", "equal_coherences"), alone)
    return {"n_triples": traces, "equal_pairs": pairs, **scores}


def of_plausibility(close: int, n: int) -> dict[str, int]:
    """Return the number of plausibilities and how many of them differ by at most 0.06."""
    return {"n_plausibilities": n, "n_close_plausibilities": close}


def of_volume(n: int, trivial: int, before: int, trivial_before: int, days: float = 7.0) -> dict[str, float]:
    """Return the number of traces and how many of them are trivial, for the window and the baseline of some days."""
    baseline = {"baseline_n_traces": before, "baseline_n_trivial": trivial_before, "baseline_days": days}
    return {"n_traces": n, "n_trivial": trivial, **baseline}


def of_open(now: tuple[int, int], before: tuple[int, int]) -> dict[str, int]:
    """Return how many of the older deferrals are open, for the window and the baseline."""
    names = ("n_unresolved_deferrals", "n_older_deferrals")
    earlier = ("n_earlier_unresolved_deferrals", "n_earlier_older_deferrals")
    return dict(zip((*names, *earlier), (*now, *before), strict=True))


FLEETS = {
    # Missing values of action_success. First agent: 1 is expected after 0 of 99 in the baseline, and the probability of
    # 7 or more is 0.000083. Second agent: 3 are missing, 3.5 are expected. Third agent: the probability of 7 or more is
    # 0.0001003, which is too large. Last agent: only 2 are missing.
    "unreported against the own baseline": (
        [of_success(100, 7, 99), of_success(100, 3, 200, 6), of_success(100, 7, 96), of_success(50, 2, 9999)],
        {(0, "unreported", "action_success"): (0.07, 0, "own_baseline", 2.6800478074094127)},
        "action_success is missing in 7 of 100 traces that should report it (7.0 %); its own baseline: 0.0 %.",
    ),
    # A fifth of the values is missing both in window and baseline, so the first agent is compared with the fleet.
    "unreported from the first day on": (
        [of_success(100, 20, 100, 20), *2 * [of_success(100, 0, 100)]],
        {(0, "unreported", "action_success"): (0.2, 0, "fleet_median", 9.12871)},
        "action_success is missing in 20 of 100 traces that should report it (20.0 %); the fleet's median: 0.0 %.",
    ),
    # Shares at exactly a threshold raise the flag, and one trace or deferral less does not: 40 percentage points above
    # the median of 30 %, 15 points above the own baseline's 20 %, and z = 2 for 9 of 15 after 7 of 25.
    **{
        f"constant value, {close} of 100": (
            [of_plausibility(close, 100), *3 * [of_plausibility(30, 100)], of_plausibility(9, 9)],
            {(0, "constant_value", None): (0.7, 0.3, "fleet_median", 7.37058)} if close == 70 else {},
            None,
        )
        for close in (69, 70)
    },
    **{
        f"deferrals left open, {now}": (
            [of_open(now, before), *3 * [of_open(before, before)]],
            {(0, "deferrals_left_open", None): expected} if expected else {},
            None,
        )
        for now, before, expected in (
            ((35, 100), (20, 100), (0.35, 0.2, "own_baseline", 2.3755)),
            ((34, 100), (20, 100), None),
            ((9, 15), (7, 25), (0.6, 0.28, "own_baseline", 2)),
            ((8, 15), (7, 25), None),
        )
    },
    # The flag needs more than 3 times as many equal pairs as by chance, and twice the fleet's median of 1.473. First
    # agent: 3.09 times. Second agent: 2.95 times. Third agent: one trace too few. Fourth agent: only 9 pairs.
    "repeated records": (
        [
            *(of_pairs(21), of_pairs(20), of_pairs(90, 99), of_pairs(9, alone=9), of_pairs(10)),
            *(3 * [of_pairs(7)] + [of_pairs(0) | {"equal_coherences": 0}]),
        ],
        {(0, "repeated_records", None): (3.092727, 1.472727, "fleet_median", 3.478505)},
        "Among 100 traces, 21 pairs have the same plausibility, alignment and coherence: 3.1 times as many as expected "
        "by chance. The fleet's median is 1.5 times.",
    ),
    # Plausibility, alignment and coherence are correlated in all agents. The first agent has five times as many equal
    # pairs as by chance, but less than twice the fleet's median.
    "repeated by the whole fleet": ([of_pairs(34), of_pairs(20), of_pairs(20)], {}, None),
    # The first agent's traces per day are exactly twice as many as in its baseline. The last agent's are 1.995 times as
    # many, which is not enough. The second agent's baseline is shorter than 7 days, so the
    # agent is compared with the fleet's median, which it does not exceed.
    "volume jump": (
        [of_volume(200, 100, 100, 20), of_volume(300, 150, 100, 20, 6.9), of_volume(399, 200, 200, 40)],
        {(0, "volume_jump", None): (math.log(2), 100 / 7, "own_baseline", 5)},
        "28.6 traces per day, 50.0 % trivial; its own baseline: 14.3 per day, 20.0 % trivial.",
    ),
    # There is no baseline and no other agent. Only flags that need no comparison are raised.
    "nobody to compare with": (
        [{"n_traces": 20, "baseline_n_traces": 0, "n_shared_key": 3, "n_new_keys": 3}],
        {(0, "shared_key", None): (3, None, "fleet_median", None)},
        "Traces signed with a key that another agent used first: 3 of 20.",
    ),
}
"""Counts of the agents of a fleet, expected red flags by agent, flag and field, and the message of the first flag."""


def wrong_red_flags() -> Iterator[str]:
    """Yield the differences from the expected results in ``FLEETS``. The mutation tests call this function, too."""
    of_fields = ("n_checked", "n_unreported", "n_contradicted")
    for name, (rows, expected, message) in FLEETS.items():
        inputs = {}
        for column in ["fleet", *COLUMNS.at]:
            zero = NOTHING.get(column, per_field() if column.endswith(of_fields) else 0)
            inputs[column] = np.array([row.get(column, zero) for row in rows])
        flags = list(raised_red_flags(inputs))
        found = {(flag.row, flag.red_flag, flag.field): flag for flag in flags}
        if found.keys() != expected.keys() or any(
            one != (other if isinstance(other, str | None) else pytest.approx(other, rel=1e-4))
            for key, values in expected.items()
            for one, other in zip(found[key][3:7], values, strict=True)
        ):
            yield f"{name}: {found}"
        elif message is not None and flags[0].message != message:
            yield f"{name}: {flags[0].message}"


def test_red_flags_at_the_thresholds_of_their_rules():
    assert list(wrong_red_flags()) == []
