"""Whether a score has fallen by more than chance (certainty.md §4)."""

import numpy as np

from ciris_scoring.steps.intervals.combination import loss
from ciris_scoring.steps.intervals.inputs import LEVEL_95, LEVEL_99, Booleans, Floats, Level


def drop_limit(
    score_before: Floats, low_before: Floats, score: Floats, high: Floats, level: Level = LEVEL_95
) -> Floats:
    """Lower limit of ln(score_before) − ln(score): above 0 where the score has fallen by more than chance.

    Square-and-add of the two intervals' sides on the log scale: the earlier score may have been lower, down to its
    lower limit, and this one may be higher, up to its upper limit. Sides of 95 % limits are stretched to another
    level in proportion to its quantiles.

    :param score_before: (n,) earlier scores, with the lower limits ``low_before`` at 95 %.
    :param score: (n,) scores, with the upper limits ``high`` at 95 %.
    :returns: (n,); −inf where the earlier score or its lower limit is 0, NaN where anything is null.
    """
    worse, better = level.z_worse / LEVEL_95.z_worse, level.z_better / LEVEL_95.z_better
    null: Booleans = np.isnan(score_before + low_before + score + high)
    with np.errstate(invalid="ignore"):
        side_before = worse * (loss(low_before) - loss(score_before))
        side = better * (loss(score) - loss(high))
        drop = loss(score) - loss(score_before) - np.hypot(side_before, side)
    # From a positive score to 0 both the drop and the side of the 0 are infinite; what is left is the way to the upper
    # limit, that of a rate without a success, which grows with the square of the quantile.
    fell_to_zero: Booleans = (score <= 0) & (low_before > 0)
    with np.errstate(invalid="ignore"):
        left = np.where(high > 0, loss(high * better**2) - loss(score_before), np.inf)
    never: Booleans = (score_before <= 0) | (low_before <= 0)
    result = np.where(fell_to_zero, left, np.where(never, -np.inf, drop))
    return np.where(null, np.nan, result)


def is_falling(
    score_before: Floats, low_before: Floats, score: Floats, high: Floats, falling_threshold: float
) -> Booleans:
    """Whether the alert ``falling`` is raised on the change since one window ago.

    Either the drop is excluded from chance at 99 % and at least a third of the threshold, or at 95 % and at least the
    threshold.

    :param score_before: scores a window earlier, with the lower limits ``low_before`` at 95 %.
    :param score: scores, with the upper limits ``high`` at 95 %.
    :returns: false where anything is null.
    """
    drop = np.nan_to_num(score_before - score, nan=-1.0)
    arguments = (score_before, low_before, score, high)
    certain = np.nan_to_num(drop_limit(*arguments, LEVEL_99), nan=-1.0) > 0
    likely = np.nan_to_num(drop_limit(*arguments), nan=-1.0) > 0
    raised: Booleans = (certain & (drop >= falling_threshold / 3)) | (likely & (drop >= falling_threshold))
    return raised
