"""Independent reference implementation of ``docs/scoring.md`` and ``docs/certainty.md`` in Python, without SQL and
without code of the package.
"""
