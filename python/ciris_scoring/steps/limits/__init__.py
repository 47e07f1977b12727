"""The step of the intervals: from sums per agent and period in the database to the limits of scores, and back.

dbt builds ``int_interval_inputs``, one digest per as-of and window, and owns the tables ``int_interval_fleet_values``
and ``int_score_limits``. :mod:`step` does all of it in one transaction: afterwards there is one row of limits per row
of resilience inputs, or nothing has changed. Running it again finds nothing waiting. In its order:

- :mod:`waiting`: which *fleets* wait. A fleet is all agents with a row at an as-of and window; their limits are
  computed together, because what the fleet shows enters the limits of each.
- :mod:`setting`: what limits are computed with, whatever the data.
- :mod:`block`: fleets in *blocks* of as-ofs that lie close together, so that arrays of periods do not grow with the
  history. Each block takes two passes over its agents: the fleet's sums, then the limits.
- :mod:`reading`: a block's agents in *batches*, as many as are read at a time, and those in *chunks*, as many as are
  computed at a time.
- :mod:`writing`: limits and what they took from the fleet.

Only numbers travel, by COPY in binary.
"""
