"""Extract text, table cells and elements from an HTML page."""

from __future__ import annotations

import html
import re
from html.parser import HTMLParser


def text_of(page: str) -> str:
    return html.unescape(re.sub(r"<[^>]*>", "", page))


def cells(page: str) -> list[list[str]]:
    """Return the texts of the cells of each table row."""
    rows = re.findall(r"<tr[^>]*>(.*?)(?=<tr|</table)", page, re.DOTALL)
    return [[text_of(cell).strip() for cell in re.split(r"<t[dh][^>]*>", row)[1:]] for row in rows]


def with_names(page: str) -> str:
    """Append to each term its tooltip, which is its name in the marts: "drift" becomes "drift (delta_drift)"."""
    page = re.sub(r'<span title="(\w+)">(.*?)</span>', r"\2 (\1)", page)
    return re.sub(r'(<t[dh][^>]*) title="(\w+)">(.*?)(?=<t[dh])', r"\1>\3 (\2)", page)


def elements(page: str) -> list[tuple[str, dict[str, str | None]]]:
    """Return the name and the attributes of each HTML element."""
    found: list[tuple[str, dict[str, str | None]]] = []
    parser = HTMLParser()
    parser.handle_starttag = lambda name, attributes: found.append((name, dict(attributes)))
    parser.feed(page)
    return found
