"""Terms of docs/glossary.md and their meanings."""

import re
from dataclasses import dataclass
from functools import cache

from ciris_scoring.paths import own_project

ENTRY = re.compile(r"\*\*(.+?)\.?\*\*,?(.*)", re.DOTALL)
"""Paragraph of an entry: the term in bold, then its meaning."""
LINK = re.compile(r"\[([^]]*)\]\([^)]*\)")
"""Link in Markdown, of which only the text is shown."""


@dataclass(frozen=True)
class Term:
    """An entry of the glossary."""

    term: str
    meaning: str
    """Text of the entry. Code is between backticks."""

    @property
    def place(self) -> str:
        """Anchor of the term in a URL."""
        return re.sub(r"\W+", "-", self.term.partition(",")[0].lower())


@cache
def glossary() -> tuple[Term, ...]:
    """Read the glossary, in alphabetical order."""
    page = own_project().joinpath("docs/glossary.md").read_text(encoding="utf-8")
    entries = (ENTRY.fullmatch(paragraph.strip()) for paragraph in page.split("\n\n"))
    return tuple(Term(entry[1], " ".join(LINK.sub(r"\1", entry[2]).split())) for entry in entries if entry is not None)
