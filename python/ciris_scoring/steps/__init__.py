"""The two steps of a run that SQL handles poorly: R, and the intervals."""
