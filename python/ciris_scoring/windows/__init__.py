"""Sums of every scoring window in numpy, for the Python model ``int_windows``, and the reading and writing that the
Python models share.

- :mod:`run`: the run's parameters, windows and as-ofs. :mod:`session`: statements and binary COPY.
- :mod:`reading`: reads the counts of agents per period, deferrals and fragile episodes, and writes rows.
- :mod:`sums`: sums and counts of a window. :mod:`drift`: KL drift. :mod:`arrays`: types of arrays.
"""
