"""The text of the values that the columns and components of simulated traces can take."""

import functools
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from ciris_scoring.lab.simulation.arrays import Texts


@dataclass(frozen=True)
class Spellings:
    """Text of every value a column or a component can take, looked up instead of formatted."""

    score: Texts
    score_json: Texts
    score_json_fine: Texts
    level: Texts
    level_json: Texts
    boolean: Texts
    k_eff: Texts
    clock: Texts
    execution_ms: Texts


@functools.cache
def spellings() -> Spellings:
    """Return the texts, which are made once."""

    def table(values: Iterator[str]) -> Texts:
        return np.array(list(values), dtype=object)

    return Spellings(
        score=table(f"{i / 100:.2f}" for i in range(101)),
        score_json=table(repr(i / 100) for i in range(101)),
        score_json_fine=table(repr(i / 1_000) for i in range(1_001)),
        level=table(f"{i / 10_000:.4f}" for i in range(10_001)),
        level_json=table(repr(i / 10_000) for i in range(10_001)),
        boolean=table(iter(("false", "true"))),
        k_eff=table(f"{i / 100:.2f}" for i in range(501)),
        clock=table(f"{s // 3600:02d}{s // 60 % 60:02d}{s % 60:02d}" for s in range(86_400)),
        execution_ms=table(f"{2 + 0.937 * i:.3f}" for i in range(64)),
    )
