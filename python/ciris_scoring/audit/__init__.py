"""Read raw trace batches, verify them, load them into the database, and compare a database with them.

This package needs the extra ``audit``. No other package imports it.
"""
