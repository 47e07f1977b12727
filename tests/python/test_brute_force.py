"""The reference implementation where no fleet decides: expected numbers worked out by hand.

Where the fleets of test_equals_brute_force.py decide, the comparison with the SQL, whose unit tests are worked out by
hand as well, holds it.
"""

import hashlib
import math
from datetime import UTC, datetime, timedelta
from decimal import Decimal as D
from fractions import Fraction

import pytest

from brute_force import Window, alerts, attribute_deferrals, data_quality, score_fleet
from brute_force.scoring import _clean_trace, _replayable, _round, _ten_bin

T = datetime(2026, 3, 31, tzinfo=UTC)  # the as-of of most tests; W = 7 days: [24 March, 31 March)
A, B = "a" * 16, "b" * 16
WEEK = (Window(7, 23, 30),)
KEYS = [{"key_id": "k1", "revoked_at": None, "expires_at": None}]


def ago(days=0, hours=0, minutes=0):
    return T - timedelta(days=days, hours=hours, minutes=minutes)


def trace(at, seq=None, agent=A, **columns):
    row = {
        "trace_id": f"t-{agent[0]}-{at.isoformat()}-{seq}",
        "thought_id": "thought",
        "agent_id_hash": agent,
        "agent_name": "Ann",
        "timestamp": at,
        "signature": "sig",
        "signature_verified": True,
        "signature_key_id": "k1",
        "audit_entry_hash": "hash",
        "audit_sequence_number": seq,
        "csdma_plausibility_score": D("0.95"),
        "dsdma_domain_alignment": D("0.95"),
        "idma_k_eff": D("2"),
        "idma_fragility_flag": False,
        "idma_phase": None,
        "conscience_passed": True,
        "action_was_overridden": False,
        "entropy_level": D("0.1"),
        "coherence_level": D("0.9"),
        "coherence_passed": True,
        "selected_action": "SPEAK",
        "action_success": True,
        "thought_start": None,
        "dma_results": None,
        "conscience_result": None,
        "action_result": None,
    }
    row.update(columns)
    return row


def one(traces, deferrals=(), keys=KEYS, **options):
    """The row of agent A at T in the 7-day window."""
    rows = score_fleet(traces, deferrals, keys, as_ofs=[T], run_as_of=T, windows=WEEK, **options)
    return rows[A, T, 7]


# scoring.md §1


def test_windows_and_as_ofs_are_half_open_period_ends():
    at = ago(
        days=10
    )  # exactly midnight of 21 March: in the period that ends on 22 March, not at 21 March itself
    rows = score_fleet([trace(at)], [], KEYS, as_ofs=None, run_as_of=T + timedelta(hours=13), windows=WEEK)
    # window [T-7, T) holds 21 March 00:00 for T = 22 .. 28 March
    assert sorted(as_of.day for _, as_of, _ in rows) == [22, 23, 24, 25, 26, 27, 28]
    # run as-of 31 March 13:00 is cut down to 31 March 00:00: a trace at 31 March 00:00 takes no part
    assert not score_fleet([trace(T)], [], KEYS, as_ofs=None, run_as_of=T + timedelta(hours=13), windows=WEEK)
    assert data_quality([trace(T)], [], KEYS, run_as_of=T + timedelta(hours=13)) == {
        (A, T, "future_trace"): 1
    }


# scoring.md §4


def test_keys_end_at_their_revocation_or_expiry():
    keys = [
        {"key_id": "k1", "revoked_at": ago(3), "expires_at": datetime.max.replace(tzinfo=UTC)},
        {"key_id": "k2", "revoked_at": None, "expires_at": ago(1)},
        {"key_id": "k2", "revoked_at": ago(2), "expires_at": None},  # stands twice: the earliest holds
    ]
    traces = [
        trace(ago(4), 1, signature_key_id="k1"),  # registered
        trace(ago(3), 2, signature_key_id="k1"),  # revoked at this very moment
        trace(ago(3), 3, signature_key_id="k2"),  # registered
        trace(ago(2), 4, signature_key_id="k2"),
        trace(ago(1), 5, signature_key_id="k3"),
    ]
    row = one(traces, keys=keys)
    assert row["components"]["key_rate"] == row["components"]["i_chain"] == 0.4
    assert one(traces, keys=keys, parameters={"require_registered_keys": False})["components"]["i_chain"] == 1


