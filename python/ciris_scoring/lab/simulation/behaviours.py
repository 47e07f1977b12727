"""How the agents of a simulated fleet behave: named pathologies, each a set of knobs."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Pathology:
    """How one kind of agent behaves: knobs, each neutral by default.

    Scores are means on [0, 1]; shares are of the traces they can apply to; `..._every` plants one event per
    that many traces (0: never); days count back from the fleet's end, and where a fleet is too short for them,
    as far as its length allows.
    """

    name: str
    names: tuple[str, str, str]
    """The name at first, from the middle of the simulated days on, and from 7 days before the end on."""

    plausibility: float = 0.90
    plausibility_spread: float = 0.05
    alignment: float = 0.88
    coherence: float = 0.87
    coherence_spread: float = 0.05
    success_gap: float = 0.0
    """Success has the probability plausibility − gap."""
    drift_days: int = 0
    drift: float = 0.0
    """What plausibility, alignment and (by half) coherence lose in the last `drift_days`."""

    gap_every: int = 0
    rewind_every: int = 0
    repeat_every: int = 0
    revoked_after: float = 2.0
    """Share of the simulated days after which the key is revoked (above 1: never)."""
    unsigned: float = 0.0
    unverified: float = 0.001
    overridden: float = 0.004
    inconsistent: float = 0.0
    """Share of traces whose components contradict the columns or themselves."""

    episodes_per_day: float = 0.03
    episode_traces: int = 2
    """Longest fragile episode in traces; 2 stays inside one task, so minutes; at most 8."""
    same_mode: bool = False
    stuck_days: int = 0

    first_days: int = 0
    """The first trace comes this many days before the end (0: at the start of the simulation)."""
    silent_days: int = 0
    batch_clock: bool = False
    """The installation stores the time of the batch (every 5 minutes), which ties many traces."""
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
    # Shares its first name with another agent, so that the name alone attributes nothing.
    Pathology("renamed", ("Haven", "Proteus", "Morpheus")),
    Pathology("new", _called("Sprout"), first_days=5),
    Pathology("silent", _called("Hush"), silent_days=3),
    Pathology("contradictory", _called("Paradox"), unsigned=0.05, unverified=0.08, overridden=0.12),
    Pathology("out_of_tune", _called("Offkey"), coherence=0.68, coherence_spread=0.02),
    Pathology("unreplayable", _called("Fable"), inconsistent=0.05),
)
"""Agent k has pathology k mod len(PATHOLOGIES); from the second round on, names carry the round's number."""
