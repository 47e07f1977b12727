"""Hand-computed cases of every formula and edge of scoring.md, and of certainty.md where scores and alerts have one.

One module per section; each expected value is worked out here, never copied from what the project computed.
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
    replay,
    resilience,
    signs,
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
    signs,
)
CASES = [case for module in MODULES for case in module.CASES]
