"""Columns of the five factors in the marts, and values with their confidence bounds."""

from typing import Any, NamedTuple

FACTORS = {"C": "c_score", "I_int": "i_int_score", "R": "r_score", "I_inc": "i_inc_score", "S": "s_score"}
"""Column of each factor in fct_capacity_scores. With the suffixes _low and _high, it is the column of its bounds in
fct_score_certainty."""


class Estimate(NamedTuple):
    """A value of a mart with the bounds of its 95 % interval. The value and each bound can be null."""

    value: float | None
    low: float | None
    high: float | None

    @classmethod
    def of(cls, row: Any, column: str) -> "Estimate":
        """Return the value in a column of a row, with its bounds from the columns suffixed _low and _high."""
        return cls(*(getattr(row, column + end) for end in ("", "_low", "_high")))
