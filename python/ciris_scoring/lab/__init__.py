"""Tools to try the project without a PostgreSQL server or real traces: an embedded server and simulated fleets."""
