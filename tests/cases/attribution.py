"""Cases of attribution and changes (certainty.md §1 and 2).

tests/python/test_attribution.py compares extreme scores with the reference implementation.
"""

from datetime import timedelta
from math import exp, log

from cases.notation import Case, ago, deferral, norm, traces

CEILING = -log(norm(1))

# Score if 10 of 100 traces are overridden and one of the ten fields is missing. The losses are 1, -ln 0.9 and the fixed
# cost.
OVERRIDDEN = exp(-1) * 0.9 * norm(1)

CASES = [
    Case(
        "1 points are proportional to the losses and sum to 1 minus the score",
        traces(ago(1), 100, every=timedelta(seconds=30), action_was_overridden=[True] * 10 + [False] * 90),
        {
            "capacity_score": OVERRIDDEN,
            "loss.k_contradiction": 1,
            "loss.i_coverage": -log(0.9),
            "loss.r_ceiling": CEILING,
            "loss.i_chain": 0,
            "loss.delta_drift": 0,
            "lost.k_contradiction": (1 - OVERRIDDEN) / -log(OVERRIDDEN),
            "lost.i_coverage": -log(0.9) * (1 - OVERRIDDEN) / -log(OVERRIDDEN),
            "lost.s_score": 0,
        },
    ),
    Case(
        "1 components with an infinite loss share the lost points equally",
        traces(ago(1), 40, signature_verified=False, thought_start=None),
        # I_chain and I_replay are 0. The signal of an unverified trace is not coherent, so S is 0 too.
        {
            "capacity_score": 0,
            "loss.i_chain": None,
            "loss.i_replay": None,
            "loss.s_score": None,
            "lost.i_chain": 1 / 3,
            "lost.i_replay": 1 / 3,
            "lost.s_score": 1 / 3,
            "loss.i_coverage": -log(0.9),
            "lost.i_coverage": 0,
        },
    ),
    Case(
        "2 a change of the score is divided in proportion to the changes of the losses",
        [
            *traces(ago(10), 100, every=timedelta(seconds=30)),
            *traces(ago(3), 100, every=timedelta(seconds=30), action_was_overridden=[True] * 10 + [False] * 90),
        ],
        # The loss of K rises from 0 to 1, and the loss of Q from 0 to ln 2.
        {
            "capacity_score": OVERRIDDEN / 2,
            "moved.k_contradiction": -(OVERRIDDEN * exp(1) - OVERRIDDEN / 2) / (1 + log(2)),
            "moved.q_deferral": -(OVERRIDDEN * exp(1) - OVERRIDDEN / 2) * log(2) / (1 + log(2)),
            "moved.i_coverage": 0,
            "moved.r_ceiling": 0,
            "moved.mttr_hours": 0,
        },
        deferrals=[deferral(ago(2)), deferral(ago(2), "REJECTED")],
    ),
]
