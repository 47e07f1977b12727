"""The text of the values that the columns and components of simulated traces can take."""

import functools
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from ciris_scoring.lab.simulation.arrays import Texts

_SENTENCES = (
    "The request is plausible given what is known about the channel and its history.",
    "No contradiction with earlier statements; the stated facts can be checked.",
    "Several sources agree, although two of them may share an origin.",
    "The person may be affected by the outcome, so the wording stays reversible.",
    "To defer would cost time and gain little here.",
)


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
    accounts: Texts
    execution_ms: Texts
    reasoning: Texts


@functools.cache
def spellings() -> Spellings:
    """Return the texts, which are made once."""

    def table(values: Iterator[str]) -> Texts:
        return np.array(list(values), dtype=object)

    def account(i: int) -> str:
        tokens = 30_000 + 947 * i
        return f',"cost_cents":{2.3 * tokens / 1e5:.5f},"llm_calls":{4 + i % 6},"tokens_total":{tokens}'

    return Spellings(
        score=table(f"{i / 100:.2f}" for i in range(101)),
        score_json=table(repr(i / 100) for i in range(101)),
        score_json_fine=table(repr(i / 1_000) for i in range(1_001)),
        level=table(f"{i / 10_000:.4f}" for i in range(10_001)),
        level_json=table(repr(i / 10_000) for i in range(10_001)),
        boolean=table(iter(("false", "true"))),
        k_eff=table(f"{i / 100:.2f}" for i in range(501)),
        clock=table(f"{s // 3600:02d}{s // 60 % 60:02d}{s % 60:02d}" for s in range(86_400)),
        accounts=table(account(i) for i in range(128)),
        execution_ms=table(f"{2 + 0.937 * i:.3f}" for i in range(64)),
        reasoning=table(f',"reasoning":"{sentence}"' for sentence in _SENTENCES),
    )
