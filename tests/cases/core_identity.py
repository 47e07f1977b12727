"""Cases of C (scoring.md §3): C = exp(-5 D_identity) exp(-10 K_contradiction)."""

from math import exp

from cases.notation import Case, Row, ago, traces

CASES = [
    Case(
        "3 C is exp(-5 D_identity) exp(-10 K_contradiction)",
        traces(
            ago(1), 20, agent_name=["Ann"] * 19 + ["Bea"], action_was_overridden=[True] * 3 + [False] * 17
        ),
        {"d_identity": 1 / 20, "k_contradiction": 3 / 20, "c_score": exp(-5 / 20) * exp(-10 * 3 / 20)},
    ),
    Case(
        "3 a rename at the first trace of the window counts, however old the earlier name is",
        [
            *traces(ago(40), agent_name="Ann"),
            *traces(ago(20), agent_name=None),
            *traces(ago(7), 4, agent_name="Bea"),
        ],
        [Row({"d_identity": 1 / 4, "c_score": exp(-5 / 4)}), Row({"d_identity": 1 / 5}, window=30)],
    ),
]
