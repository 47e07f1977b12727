"""From sums per agent and period to the statistics of each agent, as-of and window, in numpy.

The Python model ``int_window_statistics`` calls :mod:`window_statistics`, which reads, computes and writes:

- :mod:`setting`: what is computed with, whatever the data; :mod:`fleets`: what waits, cut into blocks.
- :mod:`reading`: a block's agents in *batches*, as many as are read at a time, and those in *chunks*, as many as are
  computed at a time; each block takes two passes over them, the fleet's sums and then the rows. :mod:`writing`: the
  finished rows. Only numbers travel, by COPY in binary (:mod:`fixed_copy`, :mod:`session`); keys stay in temporary
  tables.

Everything else is pure functions on arrays (:mod:`inputs`), without a database:

- :mod:`resilience`: drift and R; :mod:`coherence`: S; :mod:`attribution`: the losses of a score's parts.
- :mod:`behaviour` and :mod:`episodes`: what the alerts ``falling`` and ``episode`` judge by.
- :mod:`intervals`: from sums to the limits of components, factors and score, by :mod:`rolling` sums, :mod:`residuals`
  and :mod:`design_effects` (how days differ), :mod:`component_limits`, :mod:`combination` and :mod:`steady`.

*Limits* are the two numbers, an *interval* is what they bound.
"""
