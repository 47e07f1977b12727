"""Read mutants.txt, the list of mutations that a test must find."""

from __future__ import annotations

from itertools import groupby
from pathlib import Path
from typing import NamedTuple


class Mutant(NamedTuple):
    """A mutation of a file."""

    name: str
    file: str
    old: str
    new: str
    first: str = ""
    """Check that finds the mutation, if it is not the first one."""

    def applied(self, project: Path) -> str:
        """Return the text of the file with the mutation."""
        text = (project / self.file).read_text()
        if (n := text.count(self.old)) != 1:
            raise ValueError(f"{self.name}: its text occurs {n} times in {self.file}, not once")
        return text.replace(self.old, self.new)


def read_mutants(text: str) -> list[Mutant]:
    """Parse a list of mutations."""
    found: list[Mutant] = []
    file = ""
    # Consecutive lines with the same mark form one text.
    for mark, group in groupby(text.splitlines(), key=lambda line: line[:2]):
        content = "\n".join(line[2:] for line in group)
        if mark == "@ ":
            file = content
        elif mark == "= ":
            name, _, first = content.partition(" | ")
            found.append(Mutant(name, file, "", "", first))
        elif mark in ("- ", "+ "):
            found[-1] = found[-1]._replace(**{"old" if mark == "- " else "new": content})
    return found


MUTANTS = read_mutants((Path(__file__).parent / "mutants.txt").read_text())
