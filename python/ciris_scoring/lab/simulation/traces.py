"""Rows of simulated traces, for `covenant_traces`."""

import base64
from datetime import UTC, datetime, timedelta

import numpy as np
import pandas as pd

from ciris_scoring.database.source_schema import TRACE_COLUMNS
from ciris_scoring.lab.simulation.arrays import DAY, SECOND, Flags, Texts
from ciris_scoring.lab.simulation.columns import Column, frame, null_unless, nullable, times
from ciris_scoring.lab.simulation.components import (
    action_result,
    conscience_result,
    dma_results,
    thought_start,
)
from ciris_scoring.lab.simulation.lives import ACTIONS, MODES, Ethics, Lives
from ciris_scoring.lab.simulation.plan import THOUGHTS_PER_TASK, Plan
from ciris_scoring.lab.simulation.randomness import Draw, Draws, Stream, slices
from ciris_scoring.lab.simulation.schedule import Rows
from ciris_scoring.lab.simulation.spellings import spellings

_NAN_LIKE = {
    # Values that the column types of production allow, although they are not valid scores.
    "score": np.array(["NaN", "1.50", "-0.50"], dtype=object),
    "level": np.array(["NaN", "1.5000", "-0.0500"], dtype=object),
    "k_eff": np.array(["NaN", "-1", "Infinity"], dtype=object),
}


def render(plan: Plan, rows: Rows, lives: Lives) -> pd.DataFrame:
    """Return the rows of `covenant_traces`, with the columns of `Fleet.traces`."""
    spelled, draws = spellings(), rows.draws
    newer = plan.newer[rows.agent]
    # Of a trace that is not whole, only the JSON component action_result has arrived.
    whole = ~lives.only_action

    trace_id, thought_id = _identifiers(plan, rows, newer)
    audit_hash = draws.hexadecimal(Draw.AUDIT_HASH, 4, 64)
    sequence = list(map(str, lives.sequence.tolist()))
    signed = draws.uniform(Draw.SIGNED)
    unsigned = signed < plan.knobs["unsigned"][rows.agent]
    unverified = signed > 1 - plan.knobs["unverified"][rows.agent]
    resigned = rows.duplicate & draws.chance(Draw.RESIGNED, 0.5)
    plausibility, alignment = (lives.plausibility + 5) // 10, (lives.alignment + 5) // 10
    has_coherence = whole & (lives.ethics >= Ethics.COHERENCE)
    has_entropy = whole & (lives.ethics != Ethics.EXEMPT)
    blank = draws.below(Draw.BLANK, 4_000)

    action = np.array([f"HandlerActionType.{name}" for name, *_ in ACTIONS], dtype=object)[lives.action]
    lower = np.array([name.lower() for name, *_ in ACTIONS], dtype=object)[lives.action]
    modes = np.array(MODES, dtype=object)[lives.mode]
    k_eff = np.where(lives.fragile, 100 + draws.below(Draw.K_EFF, 90), 210 + draws.below(Draw.K_EFF, 280))

    def dirty(values: Texts, kind: str, slot: int) -> Texts:
        """Replace about one value in a thousand by an invalid one. A trace has at most one invalid value."""
        fate = draws.below(Draw.DIRTY, 30_000) - 100 * slot
        return np.where((fate >= 0) & (fate < 30), _NAN_LIKE[kind][fate % 3], values)

    # Agents with a batch clock have no blank trace ids, because their timestamps tie, and the primary key is
    # (trace_id, timestamp).
    blank_id = (blank == 0) & ~plan.knobs["batch_clock"][rows.agent]
    kind = np.where(
        draws.chance(Draw.INCONSISTENT, plan.knobs["inconsistent"][rows.agent]),
        1 + draws.below(Draw.CONTRADICTION, 3),
        0,
    )
    columns: dict[str, Column] = {
        "trace_id": np.where(blank_id, "", trace_id),
        "thought_id": np.where(blank == 1, "", thought_id),
        "agent_id_hash": plan.roster.agent_id_hash[rows.agent],
        "agent_name": null_unless(whole, np.where(blank == 2, "  ", plan.names_at(rows.agent, rows.time))),
        "timestamp": times(rows.delivered),
        "signature": null_unless(~unsigned, _signatures(draws, resigned)),
        "signature_verified": nullable(~unverified, unsigned),
        "signature_key_id": plan.roster.key_id[rows.agent],
        "audit_entry_hash": np.array(audit_hash, dtype=object),
        "audit_sequence_number": pd.array(lives.sequence, dtype="Int64"),
        "csdma_plausibility_score": null_unless(whole, dirty(spelled["score"][plausibility], "score", 0)),
        "dsdma_domain_alignment": null_unless(whole, dirty(spelled["score"][alignment], "score", 1)),
        "idma_k_eff": null_unless(whole, dirty(spelled["k_eff"][k_eff], "k_eff", 2)),
        "idma_fragility_flag": nullable(lives.fragile, ~whole),
        "idma_phase": null_unless(whole, np.where(blank == 3, "", np.where(lives.fragile, modes, "healthy"))),
        "conscience_passed": nullable(lives.conscience_passed, ~whole),
        "action_was_overridden": nullable(~lives.conscience_passed, ~whole),
        "entropy_level": null_unless(has_entropy, dirty(spelled["level"][lives.entropy], "level", 3)),
        "coherence_level": null_unless(whole, dirty(spelled["level"][lives.coherence], "level", 4)),
        "coherence_passed": nullable(lives.coherence_passed, ~has_coherence),
        "selected_action": np.where(blank == 4, " ", np.where(whole, action, lower)),
        "action_success": nullable(lives.success, np.zeros_like(whole)),
        "thought_start": null_unless(whole, thought_start(rows, newer)),
        "dma_results": null_unless(whole, dma_results(lives, newer, kind == 1)),
        "conscience_result": null_unless(whole, conscience_result(lives, action, newer, kind == 2)),
        "action_result": action_result(rows, lives, lower, audit_hash, sequence, newer, kind == 3),
    }
    return frame(columns, TRACE_COLUMNS)


