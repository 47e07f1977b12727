"""Measure the coverage of intervals: how often they contain the known truth of simulated agents."""
