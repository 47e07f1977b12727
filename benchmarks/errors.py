"""Errors of the benchmarks that a person can act on."""

from ciris_scoring.basics.errors import CirisError


class BenchFailed(CirisError):
    """A benchmark could not be carried through."""
