"""Numbers for people: cut, not rounded, because 0.848 must not look like 0.85, another category.

Scores, factors, points and components have three decimals, limits of intervals two.
"""

from decimal import ROUND_DOWN, ROUND_HALF_UP, Decimal
from math import isnan

SCORE_DECIMALS = 3
"""Decimals of scores, factors, points and components."""


def cut(value: float, places: int) -> str:
    """Write a number with so many decimals, cut off."""
    return f"{Decimal(repr(value)).quantize(Decimal(1).scaleb(-places), ROUND_DOWN):f}"


def score(value: float) -> str:
    """Write a score, a factor, a component, or points."""
    return cut(value, SCORE_DECIMALS)


def limit(value: float) -> str:
    """Write a limit of an interval."""
    return cut(value, 2)


def change(value: float) -> str:
    """Write what a score gained or lost, with its sign."""
    return ("" if value < 0 else "+") + score(value)


def rounded(value: float, places: int) -> str:
    """Write a number that no category depends on, rounded half up from its 15 digits; ``?`` for one that is unknown."""
    if isnan(value):
        return "?"
    return f"{Decimal(f'{value:.15g}').quantize(Decimal(1).scaleb(-places), ROUND_HALF_UP):f}"


def percent(share: float) -> str:
    """Write a share in per cent."""
    return f"{rounded(100 * share, 1)} %"
