"""Batches of a simulated fleet, for `covenant_trace_batches`."""

import numpy as np
import pandas as pd

from ciris_scoring.basics.source_schema import BATCH_COLUMNS
from ciris_scoring.lab.simulation.arrays import DAY, HOUR, SECOND
from ciris_scoring.lab.simulation.columns import Column, frame, times
from ciris_scoring.lab.simulation.plan import RHYTHM, Plan
from ciris_scoring.lab.simulation.randomness import Draw, Draws, Stream


def batches(plan: Plan) -> pd.DataFrame:
    """Return one batch per hour of the fleet. The traces of a day are distributed over its hours by activity."""
    weights = np.roll(RHYTHM, -(plan.start // HOUR % 24))
    until = np.concatenate([[0], np.cumsum(weights)])
    per_day = plan.n_traces.sum(axis=0)[:, None]
    accepted = np.diff(per_day * until // until[-1], axis=1).ravel()
    hour = np.arange(accepted.size)
    draws = Draws.of(plan.fleet_key, Stream.BATCH, hour)
    rejected = (0.008 * accepted * draws.uniform(Draw.COUNT) + 1.05 * draws.uniform(Draw.CAUSE)).astype(int)
    reason = np.array(["invalid_signature", "schema_violation"], dtype=object)[draws.below(Draw.STATUS, 2)]
    columns: dict[str, Column] = {
        "batch_id": np.array(draws.uuids(), dtype=object),
        "batch_timestamp": times(plan.start + (hour + 1) * HOUR - SECOND),
        "consent_timestamp": times(np.full(hour.size, plan.start - 30 * DAY)),
        "traces_received": pd.array(accepted + rejected, dtype="Int64"),
        "traces_accepted": pd.array(accepted, dtype="Int64"),
        "traces_rejected": pd.array(rejected, dtype="Int64"),
        "rejection_reasons": np.array(
            [
                f'{{"{r}":{n}}}' if n else "{}"
                for r, n in zip(reason.tolist(), rejected.tolist(), strict=True)
            ],
            dtype=object,
        ),
    }
    sent: pd.DataFrame = frame(columns, BATCH_COLUMNS)[accepted > 0]
    return sent.reset_index(drop=True)
