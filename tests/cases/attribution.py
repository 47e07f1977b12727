"""Cases of attribution and changes (certainty.md §1 and 2)."""

from datetime import timedelta
from math import exp, log

from cases.notation import Case, ago, deferral, norm, traces

CEILING = -log(norm(1))

# K = 1/10, and one field is missing. The loss is 1 + ln(1/0.9) plus the fixed cost.
OVERRIDDEN = exp(-1) * 0.9 * norm(1)

# An episode of 1 hour that relapses: a2 = ln 2, a3 = -ln(1 - 1/2). Both get half of h = ln norm(1) - ln norm(1/4).
RELAPSED = 0.9 * norm(1 / 4)
HALF = (log(norm(1)) - log(norm(1 / 4))) / 2

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
        "1 the loss of R beyond the fixed cost is divided in proportion to the logarithms of its components",
        [
            *traces(ago(1), 40),
            *traces(ago(hours=20), idma_fragility_flag=True),
            *traces(ago(hours=19)),
            *traces(ago(hours=18), idma_fragility_flag=True),
            *traces(ago(hours=17)),
        ],
        {
            "capacity_score": RELAPSED,
            "loss.mttr_hours": HALF,
            "loss.rho_regression": HALF,
            "loss.delta_drift": 0,
            "loss.r_ceiling": CEILING,
        },
    ),
    Case(
        "1 components with an infinite loss divide the whole score equally",
        traces(ago(1), 40, signature_verified=False, thought_start=None),
        # I_chain = I_replay = 0. A signal of an unverified trace is not coherent, so S = 0 too.
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
        "1 an infinite component of R takes all of R's loss",
        [
            *traces(ago(1), 40),
            *traces(ago(hours=20), idma_fragility_flag=True),
            *traces(ago(hours=19)),
            *traces(ago(hours=18), idma_fragility_flag=True),
        ],
        # rho = 1, so x = 0. MTTR is (1 + 18) / 2 hours.
        {
            "r_score": norm(0),
            "loss.rho_regression": log(norm(1)) - log(norm(0)),
            "loss.mttr_hours": 0,
        },
    ),
    Case(
        "2 a change is divided in proportion to the changes of the losses",
        [
            *traces(ago(10), 100, every=timedelta(seconds=30)),
            *traces(
                ago(3), 100, every=timedelta(seconds=30), action_was_overridden=[True] * 10 + [False] * 90
            ),
        ],
        # From the perfect score, K changes by 1 and Q by 1/2.
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
    Case(
        "2 the change of the score due to R is divided in proportion to the changes of its components",
        [
            *traces(ago(10), 44),
            *traces(ago(3), 40),
            *traces(ago(hours=20), idma_fragility_flag=True),
            *traces(ago(hours=19)),
            *traces(ago(hours=18), idma_fragility_flag=True),
            *traces(ago(hours=17)),
        ],
        {
            "moved.mttr_hours": (RELAPSED - 0.9 * norm(1)) / 2,
            "moved.rho_regression": (RELAPSED - 0.9 * norm(1)) / 2,
            "moved.delta_drift": 0,
        },
    ),
    Case(
        "2 components that became infinite divide the fall to 0",
        [
            *traces(ago(10), 40),
            *traces(ago(3), 40, thought_start=None, signature_verified=False, action_was_overridden=True),
        ],
        {
            "capacity_score": 0,
            "moved.i_replay": -0.9 * norm(1) / 2,
            "moved.i_chain": -0.9 * norm(1) / 2,
            "moved.k_contradiction": 0,
            "lost.i_replay": 1 / 2,
        },
    ),
]
