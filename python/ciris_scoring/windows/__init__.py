"""Sums of every scoring window in numpy, for the Python model ``int_windows``.

- The model computes the rows. :mod:`sums`: sums and counts of window and baseline. :mod:`drift`: KL drift.
  :mod:`ties`: traces with equal scores. :mod:`rolling`: sums over windows.
- :mod:`setting`: parameters, windows and times of the run. :mod:`blocks`: the as-ofs of the run, divided into blocks.
- :mod:`reading`: reads the sums of a block, one batch of agents at a time. A batch is computed in smaller chunks, which
  fit the processor's cache. :mod:`writing`: writes the rows. :mod:`session`: statements and binary COPY.
- :mod:`inputs`: the arrays and parameters that the other modules take.
"""
