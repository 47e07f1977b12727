"""Which fleets wait: those of the run's range without rows that have the digest of their inputs."""

from datetime import datetime
from typing import NamedTuple

from psycopg import sql

from ciris_scoring.steps.session import Session


class Fleet(NamedTuple):
    """The agents with a row at an as-of and window."""

    as_of: datetime
    window_days: int
    inputs_digest: str
    n_agents: int


def find_waiting(
    session: Session, interval_inputs: sql.SQL, rewritten_range: str, table: sql.SQL | None
) -> list[Fleet]:
    """Put the fleets that wait into the temporary table ``ciris_fleets``.

    :param rewritten_range: the condition on ``as_of`` of the rows that the run rewrites.
    :param table: what was computed before; None where everything is to be computed.
    :returns: the waiting ones, in the order of their as-ofs.
    """
    known = sql.SQL(
        "select 1 from {} as known where (known.as_of, known.window_days, known.inputs_digest)"
        " = (inputs.as_of, inputs.window_days, inputs.inputs_digest)"
    ).format(table or interval_inputs)
    session.execute(
        sql.SQL("""
        create temporary table ciris_fleets on commit drop as
        select as_of, window_days, inputs_digest, n_agents
        from {inputs} as inputs
        where {in_range} and {is_new}
        """).format(
            inputs=interval_inputs,
            in_range=sql.SQL(rewritten_range),
            is_new=sql.SQL("true") if table is None else sql.SQL("not exists ({})").format(known),
        )
    )
    session.execute("analyze ciris_fleets")
    rows = session.rows(
        "select as_of, window_days, inputs_digest, n_agents from ciris_fleets order by as_of, window_days"
    )
    return [Fleet(*row) for row in rows]