def replays(**columns):
    columns.setdefault("thought_start", {})
    return _replayable(_clean_trace(trace(ago(1), 7, **columns)))


def test_replay_verdicts():
    ok = {"entropy_passed": True, "entropy_score": D("0.40"), "entropy_threshold": D("0.4")}
    assert replays(conscience_result=ok)
    assert not replays(conscience_result=ok, thought_start=[])  # 4: not an object
    assert not replays(conscience_result={**ok, "entropy_score": D("0.4000001")})  # compared exactly
    assert not replays(conscience_result={**ok, "entropy_score": "0.4"})  # a wrong type fails
    assert not replays(conscience_result={**ok, "entropy_score": True})
    # the wrong type of a comparison that does not run (no threshold) does no harm, but then nothing ran
    assert not replays(conscience_result={**ok, "entropy_threshold": None, "entropy_score": "x"})
    low = {"coherence_passed": False, "coherence_score": D("0.5"), "coherence_threshold": D("0.6")}
    assert not replays(conscience_result=low)  # the verdict holds, but the row's coherence_passed is true
    assert replays(conscience_result=low, coherence_passed=None)
    # conscience verdict: the columns are null, so that only comparison 2 runs
    verdict = {"epistemic_humility_passed": True, "optimization_veto_passed": None, "conscience_passed": True}
    assert replays(conscience_result=verdict, conscience_passed=None)
    for change in (
        {"optimization_veto_passed": False},
        {"thought_depth_triggered": True},
        {"updated_status_detected": 1},
        {"conscience_passed": 1},
    ):
        assert not replays(conscience_result={**verdict, **change}, conscience_passed=None)
    bypass = {**verdict, "thought_depth_triggered": True, "conscience_passed": False}
    assert replays(conscience_result=bypass, conscience_passed=None)
    assert not replays(conscience_result={"conscience_passed": True}, conscience_passed=None)  # nothing ran
    assert not replays(conscience_result=[ok])  # a container that is not an object: absent, nothing ran


def test_replay_of_the_row_against_its_components():
    score = D("0.13")
    assert replays(csdma_plausibility_score=score, dma_results={"csdma": {"plausibility_score": D("0.125")}})
    assert not replays(
        csdma_plausibility_score=score, dma_results={"csdma": {"plausibility_score": D("0.1249")}}
    )
    both = {"csdma": {"plausibility_score": D("0.5")}, "csdma_plausibility_score": score}
    assert not replays(csdma_plausibility_score=score, dma_results=both)  # the first present is taken
    assert replays(
        csdma_plausibility_score=score, dma_results={**both, "csdma": {"plausibility_score": None}}
    )
    assert replays(csdma_plausibility_score=score, dma_results={**both, "csdma": "none"})
    # 4 decimals; a column that was out of range is null, so that its comparison does not run
    assert replays(entropy_level=D("0.1235"), conscience_result={"entropy_level": D("0.12345")})
    assert not replays(entropy_level=D("7"), conscience_result={"entropy_level": D("0.5")})
    assert replays(action_result={"execution_success": True, "success": False})
    assert not replays(action_result={"execution_success": 1})
    assert replays(action_result={"audit_sequence_number": D("7.0"), "audit_entry_hash": "hash"})
    assert not replays(action_result={"audit_sequence_number": "7"})
    assert not replays(action_result={"audit_entry_hash": "HASH"})
    assert _round(Fraction(-1, 8), 2) == Fraction(-13, 100)  # half away from zero


def test_replay_is_stratified_by_period():
    """Day one: 4 traces, 2 sampled, 1 replays. Day two: 1 trace, replays. (4 * 1/2 + 1 * 1) / 5 = 0.6."""
    good = {"thought_start": {}, "action_result": {"success": True}}
    ids = sorted("pqrs", key=lambda name: hashlib.md5(("salt" + name).encode()).hexdigest())
    traces = [trace(ago(2), i, trace_id=name) for i, name in enumerate(ids, 1)]
    traces[0].update(good)  # in the sample, with the second, which has no components
    traces[2].update(good)  # not in the sample
    traces.append(trace(ago(1), 5, **good))
    few = {"replay_sample_per_period": 2, "replay_min_sample": 3, "replay_sample_salt": "salt"}
    row = one(traces, parameters=few)
    assert row["components"]["i_replay"] == 0.6 and row["components"]["n_replayed"] == 3
    assert row["i_int_score"] == 0.6  # chain 1, coverage 1
    row = one(traces, parameters={**few, "replay_min_sample": 4})
    assert row["components"]["i_replay"] == 1 and row["unmeasured_components"][0] == "i_replay"
    row = one(traces, parameters={**few, "replay_enabled": False})
    assert row["components"]["n_replayed"] == 0 and row["unmeasured_components"][0] == "i_replay"


