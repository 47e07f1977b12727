"""Array types of the simulation, and units of time."""

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
Bits = npt.NDArray[np.uint64]
Floats = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]
Texts = npt.NDArray[np.object_]


NEVER = np.iinfo(np.int64).max
"""Time of an event that never happens."""
SECOND = 1_000_000
"""Microseconds in a second. Times of the simulation are integers: microseconds since 1970 UTC."""
MINUTE, HOUR, DAY = 60 * SECOND, 3_600 * SECOND, 86_400 * SECOND
