"""Cases of I_int (scoring.md §4) except replay: I_int = I_chain * I_coverage * I_replay."""

from datetime import timedelta

from cases.notation import Case, ago, key, traces

CASES = [
    Case(
        "4 a key is registered until it is revoked or expires, whenever it was created",
        [
            *traces(ago(4), 3, agent="revoked", signature_key_id="revoked", every=timedelta(days=1)),
            *traces(ago(4), 3, agent="expired", signature_key_id="expired", every=timedelta(days=1)),
            *traces(ago(4), 3, agent="twice", signature_key_id="twice", every=timedelta(days=1)),
            *traces(ago(4), 3, agent="unknown", signature_key_id=["nowhere", None, "young"]),
        ],
        # The traces are at T - 4, T - 3 and T - 2 days. A key that ends at T - 3 days verifies only the first trace.
        agents={
            "revoked": {"key_rate": 1 / 3, "i_chain": 1 / 3, "alerts": {"untrusted_key": "critical"}},
            "expired": {"key_rate": 1 / 3, "i_chain": 1 / 3},
            "twice": {"key_rate": 1 / 3, "i_chain": 1 / 3},
            "unknown": {"key_rate": 1 / 3, "i_chain": 1 / 3, "link_rate": 1},
        },
        keys=[
            key("young", created_at=ago(-1)),
            key("revoked", revoked_at=ago(3), expires_at=ago(2)),
            key("expired", expires_at=ago(3), revoked_at=ago(2)),
            key("twice", revoked_at=ago(1)),
            key("twice", revoked_at=ago(3)),
        ],
    ),
    Case(
        "4 an audit number that is not one more than the previous one breaks only its own link",
        traces(ago(1), 8, audit_sequence_number=[1, 2, 4, 5, 5, 3, 4, 9]),
        # The numbers 4 (the first) and 9 follow a gap, the second 5 is a duplicate, and 3 is a rewind.
        {
            "chain_gaps": 2,
            "chain_duplicates": 1,
            "chain_rewinds": 1,
            "link_rate": 4 / 8,
            "i_chain": 4 / 8,
            "alerts": {"broken_chain": "critical"},
        },
    ),
    Case(
        "4 the first audit number needs an entry hash, but no previous number",
        [
            *traces(ago(1), 2, agent="hash", audit_sequence_number=[500, 501]),
            *traces(ago(1), 2, agent="null", audit_sequence_number=[500, 501], audit_entry_hash=[None, "hash"]),
        ],
        agents={"hash": {"link_rate": 1}, "null": {"link_rate": 1 / 2}},
    ),
    Case(
        "4 the smallest audit number after the largest one is a rewind, without an overflow",
        traces(ago(1), 3, audit_sequence_number=[2**63 - 1, -(2**63), -(2**63) + 1]),
        {"chain_rewinds": 1, "chain_gaps": 0, "link_rate": 2 / 3},
    ),
]