# scoring.md §5


def test_bins_are_exact():
    values = [D("0.3"), 0.7, 0.29, D("0.60"), D("1"), 0]
    cleaned = [_clean_trace(trace(T, csdma_plausibility_score=value)) for value in values]
    assert [_ten_bin(row.csdma_plausibility_score) for row in cleaned] == [3, 7, 2, 6, 9, 0]


def test_again_is_in_trace_order_whatever_the_timestamps():
    at = ago(1)
    traces = [
        trace(at, 1, idma_fragility_flag=True),
        trace(at, 2, idma_fragility_flag=False),
        trace(at, 3, idma_fragility_flag=True),
        trace(at, 4, idma_fragility_flag=False),
    ]
    assert one(traces)["components"]["rho_regression"] == 0.5
    assert one(traces)["components"]["mttr_hours"] == 0


# scoring.md §6


def deferral(id, created, status="RESOLVED", agent_id=A, name=None, summary="done", resolved=None):
    return {
        "deferral_id": id,
        "agent_id": agent_id,
        "agent_name": name,
        "status": status,
        "resolution_summary": summary,
        "resolved_at": resolved,
        "created_at": created,
    }


def test_attribution_uses_only_what_precedes():
    digest = hashlib.sha256("datum é".encode()).hexdigest()
    short, eight, ten = digest[:7], digest[:8], digest[:10]
    traces = [
        trace(ago(9), agent=short, agent_name="s"),
        trace(ago(8), agent=eight, agent_name="e"),
        trace(ago(4), agent=ten, agent_name="e"),
        trace(ago(9), agent=A, agent_name="Ann"),
        trace(ago(5), agent=A, agent_name="Bea"),
    ]
    deferrals = [
        deferral("exact", ago(1), agent_id=A, name="e"),
        deferral("longest", ago(3), agent_id="datum é"),
        deferral("ten not yet", ago(4), agent_id="datum é"),  # ten's trace is at, not before
        deferral("short only", ago(8), agent_id="datum é"),  # seven characters do not count
        deferral("name", ago(1), agent_id="?", name="Ann"),  # once borne is enough
        deferral("name not yet", ago(6), agent_id="?", name="Bea"),
        deferral("two bearers", ago(1), agent_id="?", name="e"),
        deferral("one bearer then", ago(5), agent_id="?", name="e"),
        deferral("no name", ago(1), agent_id="?", name=""),
    ]
    assert attribute_deferrals(traces, deferrals, T) == {
        "exact": A,
        "longest": ten,
        "ten not yet": eight,
        "short only": None,
        "name": A,
        "name not yet": None,
        "two bearers": None,
        "one bearer then": eight,
        "no name": None,
    }


# scoring.md §8


def flawless(n, day, **columns):
    return [trace(ago(day, minutes=-i), **columns) for i in range(n)]


def test_composite_status_and_weakest_factor():
    """30 numberless traces without components: no link, so I_chain = 0; I_replay is measured, and 0.
    With a floor of 0.1: C = 1, S = 1, R = 1/(1+e^-2.5), ECE = 0.05: I_inc = 0.95. Capacity = 0.1 * R * 0.95."""
    traces = flawless(30, 1)
    row = one(traces)
    assert row["i_int_score"] == 0 and row["capacity_score"] == 0 and row["capacity_score_geometric"] == 0
    assert row["weakest_factor"] == "I_int" and row["fragility_index"] == pytest.approx(1000, rel=1e-12)
    row = one(traces, parameters={"integrity_floor": 0.1})
    r = 1 / (1 + math.exp(-2.5))
    assert row["i_int_score"] == 0
    assert row["capacity_score"] == pytest.approx(0.095 * r, rel=1e-12)
    assert row["capacity_score_geometric"] == pytest.approx((0.095 * r) ** 0.2, rel=1e-12)
    assert row["category"] == "high_fragility" and row["confidence"] == "medium"
    assert row["score_status"] == "provisional" and row["unmeasured_components"] == ["delta_drift"]
    # the first trace at T - W - 7 days exactly is early enough; one minute later is not
    assert one([*traces, trace(ago(14))])["score_status"] == "final"
    assert one([*traces, trace(ago(14, minutes=-1))])["score_status"] == "provisional"
    row = one(traces[:29])
    assert row["score_status"] == "insufficient_data" and row["confidence"] == "low"
    assert (
        row["capacity_score"]
        is row["capacity_score_geometric"]
        is row["fragility_index"]
        is row["category"]
        is None
    )
    with pytest.raises(ValueError, match="lambda_c"):
        one(traces, parameters={"lambda_c": 11})


