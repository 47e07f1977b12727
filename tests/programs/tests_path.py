"""Add the folders of the tests to the import path. A program imports this module first."""

import sys
from pathlib import Path

TESTS = Path(__file__).parents[1]
sys.path[1:1] = [str(TESTS / "python"), str(TESTS), str(TESTS.parent)]
