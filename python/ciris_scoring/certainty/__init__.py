"""Certainty of the published scores in numpy (certainty.md), for the Python model ``fct_score_certainty``: :mod:`model`
reads and writes, :mod:`losses` has the loss of each loss component, :mod:`intervals` the interval of the score,
:mod:`design_effects` the variation between days, :mod:`steady` and :mod:`change_points` the steady score, and
:mod:`changes` and :mod:`events` the numbers that the alerts ``falling`` and ``episode`` compare."""
