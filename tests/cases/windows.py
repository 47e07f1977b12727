"""Cases of windows, as-ofs and agents (scoring.md §1)."""

from cases.notation import Case, Row, ago, traces

CASES = [
    Case(
        "1 a trace at T does not count, a trace just before T does",
        [*traces(ago(us=1)), *traces(ago())],
        {"n_traces": 1, "issues": {"future_trace": 1}},
    ),
    Case(
        "1 the window begins with T - W",
        [*traces(ago(7)), *traces(ago(7, us=1)), *traces(ago(30)), *traces(ago(30, us=1))],
        [Row({"n_traces": 1}), Row({"n_traces": 3}, window=30)],
    ),
    Case(
        "1 the baseline begins with T - W - B and ends before T - W",
        [
            *traces(ago(3), 30, agent="thirty"),
            *traces(ago(30), agent="thirty"),
            *traces(ago(10), 28, agent="thirty"),
            *traces(ago(7, us=1), agent="thirty"),
            *traces(ago(3), 30, agent="begins"),
            *traces(ago(30, us=1), agent="begins"),
            *traces(ago(10), 29, agent="begins"),
            *traces(ago(3), 30, agent="ends"),
            *traces(ago(10), 29, agent="ends"),
            *traces(ago(7), agent="ends"),
        ],
        # Agent "thirty" has 30 traces in window and baseline, all in one bin, so drift is 0. The other agents have 29
        # traces in the baseline.
        agents={
            "thirty": {"delta_dsdma_domain_alignment": 0, "unmeasured_components": []},
            "begins": {"delta_dsdma_domain_alignment": None},
            "ends": {"delta_dsdma_domain_alignment": None, "n_traces": 31},
        },
    ),
    Case(
        "1 an agent has a row while the window contains a trace of the agent",
        [*traces(ago(7), agent="week"), *traces(ago(7, us=1), agent="month")],
        [
            Row({"n_traces": 1}, agent="week"),
            Row(None, agent="month"),
            Row({"n_traces": 1}, agent="month", window=30),
            Row({"n_traces": 1}, agent="month", at=ago(1)),
        ],
    ),
    Case(
        "1 as-ofs begin with the end of the period of the first trace",
        traces(ago(2)),
        [Row(None, at=ago(2)), Row({"n_traces": 1}, at=ago(1))],
    ),
    Case(
        "1 the agent's name is its last name before T, separately at each as-of",
        [
            *traces(ago(3), agent_name="Ann"),
            *traces(ago(2), agent_name="Bea"),
            *traces(ago(1), agent_name=None),
            *traces(ago(), agent_name="Cleo"),
        ],
        [Row({"agent_name": "Bea"}), Row({"agent_name": "Bea"}, at=ago(1)), Row({"agent_name": "Ann"}, at=ago(2))],
    ),
    Case(
        "1 labels of agents are unique",
        [
            *traces(ago(2), agent="first", agent_name="Twin"),
            *traces(ago(2, us=-1), agent="second", agent_name="Twin"),
            *traces(ago(1), agent="second", agent_name="Renamed"),
        ],
        agents={"first": {"agent_label": "Twin (0123abcd)"}, "second": {"agent_label": "Twin (0123abcd0001 #2)"}},
        hashes={"first": "0123abcd0002", "second": "0123abcd0001"},
    ),
    Case(
        "1 labels of agents are unique even if names or hashes contain the parentheses of a label",
        [
            *traces(ago(2), agent="bracket in hash", agent_name="Lee"),
            *traces(ago(2), agent="bracket in name", agent_name="Lee (x"),
            *traces(ago(2), agent="bracket", agent_name="Lee"),
            *traces(ago(2, us=-1), agent="replaced bracket", agent_name="Lee"),
            *traces(ago(2), agent="number in hash", agent_name="Lee"),
        ],
        agents={
            "bracket in hash": {"agent_label": "Lee (x _y)"},
            "bracket in name": {"agent_label": "Lee (x (y)"},
            "bracket": {"agent_label": "Lee (_)"},
            "replaced bracket": {"agent_label": "Lee (_ #2)"},
            "number in hash": {"agent_label": "Lee (_ _2)"},
        },
        hashes={
            "bracket in hash": "x (y",
            "bracket in name": "y",
            "bracket": "(",
            "replaced bracket": "_",
            "number in hash": "_ #2",
        },
    ),
]
