"""Apply rules to the SQL and numpy code that computes the numbers. `mutants.py` draws from these mutations.

Each mutation replaces one span of a file, so that the file still parses: `<` by `<=`, `min` by `max`, n by n + 1, or a
condition of an `and` by nothing. Comments, docstrings, messages, YAML and the configuration of models are not mutated.
"""

from __future__ import annotations

import io
import itertools
import re
import tokenize
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from sqlglot.dialects.postgres import Postgres
from sqlglot.errors import TokenError

PROJECT = Path(__file__).parents[2]
SQL = ("models/**/*.sql", "macros/cleaning/*", "macros/formulas/*", "macros/time/*", "macros/windows/*")
PYTHON = tuple(f"python/ciris_scoring/{folder}/*.py" for folder in ("windows", "certainty", "red_flags"))


class Mutant(NamedTuple):
    """A mutation of a file, which replaces one span of its text."""

    name: str
    file: str
    text: str
    start: int
    end: int
    new: str

    def applied(self) -> str:
        """Return the text of the file with the mutation."""
        return self.text[: self.start] + self.new + self.text[self.end :]


def _swaps(pairs: str) -> dict[str, str]:
    """Return a dictionary from each word of the pairs to the other word of its pair."""
    found = [pair.split() for pair in pairs.split(",")]
    return dict(found) | {second: first for first, second in found}


OPERATORS = _swaps("< <=, > >=, == !=, = <>, + -, * /, & |, and or, true false, asc desc")
OPERATORS |= {"//": "*", "%": "//", "**": "*", "not": "", "distinct": "", "left": "inner"}
SQL_FUNCTIONS = {"sum": "max"} | _swaps("min max, least greatest, floor ceil, bool_and bool_or, lag lead")
FUNCTIONS = {"sum": "max", "log1p": "log", "expm1": "exp"} | _swaps("minimum maximum, min max, any all, floor ceil")

Edit = tuple[int, int, str]
"""Start and end of a span of text, and its replacement."""


def mutants_by_rule() -> Iterator[Mutant]:
    """Yield all mutations of the rules of this file, each named by file, line, old text, new text and position."""
    for patterns, rules in ((SQL, of_sql), (PYTHON, of_python)):
        for path in sorted(path for pattern in patterns for path in PROJECT.glob(pattern)):
            text, file = path.read_text(), str(path.relative_to(PROJECT))
            for start, end, new in sorted(set(rules(text))):
                words = " -> ".join(" ".join(part.split())[:50] or "nothing" for part in (text[start:end], new))
                line = text.count("\n", 0, start) + 1
                yield Mutant(f"{file}:{line} {words} ({start})", file, text, start, end, new)


# --- SQL and Jinja ---------------------------------------------------------------------------------------------------

BEFORE_CONDITIONS = {"where", "on", "when", "having"}
END_OF_CONDITION = {
    *("and", "or", "then", "when", "else", "end", "as", "where", "group", "order", "having", "window", "union"),
    *("limit", "left", "join", "inner", "cross", "over", "filter", "returning", "rows", "range", ",", ";", ")", "]"),
}  # fmt: skip
JINJA = re.compile(r"\{#.*?#\}|\{\{\s*config\((?:[^\n]*\}\}\n|.*?\n\}\})|\{([{%])-?(.*?)-?[%}]\}", re.S)


class Token(NamedTuple):
    """A token of SQL with its position in the file."""

    text: str
    start: int

    @property
    def end(self) -> int:
        """Return the position after the token."""
        return self.start + len(self.text)

    @property
    def word(self) -> str:
        """Return the token in lower case. Of a token of two words, such as `order by`, return the first."""
        return self.text.lower().split()[0]


def of_sql(text: str) -> Iterator[Edit]:
    """Yield the edits of a file of SQL and Jinja."""
    # An expression of Jinja is an operand of SQL. A statement of Jinja ends a condition.
    masked = JINJA.sub(lambda m: {"{": "x" * len(m[0]), "%": ";"}.get(m[1], "").ljust(len(m[0])), text)
    yield from _of_tokens(masked, text, 0, is_sql=True)
    for jinja in JINJA.finditer(text):
        if jinja[1] and not re.match(r"\s*(do |for |end)", jinja[2]):
            yield from _of_tokens(jinja[2], text, jinja.start(2), is_sql=False)


