"""Compute every number of a scoring window in numpy, from sums per agent and period.

The Python model ``int_windows`` calls :mod:`one_pass`, and ``fct_record_signs`` calls :mod:`red_flag_rows`. These
modules use the database:

- :mod:`setting`: parameters, windows and times of the run. :mod:`blocks`: the as-ofs of the run, divided into blocks.
- :mod:`reading`: reads the sums of a block, one batch of agents at a time. A batch is computed in smaller chunks, which
  fit the processor's cache.
- :mod:`writing`: writes the finished rows. :mod:`session`: statements and binary COPY.

The other modules are pure functions on the arrays of :mod:`inputs` and need no database:

- :mod:`windows`: sums and counts of each window. :mod:`factors`: the components that are quotients of these sums.
- :mod:`resilience`: drift and R. :mod:`coherence`: S. :mod:`attribution`: the loss of each loss component.
- :mod:`long_run`: the steady score, with :mod:`change_points`.
- :mod:`changes`, :mod:`rate_components` and :mod:`episodes`: the numbers that the alerts ``falling`` and ``episode``
  compare.
- :mod:`ties`: traces with equal scores. :mod:`red_flags`: red flags of selective reporting.
- :mod:`intervals`: confidence bounds of components, factors and score. It uses :mod:`rolling` (sums over windows),
  :mod:`residuals` and :mod:`design_effects` (variation between days), :mod:`component_bounds` and
  :mod:`combination`.

"Bounds" in names means the lower and the upper confidence bound of a 95 % interval.
"""
