"""A scoring run, from its as-of to the published scores."""
