"""Key registry of a simulated fleet, for `covenant_public_keys`."""

import base64

import numpy as np
import pandas as pd

from ciris_scoring.basics.source_schema import PUBLIC_KEY_COLUMNS
from ciris_scoring.lab.simulation.arrays import DAY, NEVER
from ciris_scoring.lab.simulation.columns import Column, frame, times
from ciris_scoring.lab.simulation.plan import Plan


def public_keys(plan: Plan) -> pd.DataFrame:
    """Return one key per agent. Every third key expires, and the keys of one pathology are revoked."""
    agents = len(plan.agent_keys)
    columns: dict[str, Column] = {
        "key_id": plan.roster.key_id,
        "public_key_base64": np.array(
            [base64.b64encode(k).decode() for k in plan.roster.public_key], dtype=object
        ),
        "algorithm": np.array(["ed25519"] * agents, dtype=object),
        "created_at": times(np.full(agents, plan.start - 30 * DAY)),
        "expires_at": times(np.where(np.arange(agents) % 3 == 0, plan.end + 365 * DAY, NEVER)),
        "revoked_at": times(plan.boundaries["revoked"]),
    }
    return frame(columns, PUBLIC_KEY_COLUMNS)
