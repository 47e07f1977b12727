"""An independent, brute-force reference implementation of ``docs/scoring.md`` (plain Python, no SQL)."""
