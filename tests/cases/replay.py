"""Cases of I_replay (scoring.md §4): which traces are replayable, and which are sampled."""

import hashlib
from typing import Any

from cases.notation import Case, ago, traces

NOTHING = {"action_result": None}
HASH = {"action_result": {"audit_entry_hash": "hash"}}


def comparison(name: str, holds: list[dict[str, Any]], fails: list[dict[str, Any]], failed: list[str]) -> Case:
    """Return a case with two agents: all 30 traces of the first agent are replayable, and no trace of the second.

    :param holds: columns of the first agent's traces, used in turn. Only these columns are compared.
    :param fails: columns of the second agent's traces, used in turn. audit_entry_hash is compared too, and agrees.
    :param failed: failed comparisons of the second agent in fct_trace_checks, in alphabetical order.
    """
    rows = [
        row
        for agent, variants, usual in (("holds", holds, NOTHING), ("fails", fails, HASH))
        for i in range(30)
        for row in traces(ago(3, minutes=-i), agent=agent, **(usual | variants[i % len(variants)]))
    ]
    return Case(
        f"4 replay: {name}",
        rows,
        agents={"holds": {"i_replay": 1, "failed": []}, "fails": {"i_replay": 0, "failed": failed}},
    )


def conscience(**keys: Any) -> dict[str, Any]:
    """Return the column conscience_result with the given keys."""
    return {"conscience_result": keys}


ENTROPY = {"entropy_passed": True, "entropy_score": 0.4, "entropy_threshold": 0.4}
COHERENCE = {"coherence_passed": True, "coherence_score": 0.6, "coherence_threshold": 0.6}
CHECKS = {"optimization_veto_passed": True, "epistemic_humility_passed": True, "conscience_passed": True}


FORTY = sorted(
    (f"sampled-{i}" for i in range(40)), key=lambda name: hashlib.md5(name.encode()).hexdigest(), reverse=True
)
"""Trace ids in descending order of MD5. Sampling begins with the smallest MD5, so with the latest trace."""

