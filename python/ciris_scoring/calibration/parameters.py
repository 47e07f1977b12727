"""The scoring parameters in force, the values to try for each, and those whose effect components cannot tell."""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from ciris_scoring.basics.errors import CirisError
from ciris_scoring.calibration.formulas import OF_THE_SCORE, WEIGHTS

COVERED = (*OF_THE_SCORE, *WEIGHTS)

REMEDY = (
    "To see what one of these does, score into another schema and compare the marts: name it in a target of its own, "
    "then ciris-scoring run --target OTHER --vars '{ciris_scoring_parameters: {NAME: VALUE}}'"
)

_FROM_TRACES = "counted from the traces before a component is published"
_ALERTS_ONLY = "raises alerts only; no score depends on it"
_NOT_COVERED: Mapping[str, str] = {
    "require_registered_keys": _FROM_TRACES,
    "replay_enabled": _FROM_TRACES,
    "replay_sample_per_period": _FROM_TRACES,
    "replay_sample_salt": _FROM_TRACES,
    "replay_min_sample": _FROM_TRACES,
    "drift_pseudo_count": "needs the histograms, of which only the drift is published",
    "drift_min_sample": "needs the histograms, of which only the drift is published",
    "unsafe_entropy_threshold": _FROM_TRACES,
    "decay_per_day": "needs the signals of every period, of which only S is published",
    "w_corroborated": "needs the signals of every period, of which only S is published",
    "w_uncorroborated": "needs the signals of every period, of which only S is published",
    "corroboration_tolerance": "needs the signals of every period, of which only S is published",
    "min_traces": "decides which agents have a score, not what it is",
    "warm_up_days": "decides which scores are provisional, not what they are",
    "fragility_epsilon": "enters fragility_index only",
    "low_capacity_threshold": _ALERTS_ONLY,
    "falling_threshold": _ALERTS_ONLY,
    "steady_days": "decides the steady score alone, not the one that is calibrated",
    "falling_z_together": _ALERTS_ONLY,
    "falling_z_alone": _ALERTS_ONLY,
    "falling_month_z_together": _ALERTS_ONLY,
    "falling_month_z_alone": _ALERTS_ONLY,
    "episode_z": _ALERTS_ONLY,
    "episode_chance": _ALERTS_ONLY,
    "silent_days": _ALERTS_ONLY,
    "silent_min_traces": _ALERTS_ONLY,
}
_NUMBER_RANGE = re.compile(r"number in \[(\S+), (\S+)\]")
_STEPS = 3
_WIDE = 100.0


@dataclass(frozen=True)
class Range:
    """A parameter as ``dim_scoring_parameters`` publishes it."""

    value: float
    minimum: float
    maximum: float


def covered_ranges(published: Mapping[str, tuple[str | None, str]]) -> dict[str, Range]:
    """Read value and allowed range of the covered parameters.

    :param published: text of the value and of the allowed range, by parameter.
    :raises CirisError: a covered parameter is missing or not a number in a range; the marts are of another version.
    """
    ranges = {}
    for name in COVERED:
        value, allowed = published.get(name, (None, ""))
        limits = _NUMBER_RANGE.fullmatch(allowed)
        if value is None or limits is None:
            raise CirisError(
                f"dim_scoring_parameters does not say the value and the range of {name}.",
                "The marts are of another version of the project: run ciris-scoring run with this one.",
            )
        ranges[name] = Range(float(value), float(limits[1]), float(limits[2]))
    return ranges


def values_to_try(allowed: Range) -> list[float]:
    """Seven values: both ends, the one in force, and evenly spaced ones on either side of it, to three digits.

    Where the ends of a side differ by a factor of 100 or more they are spaced by a factor. The value in force may be
    an end: then all the others are on one side.
    """
    inside = allowed.minimum < allowed.value < allowed.maximum
    steps = _STEPS if inside else 2 * _STEPS
    below = _spaced(allowed.minimum, allowed.value, steps)
    above = _spaced(allowed.value, allowed.maximum, steps)
    return sorted({*below, allowed.value, *above})


def _spaced(low: float, high: float, steps: int) -> list[float]:
    """Both ends and the values between them; none where they are the same."""
    if low == high:
        return []
    wide = low > 0 and high / low >= _WIDE
    inner = (np.geomspace if wide else np.linspace)(low, high, steps + 1)[1:-1]
    rounded = [float(f"{value:.3g}") for value in inner]
    return [low, *(value for value in rounded if low < value < high), high]


def not_covered(published: Mapping[str, tuple[str | None, str]]) -> dict[str, str]:
    """Say for each other parameter why its effect cannot be told from published components."""
    unknown = "not known to this command"
    return {name: _NOT_COVERED.get(name, unknown) for name in published if name not in COVERED}


def shown_value(value: float) -> str:
    """Write a value as short as it is exact to six digits."""
    return str(int(value)) if math.isfinite(value) and value == int(value) else f"{value:.6g}"
