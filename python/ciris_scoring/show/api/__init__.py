"""HTTP server for the scores: `ciris-scoring serve`.

This package needs the extra `api` (FastAPI, uvicorn). Only the command `serve` imports it. All data is
read from the marts through ciris_scoring.marts.
"""
