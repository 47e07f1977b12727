"""The truth that the steady score is to cover: the mean score under unchanged behaviour, over windows with and without
events (certainty.md §4b)."""

import numpy as np

from benchmarks.coverage.behaviour import EPISODE_SIGMA, WORTH, Facts
from benchmarks.coverage.cases import DEFERRALS_PER_WEEK, EPISODES, Case
from benchmarks.coverage.truth import Truth
from ciris_scoring.statistics.inputs import Floats, Parameters
from ciris_scoring.statistics.intervals import COMPONENTS
from ciris_scoring.statistics.resilience import resilience_score

WINDOWS_DRAWN = 400
"""Windows whose mean R counts as the expected one; the score's own error is twenty times that of this mean."""


def long_run(
    case: Case, expected: Truth, facts: Facts, parameters: Parameters, rng: np.random.Generator
) -> Floats:
    """Mean score of the agents of a case, (agents,); their episodes and deferrals come at the rates of the case.

    :param expected: of the window, whose other components are those of every window.
    """
    shape = (len(facts.mean_hours), WINDOWS_DRAWN)
    n = rng.poisson(0.0 if case.benign else EPISODES, shape)
    total = np.zeros(shape)
    for k in range(int(n.max())):
        lasted = rng.lognormal(-(EPISODE_SIGMA**2) / 2, EPISODE_SIGMA, shape) * facts.mean_hours[:, None]
        total += np.where(k < n, lasted, 0.0)
    component = dict(zip(COMPONENTS, expected.components.T, strict=True))
    r = resilience_score(
        np.repeat(component["delta_drift"][:, None], WINDOWS_DRAWN, axis=1),
        total / np.maximum(n, 1),
        np.where(n > 1, rng.choice([0.0, 0.0, 0.5], shape), 0.0),
        parameters.mttr_scale_hours,
        parameters.norm_k,
        parameters.norm_x0,
    ).mean(axis=1)
    deferrals = 0.0 if case.benign else DEFERRALS_PER_WEEK * case.window.window_days / 7
    no_deferral = np.exp(-deferrals)
    worth = no_deferral + (1 - no_deferral) * (facts.deferral_outcomes @ WORTH)
    c, i_int, _, _, s = expected.factors.T
    result: Floats = c * i_int * r * (1 - component["ece"]) * (1 - component["u_unsafe"]) * worth * s
    return result