def test_a_healthy_agent_end_to_end():
    """100 numbered traces on one day, all registered, verified, replayable: C = I_int = S = 1, I_inc = 0.95
    and R = 1/(1+e^-2.5) = 0.9241...: capacity 0.8779, high_capacity; the sample is the day's 30."""
    good = {"thought_start": {}, "action_result": {"success": True}}
    traces = [trace(ago(1, minutes=-i), i, **good) for i in range(100)]
    row = one(traces)
    assert row["capacity_score"] == pytest.approx(0.95 / (1 + math.exp(-2.5)), rel=1e-12)
    assert row["category"] == "high_capacity" and row["confidence"] == "high" and row["weakest_factor"] == "R"
    assert row["components"]["n_replayed"] == 30 and row["unmeasured_components"] == ["delta_drift"]
    assert row["c_score"] == row["i_int_score"] == row["s_score"] == 1


def test_alerts():
    """Replay is off. R = 1/(1+e^-2.5) and I_inc = 0.95 for all.
    A: 0.95 R at T - 7; at T one of 30 is a gap and one is overridden: 0.95 R * 29/30 * e^(-1/3) = 0.608, which
    chance may have done."""
    traces = [trace(ago(10, minutes=-i), i) for i in range(30)]
    traces += [trace(ago(1, minutes=-i), 50 + i, action_was_overridden=i == 9) for i in range(30)]
    # B: three days ago, the numbers run backwards: 29 rewinds, I_chain = 1/30
    traces += [trace(ago(3, minutes=i), i, agent=B) for i in range(30)]
    # C: eight days ago, so there is no row at T, but they lie in the 7 days before the last two
    traces += [trace(ago(8, minutes=i), agent="c" * 16) for i in range(30)]
    # D: as B, but one trace too few to be scored or to be silent
    traces += [trace(ago(3, minutes=i), i, agent="d" * 16) for i in range(29)]
    # E: one at T - 2 days exactly breaks the silence; without numbers I_chain = 0
    traces += [trace(ago(2, minutes=i), agent="e" * 16) for i in range(31)]
    # F: 0.95 at T - 7 but for R, and final; at T 30 of 300 are overridden: 0.95 / e, by more than chance
    traces += [trace(ago(25), 0, agent="f" * 16)]
    traces += [trace(ago(10, minutes=-i), 1 + i, agent="f" * 16) for i in range(300)]
    traces += [
        trace(ago(1, minutes=-i), 301 + i, agent="f" * 16, action_was_overridden=i % 10 == 0)
        for i in range(300)
    ]
    options = {"run_as_of": T + timedelta(hours=9), "windows": WEEK, "parameters": {"replay_enabled": False}}
    raised = alerts(traces, [], KEYS, **options)
    found = {
        (a["agent_id_hash"][0], a["kind"]): (a["severity"], a["window_days"], a["value"]) for a in raised
    }
    capacity = 0.95 / (1 + math.exp(-2.5))
    assert len(raised) == len(found) == 8
    assert found == {
        ("a", "broken_chain"): ("critical", 7, 1),
        ("f", "falling"): ("warning", 7, pytest.approx(0.95 * (1 - math.exp(-1)), rel=1e-9)),
        ("b", "broken_chain"): ("critical", 7, 29),
        ("b", "low_capacity"): ("critical", 7, pytest.approx(capacity / 30, rel=1e-9)),
        ("b", "silent"): ("warning", 7, 30),
        ("c", "silent"): ("warning", 7, 30),
        ("d", "broken_chain"): ("critical", 7, 28),
        ("e", "low_capacity"): ("critical", 7, 0),
    }
