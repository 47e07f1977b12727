"""Output on a terminal, in any writing system: aligned columns, and no characters that move the cursor or hide text."""

import os
import shutil
import sys
import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import click
import wcwidth


def coloured(text: str, **style: Any) -> str:
    """Return text in a colour, or plain text if NO_COLOR is set (no-color.org) or the terminal has no colours."""
    return text if os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb" else click.style(text, **style)


def painted(text: str, colour: str | None) -> str:
    """Return text in a colour if stdout is a terminal, else plain text."""
    return coloured(text, fg=colour) if colour and sys.stdout.isatty() else text


_quiet = False


def be_quiet(quiet: bool) -> None:
    """Set whether lines of progress are suppressed."""
    global _quiet
    _quiet = quiet


def is_quiet() -> bool:
    """Return whether lines of progress are suppressed."""
    return _quiet


def progress(line: str) -> None:
    """Print a line of progress on stderr, unless the command is quiet."""
    if not _quiet:
        say(line)


def say(line: str) -> None:
    """Print a line on stderr, such as a warning."""
    click.echo(printable(line), err=True)


def accept_any_character() -> None:
    """Make stdout print a question mark for a character that its encoding lacks, instead of failing. stderr does so
    already."""
    reconfigure = getattr(sys.stdout, "reconfigure", None)
    if reconfigure is not None:
        reconfigure(errors="replace")


def plural(n: int, one: str, many: str | None = None) -> str:
    """Return a number with its noun, for example "1 trace" or "1,200 traces".

    :param many: the plural, if it is not ``one`` with an s.
    """
    return f"{n:,} {one if n == 1 else many or one + 's'}"


def inside_sentence(text: str) -> str:
    """Return a text that begins a sentence with a small letter, for the middle of another sentence."""
    return text[:1].lower() + text[1:]


def columns() -> int | None:
    """Return the width of the terminal on stdout; None if stdout is not a terminal and COLUMNS gives no width."""
    if not os.environ.get("COLUMNS") and not sys.stdout.isatty():
        return None
    return shutil.get_terminal_size().columns


def aligned(
    headings: Sequence[str],
    rows: Iterable[Sequence[str]],
    right: Iterable[str] = (),
    paint: Mapping[str, Callable[[str], str]] = MappingProxyType({}),
) -> list[str]:
    """Return rows of printable text as lines with aligned columns, two spaces apart, below the headings and a rule.

    :param right: headings of the columns to align to the right.
    :param paint: functions that colour the padded cells of a column, by its heading.
    """
    rows = list(rows)
    right = set(right)
    widths = [max(map(width, column)) for column in zip(headings, *rows, strict=True)]

    def line(cells: Sequence[str]) -> str:
        padded = [
            paint.get(heading, str)((wcwidth.rjust if heading in right else wcwidth.ljust)(cell, columns))
            for heading, cell, columns in zip(headings, cells, widths, strict=True)
        ]
        return "  ".join(padded).rstrip()

    return [line(headings), "  ".join("-" * columns for columns in widths), *map(line, rows)]


def wrapped(line: str, columns: int) -> list[str]:
    """Break printable text into lines at spaces. Further lines are indented by six more columns than the first.

    :param columns: width of the lines; at least 20 columns are used beside the indentation of the first line.
    """
    first = line[: len(line) - len(line.lstrip())]
    room = max(columns, len(first) + 20)
    lines, text = [], first
    for word in line.split():
        if text.strip() and width(text) + 1 + width(word) > room:
            lines.append(text)
            text = f"{first}      "
        text += (" " if text.strip() else "") + word
        while width(text) > room:
            lines.append(wcwidth.clip(text, 0, room))
            text = f"{first}      {text[len(lines[-1]) :]}"
    return [*lines, text]


def width(text: str) -> int:
    """Return the number of terminal columns of printable text: two for a wide character, none for a combining one."""
    return wcwidth.wcswidth(text)


def fitted(text: str, columns: int) -> str:
    """Shorten printable text to a number of terminal columns, with an ellipsis if something was removed."""
    if width(text) <= columns:
        return text
    return wcwidth.clip(text, 0, columns - 1).rstrip() + "…"


def printable(text: str) -> str:
    """Replace characters that move the cursor or hide text: control characters, line breaks, marks of direction, and
    characters without a width that do not combine with the one before."""
    return "".join(c if _is_seen(c) else "\N{REPLACEMENT CHARACTER}" for c in text)


def _is_seen(character: str) -> bool:
    combines = unicodedata.category(character) in ("Mn", "Me")
    return character.isprintable() and (combines or wcwidth.wcwidth(character) > 0)
