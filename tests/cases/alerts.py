"""Cases of alerts (certainty.md §4) whose thresholds can be tested without computing an interval by hand."""

from datetime import timedelta
from typing import Any

from cases.notation import Case, Row, Source, ago, deferral, traces

SECONDS = timedelta(seconds=3)


def some(k: int, n: int, value: Any, other: Any) -> list[Any]:
    """Return a list of k times ``value`` and n - k times ``other``."""
    return [value] * k + [other] * (n - k)


TWENTY = {"action_was_overridden": some(20, 200, True, False)}
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
    "their average value is 0.000, compared with 1.000 in the 322 days before."
)

FALLEN = (
    "Losses have been significantly larger since about {}. The score without episodes, deferrals and drift fell from "
    "0.900 to 0.331. Largest increase: overridden actions (k_contradiction)."
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
            Row({"alerts": {"silent": "critical"}}, agent="without a row"),
        ],
    ),
    Case(
        "4 silent stays raised until a trace comes, and is critical from 7 days without a trace on",
        [
            *traces(ago(7, minutes=29), 30, agent="7 days"),
            *traces(ago(7, minutes=29, us=-1), 30, agent="less"),
            *traces(ago(80), 30, agent="back"),
            *traces(ago(1), agent="back"),
            *traces(ago(90, minutes=29), 30, agent="90 days"),
            *traces(ago(90, minutes=29, us=1), 30, agent="forgotten"),
        ],
        # The last of 30 traces is 29 minutes after the first.
        [
            Row({"alerts": {"silent": "critical"}}, agent="7 days"),
            Row({"alerts": {"silent": "warning"}}, agent="less"),
            Row({"alerts": {}}, agent="back"),
            Row({"alerts": {"silent": "critical"}}, agent="90 days"),
            Row({"alerts": {}}, agent="forgotten"),
        ],
    ),
    Case(
        "4 falling needs a drop of falling_least_drop",
        [
            row
            for agent, missing in (("0.03", 180), ("0.1", 600))
            for row in [
                *traces(ago(49), 600, agent=agent, every=SECONDS),
                *traces(ago(1), 600, agent=agent, every=SECONDS, thought_id=some(missing, 600, None, "thought")),
            ]
        ],
        # Coverage falls from 0.9 to 0.87 or 0.8. Both falls are significant, because there are 6,000 fields.
        agents={"0.03": {"alerts": {}}, "0.1": {"alerts": {"falling": "warning"}}},
    ),
    Case(
        "4 falling says that a change on the first of the 42 days may have happened earlier",
        [
            row
            for agent, days in (("earlier", 41.5), ("later", 40.5))
            for row in [
                *traces(ago(49), 200, agent=agent, every=SECONDS),
                *traces(ago(days), 200, agent=agent, every=SECONDS, **TWENTY),
                *traces(ago(1), 200, agent=agent, every=SECONDS, **TWENTY),
            ]
        ],
        agents={
            "earlier": {"message.falling": FALLEN.format("2026-02-17 or earlier")},
            "later": {"message.falling": FALLEN.format("2026-02-18")},
        },
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
        # traces 12 are overridden. The log likelihood ratio of 6 times the odds, s = 0.0148, is 12 ln(s / r) +
        # 188 ln((1 - s) / (1 - r)) = 19.0, more than 7.5.
        agents={"old": {"alerts": {"falling": "warning"}}, "young": {"alerts": {}}},
    ),
    Case(
        "4 episode is raised by longer episodes than in the 322 days before",
        [
            *traces(ago(100), agent="longer"),
            *episodes("longer", 97, 15, 0.05),
            *episodes("longer", 6, 3, 20),
            *traces(ago(100), agent="as long"),
            *episodes("as long", 97, 15, 20),
            *episodes("as long", 6, 3, 20),
            *traces(ago(355), agent="too long ago"),
            *episodes("too long ago", 352, 15, 0.05),
            *episodes("too long ago", 6, 1, 20),
        ],
        agents={
            "longer": {"mttr_hours": 20, "alerts": {"episode": "warning"}},
            "as long": {"alerts": {}},
            "too long ago": {"mttr_hours": 20, "alerts": {}},
        },
    ),
    Case(
        "4 episode is raised by more frequent episodes than before",
        [
            *traces(ago(70), agent="more often"),
            *episodes("more often", 6, 3, 1),
            *traces(ago(70), agent="twice"),
            *episodes("twice", 6, 2, 1),
        ],
        # The agents are observed for 70 days. Three episodes in 7 days, after none in the 63 days before, have
        # z = √(6 ln(70/7)) = 3.72. Two episodes have z = √(4 ln(70/7)) = 3.03, below the threshold 3.1.
        agents={"more often": {"alerts": {"episode": "warning"}}, "twice": {"alerts": {}}},
    ),
    Case(
        "4 episode is raised by deferrals that are judged worse than in the 322 days before",
        [
            row
            for agent in ("worse", "few", "as good", "two", "earlier")
            for row in [*traces(ago(355), agent=agent), *traces(ago(5), agent=agent)]
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
        # The 322 days before the last 7 days begin at T - 329 days, and those before the last 28 days at T - 350 days.
        deferrals=[
            *judged("worse", 20, 329, 0, "RESOLVED"),
            *judged("worse", 20, 4, 0, "REJECTED"),
            *judged("few", 8, 329, 0, "RESOLVED"),
            *judged("few", 5, 4, 0, "REJECTED"),
            *judged("as good", 20, 329, 0, "RESOLVED"),
            *judged("as good", 20, 4, 0, "RESOLVED"),
            *judged("two", 2, 329, 0, "RESOLVED"),
            *judged("two", 2, 4, 0, "REJECTED"),
            *judged("earlier", 20, 350, 1, "RESOLVED"),
            *judged("earlier", 20, 4, 0, "REJECTED"),
        ],
    ),
]
