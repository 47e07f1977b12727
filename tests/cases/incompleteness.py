"""Cases of I_inc (scoring.md §6): I_inc = (1 - ECE) * Q_deferral * (1 - U_unsafe)."""

import hashlib

from cases.notation import Case, Row, ago, deferral, traces

IDENTITY = "Datum é"
DIGEST = hashlib.sha256(IDENTITY.encode()).hexdigest()

CASES = [
    Case(
        "6 ECE is the mean gap between confidence and success in a bin, weighted by the traces of the bin",
        traces(
            ago(1),
            10,
            csdma_plausibility_score=[0.95] * 4 + [0.85] * 4 + [0.15] * 2,
            action_success=[True, True, False, False] + [True] * 4 + [False] * 2,
        ),
        # The gaps of the bins 9, 8 and 1 are |0.95 - 0.5|, |0.85 - 1| and |0.15 - 0|. They do not cancel each other.
        {"ece": 0.4 * 0.45 + 0.4 * 0.15 + 0.2 * 0.15, "i_inc_score": 1 - 0.27},
    ),
    Case(
        "6 without a trace that has both confidence and outcome, ECE is unmeasured and 0",
        traces(ago(1), 2, csdma_plausibility_score=[None, 0.3], action_success=[True, None]),
        {"ece": 0, "i_inc_score": 1, "unmeasured_components": ["i_replay", "delta_drift", "ece"]},
    ),
    Case(
        "6 Q is the mean of correctness times quality of the judged deferrals",
        traces(ago(6)),
        # The first four deferrals have the values 1, 1 * 0.5, 0 and 0. The last four deferrals have no known outcome.
        {
            "q_deferral": 1.5 / 4,
            "n_judged_deferrals": 4,
            "i_inc_score": 1.5 / 4,
            "issues": {"unknown_status": 2},
            "deferrals_judged": 4,
        },
        deferrals=[
            deferral(ago(2), " resolved "),
            deferral(ago(2), "ESCALATED", resolution_summary=" "),
            *(deferral(ago(2), status) for status in ("REJECTED", "WITHDRAWN")),
            *(deferral(ago(2), status) for status in ("PENDING", "UNDER_REVIEW", "LOST", None)),
        ],
    ),
    Case(
        "6 a deferral counts if it was created in the window",
        [*traces(ago(31)), *traces(ago(1))],
        [
            Row({"n_judged_deferrals": 2, "q_deferral": 1 / 2}),
            Row({"n_judged_deferrals": 3, "q_deferral": 1 / 3}, window=30),
        ],
        deferrals=[
            deferral(ago(7)),
            deferral(ago(us=1), "REJECTED"),
            deferral(ago(7, us=1), "REJECTED"),
            deferral(ago(30, us=1), "REJECTED"),
            deferral(ago(), "REJECTED"),
        ],
    ),
    Case(
        "6 a deferral is judged only if its outcome was known before T",
        traces(ago(5)),
        [
            Row({"n_judged_deferrals": 2, "q_deferral": 1 / 2}),
            Row({"n_judged_deferrals": 1, "q_deferral": 0}, at=ago(1)),
        ],
        deferrals=[
            deferral(ago(4), resolved_at=ago(us=1)),
            deferral(ago(4), "REJECTED", resolved_at=ago()),
            deferral(ago(4), "REJECTED", resolved_at=None),
        ],
    ),
    Case(
        "6 a deferral is attributed by hash, by the longest prefix of the SHA-256 of its agent_id, or by name",
        [
            *traces(ago(9), agent="seven"),
            *traces(ago(5), agent="eight"),
            *traces(ago(4), agent="ten"),
            *traces(ago(2), agent="seven"),
            *traces(ago(2), agent="eight", agent_name="Theresa"),
            *traces(ago(2), agent="ten", agent_name="Theresa"),
            *traces(ago(9), agent="named", agent_name="Gwendolen"),
            *traces(ago(2), agent="named", agent_name="Hortense"),
        ],
        agents={
            "seven": {"n_judged_deferrals": 0},
            # The hash of agent "eight" is a prefix that matches until agent "ten", with a longer prefix, has a trace.
            # A full hash matches whatever the name is.
            "eight": {"n_judged_deferrals": 2, "q_deferral": 1 / 2},
            "ten": {"n_judged_deferrals": 1, "q_deferral": 0},
            # A name matches the agent that had this name at any earlier time. A name of two agents matches neither.
            "named": {"n_judged_deferrals": 1, "q_deferral": 1},
        },
        hashes={"seven": DIGEST[:7], "eight": DIGEST[:8], "ten": DIGEST[:10]},
        deferrals=[
            deferral(ago(6), agent="eight", agent_id=IDENTITY),  # Seven characters are too few.
            deferral(ago(4), agent="eight", agent_id=IDENTITY),
            deferral(ago(1), "REJECTED", agent="eight", agent_name="Gwendolen"),
            deferral(ago(3), "REJECTED", agent_id=IDENTITY, agent_name="Gwendolen"),
            deferral(ago(1), agent_id="nobody", agent_name="Gwendolen"),
            deferral(ago(1), "REJECTED", agent_id="nobody", agent_name="Theresa"),
            deferral(ago(2), "REJECTED", agent_id="nobody", agent_name="Hortense"),
            deferral(None, "REJECTED", agent="named"),
        ],
    ),
    Case(
        "6 only an agent with a trace before the deferral is a candidate",
        [*traces(ago(3), agent_name="Sieglinde")],
        {"n_judged_deferrals": 1, "q_deferral": 1},
        deferrals=[
            deferral(ago(3), "REJECTED", agent_name="Sieglinde"),
            deferral(ago(3, us=-1), agent_name="Sieglinde"),
        ],
    ),
]
