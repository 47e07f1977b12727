"""Times in the JSON that the database writes."""


def iso_text(moment: str) -> str:
    """SQL: a moment as Python's `isoformat` writes it at UTC, with six digits of the second or with none.

    The JSON functions of PostgreSQL leave zeros at the end out, and clients with a Python before 3.11 cannot read that.

    :param moment: SQL of a timestamp with time zone, without a literal percent sign or brace in it.
    """
    return f"""replace(to_char({moment} at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"+00:00"'), '.000000', '')"""
