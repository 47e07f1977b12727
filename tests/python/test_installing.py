"""Tests that no text of the repository tells users to install the package by its name.

The name is not registered on PyPI, so anybody could publish a package of this name.
"""

from __future__ import annotations

import re
from pathlib import Path

from command_line import printed
from conftest import REPOSITORY

# A command that downloads packages, followed by the package's name in any spelling, but not by the name of a wheel.
BY_NAME = re.compile(
    r"(?:\b(?:pip3?|uv|poetry|pdm|conda|mamba)\s+(?:pip\s+)?(?:install|add|download|wheel)|\bpipx|\buvx|\buv tool)\b"
    r"[^\n|&;`#]*?[ \t'\"]ciris[-_.]scoring\b(?!-[\d*V][^\s]*\.whl)",
    re.IGNORECASE,
)
# A line of a requirements file.
REQUIREMENT = re.compile(r"(?<![\w/])ciris[-_.]scoring\s*(?:\[|[=~<>!]=)", re.IGNORECASE)
OWN_EXTRAS = '"ciris-scoring[api,audit,embedded,metrics]",'
"""Permitted text of pyproject.toml: the extra `dev` includes the other extras."""


def wrong(text: str) -> list[str]:
    """Return the parts of a text that install the package by name."""
    text = text.replace(OWN_EXTRAS, "")
    return [match[0] for rule in (BY_NAME, REQUIREMENT) for match in rule.finditer(text)]


def test_no_text_installs_the_package_by_name() -> None:
    for text in ("pip install 'ciris-scoring[audit]'", "pipx run ciris-scoring", "ciris-scoring>=1"):
        assert wrong(text)
    assert not wrong("pip install . && ciris-scoring run; pip install dist/ciris_scoring-1.0.0-py3.whl")
    names = printed("git", "ls-files", "-z", cwd=REPOSITORY).rstrip("\0").split("\0")
    paths = {REPOSITORY / name for name in names} - {Path(__file__)}
    found = {path.name: wrong(path.read_text("utf-8", "replace")) for path in paths if path.is_file()}
    assert len(found) > 300 and {name: parts for name, parts in found.items() if parts} == {}
