"""A simulated fleet of agents, with named pathologies, in the shape of the `cirislens` source tables.

Every number is a pure function of (seed, agent, position in the agent's history): a counter-based generator
instead of one that is drawn from in turn. So a fleet can be produced in chunks of any size, all agents of a
day side by side, with the same bytes as in one piece, on every machine and with every version of numpy.

An agent works in *tasks* of three thoughts within minutes: a seed thought, a follow-up, the completion. A *day*
is a slice of 24 hours counted from the start of the simulation.

Here are the fleets themselves; :mod:`~ciris_scoring.lab.simulation.load` writes them into a database, and
:mod:`~ciris_scoring.lab.simulation.sample` has the one that ships with the package.
"""

from ciris_scoring.lab.simulation.behaviours import PATHOLOGIES, Pathology
from ciris_scoring.lab.simulation.fleet import Fleet, FleetStream, simulate_fleet, stream_fleet
from ciris_scoring.lab.simulation.roster import fleet_roster

__all__ = [
    "PATHOLOGIES",
    "Fleet",
    "FleetStream",
    "Pathology",
    "fleet_roster",
    "simulate_fleet",
    "stream_fleet",
]
