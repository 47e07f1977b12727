"""Texts of all values that columns and JSON components of simulated traces can have."""

import functools
from collections.abc import Iterator, Mapping

import numpy as np

from ciris_scoring.lab.simulation.arrays import Texts


@functools.cache
def spellings() -> Mapping[str, Texts]:
    """Return the texts of all possible values, by kind of value. A lookup is faster than formatting."""

    def table(values: Iterator[str]) -> Texts:
        return np.array(list(values), dtype=object)

    return {
        "score": table(f"{i / 100:.2f}" for i in range(101)),
        "score_json": table(repr(i / 100) for i in range(101)),
        "score_json_fine": table(repr(i / 1_000) for i in range(1_001)),
        "level": table(f"{i / 10_000:.4f}" for i in range(10_001)),
        "level_json": table(repr(i / 10_000) for i in range(10_001)),
        "boolean": table(iter(("false", "true"))),
        "k_eff": table(f"{i / 100:.2f}" for i in range(501)),
        "clock": table(f"{s // 3600:02d}{s // 60 % 60:02d}{s % 60:02d}" for s in range(86_400)),
        "execution_ms": table(f"{2 + 0.937 * i:.3f}" for i in range(64)),
    }
