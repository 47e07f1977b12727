"""Foundations of all other packages: errors, times, the project, and sessions in its database."""
