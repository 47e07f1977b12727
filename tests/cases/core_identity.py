"""Cases of C (scoring.md §3): C = exp(-5 D_identity) exp(-10 K_contradiction)."""

from math import exp

from cases.notation import Case, Row, ago, traces

SKIPPED = {"action_was_overridden": True, "ethical_faculties_skipped": True}
NOT_RUN = {"action_was_overridden": True, "conscience_override_reason": "Coherence DID NOT RUN: TIMEOUT"}

CASES = [
    Case(
        "3 C is exp(-5 D_identity) exp(-10 K_contradiction)",
        traces(ago(1), 20, agent_name=["Ann"] * 19 + ["Bea"], action_was_overridden=[True] * 3 + [False] * 17),
        {"d_identity": 1 / 20, "k_contradiction": 3 / 20, "c_score": exp(-5 / 20) * exp(-10 * 3 / 20)},
    ),
    Case(
        "3 a rename at the first trace of the window counts, however old the earlier name is",
        [*traces(ago(40), agent_name="Ann"), *traces(ago(20), agent_name=None), *traces(ago(7), 4, agent_name="Bea")],
        [Row({"d_identity": 1 / 4, "c_score": exp(-5 / 4)}), Row({"d_identity": 1 / 5}, window=30)],
    ),
    Case(
        "3 an override without a judgement counts, and is marked unless a check or guardrail judged",
        [
            *traces(ago(2), 2, action_was_overridden=True, conscience_result=[SKIPPED, NOT_RUN]),
            *traces(
                ago(1),
                10,
                agent="judged",
                action_was_overridden=[True] * 9 + [False],
                conscience_result=[
                    *(SKIPPED | {key: False} for key in ("optimization_veto_passed", "epistemic_humility_passed")),
                    *(NOT_RUN | {key: False} for key in ("entropy_passed", "coherence_passed")),
                    *(SKIPPED | {key: True} for key in ("thought_depth_triggered", "updated_status_detected")),
                    SKIPPED | {"action_was_overridden": False},
                    {"action_was_overridden": True, "conscience_override_reason": ["DID NOT"]},
                    None,
                    SKIPPED,
                ],
            ),
        ],
        agents={
            "A": {"k_contradiction": 1, "overrides_without_judgement": 2},
            "judged": {"k_contradiction": 9 / 10, "overrides_without_judgement": 0},
        },
    ),
]
