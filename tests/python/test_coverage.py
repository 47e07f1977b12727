"""Tests of intervals (`make bench BENCH=coverage` at a small size) and of drift between equal distributions."""

import pytest

from benchmarks.coverage.cases import cells
from benchmarks.coverage.measure import measure

ROWS = 400
SEED = 11
# Smallest permitted shares of intervals that contain the true score: five standard errors (of 400 rows) below the
# shares measured with 1,600 rows. The standard error of a share of 90 % is 1.5 % with 400 rows.
LEAST_COVERAGE = 0.90
EVERY_THIRD_CELL = cells()[::3]


@pytest.mark.parametrize("case", EVERY_THIRD_CELL, ids=lambda case: case.name)
def test_intervals_of_plausible_agents_contain_the_true_score(case):
    measured = measure(case, ROWS, SEED)
    assert measured["rows"] == ROWS
    assert measured["score"] >= LEAST_COVERAGE
    assert 0.15 < measured["width"] < 0.7
