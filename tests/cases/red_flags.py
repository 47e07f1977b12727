"""Cases of red flags (certainty.md §5) that depend on the traces of one agent only."""

from datetime import timedelta
from math import log
from typing import Any

from cases import notation
from cases.notation import Case, Row, Source, ago, deferral


def traces(*where: Any, agent: str, **columns: Any) -> list[Source]:
    """Return traces signed with a key that no other agent uses."""
    return notation.traces(*where, agent=agent, signature_key_id=f"key of {agent}", **columns)


def scored_records(agent: str, days: float, n: int, shift: int = 0) -> list[Source]:
    """Return the first n of fifty different records, in which each score has ten values, five times each.

    :param shift: records with different shifts are all different.
    """
    numbers = range(n)
    return traces(
        ago(days),
        n,
        agent=agent,
        csdma_plausibility_score=[number % 10 / 10 for number in numbers],
        dsdma_domain_alignment=[(3 * number + number // 10) % 10 / 10 for number in numbers],
        coherence_level=[(number // 5 + shift) % 10 / 10 for number in numbers],
    )


def episodes(agent: str, days: float, *modes: str) -> list[Source]:
    """Return consecutive episodes of one hour with the failure modes ``modes``."""
    return traces(
        ago(days),
        2 * len(modes),
        agent=agent,
        every=timedelta(hours=1),
        idma_fragility_flag=[True, False] * len(modes),
        idma_phase=[phase for mode in modes for phase in (mode, None)],
    )


def red_flags(**values: float) -> dict[str, Any]:
    """Return the expected red flags of an agent with their values."""
    return {"red_flags": values}


CASES = [
    Case(
        "5 phase_churn: each episode has another failure mode, compared with the previous window",
        [
            *episodes("new", 12, *"aaaaaaaa"),
            *episodes("new", 5, *"abcdefgh"),
            *episodes("usual", 12, *"abcdefgh"),
            *episodes("usual", 5, *"abcdefgh"),
        ],
        agents={
            "new": red_flags(phase_churn=1) | {"compared.phase_churn": 1 / 8},
            "usual": red_flags(phase_churn=1) | {"compared.phase_churn": 1, "z.phase_churn": 0},
        },
    ),
    Case(
        "5 repeated_records: more equal pairs than chance gives",
        [
            *scored_records("twice", 5, 50),
            *scored_records("twice", 1.2, 50),
            # These two agents have ten values of each score, but no two equal records.
            *[
                row
                for number in (1, 2)
                for row in [
                    *scored_records(f"once, {number}", 5.1, 50),
                    *scored_records(f"once, {number}", 1.3, 50, shift=3),
                ]
            ],
            # The first 50 traces of "earlier" are before the window of 7 days.
            *scored_records("earlier", 8, 50),
            *scored_records("earlier", 1.5, 50),
            # The agent "absent" sends twenty records five times each, without the second score. If only the other two
            # scores were compared, it would have 4.9 times as many equal pairs as chance gives.
            *[
                row
                for days in (5.3, 4.3, 3.3, 2.3, 1.6)
                for row in traces(
                    ago(days),
                    20,
                    agent="absent",
                    csdma_plausibility_score=[n % 10 / 10 for n in range(20)],
                    dsdma_domain_alignment=None,
                    coherence_level=[(n + 3 * (n // 10)) % 10 / 10 for n in range(20)],
                )
            ],
        ],
        # Of 4950 pairs of traces, 10 * 45 are equal in each score, so chance gives 450^3 / 4950^2 pairs that are equal
        # in all three scores. The agents "twice" and "earlier" have 50 such pairs.
        [
            Row(red_flags(repeated_records=50 * 4950**2 / 450**3), agent="twice"),
            Row(red_flags(), agent="once, 1"),
            Row(red_flags(), agent="earlier"),
            Row(red_flags(repeated_records=50 * 4950**2 / 450**3), agent="earlier", window=30),
            Row(red_flags(), agent="absent"),
        ],
    ),
    Case(
        "5 renumbered, contradicted_null and shared_key are raised by one occurrence",
        [
            *traces(ago(5), 3, agent="restarted"),
            *traces(ago(1), 2, agent="restarted", audit_sequence_number=[1, 2]),
            *traces(
                ago(1), agent="nulled", action_was_overridden=None, conscience_result={"action_was_overridden": True}
            ),
            *notation.traces(ago(1), 2, agent="copy", signature_key_id=["key of restarted", "another key of copy"]),
        ],
        agents={
            "restarted": red_flags(renumbered=1),
            "nulled": red_flags(**{"contradicted_null action_was_overridden": 1}),
            "copy": red_flags(shared_key=1),
        },
    ),
    Case(
        "5 repeated_decision is raised by a trace that is signed again within a second, in the same period",
        [
            row
            for agent, us, n, more in (
                ("signed twice", 1_000_000, 2, {}),
                ("later", 1_000_001, 2, {}),
                ("other scores", 1_000_000, 2, {"entropy_level": [0.1, 0.2]}),
                ("other id", 1_000_000, 2, {"trace_id": ["s", "t"]}),
                ("three times", 1000, 3, {}),
            )
            for row in traces(ago(1), n, agent=agent, **({"trace_id": "t"} | more), every=timedelta(microseconds=us))
        ]
        + traces(ago(1, us=1), 2, agent="midnight", trace_id="t", every=timedelta(microseconds=1)),
        agents={
            "signed twice": red_flags(repeated_decision=1),
            "later": red_flags(),
            "other scores": red_flags(),
            "other id": red_flags(),
            "three times": red_flags(repeated_decision=2),
            "midnight": red_flags(),
        },
    ),
    Case(
        "5 unreported: coherence_passed is expected of SPEAK and TOOL, and of any trace that reports it",
        [
            *[row for agent in ("speaks", "defers") for row in traces(ago(20), 400, agent=agent)],
            *traces(
                ago(1),
                50,
                agent="speaks",
                coherence_passed=[None] * 5 + [True] * 45,
                selected_action=["SPEAK", "SPEAK", "TOOL", "TOOL", "PONDER"] + ["DEFER"] * 45,
            ),
            *traces(
                ago(1),
                50,
                agent="defers",
                coherence_passed=[None] * 10 + [True] * 40,
                selected_action=["DEFER"] * 10 + ["SPEAK"] * 40,
                idma_fragility_flag=[None] * 4 + [False] * 46,
            ),
        ],
        agents={
            "speaks": red_flags(**{"unreported coherence_passed": 4 / 49}),
            "defers": red_flags(**{"unreported idma_fragility_flag": 4 / 50}),
        },
    ),
    Case(
        "5 volume_jump: traces per day rise from 4 to 10, and half of them are trivial",
        [
            *traces(ago(30), 92, agent="observer", every=timedelta(hours=6)),
            *traces(
                ago(7),
                70,
                agent="observer",
                every=timedelta(hours=2.4),
                selected_action=["TASK_COMPLETE"] * 35 + ["SPEAK"] * 35,
            ),
        ],
        agents={"observer": red_flags(volume_jump=log(10 / 4)) | {"compared.volume_jump": 4}},
    ),
    Case(
        "5 key_turnover: three keys that the agent uses for the first time, not counting its first key",
        [
            row
            for agent, n_new in (("three", 3), ("two", 2))
            for row in [
                *traces(ago(20), 200, agent=agent),
                *notation.traces(ago(19), 200, agent=agent, signature_key_id=f"old key of {agent}"),
                *notation.traces(
                    ago(1),
                    n_new + 48,
                    agent=agent,
                    signature_key_id=[
                        *(f"key {number} of {agent}" for number in range(n_new)),
                        *[f"key 0 of {agent}", f"old key of {agent}"] * 24,
                    ],
                ),
            ]
        ]
        + notation.traces(ago(1), 50, agent="first", signature_key_id=["a", "b", *["c"] * 48]),
        # One of 400 traces of the baseline has a new key.
        agents={"three": red_flags(key_turnover=3), "two": red_flags(), "first": red_flags()},
    ),
    Case(
        "5 deferrals_left_open: open for more than 7 days; the baseline counts deferrals open at T - W",
        [row for agent in ("A", "slow") for days in (60, 1) for row in traces(ago(days), agent=agent)],
        # Of the twelve deferrals that are older than 7 days, nine are open at T. In the baseline, two deferrals are
        # open at T - 7 days, when they are resolved: 2 of 15 for A, 2 of 5 for slow. 9 of 12 does not differ
        # significantly from 2 of 5.
        agents={"A": red_flags(deferrals_left_open=9 / 12), "slow": red_flags()},
        deferrals=[
            row
            for agent, n_judged in (("A", 13), ("slow", 3))
            for row in [
                *3
                * [
                    deferral(ago(14), resolved_at=ago(13), agent=agent),
                    deferral(ago(11), resolved_at=ago(-1), agent=agent),
                    deferral(ago(11), "UNDER_REVIEW", agent=agent),
                    deferral(ago(7, us=1), "PENDING", agent=agent),
                    # These two do not count: one is too recent, one has an unknown status.
                    deferral(ago(7), "PENDING", agent=agent),
                    deferral(ago(11), "LOST", agent=agent),
                ],
                *n_judged * [deferral(ago(20), resolved_at=ago(19), agent=agent)],
                *2 * [deferral(ago(14, us=1), resolved_at=ago(7), agent=agent)],
                deferral(ago(37, us=1), "PENDING", agent=agent),
            ]
        ],
    ),
]
