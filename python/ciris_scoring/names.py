"""Names that the whole project shares: factors, fields of a trace, actions, periods. Imports nothing of the project."""

from datetime import timedelta

FACTORS = {"C": "c_score", "I_int": "i_int_score", "R": "r_score", "I_inc": "i_inc_score", "S": "s_score"}
"""Column of each factor in fct_capacity_scores."""
REQUIRED_FIELDS = (
    *("thought_id", "csdma_plausibility_score", "dsdma_domain_alignment", "idma_k_eff", "conscience_passed"),
    *("coherence_level", "entropy_level", "selected_action", "action_success", "signature"),
)
"""Fields of a trace that I_coverage counts (scoring.md §4)."""
NON_EXEMPT_ACTIONS = ("SPEAK", "TOOL", "MEMORIZE", "FORGET")
"""Actions that affect others or the agent's memory."""
EXEMPT_ACTIONS = ("OBSERVE", "PONDER", "DEFER", "REJECT", "RECALL", "TASK_COMPLETE")
"""Actions that affect neither others nor the agent's memory. The endpoint /scoring/parameters publishes the list."""
UNKNOWN_MODE = "unknown"
"""Failure mode of an episode if its first trace does not name one."""
HASH_SHOWN = 8
"""Number of characters of a hash that are shown next to a name."""
WHOLE_HASH = "hash:"
"""Prefix that marks the rest of a text as a complete agent hash."""
PERIODS = {"day": timedelta(days=1), "hour": timedelta(hours=1)}
"""Length of each scoring period (scoring.md §1)."""


def whole_hash(agent_id_hash: str) -> str:
    """Return the hash with the prefix ``hash:``. It then identifies this agent even if another agent has the hash as
    its name."""
    return f"{WHOLE_HASH}{agent_id_hash}"
