"""To try the project without a PostgreSQL or traces of one's own."""
