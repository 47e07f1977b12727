"""Create a small random fleet with every kind of unusual data, for comparisons with the reference implementation."""

from __future__ import annotations

import hashlib
import random
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

Row = dict[str, Any]

START = datetime(2026, 3, 1, tzinfo=UTC)
SCORES = [Decimal(x) for x in ("0", "0.1", "0.3", "0.7", "0.95", "0.955", "1", "1.5", "-0.2", "NaN")]
PHASES = ["chaos", "rigidity", "unknown", None, "", "\u00a0"]
NAMES = ["Ann", "Bob", "Ünïcödé 漢字", 'O\'Brien "quoted"', " ", "", None, "Ann"]
STATUSES = ["RESOLVED", " resolved ", "ESCALATED", "REJECTED", "WITHDRAWN"]
STATUSES += ["PENDING", "UNDER_REVIEW", "LOST", "", None]
ACTIONS = ["HandlerActionType.SPEAK", "speak", " DEFER ", "", None, "HandlerActionType.", "TOOL"]


def agent_ids(rng: random.Random, n: int) -> list[tuple[str, str]]:
    """Return (agent_id, agent_id_hash) pairs. One hash is a prefix of another hash. A hash of 7 characters is too short
    to match a deferral."""
    pairs = []
    for i in range(n):
        identity = f"agent-{i}"
        digest = hashlib.sha256(identity.encode()).hexdigest()
        pairs.append((identity, digest[: rng.choice([7, 8, 12, 16, 64])]))
    identity = "agent-0"
    pairs.append((identity, hashlib.sha256(identity.encode()).hexdigest()[:10]))
    return [(i, h) for h, i in {h: i for i, h in pairs}.items()]


def component_value(rng: random.Random, right: Any) -> Any:
    """Return the right JSON value with probability 0.9. Otherwise return null, a wrong value, a value of another type,
    or "absent". The caller omits a value that is "absent"."""
    roll = rng.random()
    if roll < 0.90:
        return right
    return rng.choice([None, "absent", "true", 3, not right if isinstance(right, bool) else 0.123, [1], {"a": 1}])


def components(rng: random.Random, row: Row) -> Row:
    """Return the JSON components of a trace, with random errors. In most cases, also change the columns
    coherence_passed and conscience_passed of the trace to agree with its JSON components."""

    def number(value: Decimal | None) -> float | None:
        return None if value is None or not value.is_finite() else float(value)

    entropy, coherence = round(rng.random(), 3), round(rng.random(), 3)
    checks = {
        "entropy_passed": entropy <= 0.5,
        "coherence_passed": coherence >= 0.5,
        "optimization_veto_passed": rng.random() < 0.9,
        "epistemic_humility_passed": rng.random() < 0.9,
    }
    guardrails = {"thought_depth_triggered": rng.random() < 0.05, "updated_status_detected": rng.random() < 0.05}
    conscience = {
        **checks,
        **guardrails,
        "entropy_score": entropy,
        "entropy_threshold": 0.5,
        "coherence_score": coherence,
        "coherence_threshold": 0.5,
        "conscience_passed": all(checks.values()) and not any(guardrails.values()),
        "action_was_overridden": row["action_was_overridden"],
        "entropy_level": number(row["entropy_level"]),
        "coherence_level": number(row["coherence_level"]),
    }
    if rng.random() < 0.7:
        row["coherence_passed"] = checks["coherence_passed"]
        row["conscience_passed"] = conscience["conscience_passed"]
    if rng.random() < 0.3:
        for key in rng.sample(sorted(conscience), 8):
            conscience[key] = "absent"
    careless = rng.random() < 0.25
    conscience = {k: component_value(rng, v) if careless else v for k, v in conscience.items()}
    conscience = {k: v for k, v in conscience.items() if v != "absent"}
    plausibility = number(row["csdma_plausibility_score"])
    if plausibility is not None and rng.random() < 0.3:
        plausibility = round(plausibility + rng.choice([0.0049, 0.005, -0.005, 0.004]), 4)
    dma = (
        {
            "csdma": {"plausibility_score": plausibility},
            "dsdma": {"domain_alignment": number(row["dsdma_domain_alignment"])},
        }
        if rng.random() < 0.5
        else {
            "csdma": rng.choice([None, 3, {}, {"plausibility_score": None}]),
            "csdma_plausibility_score": plausibility,
            "dsdma_domain_alignment": number(row["dsdma_domain_alignment"]),
        }
    )
    action = {
        rng.choice(["execution_success", "success"]): component_value(rng, row["action_success"]),
        "audit_sequence_number": component_value(rng, row["audit_sequence_number"])
        if careless
        else row["audit_sequence_number"],
        "audit_entry_hash": row["audit_entry_hash"],
    }
    junk = [None, [], "text", 3, {}]
    return {
        "thought_start": {"round": 1} if rng.random() < 0.95 else rng.choice(junk),
        "dma_results": dma if rng.random() < 0.95 else rng.choice(junk),
        "conscience_result": conscience if rng.random() < 0.95 else rng.choice(junk),
        "action_result": action if rng.random() < 0.95 else rng.choice(junk),
    }


