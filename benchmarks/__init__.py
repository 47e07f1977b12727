"""Benchmarks for developers: speed, coverage of the intervals, and red flags."""
