"""What the scoring parameters and the components do to a fleet that is scored: `ciris-scoring calibrate`.

It reads what is published, in one read-only transaction, and changes nothing.
"""
