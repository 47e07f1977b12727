"""The load that `ciris-scoring serve` bears, beside an empty FastAPI answer: `python -m benchmarks api`."""
