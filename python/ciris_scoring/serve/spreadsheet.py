"""Format values for spreadsheets."""

from datetime import datetime

_BEGIN_FORMULAS = ("=", "+", "-", "@", "\uff1d", "\uff0b", "\uff0d", "\uff20", "\t", "\r", "\n")
"""Beginnings of text that spreadsheets take for a formula, also in full width."""


def csv_cell(value: object) -> object:
    """Format a cell of a CSV. Text that a spreadsheet would take for a formula gets a leading apostrophe."""
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, str) and value.startswith(_BEGIN_FORMULAS):
        return "'" + value
    return value
