"""The proof of the intervals: simulated agents with known truth, and how often their intervals hold it."""
