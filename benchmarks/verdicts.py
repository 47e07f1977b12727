"""Stated figures, and whether they were met."""

from collections.abc import Sequence
from typing import NamedTuple

import click

from ciris_scoring.basics.terminal import aligned

HEADINGS = ("target", "stated", "measured", "")


class Verdict(NamedTuple):
    """What a figure is about, what is stated of it, what was measured, and whether the one meets the other."""

    what: str
    stated: str
    measured: str
    met: bool


def within(what: str, measured: float | None, most: float, unit: str, flaw: str = "") -> Verdict:
    """Compare with the most that something may be.

    :param measured: in its unit; None where it could not be measured.
    :param flaw: what is wrong besides, if anything is.
    """
    said = "not measured" if measured is None else f"{measured:.3g} {unit}"
    met = measured is not None and measured <= most and not flaw
    return Verdict(what, f"at most {most:.3g} {unit}", f"{said}, {flaw}" if flaw else said, met)


def announce(verdicts: Sequence[Verdict], *, only_missed: bool = False) -> bool:
    """Print how the figures were met, the missed ones in the last line; return whether all are."""
    missed = [verdict for verdict in verdicts if not verdict.met]
    shown = missed if only_missed else verdicts
    if shown:
        rows = [(*verdict[:3], "met" if verdict.met else "MISSED") for verdict in shown]
        click.echo("\n" + "\n".join(aligned(HEADINGS, rows, HEADINGS[1:3])))
    click.echo(f"\n{conclusion(verdicts)}")
    return not missed


def conclusion(verdicts: Sequence[Verdict]) -> str:
    """The last line: which targets were missed."""
    if not verdicts:
        return "No target is stated for this size of fleet."
    missed = [verdict for verdict in verdicts if not verdict.met]
    if not missed:
        return f"All {len(verdicts)} targets are met."
    said = [f"{verdict.what} ({verdict.measured}, {verdict.stated})" for verdict in missed]
    return f"Missed {len(missed)} of {len(verdicts)} targets: {'; '.join(said)}."
