"""Tables for spreadsheets."""

from datetime import datetime


def csv_cell(value: object) -> object:
    """A cell of a CSV; text that a spreadsheet would take for a formula is quoted with an apostrophe."""
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, str) and value.startswith(("=", "+", "-", "@", "\t", "\r")):
        return "'" + value
    return value
