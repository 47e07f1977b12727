"""Conversion of arrays to the columns of a source table, with nulls."""

from collections.abc import Mapping

import numpy as np
import pandas as pd

from ciris_scoring.lab.simulation.arrays import NEVER, Flags, Ints, Texts

Column = Texts | Ints | pd.DatetimeIndex | pd.arrays.BooleanArray | pd.arrays.IntegerArray


def null_unless(present: Flags, values: Texts) -> Texts:
    """Return ``values``, with null where ``present`` is false."""
    return np.where(present, values, np.array(None))


def nullable(values: Flags, null: Flags) -> pd.arrays.BooleanArray:
    """Return ``values`` as nullable booleans, with null where ``null`` is true."""
    return pd.arrays.BooleanArray(values, null)


def times(microseconds: Ints) -> pd.DatetimeIndex:
    """Convert microseconds since 1970 UTC to times. The value ``NEVER`` becomes null."""
    moments = np.where(microseconds == NEVER, np.iinfo(np.int64).min, microseconds).view("datetime64[us]")
    return pd.DatetimeIndex(moments).tz_localize("UTC")


def frame(columns: Mapping[str, Column], order: tuple[str, ...]) -> pd.DataFrame:
    """Return a data frame of the columns, sorted by their positions in ``order``."""
    # Text keeps the type object, because the type that pandas would infer differs between versions of pandas.
    return pd.DataFrame(
        {name: pd.Series(columns[name], dtype=columns[name].dtype, copy=False) for name in order},
        copy=False,
    )
