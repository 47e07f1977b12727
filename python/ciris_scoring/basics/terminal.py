"""Text of any origin and script on a terminal: in columns, and without what would move the cursor or hide text."""

import os
import shutil
import sys
import unicodedata
from collections.abc import Iterable, Sequence
from typing import Any

import click
import wcwidth


def coloured(text: str, **style: Any) -> str:
    """Text in a colour, unless NO_COLOR is set (no-color.org)."""
    return text if os.environ.get("NO_COLOR") else click.style(text, **style)


def say(line: str) -> None:
    """Tell a person how far things are, or what is wrong: a line on stderr."""
    click.echo(printable(line), err=True)


def accept_any_character() -> None:
    """Have stdout show a question mark for what its encoding does not have, instead of failing; stderr does so."""
    reconfigure = getattr(sys.stdout, "reconfigure", None)
    if reconfigure is not None:
        reconfigure(errors="replace")


def plural(n: int, one: str, many: str | None = None) -> str:
    """A number with its noun."""
    return f"{n:,} {one if n == 1 else many or one + 's'}"


def columns() -> int | None:
    """Columns of the terminal that stdout is; None where it is none and COLUMNS names no width."""
    if not os.environ.get("COLUMNS") and not sys.stdout.isatty():
        return None
    return shutil.get_terminal_size().columns


def aligned(headings: Sequence[str], rows: Iterable[Sequence[str]], right: Iterable[str] = ()) -> list[str]:
    """Lay out rows in columns, two spaces apart, under a rule.

    :param headings: of the columns.
    :param rows: cells of printable text, as many as there are headings.
    :param right: headings of the columns to align to the right.
    """
    rows = list(rows)
    right = set(right)
    widths = [max(map(width, column)) for column in zip(headings, *rows, strict=True)]

    def line(cells: Sequence[str]) -> str:
        padded = [
            (wcwidth.rjust if heading in right else wcwidth.ljust)(cell, columns)
            for heading, cell, columns in zip(headings, cells, widths, strict=True)
        ]
        return "  ".join(padded).rstrip()

    return [line(headings), "  ".join("-" * columns for columns in widths), *map(line, rows)]


def width(text: str) -> int:
    """Columns that printable text takes in a terminal: wide characters two, combining ones none."""
    return wcwidth.wcswidth(text)


def fitted(text: str, columns: int) -> str:
    """Cut printable text down to a number of columns, with an ellipsis for what was cut."""
    if width(text) <= columns:
        return text
    return wcwidth.clip(text, 0, columns - 1).rstrip() + "…"


def printable(text: str) -> str:
    """Replace what would move the cursor or hide text: control characters, line breaks, marks of direction and such.

    Characters of no width go too, unless they combine with what is before them.
    """
    return "".join(c if _is_seen(c) else "\N{REPLACEMENT CHARACTER}" for c in text)


def _is_seen(character: str) -> bool:
    combines = unicodedata.category(character) in ("Mn", "Me")
    return character.isprintable() and (combines or wcwidth.wcwidth(character) > 0)
