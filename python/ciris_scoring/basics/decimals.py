"""Numbers for people: cut and not rounded, for 0.848 must not look like 0.85, which is another category."""

from decimal import ROUND_DOWN, Decimal


def cut(value: float, places: int) -> str:
    """Write a number with so many decimal places, without the rest of its digits."""
    return f"{Decimal(repr(value)).quantize(Decimal(1).scaleb(-places), ROUND_DOWN):f}"
