"""Read mutants.txt, the list of mutations that a check must find."""

from __future__ import annotations

from itertools import groupby
from pathlib import Path
from typing import NamedTuple

PROJECT = Path(__file__).parents[2]


class Mutant(NamedTuple):
    """A mutation of a file, which replaces one span of its text."""

    name: str
    file: str
    text: str
    start: int
    end: int
    new: str
    first: str = ""
    """Name of the check that finds the mutation; empty for the first check of mutants.py."""

    def applied(self) -> str:
        """Return the text of the file with the mutation."""
        return self.text[: self.start] + self.new + self.text[self.end :]


def mutants_of_list() -> list[Mutant]:
    """Return the mutations of mutants.txt. A text that does not occur exactly once in its file is an error."""
    listed = Path(__file__).with_name("mutants.txt").read_text()
    found: list[Mutant] = []
    file = name = first = text = old = ""
    # Consecutive lines with the same mark form one text.
    for mark, group in groupby(listed.splitlines(), key=lambda line: line[:2]):
        content = "\n".join(line[2:] for line in group)
        if mark == "@ ":
            file, text = content, (PROJECT / content).read_text()
        elif mark == "= ":
            name, _, first = content.partition(" | ")
        elif mark == "- ":
            old = content
            if (n := text.count(old)) != 1:
                raise ValueError(f"{name}: its text occurs {n} times in {file}, not once")
        elif mark == "+ ":
            start = text.index(old)
            found.append(Mutant(name, file, text, start, start + len(old), content, first))
    return found
