"""Hand-computed cases of the formulas of scoring.md and certainty.md, and of edges that random fleets rarely reach.

There is one module per section. Expected values are computed by hand here and never copied from the project's output.
"""

from cases import (
    alerts,
    attribution,
    cleaning,
    coherence,
    composite,
    core_identity,
    incompleteness,
    integrity,
    red_flags,
    replay,
    resilience,
    windows,
)

MODULES = (
    windows,
    cleaning,
    core_identity,
    integrity,
    replay,
    resilience,
    incompleteness,
    coherence,
    composite,
    alerts,
    attribution,
    red_flags,
)
CASES = [case for module in MODULES for case in module.CASES]
