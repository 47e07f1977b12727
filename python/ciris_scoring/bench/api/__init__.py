"""The load that `ciris-scoring serve` bears, beside an empty FastAPI answer: `ciris-scoring bench api`."""
