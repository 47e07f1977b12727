"""Behaviour of the agents of a simulated fleet: named pathologies, which set some properties of an agent.

The properties are chosen so that each pathology shows in the scores of a few weeks. They are not measured in
production.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Pathology:
    """Behaviour of one kind of agent. The default of every property is neutral.

    Plausibility, alignment and coherence are mean scores from 0 to 1. Shares are of the traces to which the property
    applies. A property `..._every` is the number of traces per inserted event (0: never). Days count back from the end
    of the simulation.
    """

    name: str
    names: tuple[str, str, str]
    """Names of the agent: in the first half of the simulated days, in the second half, and in the last 7 days."""

    plausibility: float = 0.90
    plausibility_spread: float = 0.05
    alignment: float = 0.88
    coherence: float = 0.87
    coherence_spread: float = 0.05
    success_gap: float = 0.0
    """The probability of success is plausibility − `success_gap`."""
    drift_days: int = 0
    drift: float = 0.0
    """Decrease of plausibility and alignment in the last `drift_days`. Coherence decreases by half as much."""

    gap_every: int = 0
    rewind_every: int = 0
    repeat_every: int = 0
    revoked_after: float = 2.0
    """Share of the simulated days after which the key is revoked (above 1: never)."""
    unsigned: float = 0.0
    unverified: float = 0.001
    overridden: float = 0.004
    inconsistent: float = 0.0
    """Share of traces whose JSON components contradict the columns or each other."""

    episodes_per_day: float = 0.03
    episode_traces: int = 2
    """Maximum number of traces in a fragile episode; 8 or less. An episode of at most two traces is within one
    task and lasts minutes."""
    same_mode: bool = False
    stuck_days: int = 0

    first_days: int = 0
    """Days before the end at which the first trace is sent (0: at the start of the simulation)."""
    silent_days: int = 0
    batch_clock: bool = False
    """Whether the installation stores the time of the batch (every 5 minutes) as the time of its traces, so that many
    traces have the same time."""
    deferrals_rejected: float = 0.01


def _called(name: str) -> tuple[str, str, str]:
    return (name, name, name)


PATHOLOGIES: tuple[Pathology, ...] = (
    Pathology("healthy", _called("Harbor")),
    Pathology("healthy", _called("Haven"), batch_clock=True),
    Pathology("drifting", _called("Driftwood"), drift_days=10, drift=0.24),
    Pathology("broken_chain", _called("Link"), gap_every=9, rewind_every=31, repeat_every=23),
    Pathology("revoked_key", _called("Latch"), revoked_after=2 / 3),
    Pathology("stuck_fragile", _called("Mire"), stuck_days=6),
    Pathology("relapsing", _called("Echo"), episodes_per_day=3.0, episode_traces=8, same_mode=True),
    Pathology(
        "overconfident",
        _called("Bravo"),
        plausibility=0.95,
        plausibility_spread=0.03,
        success_gap=0.40,
        overridden=0.01,
        deferrals_rejected=0.5,
    ),
    # Another agent is called Haven too, so a deferral of Haven cannot be attributed by name alone.
    Pathology("renamed", ("Haven", "Proteus", "Morpheus")),
    Pathology("new", _called("Sprout"), first_days=5),
    Pathology("silent", _called("Hush"), silent_days=3),
    Pathology("contradictory", _called("Paradox"), unsigned=0.05, unverified=0.08, overridden=0.12),
    Pathology("out_of_tune", _called("Offkey"), coherence=0.68, coherence_spread=0.02),
    Pathology("unreplayable", _called("Fable"), inconsistent=0.05),
)
"""Agent k has pathology k mod len(PATHOLOGIES). The second agent of a pathology has names that end with 2, and so
on."""