CASES = [
    comparison(
        "entropy passes at its threshold",
        [conscience(**ENTROPY), conscience(**ENTROPY | {"entropy_passed": False, "entropy_score": 0.4000001})],
        [
            conscience(**ENTROPY | {"entropy_passed": False}),
            conscience(**ENTROPY | {"entropy_score": 0.4000001}),
            conscience(**ENTROPY | {"entropy_score": "0.4"}),
            conscience(**ENTROPY | {"entropy_threshold": True}),
            conscience(**ENTROPY | {"entropy_passed": "true"}),
        ],
        ["entropy_passed follows from its score"],
    ),
    comparison(
        "coherence passes at its threshold",
        [conscience(**COHERENCE), conscience(**COHERENCE, conscience_passed=True)],
        [
            conscience(**COHERENCE | {"coherence_score": 0.5999999}),
            conscience(**COHERENCE | {"coherence_threshold": 0.6000001}),
            conscience(**COHERENCE | {"coherence_score": [0.6]}),
            conscience(**COHERENCE | {"coherence_passed": False}),  # The column coherence_passed is true.
        ],
        ["coherence_passed", "coherence_passed follows from its score"],
    ),
    comparison(
        "conscience_passed is true if every recorded check is true and no guardrail was triggered",
        [
            conscience(**CHECKS),
            conscience(epistemic_humility_passed=True, conscience_passed=True, thought_depth_triggered=False),
            conscience(**CHECKS | {"conscience_passed": False, "optimization_veto_passed": False})
            | {"conscience_passed": False},
            conscience(**CHECKS | {"conscience_passed": False, "thought_depth_triggered": True})
            | {"conscience_passed": None},
            conscience(**CHECKS | {"conscience_passed": False, "updated_status_detected": True})
            | {"conscience_passed": None},
        ],
        [
            conscience(**CHECKS | {"conscience_passed": False}) | {"conscience_passed": None},
            conscience(**CHECKS | {"optimization_veto_passed": False}),
            conscience(**CHECKS | {"epistemic_humility_passed": 1}),
            conscience(**CHECKS, entropy_passed=False),
            conscience(**CHECKS, thought_depth_triggered=True),
            conscience(**CHECKS, updated_status_detected=True),
            conscience(**CHECKS, updated_status_detected=0),
            conscience(**CHECKS | {"conscience_passed": "true"}),
            conscience(**CHECKS | {"conscience_passed": 1}) | {"conscience_passed": None},
        ],
        ["conscience_passed", "conscience_passed follows from its checks"],
    ),
    comparison(
        "plausibility and alignment agree to 2 decimals, half away from zero",
        [
            {"csdma_plausibility_score": 0.5, "dma_results": {"csdma": {"plausibility_score": 0.495}}},
            {"dsdma_domain_alignment": 0.5, "dma_results": {"dsdma": {"domain_alignment": 0.495}}},
            {"dsdma_domain_alignment": 0.5, "dma_results": {"dsdma": 3, "dsdma_domain_alignment": 0.5049}},
            {
                "csdma_plausibility_score": 0.5,  # Of two keys of a score, the first that is present is compared.
                "dma_results": {"csdma": {"plausibility_score": 0.5}, "csdma_plausibility_score": 0.9},
            },
            {
                "csdma_plausibility_score": 0.5,
                "dma_results": {"csdma": {"plausibility_score": None}, "csdma_plausibility_score": 0.5},
            },
        ],
        [
            {"csdma_plausibility_score": 0.5, "dma_results": {"csdma_plausibility_score": 0.505}},
            {"csdma_plausibility_score": 0.5, "dma_results": {"csdma_plausibility_score": "0.5"}},
            {"dsdma_domain_alignment": 0.5, "dma_results": {"dsdma": {"domain_alignment": 0.505}}},
            {"dsdma_domain_alignment": 0.5, "dma_results": {"dsdma_domain_alignment": 0.4949}},
            NOTHING | {"csdma_plausibility_score": None, "dma_results": {"csdma_plausibility_score": 0.5}},
        ],
        ["csdma_plausibility_score", "dsdma_domain_alignment"],
    ),
    comparison(
        "entropy_level and coherence_level agree to 4 decimals",
        [
            {"entropy_level": 0.5} | conscience(entropy_level=0.49995),
            {"coherence_level": 0.5} | conscience(coherence_level=0.500049),
        ],
        [
            {"entropy_level": 0.5} | conscience(entropy_level=0.499949),
            {"entropy_level": 0.5} | conscience(entropy_level=0.50005),
            {"coherence_level": 0.5} | conscience(coherence_level=0.50005),
        ],
        ["coherence_level", "entropy_level"],
    ),
    comparison(
        "checks and outcome of the row agree with its JSON components",
        [
            conscience(coherence_passed=True, conscience_passed=True),
            conscience(action_was_overridden=False),
            {"action_result": {"execution_success": True, "success": False}},
        ],
        [
            conscience(action_was_overridden=True),
            conscience(action_was_overridden=False) | {"action_was_overridden": True},
            conscience(coherence_passed=False),
            conscience(conscience_passed=False),
            conscience(action_was_overridden="false"),
            {"action_result": {"success": False}},
        ],
        ["action_success", "action_was_overridden", "coherence_passed", "conscience_passed"],
    ),
    comparison(
        "audit number and entry hash of the row equal those of action_result",
        [
            {"audit_sequence_number": 5, "action_result": {"audit_sequence_number": 5}},
            {"action_result": {"audit_entry_hash": "hash"}},
        ],
        [
            {"audit_sequence_number": 5, "action_result": {"audit_sequence_number": 5.001}},
            {"audit_sequence_number": 5, "action_result": {"audit_sequence_number": "5"}},
            {"action_result": {"audit_entry_hash": "other"}},
            {"action_result": {"audit_entry_hash": "HASH"}},
            {"action_result": {"audit_entry_hash": 5}},
            {"action_result": {"audit_entry_hash": "hash", "success": False}},  # only the hash agrees
        ],
        ["action_success", "audit_entry_hash", "audit_sequence_number"],
    ),
    comparison(
        "a replay needs at least one comparison, and a thought_start that is an object",
        [{"action_result": {"success": True}, "thought_start": {"round": 1}}],
        [
            NOTHING,
            {"action_result": ()},
            {"action_result": {"success": None}},
            {"action_result": {"success": True}, "thought_start": None},
            {"action_result": {"success": True}, "thought_start": ()},
        ],
        ["thought_start"],
    ),
    Case(
        "4 a replay sample below 30 is unmeasured",
        [
            *traces(ago(3), 29, agent="29", thought_start=None),
            *traces(ago(3), 30, agent="30", thought_start=None),
            # 30 of 31 traces are sampled. The share that fails is exactly 1.
            *traces(ago(3), 31, agent="31", thought_start=None),
        ],
        agents={
            "29": {"i_replay": 1, "n_replayed": 29, "unmeasured_components": ["i_replay", "delta_drift"]},
            "30": {"i_replay": 0, "n_replayed": 30, "unmeasured_components": ["delta_drift"]},
            "31": {"i_replay": 0, "interval_driver": "i_replay"},
        },
    ),
    Case(
        "4 the 30 traces of a period with the smallest MD5 are sampled",
        [
            *traces(ago(3), 40, agent="last ten fail", trace_id=FORTY, thought_start=[None] * 10 + [{}] * 30),
            *traces(ago(3), 40, agent="30th fails", trace_id=FORTY, thought_start=[{}] * 10 + [None] + [{}] * 29),
        ],
        agents={
            "last ten fail": {"i_replay": 1, "n_replayed": 30},
            "30th fails": {"i_replay": 29 / 30, "n_replayed": 30},
        },
    ),
    Case(
        "4 traces with the same MD5 are sampled by audit number, nulls last",
        traces(
            ago(3),
            31,
            trace_id="the same",
            audit_sequence_number=[None, *range(30, 0, -1)],
            thought_start=[None] + [{}] * 30,
        ),
        {"i_replay": 1, "n_replayed": 30},
    ),
    Case(
        "4 traces without an id come last in the sample",
        traces(ago(3), 40, trace_id=[None] * 10 + FORTY[10:], thought_start=[None] * 10 + [{}] * 30),
        {"i_replay": 1, "n_replayed": 30},
    ),
    Case(
        "4 a period's share of replayable traces is weighted by its number of traces",
        [*traces(ago(3), 50), *traces(ago(2), 10, thought_start=None)],
        # In the first period, 30 of 50 traces are sampled, and all are replayable. In the second period, all 10 traces
        # are sampled, and none is replayable.
        {"i_replay": 50 / 60, "n_replayed": 40},
    ),
]
