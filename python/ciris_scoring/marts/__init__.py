"""Queries on the published marts that return typed rows. The pages, the report and the API all read through this
package.

Scores, factors, points and probabilities are from 0 to 1. Times are in UTC. ``window_days`` is the length of a window.
A function that takes :class:`marts.Marts` raises psycopg.Error if a mart does not exist or the role may not read it,
unless its docstring says otherwise.
"""
