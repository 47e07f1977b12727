"""Cases of composite, status, category, confidence and weakest factor (scoring.md §8) and of the steady score
(certainty.md §4b).
"""

from datetime import timedelta
from math import exp

from cases.notation import Case, Row, ago, deferral, norm, traces

FLAWLESS = 0.9 * norm(1)


def overridden(k: int, agent: str) -> list:
    """Return a hundred traces of which k are overridden."""
    return traces(
        ago(1), 100, agent=agent, every=timedelta(seconds=30), action_was_overridden=[True] * k + [False] * (100 - k)
    )


CONFIDENCES = {9: "insufficient", 10: "low", 29: "low", 30: "medium", 99: "medium", 100: "high"}
"""Expected confidence by number of traces."""

CASES = [
    Case(
        "8 capacity is the product of the factors, and the geometric composite its fifth root",
        [
            *traces(ago(40)),
            *traces(
                ago(1),
                40,
                action_was_overridden=[True] * 2 + [False] * 38,
                coherence_passed=[False] * 10 + [True] * 30,
                action_success=[False] * 4 + [True] * 36,
                entropy_level=[0.9] * 2 + [0.1] * 38,
            ),
        ],
        # K = 2/40, S = 30/40, ECE = 1 - 36/40 and U = 2/40.
        {
            "capacity_score": exp(-0.5) * FLAWLESS * (0.9 * 0.95) * 0.75,
            "capacity_score_geometric": (exp(-0.5) * FLAWLESS * (0.9 * 0.95) * 0.75) ** 0.2,
            "fragility_index": 1 / (0.001 + exp(-0.5) * FLAWLESS * (0.9 * 0.95) * 0.75),
            "category": "moderate",
            "score_status": "final",
            "confidence": "medium",
            "weakest_factor": "C",
        },
    ),
    Case(
        "8 a score needs 30 traces",
        [*traces(ago(3), 30, agent="30"), *traces(ago(3), 29, agent="29")],
        agents={
            "30": {"capacity_score": FLAWLESS, "score_status": "provisional"},
            "29": {
                "capacity_score": None,
                "capacity_score_geometric": None,
                "fragility_index": None,
                "category": None,
                "capacity_score_low": None,
                "capacity_score_high": None,
                "capacity_score_steady": None,
                "score_status": "insufficient_data",
                "i_int_score": 0.9,
                "weakest_factor": "I_int",
            },
        },
    ),
    Case(
        "8 a score is final if the agent's first trace is at least 7 days before the window",
        [
            *traces(ago(14), agent="then"),
            *traces(ago(14, us=-1), agent="later"),
            *traces(ago(37), agent="month"),
            *[row for agent in ("then", "later", "month") for row in traces(ago(2), 30, agent=agent)],
        ],
        [
            Row({"score_status": "final"}, agent="then"),
            Row({"score_status": "provisional"}, agent="later"),
            Row({"score_status": "provisional"}, agent="then", window=30),
            Row({"score_status": "final"}, agent="month", window=30),
        ],
    ),
    Case(
        "8 a category begins at its lower bound",
        [
            *overridden(10, "0.306"),
            *overridden(11, "0.277"),
            *overridden(3, "0.616"),
            *overridden(4, "0.557"),
            *overridden(0, "0.832"),
            *traces(ago(1, -5), 30, agent="0.924", coherence_level=1),
        ],
        agents={
            "0.306": {"capacity_score": exp(-1) * FLAWLESS, "category": "moderate"},
            "0.277": {"capacity_score": exp(-1.1) * FLAWLESS, "category": "high_fragility"},
            "0.616": {"capacity_score": exp(-0.3) * FLAWLESS, "category": "healthy"},
            "0.557": {"capacity_score": exp(-0.4) * FLAWLESS, "category": "moderate"},
            "0.832": {"capacity_score": FLAWLESS, "category": "healthy"},
            # No trace has an error, so the interval ends at the score.
            "0.924": {"capacity_score": norm(1), "category": "high_capacity", "capacity_score_high": norm(1)},
        },
    ),
    Case(
        "8 confidence depends on the number of traces in the window",
        [row for n in CONFIDENCES for row in traces(ago(1), n, agent=str(n), every=timedelta(seconds=30))],
        [Row({"confidence": confidence}, agent=str(n)) for n, confidence in CONFIDENCES.items()],
    ),
    Case(
        "8 the weakest factor is the smallest factor, and the first of equal factors",
        [
            *traces(ago(1), agent="I_int", signature_verified=False, coherence_passed=None),
            *traces(ago(1), agent="I_inc", coherence_passed=None, action_success=False),
            *traces(ago(1), agent="S", coherence_passed=None),
            *traces(ago(1, -6), agent="R", coherence_level=1),
            *traces(ago(1), 2, agent="C", action_was_overridden=True),
        ],
        # Each agent is named after its weakest factor. S is 0 too for "I_int" and "I_inc". ECE of "I_inc" is 1.
        agents={
            "I_int": {"weakest_factor": "I_int", "i_int_score": 0, "s_score": 0},
            "I_inc": {"weakest_factor": "I_inc", "i_inc_score": 0, "s_score": 0},
            "S": {"weakest_factor": "S"},
            "R": {"weakest_factor": "R", "i_int_score": 1, "r_score": norm(1)},
            "C": {"weakest_factor": "C", "c_score": exp(-10)},
        },
    ),
    Case(
        "4b mttr_hours_steady and q_deferral_steady are means over the last 90 days",
        [
            *traces(ago(95)),
            *traces(ago(90, hours=2), idma_fragility_flag=True),
            *traces(ago(90)),  # The agent recovers exactly 90 days before T, after 2 hours.
            *traces(ago(60, hours=9), idma_fragility_flag=True),
            *traces(ago(60)),  # recovery after 9 hours
            *traces(ago(3, hours=1), idma_fragility_flag=True),
            *traces(ago(3), 40),  # recovery after 1 hour
            *traces(ago(hours=4), idma_fragility_flag=True),  # open for 4 hours
        ],
        {
            "mttr_hours": (1 + 4) / 2,
            "mttr_hours_steady": (2 + 9 + 1 + 4) / 4,
            "n_steady_episodes": 4,
            "q_deferral": 1,
            "q_deferral_steady": 1 / 2,
            "n_steady_deferrals": 2,
        },
        deferrals=[deferral(ago(90), "REJECTED"), deferral(ago(90, us=1), "REJECTED"), deferral(ago(2))],
    ),
]
