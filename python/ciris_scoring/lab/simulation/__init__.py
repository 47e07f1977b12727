"""A simulated fleet of agents, with named pathologies, in the format of the `cirislens` source tables.

Every number is a pure function of the seed, the agent, and the position in the agent's history, because the random
generator is counter-based: it does not draw numbers in sequence. So a fleet can be produced in chunks of days. The
result has the same bytes whatever the size of the chunks, on every machine and with every version of numpy.

An agent works in *tasks* of three thoughts within minutes: a seed thought, a follow-up, and the completion. A *day* is
24 hours long, counted from the start of the simulation.

:mod:`~ciris_scoring.lab.simulation.fleet` simulates fleets, :mod:`~ciris_scoring.lab.simulation.load` writes them into
a database, and :mod:`~ciris_scoring.lab.simulation.sample` simulates the sample, which the documents show.
"""