RUN_KINDS = ["production", " Production ", "", "mock", "MOCK", "test", "qa", "mock2"]


def mark(rng: random.Random, agent: str, traces: list[Row]) -> None:
    """Mark the first third of an agent's traces as mock, and a tenth of all traces by any run kind.

    Other marks are in tests/cases/cleaning.py, test_run_kinds.py and test_malformed_rows.py.
    """
    begin = [row for row in traces if row["agent_id_hash"] == agent]
    for row in traces:
        row["run_kind"] = rng.choice(RUN_KINDS) if rng.random() < 0.1 else None
    for row in begin[: len(begin) // 3]:
        row["run_kind"] = "mock"


def nasty_fleet(
    seed: int, *, agents: int = 6, days: int = 12, traces_per_day: int = 14, start: datetime = START
) -> dict[str, list[Row]]:
    """Return traces, deferrals and keys by table, as psycopg reads and writes them (JSON as Python values)."""
    rng = random.Random(seed)
    ids = agent_ids(rng, agents)
    keys: list[Row] = []
    for k in range(5):
        at = start + timedelta(days=rng.random() * days)
        keys.append(
            {
                "key_id": f"key-{k}",
                "public_key_base64": "AA==",
                "algorithm": "ed25519",
                "created_at": None,
                "revoked_at": at if k == 1 else None,
                "expires_at": at if k == 2 else None,
            }
        )
    traces: list[Row] = []
    for n, (_, agent) in enumerate(ids):
        sequence, fragile, name = 0, False, rng.choice(NAMES)
        first = start + timedelta(days=0 if n % 3 else rng.random() * days / 2)
        moments = sorted(
            # Times are whole minutes for most agents, so that some traces have equal times or the time of a period end.
            first + timedelta(minutes=rng.randrange(int((days * 1440) - (first - start).total_seconds() // 60)))
            for _ in range(rng.randrange(traces_per_day * days // 3, traces_per_day * days))
        )
        if n == 1:
            moments = [m for m in moments if not timedelta(days=5) < m - start < timedelta(days=8)]
        for index, moment in enumerate(moments):
            if rng.random() < 0.02:
                moment = moment.replace(hour=0, minute=0)
            if rng.random() < 0.01:
                moment = next((k[f] for k in keys for f in ("revoked_at", "expires_at") if k[f]), moment)
            sequence += rng.choice([1] * 40 + [2, 0, -1, 5])
            if rng.random() < 0.1:
                fragile = not fragile
            if rng.random() < 0.03:
                name = rng.choice(NAMES)
            row: Row = {
                "trace_id": f"t-{n}-{index}" if rng.random() < 0.97 else rng.choice(["", " ", None]),
                "thought_id": rng.choice(["th", "", None]) if rng.random() < 0.1 else "th",
                "agent_id_hash": agent if rng.random() < 0.995 else " ",
                "agent_name": name,
                "timestamp": moment,
                "signature": rng.choice(["", None, "\t"]) if rng.random() < 0.1 else "sig" + str(rng.random()),
                "signature_verified": rng.choice([True] * 12 + [False, None]),
                "signature_key_id": rng.choice(["key-0"] * 8 + ["key-1", "key-2", "key-9", "", None]),
                "audit_entry_hash": rng.choice(["hash"] * 20 + ["", None]),
                "audit_sequence_number": sequence if rng.random() < 0.95 else None,
                "csdma_plausibility_score": rng.choice([*SCORES, None])
                if rng.random() < 0.3
                else Decimal(rng.randrange(50, 101)) / 100,
                "dsdma_domain_alignment": rng.choice([*SCORES, None])
                if rng.random() < 0.3
                else Decimal(rng.randrange(101)) / 100,
                "idma_k_eff": rng.choice([None, Decimal("NaN"), Decimal(-1), Decimal(0), Decimal("2.5")]),
                "idma_fragility_flag": fragile if rng.random() < 0.9 else None,
                "idma_phase": rng.choice(PHASES),
                "conscience_passed": rng.choice([True, True, False, None]),
                "action_was_overridden": rng.choice([False] * 9 + [True, None]),
                "entropy_level": rng.choice(
                    [None, Decimal("0.5"), Decimal("0.5001"), Decimal("1"), Decimal("NaN"), Decimal(2)]
                )
                if rng.random() < 0.4
                else Decimal(rng.randrange(10001)) / 10000,
                "coherence_level": rng.choice([*SCORES, None])
                if rng.random() < 0.3
                else Decimal(rng.choice([50, 60, 70])) / 100,
                "coherence_passed": rng.choice([True, True, False, None]),
                "selected_action": rng.choice(ACTIONS),
                "action_success": rng.choice([True, True, True, False, None]),
            }
            row |= components(rng, row)
            traces.append(row)
            if rng.random() < 0.03:
                traces.append({**row, "timestamp": moment + timedelta(hours=rng.random() * 40), "signature": "again"})
            if rng.random() < 0.02 and row["audit_sequence_number"] is not None:
                traces.append({**row, "audit_sequence_number": row["audit_sequence_number"] + 1})
    mark(random.Random(-seed), ids[-1][1], traces)
    for row in rng.sample(traces, 3):
        traces.append({**row, "trace_id": f"future-{rng.random()}", "timestamp": start + timedelta(days=days + 40)})
    deferrals: list[Row] = []
    for d in range(60):
        identity, agent = rng.choice(ids)
        created = start + timedelta(minutes=rng.randrange(days * 1440))
        if rng.random() < 0.2:
            created = created.replace(hour=0, minute=0)
        deferrals.append(
            {
                "deferral_id": f"00000000-0000-0000-0000-{d:012d}",
                "agent_id": rng.choice([identity, agent, "nobody", " "]),
                "agent_name": rng.choice(NAMES),
                "status": rng.choice(STATUSES),
                "resolution_summary": rng.choice([None, "", " \n", "because"]),
                "resolved_at": rng.choice(
                    [
                        None,
                        created + timedelta(hours=rng.random() * 100),
                        created.replace(hour=0, minute=0) + timedelta(days=2),
                    ]
                ),
                "created_at": created if rng.random() < 0.95 else None,
            }
        )
    return {"covenant_traces": traces, "wbd_deferrals": deferrals, "covenant_public_keys": keys}


def oversized(trace: dict[str, Any]) -> dict[str, Any]:
    """Return the trace with an agent_id_hash that is too long for an index."""
    agent = "".join(hashlib.sha512(bytes([i])).hexdigest() for i in range(64))
    return {**trace, "agent_id_hash": agent, "trace_id": "of an oversized agent"}
