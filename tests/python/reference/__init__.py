"""Independent reference implementation of ``docs/scoring.md`` and ``docs/certainty.md`` in
plain Python, without SQL.
"""
