"""Red flags of selective reporting (certainty.md §5), for the Python model ``fct_red_flags``: :mod:`model` reads and
writes, :mod:`counts` counts what is compared, :mod:`ties` counts equal traces, :mod:`rules` applies the thresholds."""
