"""The scores over HTTP: `ciris-scoring serve`.

Needs the extra `api` (FastAPI, uvicorn, psycopg-pool); nothing outside this package imports it, but the
command itself. Everything is read from the marts, by ciris_scoring.reading.
"""
