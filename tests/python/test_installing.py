"""Tests that all texts install the package from files. The name is not registered on PyPI, so pip must not look it
up."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from ciris_scoring.options import INSTALL
from command_line import invoke, printed
from conftest import REPOSITORY

# A command that downloads by name, followed by the package's name in any spelling. A wheel's file name does not
# match.
BY_NAME = re.compile(
    r"(?:\b(?:pip3?|uv|poetry|pdm|conda|mamba)\s+(?:pip\s+)?(?:install|add|download|wheel)|\bpipx|\buvx|\buv tool)\b"
    r"[^\n|&;`#]*?[ \t'\"]ciris[-_.]scoring\b(?!-[\d*V][^\s]*\.whl)",
    re.IGNORECASE,
)
# A line in a requirements file.
REQUIREMENT = re.compile(r"(?<![\w/])ciris[-_.]scoring\s*(?:\[|[=~<>!]=)", re.IGNORECASE)
OWN_EXTRAS = '"ciris-scoring[api,audit,embedded,metrics,notify]",'
"""The extra `dev` includes the other extras of the same installation."""


def wrong(text: str) -> list[str]:
    """Return the parts of a text that install the package by name."""
    text = text.replace(OWN_EXTRAS, "")
    return [match[0] for rule in (BY_NAME, REQUIREMENT) for match in rule.finditer(text)]


def test_no_text_installs_the_package_by_name() -> None:
    assert (
        wrong("pip install 'ciris-scoring[audit]'")
        and wrong("pipx run ciris-scoring")
        and wrong("ciris-scoring>=1")
    )
    assert not wrong("pip install . && ciris-scoring run; pip install dist/ciris_scoring-1.0.0-py3.whl")
    paths = [
        REPOSITORY / name for name in printed("git", "ls-files", "-z", cwd=REPOSITORY).split("\0") if name
    ]
    texts = {
        path: path.read_text("utf-8", "replace")
        for path in paths
        if path.is_file() and path != Path(__file__)
    }
    assert len(texts) > 300
    assert {path.name: parts for path, text in texts.items() if (parts := wrong(text))} == {}


@pytest.mark.parametrize(
    ("command", "extra"), [("load", "audit"), ("init-db", "audit"), ("audit", "audit"), ("serve", "api")]
)
def test_help_says_how_to_install_an_extra(command: str, extra: str) -> None:
    assert INSTALL.format(extra) in " ".join(invoke(command, "--help").output.split())
