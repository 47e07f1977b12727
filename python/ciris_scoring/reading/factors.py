"""The five factors and their columns in the marts, and numbers with their limits."""

from typing import Any, NamedTuple

FACTORS = {"C": "c_score", "I_int": "i_int_score", "R": "r_score", "I_inc": "i_inc_score", "S": "s_score"}
"""Column of each factor in fct_capacity_scores; limits are in the same with _low and _high behind it."""


class Estimate(NamedTuple):
    """A number with its 95 % interval; nulls are those of the marts."""

    value: float | None
    low: float | None
    high: float | None

    @classmethod
    def of(cls, row: Any, column: str) -> "Estimate":
        """That of a row of a mart, whose limits are in the same column with _low and _high behind it."""
        return cls(*(getattr(row, column + end) for end in ("", "_low", "_high")))
