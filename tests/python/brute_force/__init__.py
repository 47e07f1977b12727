"""An independent, brute-force reference implementation of ``docs/scoring.md`` (plain Python, no SQL)."""

from .scoring import (
    DEFAULT_DEFERRAL_OUTCOMES,
    DEFAULT_PARAMETERS,
    REFERENCE_WINDOWS,
    Window,
    alerts,
    attribute_deferrals,
    data_quality,
    fleet_coherence_hourly,
    score_fleet,
)

__all__ = [
    "DEFAULT_DEFERRAL_OUTCOMES",
    "DEFAULT_PARAMETERS",
    "REFERENCE_WINDOWS",
    "Window",
    "alerts",
    "attribute_deferrals",
    "data_quality",
    "fleet_coherence_hourly",
    "score_fleet",
]
