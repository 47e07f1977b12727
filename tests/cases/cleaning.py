"""Cases of cleaning, duplicates and order (scoring.md §2). Default traces have nine of the ten required fields."""

from datetime import timedelta

from cases.notation import TRACES_FROM, Case, Row, ago, deferral, traces

NAN = float("nan")

CASES = [
    Case(
        "2 statuses are compared in upper case, which changes only the letters a to z",
        traces(ago(2)),
        # Full Unicode case conversion would map the long s to S and the dotless i to I. The two statuses with these
        # letters must stay unknown.
        {"q_deferral": 0, "n_judged_deferrals": 1, "issues": {"unknown_status": 2}},
        deferrals=[deferral(ago(1), status) for status in ("withdrawn", "re\u017folved", "w\u0131thdrawn")],
    ),
    Case(
        "2 a k_eff that is negative or not finite is missing, and k_eff has no upper bound",
        traces(ago(1), 5, idma_k_eff=[0, 17, -0.1, NAN, float("inf")]),
        {"i_coverage": (2 * 9 + 3 * 8) / 50, "issues": {"out_of_range_idma_k_eff": 3}},
    ),
    Case(
        "2 only the earliest of all copies of a trace counts, in the whole history",
        [
            *traces(ago(20), agent="old", trace_id="t", audit_sequence_number=1),
            *traces(ago(3), agent="old", trace_id="t", audit_sequence_number=1, signature="another"),
            *traces(ago(2), agent="old", trace_id="u", audit_sequence_number=2),
            *traces(ago(3), 2, agent="unnumbered", trace_id="t", audit_sequence_number=None),
            *traces(ago(3), 2, agent="renumbered", trace_id="t"),
            *traces(ago(3), 2, agent="nameless", trace_id=None, audit_sequence_number=7),
        ],
        agents={
            "old": {"n_traces": 1, "chain_gaps": 0, "link_rate": 1, "issues": {"duplicate_trace": 1}},
            "unnumbered": {"n_traces": 1, "issues": {"duplicate_trace": 1}},
            "renumbered": {"n_traces": 2, "issues": {}},
            "nameless": {"n_traces": 2, "chain_duplicates": 1, "alerts": {"broken_chain": "critical"}, "issues": {}},
        },
    ),
    Case(
        "2 traces of the same time are ordered by audit number, nulls last, then by trace_id bytewise",
        [
            *traces(ago(2), agent="number", audit_sequence_number=2, trace_id="a"),
            *traces(ago(2), agent="number", audit_sequence_number=1, trace_id="b"),
            *traces(ago(2), agent="null", audit_sequence_number=None, trace_id="a", agent_name="Bea"),
            *traces(ago(2), agent="null", audit_sequence_number=1, trace_id="b", agent_name="Ann"),
            *traces(ago(2), agent="id", audit_sequence_number=None, trace_id="a", agent_name="Bea"),
            *traces(
                ago(2), agent="id", audit_sequence_number=None, trace_id="B", agent_name="Ann", idma_fragility_flag=True
            ),
        ],
        agents={
            "number": {"chain_rewinds": 0, "chain_gaps": 0, "link_rate": 1},
            "null": {"agent_name": "Bea"},
            # The trace with the id "a" comes after "B" and ends the episode.
            "id": {"agent_name": "Bea", "n_open_episodes": 0},
        },
    ),
    Case(
        "2 if traces tie in time, the previous state is that of the highest audit number",
        [
            *traces(ago(5), audit_sequence_number=2, agent_name="Bea", trace_id="a"),
            *traces(ago(5), audit_sequence_number=1, agent_name="Ann", trace_id="b", idma_fragility_flag=True),
            *traces(ago(1), audit_sequence_number=3, agent_name="Cleo", trace_id="c"),
        ],
        # By the hour, the third trace is scored by an incremental run, which has only the agent's previous state.
        {"d_identity": 2 / 3, "chain_gaps": 0, "link_rate": 1, "mttr_hours": 0},
    ),
    Case(
        "2 a trace_id of 512 bytes is kept, a longer trace_id counts as blank",
        [
            *traces(ago(3), 2, agent="512", trace_id="é" * 256, audit_sequence_number=1),
            *traces(ago(3), 2, agent="513", trace_id="é" * 256 + "x", audit_sequence_number=1),
        ],
        agents={
            "512": {"n_traces": 1, "issues": {"duplicate_trace": 1}},
            "513": {"n_traces": 2, "issues": {"oversized_id": 2}},
        },
    ),
    Case(
        "2 a trace dated before traces_from is ignored, a trace at exactly that time counts",
        [
            *traces(TRACES_FROM - timedelta(microseconds=1), agent="before", agent_name="Ann"),
            *traces(ago(1), agent="before", agent_name="Bea"),
            *traces(TRACES_FROM, agent="at", agent_name="Ann"),
            *traces(ago(1), agent="at", agent_name="Bea"),
        ],
        agents={
            "before": {"d_identity": 0, "issues": {"implausible_timestamp": 1}},
            "at": {"d_identity": 1, "issues": {}},
        },
    ),
    Case(
        "2 a trace is mock or test if one of its marks says so, in any case and with spaces; other values do not count",
        [
            *traces(
                ago(2), 8, agent="kind", run_kind=[None, "", " Production\t", "mock", "MOCK ", "test", "qa", "mocks"]
            ),
            *traces(
                ago(2),
                9,
                agent="type",
                deployment_type=[
                    *(None, "production", "staging", "mockup", " Mock"),
                    *("QA", "battery ", "Test", "development"),
                ],
            ),
            *traces(ago(2), 4, agent="model", model=[None, "m\u03bfck", "mock-model", "a MOCK"]),
            *traces(ago(2), 3, agent="column", models_used=[None, "{llama}", "{llama,Mocked}"]),
            *traces(
                ago(2),
                8,
                agent="json",
                action_result=[
                    *(None, 7, {"models_used": None}, {"models_used": ["llama", 3]}, {"model": "mock"}),
                    *({"models_used": "llama4scout (mock)"}, {"models_used": ["x", "MOCK"]}, {"models_used": ["mOcK"]}),
                ],
            ),
            *traces(
                ago(2),
                6,
                agent="profile",
                deployment_profile=[
                    *({"run_kind": "production"}, {"run_kind": "qa"}, {"run_kind": "mock"}, {"deployment_type": "qa"}),
                    {"run_kind": "production", "deployment_type": "mock", "trace_format_version": "2.8.0"},
                    {"deployment_type": "qa", "trace_format_version": "2.7.10"},
                ],
            ),
            *traces(ago(2), 3, agent="format", deployment_type="qa", trace_format_version=["2.8.0", "2.7.9", "10.0"]),
            *traces(
                ago(2), 3, agent="both", deployment_type="qa", model=["mock", "x", "x"], run_kind=["test", "mock", "x"]
            ),
        ],
        agents={
            "kind": {"n_traces": 3, "issues": {"mock_trace": 2, "test_trace": 3}},
            "type": {"n_traces": 4, "issues": {"mock_trace": 1, "test_trace": 4}},
            "model": {"n_traces": 2, "issues": {"mock_trace": 2}},
            "column": {"n_traces": 2, "issues": {"mock_trace": 1}},
            "json": {"n_traces": 5, "issues": {"mock_trace": 3}},
            "profile": {"n_traces": 2, "issues": {"mock_trace": 1, "test_trace": 3}},
            "format": {"n_traces": 2, "issues": {"test_trace": 1}},
        },
        expected=[Row(None, agent="both")],
    ),
    Case(
        "2 the chain goes through mock traces, but they have no name, episode, deferral, coverage, signal or alert",
        [
            # By the hour, the mock traces are scored by the first run and the others by the second.
            *traces(
                ago(5),
                4,
                agent_name="Mo",
                run_kind="mock",
                idma_fragility_flag=True,
                signature=None,
                coherence_passed=False,
            ),
            *traces(ago(1), agent_name="Ann"),
            *traces(
                ago(1, minutes=-2), agent_name="Mo", run_kind="qa", audit_sequence_number=9, action_was_overridden=True
            ),
            *traces(ago(1, minutes=-3), 2, agent_name="Ann", audit_sequence_number=[10, 12]),
        ],
        {
            "n_traces": 3,
            "agent_name": "Ann",
            "d_identity": 0,
            "k_contradiction": 0,
            "link_rate": 2 / 3,
            "chain_gaps": 1,
            "i_coverage": 0.9,
            "n_open_episodes": 0,
            "mttr_hours": 0,
            "n_signals": 3,
            "n_judged_deferrals": 0,
            "s_score": 1,
            "issues": {"mock_trace": 4, "test_trace": 1},
            "alerts": {"broken_chain": "warning"},
        },
        deferrals=[deferral(ago(4), "REJECTED")],
    ),
    Case(
        "2 the earliest copy of a trace says of which run kind it is",
        [
            *traces(ago(3), agent="mock", trace_id="t", audit_sequence_number=1, run_kind="mock"),
            *traces(ago(2), agent="mock", trace_id="t", audit_sequence_number=1),
            *traces(ago(3), agent="real", trace_id="t", audit_sequence_number=1),
            *traces(ago(2), agent="real", trace_id="t", audit_sequence_number=1, run_kind="mock"),
        ],
        expected=[Row(None, agent="mock")],
        agents={"real": {"n_traces": 1, "issues": {"duplicate_trace": 1}}},
    ),
]
