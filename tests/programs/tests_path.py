"""Import this module first in a program, so that it can import the modules of the tests."""

import sys
from pathlib import Path

TESTS = Path(__file__).parents[1]
sys.path[1:1] = [str(TESTS / "python"), str(TESTS), str(TESTS.parent)]