def _of_tokens(part: str, text: str, offset: int, is_sql: bool) -> Iterator[Edit]:
    """Yield the edits of SQL, or of an expression of Jinja, whose strings are SQL."""
    ends = [Token(";", offset), Token(";", offset + len(part))]
    tokens: list[Token] = []
    is_between = False
    for found in Postgres().tokenize(part):
        token = Token(part[found.start : found.end + 1], offset + found.start)
        # The `and` of `between` is part of an operand.
        tokens.append(token._replace(text="...") if is_between and token.word == "and" else token)
        is_between = token.word == "between" or (is_between and token.word != "and")
    around = [ends[0], *tokens, ends[1], ends[1]]
    for at, token in enumerate(tokens, 1):
        before, after = around[at - 1], around[at + 1]
        if token.text[0] == "'" and not is_sql:
            with suppress(TokenError):  # Some strings are regular expressions and not SQL.
                yield from _of_tokens(token.text[1:-1], text, token.start + 1, is_sql=True)
        if (new := OPERATORS.get(token.word)) is not None and not (
            (token.word == "*" and before.word in ("(", ".", ",", ";", "select"))
            or (token.word == "=" and not is_sql)
            or (token.word == "left" and after.word != "join")
            or (token.word == "distinct" and (after.word in ("on", "from") or before.word == "is"))
            or (token.word == "not" and after.word == "materialized")
        ):
            yield token.start, token.end, new
        if token.word in SQL_FUNCTIONS and after.word == "(":
            yield token.start, token.end, SQL_FUNCTIONS[token.word]
        if re.fullmatch(r"\d+|\d*\.\d+(e-?\d+)?|\d+(\.\d+)?e-?\d+", token.word):
            yield token.start, token.end, _one_more(token.word)
        if token.word in ("first", "last") and before.word == "nulls":
            yield token.start, token.end, "last" if token.word == "first" else "first"
        yield from _dropped(around, at, text)


def _dropped(tokens: list[Token], at: int, text: str) -> Iterator[Edit]:
    """Yield the edits that drop a condition."""
    word, after = tokens[at].word, tokens[at + 1]
    last = _end(tokens, at + 1)
    if word in BEFORE_CONDITIONS and tokens[last].word == "and":
        start, end = after.start, tokens[last + 1].start
    elif word == "and":
        start, end = tokens[at].start, tokens[last - 1].end
    else:
        return
    if start < end and not re.search(r"\{%|--", text[start:end]):
        yield start, end, ""


def _end(tokens: list[Token], at: int) -> int:
    """Return the index of the token that ends an expression."""
    depth = 0
    while at < len(tokens) - 1 and (depth > 0 or tokens[at].word not in END_OF_CONDITION):
        depth += (tokens[at].word in ("(", "[", "case")) - (tokens[at].word in (")", "]", "end"))
        at += 1
    return at


# --- Python ----------------------------------------------------------------------------------------------------------

PYTHON_OPERATORS = OPERATORS.keys() - {"=", "<>", "distinct", "left", "asc", "desc"}
NOT_MUTATED = ("def", "class", "import", "from", "raise", "assert", "@")
"""First words of statements that are not mutated."""
NOT_NUMBERS = {"axis", "dtype", "keepdims", "strict", "frozen", "slots", "copy"}


def of_python(text: str) -> Iterator[Edit]:
    """Yield the edits of a Python file. Its strings and comments are not mutated."""
    starts = [0, *itertools.accumulate(map(len, text.splitlines(keepends=True)))]
    blank = (tokenize.COMMENT, tokenize.NL, tokenize.INDENT, tokenize.DEDENT)
    tokens = [token for token in tokenize.generate_tokens(io.StringIO(text).readline) if token.type not in blank]
    statement = tokens[0].string
    for name, before, token, after in zip(tokens, tokens[1:], tokens[2:], tokens[3:], strict=False):
        if before.type == tokenize.NEWLINE:
            statement = token.string
        word, start = token.string, starts[token.start[0] - 1] + token.start[1]
        is_operand = before.type in (tokenize.NAME, tokenize.NUMBER) or before.string in (")", "]")
        is_keyword = before.string == "=" and name.string in NOT_NUMBERS
        new = None
        if word in ("True", "False"):
            new = str(word == "False")
        elif word in PYTHON_OPERATORS and (is_operand or word in ("-", "not")):
            new = OPERATORS[word]
        elif word in FUNCTIONS and after.string == "(":
            new = FUNCTIONS[word]
        elif token.type == tokenize.NUMBER:
            new = _one_more(word)
        if new is not None and not is_keyword and statement not in NOT_MUTATED:
            yield start, start + len(word), new


def _one_more(number: str) -> str:
    """Return the literal of a number plus 1."""
    return str(int(number) + 1 if re.fullmatch(r"[\d_]+", number) else float(number) + 1)
