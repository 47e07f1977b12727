"""What words mean: the terms of docs/glossary.md, and the signs of docs/signs.md."""

import re
from dataclasses import dataclass
from functools import cache

from ciris_scoring.basics.project import own_project

ENTRY = re.compile(r"\*\*(.+?)\.?\*\*,?(.*)", re.DOTALL)
SIGN = re.compile(r"^\| `(\w+)` \| ([^|]+) \| ([^|]+) \|$", re.MULTILINE)
LINK = re.compile(r"\[([^]]*)\]\([^)]*\)")


@dataclass(frozen=True)
class Term:
    """An entry."""

    term: str
    meaning: str
    """With code between backticks."""

    @property
    def place(self) -> str:
        """What an address names it by."""
        return re.sub(r"\W+", "-", self.term.partition(",")[0].lower())


@cache
def glossary() -> tuple[Term, ...]:
    """Read the glossary, in the order of the alphabet."""
    entries = (ENTRY.fullmatch(paragraph.strip()) for paragraph in _page("glossary.md").split("\n\n"))
    return tuple(
        Term(entry[1], " ".join(LINK.sub(r"\1", entry[2]).split())) for entry in entries if entry is not None
    )


@dataclass(frozen=True)
class SignExplained:
    """A row of the table of signs; text with code between backticks."""

    sign: str
    raised_when: str
    innocent_causes: str


@cache
def signs_explained() -> tuple[SignExplained, ...]:
    """Read what raises each sign, and how it comes about in an honest record."""
    return tuple(SignExplained(*row) for row in SIGN.findall(_page("signs.md")))


def _page(name: str) -> str:
    return own_project().joinpath("docs", name).read_text(encoding="utf-8")
