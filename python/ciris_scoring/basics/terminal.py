"""Text of any script on a terminal: aligned columns, and no characters that move the cursor or hide text."""

import os
import shutil
import sys
import unicodedata
from collections.abc import Iterable, Sequence
from typing import Any

import click
import wcwidth


def coloured(text: str, **style: Any) -> str:
    """Return text in a colour, or plain text if NO_COLOR is set (no-color.org)."""
    return text if os.environ.get("NO_COLOR") else click.style(text, **style)


def say(line: str) -> None:
    """Print a line on stderr, such as progress or a warning."""
    click.echo(printable(line), err=True)


def accept_any_character() -> None:
    """Make stdout print a question mark for a character that its encoding lacks, instead of failing. stderr does so
    already."""
    reconfigure = getattr(sys.stdout, "reconfigure", None)
    if reconfigure is not None:
        reconfigure(errors="replace")


def plural(n: int, one: str, many: str | None = None) -> str:
    """Return a number with its noun in the singular or plural."""
    return f"{n:,} {one if n == 1 else many or one + 's'}"


def columns() -> int | None:
    """Return the width of the terminal on stdout; None if stdout is not a terminal and COLUMNS gives no width."""
    if not os.environ.get("COLUMNS") and not sys.stdout.isatty():
        return None
    return shutil.get_terminal_size().columns


def aligned(headings: Sequence[str], rows: Iterable[Sequence[str]], right: Iterable[str] = ()) -> list[str]:
    """Return rows as lines with aligned columns, two spaces apart, below the headings and a rule.

    :param headings: headings of the columns.
    :param rows: cells of printable text, one for each heading.
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
    """Return the number of terminal columns of printable text: two for a wide character, none for a combining one."""
    return wcwidth.wcswidth(text)


def fitted(text: str, columns: int) -> str:
    """Shorten printable text to a number of terminal columns, with an ellipsis if something was removed."""
    if width(text) <= columns:
        return text
    return wcwidth.clip(text, 0, columns - 1).rstrip() + "…"


def printable(text: str) -> str:
    """Replace characters that move the cursor or hide text, such as control characters, line breaks and marks of
    direction.

    Characters without a width are replaced too, unless they combine with the character before them.
    """
    return "".join(c if _is_seen(c) else "\N{REPLACEMENT CHARACTER}" for c in text)


def _is_seen(character: str) -> bool:
    combines = unicodedata.category(character) in ("Mn", "Me")
    return character.isprintable() and (combines or wcwidth.wcwidth(character) > 0)
