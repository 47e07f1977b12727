"""Numbers as text for people. Scores are cut, not rounded, because 0.848 must not look like 0.85, which is another
category."""

from decimal import ROUND_CEILING, ROUND_DOWN, ROUND_HALF_UP, Decimal
from math import isnan

SCORE_DECIMALS = 3
"""Decimals of scores, factors, loss points and components."""


def cut(value: float, places: int) -> str:
    """Return a number as text, cut to a number of decimals and not rounded."""
    return f"{Decimal(repr(value)).quantize(Decimal(1).scaleb(-places), ROUND_DOWN):f}"


def score(value: float) -> str:
    """Return a score, a factor, a component or loss points as text, cut to ``SCORE_DECIMALS``."""
    return cut(value, SCORE_DECIMALS)


def bounds(low: float, high: float) -> tuple[str, str]:
    """Return confidence bounds as text with 2 decimals: the lower one cut, and the upper one rounded up, so that the
    interval that people read contains the score."""
    return cut(low, 2), f"{Decimal(repr(high)).quantize(Decimal('0.01'), ROUND_CEILING):f}"


def change(value: float) -> str:
    """Return a change of a score as text, with its sign, cut to the decimals of scores."""
    return ("" if value < 0 else "+") + score(value)


def rounded(value: float, places: int) -> str:
    """Return a number rounded half up from its first 15 digits; ``?`` for NaN. Do not use it for scores: a score must
    not be rounded up into another category."""
    if isnan(value):
        return "?"
    return f"{Decimal(f'{value:.15g}').quantize(Decimal(1).scaleb(-places), ROUND_HALF_UP):f}"


def percent(share: float) -> str:
    """Return a share from 0 to 1 as text in per cent, rounded to one decimal, such as "12.5 %"."""
    return f"{rounded(100 * share, 1)} %"
