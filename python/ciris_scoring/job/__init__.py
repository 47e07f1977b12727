"""The scoring run, from the as-of to the published scores."""