def _identifiers(plan: Plan, rows: Rows, newer: Flags) -> tuple[Texts, Texts]:
    """Return trace ids and thought ids. Newer agents sometimes process a thought again under its old id."""
    reprocessed = (
        newer & ~plan.knobs["batch_clock"][rows.agent] & (rows.index > 0) & rows.draws.chance(Draw.REPROCESSED, 0.002)
    )
    thought = rows.index - reprocessed
    agent_keys = plan.agent_keys[rows.agent]
    own = Draws.of(agent_keys, Stream.TRACE, thought).hexadecimal(Draw.IDENTIFIER, 1, 11)
    task = Draws.of(agent_keys, Stream.TASK, thought // THOUGHTS_PER_TASK).hexadecimal(Draw.IDENTIFIER, 1, 8)
    origin = np.where(thought % THOUGHTS_PER_TASK == 0, "seed", "followup").tolist()
    thought_id = [f"th_{o}_{t}_{i[:8]}-{i[8:]}" for o, t, i in zip(origin, task, own, strict=True)]

    first_day = plan.start // DAY
    dates = [
        (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(days=first_day + i)).strftime("%Y%m%d")
        for i in range(plan.days + 1)
    ]
    date = np.array(dates, dtype=object)[rows.time // DAY - first_day]
    clock = spellings()["clock"][rows.time // SECOND % 86_400]
    trace_id = [
        th if n else f"trace-{th}-{d}{c}"
        for th, n, d, c in zip(thought_id, newer.tolist(), date.tolist(), clock.tolist(), strict=True)
    ]
    return np.array(trace_id, dtype=object), np.array(thought_id, dtype=object)


def _signatures(draws: Draws, resigned: Flags) -> Texts:
    """Return random bytes in the format of an Ed25519 signature: base64url without padding, 86 characters."""
    # Each row has 66 bytes, a multiple of 3, so all rows can be encoded together.
    octets = np.zeros((draws.keys.size, 66), dtype=np.uint8)
    octets[:, :64] = draws.octets(Draw.SIGNATURE, 8)
    if resigned.any():
        octets[resigned, :64] = Draws(draws.keys[resigned]).octets(Draw.SECOND_SIGNATURE, 8)
    octets[:, 63] &= 0x0F
    return np.array(slices(base64.urlsafe_b64encode(octets.tobytes()).decode("ascii"), 88, 86), dtype=object)
