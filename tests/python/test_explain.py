"""Tests of `ciris-scoring explain` on the sample: text, messages, numbers and hostile names.

test_documents.py compares the text of an explanation with README, test_api.py tests which text identifies which agent.
"""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from datetime import UTC, datetime, timedelta

import pytest

from ciris_scoring.database.terminal import width
from ciris_scoring.lab.embedded import SCHEMA
from ciris_scoring.lab.simulation.sample import SAMPLE
from ciris_scoring.marts.evidence import RULES, costliest, read_evidence
from ciris_scoring.marts.marts import Marts
from ciris_scoring.names import FACTORS
from ciris_scoring.show import view
from ciris_scoring.show.explain import PAGE_WIDTH, page
from ciris_scoring.show.view import MAX_TRACES
from command_line import command, refused
from pipeline import MARTS, SCORED_MARTS
from serving import LINK, explanation, read

AS_OF = datetime.fromisoformat(SAMPLE["as_of"])
FIRST_OF_JUNE = datetime(2026, 6, 1, tzinfo=UTC)
MORPHEUS, MIRE = "da3f08513aac60cf", "744f85804999ee4a"


def assert_fits(text: str) -> None:
    """Check that each line of a text fits the width and has only printable characters."""
    for line in text.splitlines():
        assert line.isprintable()
        assert width(line) <= PAGE_WIDTH


def test_ambiguous_agents_are_listed(scored_sample, sample_copy):
    assert command(scored_sample, "explain", "Haven").stdout.startswith("Haven (aff0528b")
    sample_copy.execute(f"update {SCHEMA}.dim_agents set agent_name = 'Link' where agent_id_hash = %s", [MIRE])
    assert refused(command(sample_copy, "explain", "Link"), 2) == (
        f"Error: 2 agents are or were called 'Link', or have a hash that begins with it: Link ({LINK}), Link ({MIRE}).",
        f"Hint: Give more of the hash, or the whole hash after 'hash:', for example hash:{LINK}.",
    )


# --- numbers in explanations -----------------------------------------------------------------------------------------


def test_counts_and_durations_agree_with_the_published_components(marts):
    """The texts of explanations for the window of 7 days must also fit the page width."""
    components: dict[tuple, dict[str, float]] = defaultdict(dict)
    for row in read(marts, "select * from fct_factor_components where as_of = %s", AS_OF):
        components[row["agent_id_hash"], row["window_days"]][row["component"]] = row["component_value"]
    seen = Counter[str]()
    for (agent, window_days), expected in components.items():
        found = explanation(marts, agent, window_days, AS_OF)
        if window_days == 7:
            assert_fits(page(found))
            # The driver of an interval need not have happened: no override is uncertain evidence, too.
            assert not re.search("mainly because of (?!the uncertainty about)", page(found))
        n_traces, events = found["n_traces"], found["window_events"]
        hours = [row["hours"] for row in events["episodes"]]
        n_recovered = sum(row["recovered_at"] is not None for row in events["episodes"])
        assert (sum(hours) / len(hours) if hours else 0) == pytest.approx(expected["mttr_hours"], abs=1e-9)
        assert len(hours) - n_recovered == expected["n_open_episodes"]
        assert len(events["renames"]) == round(expected["d_identity"] * n_traces)
        assert events["broken_links"]["n"] == round((1 - expected["link_rate"]) * n_traces)
        assert events["unregistered_keys"]["n"] == round((1 - expected["key_rate"]) * n_traces)
        counts = found["n_traces_by_component"]
        if found["loss_components"]:
            assert counts["rho_regression"] == round(expected["rho_regression"] * n_recovered)
            assert counts["mttr_hours"] == len(hours)
            assert counts["i_chain"] == round((1 - expected["i_chain"]) * n_traces)
            assert counts["i_replay"] == round((1 - expected["i_replay"]) * expected["n_replayed"])
            for part in ("d_identity", "k_contradiction", "u_unsafe"):
                assert counts[part] == round(expected[part] * n_traces)
        seen.update(counts)
    assert all(seen[part] for part in RULES if part != "u_unsafe")


def test_overrides_without_a_judgement_are_counted_and_named(marts):
    marts.execute(
        "update int_trace_checks set is_override_without_judgement = true where is_overridden and agent_id_hash ="
        " (select agent_id_hash from dim_agents where agent_name = 'Paradox')"
    )
    found = explanation(marts, "Paradox")
    assert found["window_events"]["overrides"] == {"n": 13, "n_without_judgement": 13}
    told = page(found)
    assert_fits(told)
    assert "13 of 141 traces were overridden by the conscience, 13 of them without a judgement, because" in told
    where = [found[name] for name in ("agent_id_hash", "as_of", "window_start")]
    traces = read_evidence(Marts(marts, MARTS), "k_contradiction", *where, limit=100)
    recorded = "action_was_overridden: true; a check of the conscience did not run"
    assert [trace.recorded for trace in traces] == [recorded] * 13


def test_causes_have_the_counts_of_the_publication_during_a_run(marts):
    """A run rewrites the evidence before it publishes. The sentences then have the published counts, and lose what only
    the evidence says."""
    chosen = view.choose(Marts(marts, MARTS))

    def causes() -> dict[str, str]:
        scores = view.fleet_scores(Marts(marts, MARTS), chosen)
        return {score.agent_name: score.cause for score in scores}

    before = causes()
    marts.execute(
        "delete from int_trace_checks where traced_at >= '2026-06-12' or is_fragility_detected;"
        "delete from int_deferral_values where status = 'REJECTED'"
    )
    after = causes()
    assert (
        before["Latch"]
        == "Signs with a key that is unknown, revoked or expired, since 2026-05-31 01:26 (135 traces of the window)."
    )
    assert after == before | {
        "Latch": "Signs with a key that is unknown, revoked or expired (135 traces of the window).",
        "Mire": "Stuck in a fragile episode since 2026-06-09 09:04, 135 h.",
        "Bravo": "Deferrals were judged worth 0.600 on average (5 deferrals).",
    }


