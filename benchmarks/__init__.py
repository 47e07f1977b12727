"""Benchmarks for developers: speed and size, clusters, load of the API, coverage of the intervals."""
