"""From sums per agent and period in the database to the statistics of each agent, as-of and window.

In the order of :mod:`step`:

- :mod:`waiting`: which *fleets* wait. A fleet is all agents with a row at an as-of and window; they are computed
  together, because the limits of each depend on the whole fleet.
- :mod:`setting`: what is computed with, whatever the data.
- :mod:`block`: fleets in *blocks* of as-ofs that lie close together, so that arrays of periods do not grow with the
  history. Each block takes two passes over its agents: the fleet's sums, then the rows.
- :mod:`reading`: a block's agents in *batches*, as many as are read at a time, and those in *chunks*, as many as are
  computed at a time.
- :mod:`writing`: the finished rows.

Only numbers travel, by COPY in binary; keys stay in the database, in temporary tables.
"""