def test_difference_of_the_steady_score_is_divided_by_factor(marts):
    scores = read(marts, f"select * from {SCORED_MARTS} where as_of = %s and capacity_score > 0", AS_OF)
    for row in scores:
        document = explanation(marts, row["agent_id_hash"], row["window_days"])
        difference = row["capacity_score_steady"] - row["capacity_score"]
        mean = difference / math.log(row["capacity_score_steady"] / row["capacity_score"])
        points = {name: mean * math.log(row[f"{column}_steady"] / row[column]) for name, column in FACTORS.items()}
        assert document["steady_difference"] == pytest.approx(points, abs=1e-9)
        assert sum(document["steady_difference"].values()) == pytest.approx(difference, abs=1e-12)


def test_trace_costs_its_share_of_each_loss_component(marts):
    """The shares are computed from the trace checks of an agent with overrides, invalid signatures and incoherence."""
    document = explanation(marts, "Paradox")
    lost = {row["loss_component"]: row["points_lost"] for row in document["loss_components"]}
    verdicts = read(
        marts,
        "select * from fct_trace_checks where is_counted and agent_id_hash = %s and traced_at >= %s and traced_at < %s",
        *(document[name] for name in ("agent_id_hash", "window_start", "as_of")),
    )
    amounts = {
        "k_contradiction": [row["is_overridden"] for row in verdicts],
        "i_chain": [not row["is_chain_valid"] for row in verdicts],
        "i_coverage": [10 - row["n_fields_present"] for row in verdicts],
        "s_score": [row["is_signal"] and not row["is_coherent_signal"] for row in verdicts],
    }
    assert {part for part in RULES if lost[part] > 0} == amounts.keys()
    expected = {
        row["trace_id"]: sum(lost[part] * values[i] / sum(values) for part, values in amounts.items())
        for i, row in enumerate(verdicts)
    }
    of = (document[name] for name in ("agent_id_hash", "as_of", "window_start", "window_days"))
    costs = costliest(Marts(marts, MARTS), *of, most=1_000_000)
    assert costs["traces"][:MAX_TRACES] == document["traces"]
    assert costs["n_costly_traces"] == len(costs["traces"]) == document["n_costly_traces"]
    found = {row["trace_id"]: row["points"] for row in costs["traces"]}
    assert found == pytest.approx({name: points for name, points in expected.items() if points}, abs=1e-12)


def test_since_lists_components_for_stored_comparisons_and_else_factors(marts):
    """fct_score_changes has changes by component since two earlier as-ofs. For other as-ofs, factors are compared."""
    found = explanation(marts, "Link", since=AS_OF - timedelta(days=7))
    [window] = [row for row in found["comparisons"] if row["compared_with"] == "window"]
    for name in ("loss_components", "change"):
        assert found["since"][name] == window[name]
    told = page(explanation(marts, "Paradox", since=FIRST_OF_JUNE))
    assert "Since 2026-06-01T00:00:00Z, as requested: 0.279 -> 0.262, -0.016" in told
    assert "by factor: C -0.043, I_int -0.006, R +0.002, I_inc +0.018, S +0.025" in told
    marts.execute("update fct_capacity_scores set parameter_set_id = 'other' where as_of = '2026-06-01T00:00:00Z'")
    told = page(explanation(marts, "Paradox", since=FIRST_OF_JUNE))
    assert "as requested: not comparable, other parameters then." in told


def test_explanation_without_a_score_lists_traces(marts):
    [row] = read(
        marts, "select * from fct_capacity_scores where capacity_score is null order by n_traces desc, as_of limit 1"
    )
    found = explanation(marts, row["agent_id_hash"], row["window_days"], row["as_of"])
    told = page(found)
    assert_fits(told)
    assert f"window of {row['window_days']} days, {row['n_traces']} traces" in told
    assert "Points lost" not in told and "Traces that lower the largest number of loss components" in told
    assert found["loss_components"] == []
    assert {trace["points"] for trace in found["traces"]} == {None}


# --- hostile texts ---------------------------------------------------------------------------------------------------

HOSTILE = "\x1b[2Ja\n\u202eb\u200b" + "探" * 60


def test_hostile_names_and_long_messages_fit_the_text(marts):
    for mart in ("dim_agents", "fct_capacity_scores"):
        marts.execute(f"update {mart} set agent_name = %s where agent_id_hash = %s", [HOSTILE, MORPHEUS])
    marts.execute(
        "update int_trace_checks set previous_agent_name = %s, trace_id = %s "
        "where agent_id_hash = %s and is_identity_change and traced_at >= '2026-06-08'",
        [HOSTILE, HOSTILE, MORPHEUS],
    )
    marts.execute(
        "insert into fct_red_flags (red_flag_id, agent_id_hash, as_of, window_days, scored_at, red_flag, field,"
        " value, comparison_value, compared_with, z, message)"
        " values ('x', %s, %s, 7, now(), 'unreported', 'entropy_level', 0.25, 0.01, 'own_baseline', 9.5, %s)",
        [MORPHEUS, AS_OF, "Of 162 traces 40 lack it.\n" * 12],
    )
    told = page(explanation(marts, HOSTILE))
    assert_fits(told)
    assert told.count("\N{REPLACEMENT CHARACTER}") >= 2
    assert "  unreported (entropy_level): Of 162 traces 40 lack it." in told
