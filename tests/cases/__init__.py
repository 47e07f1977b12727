"""Hand-computed cases of the formulas of scoring.md and certainty.md, and of edges that random fleets rarely reach.

Each module has the cases of one topic. Expected values are computed by hand and never copied from the project's output.
"""

from importlib import import_module
from pkgutil import iter_modules

MODULES = [import_module(f"cases.{found.name}") for found in iter_modules(__path__)]
CASES = [case for module in MODULES for case in getattr(module, "CASES", [])]
