"""Cases of alerts (certainty.md §4) whose edge can be reached without computing an interval."""

from datetime import timedelta
from typing import Any

from cases.notation import Case, Row, Source, ago, deferral, traces

SECONDS = timedelta(seconds=3)


def weeks(
    agent: str, first: float, before: dict[str, Any], now: dict[str, Any], n: int = 100
) -> list[Source]:
    """Return one trace ``first`` days before T, n traces ten days before T, and n traces one day before T."""
    return [
        *traces(ago(first), agent=agent),
        *traces(ago(10), n, agent=agent, every=SECONDS, **before),
        *traces(ago(1), n, agent=agent, every=SECONDS, **now),
    ]


def some(k: int, n: int, value: Any, other: Any) -> list[Any]:
    """Return a list with one value k times and the other one n - k times."""
    return [value] * k + [other] * (n - k)


OVERRIDDEN = {"action_was_overridden": some(12, 100, True, False)}
TWENTY = {"action_was_overridden": some(20, 100, True, False)}
SIX = {"action_was_overridden": some(6, 100, True, False)}


def episodes(agent: str, first: float, n: int, hours: float) -> list[Source]:
    """Return n episodes, the first of which begins ``first`` days before T. Each is as long as the gap to the next."""
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
    "Deferrals are judged worse since about 2026-03-24: "
    "a value of 0.000 on average, after 1.000 in the 90 days before."
)

CASES = [
    Case(
        "4 low_capacity is critical if it is significant, otherwise a warning",
        [
            *traces(ago(1), 100, agent="sure", action_was_overridden=some(50, 100, True, False)),
            *traces(ago(1), 30, agent="unsure", action_was_overridden=some(4, 30, True, False)),
            *traces(ago(1), 30, agent="above", action_was_overridden=some(3, 30, True, False)),
        ],
        # Scores: 0.006, 0.219 and 0.306. If 4 of 30 traces are overridden, the long-run mean can be 1.6, which gives
        # 0.49.
        agents={
            "sure": {"alerts": {"low_capacity": "critical"}},
            "unsure": {"alerts": {"low_capacity": "warning"}},
            "above": {"alerts": {}},
        },
    ),
    Case(
        "8 silent is raised after two days without traces if the window before them has 30 traces",
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
        [*weeks("final", 21, {}, TWENTY), *[row for row in weeks("provisional", 20.9, {}, TWENTY)]],
        agents={
            "final": {"alerts": {"falling": "warning", "low_capacity": "critical"}},
            "provisional": {"alerts": {"low_capacity": "critical"}},
        },
    ),
    Case(
        "4 falling needs a loss of a third of its threshold",
        [
            *weeks("0.028", 25, {}, {"thought_id": some(180, 600, None, "thought")}, n=600),
            *weeks("0.092", 25, {}, {"thought_id": None}, n=600),
        ],
        # Coverage falls from 0.9 to 0.87 or 0.8, and the score by 0.924 times as much. Both falls are significant,
        # because there are 6,000 fields.
        agents={
            "0.028": {"alerts": {}},
            "0.092": {"alerts": {"falling": "warning"}},
        },
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
        # The loss of I_chain is -ln(1 - 28/1501) = 0.0188, which is significant but too small. The loss of S is larger,
        # but not significant.
        {"i_chain": 1473 / 1501, "alerts": {}},
    ),
    Case(
        "4 falling is raised by the sum of components of which none is significant alone",
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
        "4 falling ignores components that are unmeasured on either side",
        [
            *traces(ago(25)),
            *traces(ago(10), 100, every=SECONDS, action_success=None),
            *traces(ago(1), 100, every=SECONDS, action_success=some(50, 100, False, True)),
        ],
        # In the window before, no trace had both confidence and outcome, so ECE was 0 and unmeasured.
        {"ece": 0.5, "alerts": {}},
    ),
    Case(
        "4 falling compares the lower bound of the earlier S with the upper bound of the later one",
        [
            *traces(ago(25)),
            *traces(ago(10), 100, every=SECONDS),
            *traces(ago(7), 100, every=SECONDS, coherence_passed=some(40, 100, False, True)),
            *traces(ago(1)),
        ],
        # S falls from 1 to 0.79. The single perfect day before says little about the long-run value, which can be
        # much lower. With the opposite bounds, the earlier S would have no width and the fall would be significant.
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
        # Before, 0 of 200 were overridden, estimated as 0.5 / 200 = 0.0025. Since then, 12 of 200 were. The log
        # likelihood ratio for 6 times 0.0025 is 12 ln 6 + 188 ln(0.985 / 0.9975) = 19.1, more than 8.5. Both windows
        # have 6 of 100, so their comparison raises no alert.
        agents={
            "old": {"alerts": {"falling": "warning"}},
            "young": {"alerts": {}},
        },
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
        # Three episodes in 7 days, none in the 90 days before: √(6 ln(97/7)) = 3.97. Two: √(4 ln(97/7)) = 3.24, which
        # is not enough.
        agents={
            "more often": {"alerts": {"episode": "warning"}},
            "twice": {"alerts": {}},
        },
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
            # Five of five are lost, compared with 0.25 of 8.5 before. The common share is s = 5.25/13.5, and
            # z = √(2 (5 ln(1/s) + ...)) = 3.97.
            "few": {"q_deferral": 0, "alerts": {"episode": "warning"}},
            "as good": {"q_deferral": 1, "alerts": {}},
            "two": {"q_deferral": 0, "alerts": {}},
            "earlier": {"q_deferral": 0, "alerts": {}},
        },
        # T - 97 days is the first time in the 90 days before the last 7, T - 132 days before the last 42.
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
