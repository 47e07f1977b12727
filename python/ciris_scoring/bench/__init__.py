"""The benchmark: what scoring costs, beside one pass over the source and beside the specification's own SQL."""
