"""Render templates with escaping, number formats and a content security policy that forbids external files."""

import base64
import hashlib
import re
import unicodedata
from datetime import UTC
from functools import cache
from importlib.resources import files
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from ciris_scoring import numbers_as_text as decimals
from ciris_scoring.database import as_of as as_of_time
from ciris_scoring.database.terminal import fitted, plural
from ciris_scoring.kinds import ALERTS, FLAGS, KINDS
from ciris_scoring.kinds.components import LOSS_WORDS
from ciris_scoring.marts.reference import COMPONENT_WORDS, FACTOR_NAMES, glossary, widened_by
from ciris_scoring.marts.score import bridge
from ciris_scoring.marts.verdict import SIMULATED, permission_words, sure
from ciris_scoring.names import FACTORS, HASH_SHOWN, whole_hash
from ciris_scoring.show import words
from ciris_scoring.show.pages import charts
from ciris_scoring.show.view import factors_of
from ciris_scoring.show.words import NO_NUMBER

ICON = (
    "data:image/svg+xml,"
    "%3Csvg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 24 24'%3E"
    "%3Cpath d='M12 1.5 21.5 7v10L12 22.5 2.5 17V7z' fill='%232450b4'/%3E"
    "%3Cpath d='M7 12.5l3.5 3.5 6.5-7.5' fill='none' stroke='%23fff' stroke-width='2.4'/%3E%3C/svg%3E"
)
COUNTS = ("n_", "chain_")
COLOUR = re.compile(r"#[0-9a-fA-F]{6}")
LONG_WORD = 16
"""Number of characters in a word of a name beyond which a line of the page may break inside the word."""
NAME_WIDTH = 40
"""Maximum width of an agent's name in columns. Longer names are truncated."""
UNSEEN = ("Cc", "Cf", "Zl", "Zp")
"""Unicode categories of invisible characters. Such characters could change the direction of text or end a line."""
JOINERS = "\u200c\u200d"
"""Invisible characters that are allowed, because emoji and some scripts need them."""


def render(template: str, **values: Any) -> str:
    """Render a page.

    :param template: file name of the template, which extends ``layout.html``.
    :param values: values of the template. ``categories`` is required.
    """
    environment = _environment()
    style = environment.get_template("style.css").render(
        categories=[category for category in values["categories"] if COLOUR.fullmatch(category.colour)]
    )
    script = _asset("table.js")
    policy = "; ".join(
        [
            "default-src 'none'",
            f"style-src '{digest(style)}'",
            f"script-src '{digest(script)}'",
            "img-src data:",
            "base-uri 'none'",
            "form-action 'self'",
        ]
    )
    # Style, script and policy are not escaped, because this module creates them. All other values are escaped.
    return environment.get_template(template).render(
        **values, style=Markup(style), script=Markup(script), policy=Markup(policy)
    )


def digest(text: str) -> str:
    """CSP hash of an inline style or script."""
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("ciris_scoring.show.pages"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
    )
    environment.filters |= {
        "capitalised": lambda text: text[:1].upper() + text[1:],
        "in_words": lambda component: COMPONENT_WORDS.get(component) or LOSS_WORDS[component],
        "change": lambda value: decimals.change(value).replace("-", "−"),
        "coded": _coded,
        "component": _component,
        "date": lambda moment: f"{moment.astimezone(UTC):%Y-%m-%d}",
        "iso": as_of_time.text,
        "name": _name,
        "percent": charts.percent,
        "plain": _plain,
        "seconds": lambda value: NO_NUMBER if value is None else f"{value:,.0f}",
        "score": words.shown,
        "sure": sure,
        "short": lambda value: NO_NUMBER if value is None else decimals.cut(value, 2),
        "time": lambda moment: f"{moment.astimezone(UTC):%Y-%m-%d %H:%M} UTC",
    }
    environment.globals |= {
        "ALERTS": ALERTS,
        "COMPONENT_WORDS": COMPONENT_WORDS,
        "FLAGS": FLAGS,
        "ICON": Markup(ICON),
        "KINDS": KINDS,
        "FACTOR_NAMES": FACTOR_NAMES,
        "FACTORS": FACTORS,
        "HASH_SHOWN": HASH_SHOWN,
        "SIMULATED": SIMULATED,
        "bridge": bridge,
        "factors_of": factors_of,
        "glossary": glossary,
        "permission_words": permission_words,
        "plural": plural,
        "whole_hash": whole_hash,
        "widened_by": widened_by,
        "words": words,
    }
    return environment


@cache
def _asset(name: str) -> str:
    return files("ciris_scoring.show.pages").joinpath("templates", name).read_text("utf-8")


def _name(text: str) -> Markup:
    """Format a name from outside: escaped, isolated from the text direction around it, and truncated."""
    whole = _plain(text)
    shown = fitted(whole, NAME_WIDTH)
    title = "" if shown == whole else Markup(' title="{}"').format(whole)
    long = Markup(" class=long") if any(len(word) > LONG_WORD for word in shown.split()) else ""
    return Markup("<bdi{}{}>{}</bdi>").format(long, title, shown)


def _coded(text: str) -> Markup:
    """Convert code between backticks to HTML."""
    return Markup(re.sub(r"`([^`]*)`", r"<code>\1</code>", str(escape(text))))


def _plain(text: str) -> str:
    """Replace invisible characters in a text from outside by a mark."""
    return "".join(
        "\N{REPLACEMENT CHARACTER}" if unicodedata.category(c) in UNSEEN and c not in JOINERS else c for c in text
    )


def _component(value: float | None, component: str) -> str:
    """Format the value of a component: a count as an integer, another value truncated to the decimals of scores."""
    if value is None:
        return NO_NUMBER
    return f"{int(value):,}" if component.startswith(COUNTS) else decimals.score(value)
