"""The five factors: their names and columns in the marts."""

from dataclasses import dataclass

FACTORS = {"C": "c_score", "I_int": "i_int_score", "R": "r_score", "I_inc": "i_inc_score", "S": "s_score"}
"""Column of each factor in fct_capacity_scores; limits are in the same with _low and _high behind it."""


@dataclass(frozen=True, slots=True)
class Factor:
    """A factor of a score, in [0, 1], with its 95 % interval; the limits are null in rows older than intervals."""

    name: str
    score: float
    low: float | None
    high: float | None
