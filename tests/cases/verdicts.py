"""Cases of silent agents (scoring.md §1) and of the lines of the table of verdicts (deciding.md, "How to decide")."""

from datetime import timedelta

from cases.notation import Case, Row, Source, ago, deferral, key, norm, traces

FLAWLESS = 0.9 * norm(1)
OFTEN = timedelta(hours=2)


def daily(agent: str, first: float, **columns: object) -> list[Source]:
    """Return twelve traces a day from ``first`` days before T until T, signed with a key of the agent."""
    signed = {"signature_key_id": f"key of {agent}"} | columns
    return traces(ago(first), int(12 * first), agent=agent, every=OFTEN, **signed)


def answered(agent: str, first: int, last: int) -> list[Source]:
    """Return two good deferrals a day, from ``first`` to ``last`` days before T."""
    return [deferral(ago(days, hours=hours), agent=agent) for days in range(last, first) for hours in (1, 2)]


CASES = [
    Case(
        "1 a silent agent has a row without factors and with its last score",
        [
            *traces(ago(50), 360, agent="silent", every=OFTEN, signature_key_id="key of silent"),
            *traces(ago(40), 30, agent="faded"),
            *traces(ago(20), 5, agent="faded"),
            *traces(ago(20), 29, agent="never scored"),
            *traces(ago(90, minutes=29), 30, agent="90 days"),
            *traces(ago(90, minutes=29, us=1), 30, agent="forgotten"),
        ],
        # "silent" sent twelve traces a day until 20 days before T. The window that ends 16 days before T is the last
        # one with 30 of them. The alert `silent` was a warning then. "faded" has its last score 33 days before T.
        [
            Row(
                {
                    "score_status": "no_traces",
                    "confidence": "insufficient",
                    "n_traces": 0,
                    "capacity_score": None,
                    "category": None,
                    "c_score": None,
                    "i_chain": None,
                    "unmeasured_components": None,
                    "last_traced_at": ago(20, hours=2),
                    "last_scored_as_of": ago(16),
                    "last_capacity_score": FLAWLESS,
                    "last_verdict": "review",
                    "verdict": "suspend",
                    "review_for": ["silent"],
                },
                {"last_scored_as_of": ago(15, hours=12)},
                agent="silent",
            ),
            Row({"score_status": "final", "last_traced_at": None, "verdict": "suspend"}, agent="silent", window=30),
            Row(
                {
                    "last_traced_at": ago(20) + timedelta(minutes=4),
                    "last_scored_as_of": ago(33),
                    "review_for": [],
                    "verdict": "suspend",
                },
                agent="faded",
            ),
            Row(None, agent="never scored"),
            Row(
                {"last_traced_at": ago(90), "last_scored_as_of": ago(84)},
                {"last_scored_as_of": ago(83, hours=1)},
                agent="90 days",
            ),
            Row(
                {"score_status": "no_traces", "last_scored_as_of": ago(61)},
                {"last_scored_as_of": ago(60, hours=1)},
                agent="90 days",
                window=30,
            ),
            Row(None, agent="forgotten"),
        ],
        keys=[key("key of silent")],
    ),
    Case(
        "4b withhold comes first, also while the score is provisional",
        [
            *traces(ago(1), 100, agent="new", action_was_overridden=[True] * 50 + [False] * 50),
            *daily("old", 30, action_was_overridden=True),
        ],
        agents={
            "new": {"score_status": "provisional", "category": "high_fragility", "verdict": "withhold"},
            "old": {"score_status": "final", "category": "high_fragility", "verdict": "withhold"},
        },
        keys=[key("key of old")],
    ),
    Case(
        "4b suspend: an untrusted key, or High Fragility that chance does not explain",
        [
            *traces(ago(1), 5, agent="key", signature_key_id="other"),
            *daily("stuck", 60, idma_fragility_flag=[False] * 660 + [True] * 60),
        ],
        # The episode has been open for 120 hours. Nothing else is wrong, and episodes are rare in the record.
        [
            Row(
                {"score_status": "insufficient_data", "verdict": "suspend", "review_for": ["untrusted_key"]},
                agent="key",
            ),
            Row({"category": "high_fragility", "fragile_window_days": 7, "verdict": "suspend"}, agent="stuck"),
        ],
        keys=[key("key of stuck")],
    ),
    Case(
        "4b review: High Fragility that may be chance; keep: a capacity score below the threshold; grant; wait",
        [
            *daily("rejected", 60),
            *daily("half", 60),
            *daily("good", 60),
            *traces(ago(6), 600, agent="new", every=timedelta(minutes=10), signature_key_id="key of new"),
        ],
        # One rejected deferral in 7 days makes the capacity score 0. Its interval ends above 0.6, because one deferral
        # says little. With one good and one rejected deferral, the capacity score is 0.416.
        [
            Row({"capacity_score": 0, "category": "high_fragility", "verdict": "review"}, agent="rejected"),
            Row({"fragile_window_days": 7, "verdict": "review"}, agent="rejected", window=30),
            Row({"capacity_score": FLAWLESS / 2, "category": "moderate", "verdict": "keep"}, agent="half"),
            Row({"capacity_score": FLAWLESS, "verdict": "grant"}, agent="good"),
            Row({"capacity_score": FLAWLESS, "score_status": "provisional", "verdict": "wait"}, agent="new"),
        ],
        deferrals=[
            *answered("rejected", 60, 8),
            deferral(ago(3), "REJECTED", agent="rejected"),
            *answered("half", 60, 8),
            deferral(ago(3), agent="half"),
            deferral(ago(3), "REJECTED", agent="half"),
        ],
        keys=[key(f"key of {agent}") for agent in ("rejected", "half", "good", "new")],
    ),
]
