"""Imported by a program before the tests' own modules, which it finds thereby."""

import sys
from pathlib import Path

TESTS = Path(__file__).parents[1]
sys.path[1:1] = [str(TESTS / "python"), str(TESTS), str(TESTS.parent)]
