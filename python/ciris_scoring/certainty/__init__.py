"""Certainty of the published scores in numpy (certainty.md), for the Python model ``fct_score_certainty``.

- :mod:`model` reads the scores and computes the rows. :mod:`losses`: the loss of each loss component.
- :mod:`intervals`: confidence bounds of components, factors and score. It uses :mod:`residuals` and
  :mod:`design_effects` (variation between days), :mod:`signals`, :mod:`bounds` and :mod:`combination`.
- :mod:`steady`: the steady score, with :mod:`change_points`.
- :mod:`changes` and :mod:`episodes`: the numbers that the alerts ``falling`` and ``episode`` compare.

"Bounds" in names means the lower and the upper confidence bound of a 95 % interval.
"""
