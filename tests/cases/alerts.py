"""Cases of alerts (certainty.md §4) whose thresholds can be tested without computing an interval by hand."""

from datetime import timedelta
from typing import Any

from cases.notation import Case, Row, Source, ago, deferral, traces

SECONDS = timedelta(seconds=3)


def weeks(
    agent: str, first: float, before: dict[str, Any], now: dict[str, Any], n: int = 100
) -> list[Source]:
    """Return n traces with the columns ``before`` in the previous window, and n traces with ``now`` in the last window.

    :param first: days from the agent's first trace to T, which decide whether the earlier score is final.
    """
    return [
        *traces(ago(first), agent=agent),
        *traces(ago(10), n, agent=agent, every=SECONDS, **before),
        *traces(ago(1), n, agent=agent, every=SECONDS, **now),
    ]


def some(k: int, n: int, value: Any, other: Any) -> list[Any]:
    """Return a list of k times ``value`` and n - k times ``other``."""
    return [value] * k + [other] * (n - k)


OVERRIDDEN = {"action_was_overridden": some(12, 100, True, False)}
TWENTY = {"action_was_overridden": some(20, 100, True, False)}
SIX = {"action_was_overridden": some(6, 100, True, False)}


def episodes(agent: str, first: float, n: int, hours: float) -> list[Source]:
    """Return n episodes of ``hours`` hours, with equally long gaps. The first begins ``first`` days before T."""
    return [
        row
        for i in range(n)
        for row in traces(
            ago(first, hours=-2 * i * hours),
            2,
            agent=agent,
            every=timedelta(hours=hours),
            idma_fragility_flag=[True, False],
        )
    ]


def judged(agent: str, n: int, days: float, us: int, status: str) -> list[Source]:
    """Return n deferrals with the same status, all created ``days`` days and ``us`` microseconds before T."""
    return [deferral(ago(days, us=us), status, agent=agent) for _ in range(n)]


WORSE = (
    "Deferrals have been judged worse since about 2026-03-24: "
    "their average value is 0.000, compared with 1.000 in the 90 days before."
)

