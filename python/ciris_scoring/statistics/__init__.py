"""Every number of a window, from sums per agent and period, in numpy.

The Python model ``int_windows`` calls :mod:`one_pass`, which reads, computes and writes:

- :mod:`setting`: parameters, windows and times of the run; :mod:`blocks`: the as-ofs of the run in blocks.
- :mod:`reading`: a block's agents in *batches*, as many as are read at a time, and those in *chunks*, as many as are
  computed at a time. :mod:`writing`: the finished rows. Only numbers travel, by COPY in binary (:mod:`fixed_copy`,
  :mod:`session`); keys stay in temporary tables.

Everything else is pure functions on arrays (:mod:`inputs`), without a database:

- :mod:`windows`: sums and counts of each window; :mod:`factors`: the components that follow from them.
- :mod:`resilience`: drift and R; :mod:`coherence`: S; :mod:`attribution`: the losses of a score's parts.
- :mod:`behaviour` and :mod:`episodes`: the numbers that the alerts ``falling`` and ``episode`` compare.
- :mod:`intervals`: from sums to the limits of components, factors and score, by :mod:`rolling` sums, :mod:`residuals`
  and :mod:`design_effects` (how days differ), :mod:`component_limits`, :mod:`combination` and :mod:`steady`.

*Limits* are the two numbers, an *interval* is the range between them.
"""
