"""Format values for spreadsheets."""

from datetime import datetime


def csv_cell(value: object) -> object:
    """Format a cell of a CSV. Text that a spreadsheet would take for a formula gets a leading apostrophe."""
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, str) and value.startswith(("=", "+", "-", "@", "\t", "\r")):
        return "'" + value
    return value