CASES = [
    Case(
        "4 low_capacity is critical if the score is significantly below the threshold, otherwise a warning",
        [
            *traces(ago(1), 100, agent="sure", action_was_overridden=some(50, 100, True, False)),
            *traces(ago(1), 30, agent="unsure", action_was_overridden=some(4, 30, True, False)),
            *traces(ago(1), 30, agent="above", action_was_overridden=some(3, 30, True, False)),
        ],
        # The scores are 0.006, 0.219 and 0.306, and the threshold is 0.3. An agent with 4 overrides in 30 traces may
        # have 1.6 in 30 in the long run, which would give the score 0.49. So 0.219 is not significantly below 0.3.
        agents={
            "sure": {"alerts": {"low_capacity": "critical"}},
            "unsure": {"alerts": {"low_capacity": "warning"}},
            "above": {"alerts": {}},
        },
    ),
    Case(
        "4 silent is raised after two days without traces if the window before them has 30 traces",
        [
            *traces(ago(9), 29, agent="silent"),
            *traces(ago(2, us=1), agent="silent"),
            *traces(ago(9, us=1), agent="29"),
            *traces(ago(9), 28, agent="29"),
            *traces(ago(2, us=1), agent="29"),
            *traces(ago(5), 30, agent="speaks"),
            *traces(ago(2), agent="speaks"),
            *traces(ago(8), 30, agent="without a row"),
        ],
        [
            Row({"alerts": {"silent": "warning"}}, agent="silent"),
            Row({"alerts": {}}, agent="29"),
            Row({"alerts": {"silent": "warning"}}, agent="29", window=30),
            Row({"alerts": {}}, agent="speaks"),
            Row({"alerts": {"silent": "warning"}}, agent="without a row"),
        ],
    ),
    Case(
        "4 falling is not raised if the earlier score is provisional",
        [*weeks("final", 21, {}, TWENTY), *weeks("provisional", 20.9, {}, TWENTY)],
        agents={
            "final": {"alerts": {"falling": "warning", "low_capacity": "critical"}},
            "provisional": {"alerts": {"low_capacity": "critical"}},
        },
    ),
    Case(
        "4 falling needs a drop of at least a third of its threshold",
        [
            *weeks("0.028", 25, {}, {"thought_id": some(180, 600, None, "thought")}, n=600),
            *weeks("0.092", 25, {}, {"thought_id": None}, n=600),
        ],
        # Coverage falls from 0.9 to 0.87 or 0.8, and the score by 0.924 times as much. Both falls are significant,
        # because there are 6,000 fields.
        agents={"0.028": {"alerts": {}}, "0.092": {"alerts": {"falling": "warning"}}},
    ),
    Case(
        "4 falling is not raised by one component with a small loss",
        [
            *traces(ago(25)),
            *traces(ago(10), 1500, every=timedelta(seconds=2)),
            *traces(
                ago(7),
                1500,
                every=timedelta(seconds=2),
                signature_verified=some(28, 1500, False, True),
                coherence_passed=some(600, 1500, False, True),
            ),
            *traces(ago(1)),
        ],
        # The loss of I_chain is -ln(1 - 28/1501) = 0.0188, which is significant but below 0.02. The loss of S is
        # larger, but not significant.
        {"i_chain": 1473 / 1501, "alerts": {}},
    ),
    Case(
        "4 falling is raised by several components together, none of which is significant alone",
        [
            *weeks("one part", 25, {}, OVERRIDDEN),
            *weeks(
                "four parts",
                25,
                {},
                OVERRIDDEN
                | {
                    "signature_verified": some(11, 100, False, True),
                    "action_success": some(11, 100, False, True),
                    "entropy_level": some(11, 100, 0.9, 0.1),
                },
            ),
        ],
        agents={
            "one part": {"alerts": {"low_capacity": "warning"}},
            "four parts": {"alerts": {"low_capacity": "critical", "falling": "warning"}},
        },
    ),
    Case(
        "4 falling ignores components that are unmeasured in either window",
        [
            *traces(ago(25)),
            *traces(ago(10), 100, every=SECONDS, action_success=None),
            *traces(ago(1), 100, every=SECONDS, action_success=some(50, 100, False, True)),
        ],
        # In the previous window, no trace has an outcome, so ECE is 0 and unmeasured.
        {"ece": 0.5, "alerts": {}},
    ),
    Case(
        "4 falling compares the lower bound of the earlier S with the upper bound of the later S",
        [
            *traces(ago(25)),
            *traces(ago(10), 100, every=SECONDS),
            *traces(ago(7), 100, every=SECONDS, coherence_passed=some(40, 100, False, True)),
            *traces(ago(1)),
        ],
        # S falls from 1 to 0.79. The earlier S comes from a single day, so its lower bound is far below 1. The fall
        # would be significant if it were compared with the upper bound of the earlier S, which is 1.
        {"alerts": {}},
    ),
    Case(
        "4 falling is raised by more overrides in the last ten days than in the 90 days before the last 42",
        [
            row
            for agent, first in (("old", ago(49)), ("young", ago(49, us=-1)))
            for row in [
                *traces(first, 200, agent=agent, every=SECONDS),
                *traces(ago(10), 100, agent=agent, every=SECONDS, **SIX),
                *traces(ago(1), 100, agent=agent, every=SECONDS, **SIX),
            ]
        ],
        # Of the first 200 traces none is overridden, so the rate before is (0 + 1/2) / 200 = 0.0025. Of the last 200
        # traces 12 are overridden. The log likelihood ratio of a rate that is 6 times as high is 12 ln 6 +
        # 188 ln(0.985 / 0.9975) = 19.1, more than 8.5. Both windows have 6 overrides in 100 traces, so the
        # comparison of the windows raises no alert.
        agents={"old": {"alerts": {"falling": "warning"}}, "young": {"alerts": {}}},
    ),
    Case(
        "4 episode is raised by longer episodes than in the 90 days before",
        [
            *traces(ago(100), agent="longer"),
            *episodes("longer", 97, 15, 0.05),
            *episodes("longer", 6, 3, 20),
            *traces(ago(100), agent="as long"),
            *episodes("as long", 97, 15, 20),
            *episodes("as long", 6, 3, 20),
            *traces(ago(140), agent="too long ago"),
            *episodes("too long ago", 133, 15, 0.05),
            *episodes("too long ago", 6, 1, 20),
        ],
        agents={
            "longer": {"mttr_hours": 20, "alerts": {"episode": "warning"}},
            "as long": {"alerts": {}},
            "too long ago": {"mttr_hours": 20, "alerts": {}},
        },
    ),
    Case(
        "4 episode is raised by more frequent episodes than in the 90 days before",
        [
            *traces(ago(100), agent="more often"),
            *episodes("more often", 6, 3, 1),
            *traces(ago(100), agent="twice"),
            *episodes("twice", 6, 2, 1),
        ],
        # Three episodes in 7 days, after none in the 90 days before, have z = √(6 ln(97/7)) = 3.97. Two episodes have
        # z = √(4 ln(97/7)) = 3.24, below the threshold 3.3.
        agents={"more often": {"alerts": {"episode": "warning"}}, "twice": {"alerts": {}}},
    ),
    Case(
        "4 episode is raised by deferrals that are judged worse than in the 90 days before",
        [
            row
            for agent in ("worse", "few", "as good", "two", "earlier")
            for row in [*traces(ago(99), agent=agent), *traces(ago(5), agent=agent)]
        ],
        agents={
            "worse": {"q_deferral": 0, "alerts": {"episode": "warning"}, "message.episode": WORSE},
            # The 5 deferrals of the last 7 days lose a value of 5. The 8 earlier deferrals lose 0, which counts as 0.25
            # of 8.5. The common share is p = 5.25/13.5, and z = √(2 (5 ln(1/p) + ...)) = 3.97.
            "few": {"q_deferral": 0, "alerts": {"episode": "warning"}},
            "as good": {"q_deferral": 1, "alerts": {}},
            "two": {"q_deferral": 0, "alerts": {}},
            "earlier": {"q_deferral": 0, "alerts": {}},
        },
        # The 90 days before the last 7 days begin at T - 97 days, the 90 days before the last 42
        # days at T - 132 days.
        deferrals=[
            *judged("worse", 20, 97, 0, "RESOLVED"),
            *judged("worse", 20, 4, 0, "REJECTED"),
            *judged("few", 8, 97, 0, "RESOLVED"),
            *judged("few", 5, 4, 0, "REJECTED"),
            *judged("as good", 20, 97, 0, "RESOLVED"),
            *judged("as good", 20, 4, 0, "RESOLVED"),
            *judged("two", 2, 97, 0, "RESOLVED"),
            *judged("two", 2, 4, 0, "REJECTED"),
            *judged("earlier", 20, 132, 1, "RESOLVED"),
            *judged("earlier", 20, 4, 0, "REJECTED"),
        ],
    ),
]
