"""Red flags of selective reporting (certainty.md §5), for the Python model ``fct_red_flags``: :mod:`model` reads and
writes, :mod:`rules` applies the thresholds."""
