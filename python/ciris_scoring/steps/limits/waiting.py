"""Which fleets wait: those for which no values are stored with the digest of their inputs."""

from datetime import UTC, datetime
from typing import NamedTuple

import psycopg
from psycopg import sql

from ciris_scoring.basics.connection import one_row
from ciris_scoring.basics.errors import StepError
from ciris_scoring.basics.relations import Relations
from ciris_scoring.steps.limits.setting import Setting
from ciris_scoring.steps.step import FIRST_HALF_HINT, column_list, require_relations

FLEET_KEY = ("as_of", "window_days")

NEEDED = ("int_interval_inputs", "int_interval_fleet_values", "int_score_limits")
"""What must be there. Where something waits, the others are, because it was made from them."""


class Fleet(NamedTuple):
    """The agents with a row at an as-of and window."""

    as_of: datetime
    window_days: int
    inputs_digest: str
    n_agents: int


def first_waiting(connection: psycopg.Connection, relations: Relations) -> datetime:
    """The first as-of at which something may wait for Python: of those that the last run scored, or one left before it.

    What an agent's limits are made from holds what its R is made from, so that whatever waits shows in the fleets' few
    digests.

    :returns: the end of all days when nothing does.
    :raises StepError: a relation is missing.
    """
    with connection.transaction(), connection.cursor() as cursor:
        require_relations(cursor, relations, (*NEEDED, "int_scoring_run"))
        query = sql.SQL("""
            select min(as_of)
            from {inputs} as inputs
            full join {fleet_values} as fleet_values using ({key})
            where
                as_of > (select run.cutoff from {scoring_run} as run)
                or fleet_values.inputs_digest is distinct from inputs.inputs_digest
            """).format(
            key=column_list(FLEET_KEY),
            inputs=relations["int_interval_inputs"],
            fleet_values=relations["int_interval_fleet_values"],
            scoring_run=relations["int_scoring_run"],
        )
        [first] = one_row(cursor.execute(query))
    return first or datetime.max.replace(tzinfo=UTC)


def find_waiting(cursor: psycopg.Cursor, relations: Relations) -> list[Fleet]:
    """Put the fleets that differ between inputs and values into the temporary table ``ciris_fleets``.

    That is, waiting ones, and ones that are gone, with null for a digest.

    :returns: the waiting ones, in the order of their as-ofs.
    """
    cursor.execute(
        sql.SQL("""
        create temporary table ciris_fleets on commit drop as
        select {key}, inputs.inputs_digest, inputs.n_agents, inputs.step_parameters
        from {inputs} as inputs
        full join {fleet_values} as fleet_values using ({key})
        where fleet_values.as_of is null or fleet_values.inputs_digest is distinct from inputs.inputs_digest
        """).format(
            key=column_list(FLEET_KEY),
            inputs=relations["int_interval_inputs"],
            fleet_values=relations["int_interval_fleet_values"],
        )
    )
    cursor.execute("analyze ciris_fleets")
    cursor.execute(
        "select as_of, window_days, inputs_digest, n_agents from ciris_fleets"
        " where inputs_digest is not null order by as_of, window_days"
    )
    return [Fleet(*row) for row in cursor.fetchall()]


def require_same(cursor: psycopg.Cursor, setting: Setting) -> None:
    """Refuse inputs that were made for other parameters, or by another version of the method.

    :raises StepError: names both.
    """
    cursor.execute(
        "select count(*), min(step_parameters) from ciris_fleets"
        " where inputs_digest is not null and step_parameters is distinct from %s",
        [setting.spelling],
    )
    foreign, theirs = one_row(cursor)
    if foreign:
        raise StepError(
            f"{foreign} rows of int_interval_inputs were made for other parameters, or by another version of "
            f"the project ({theirs}), than those in force ({setting.spelling}).",
            FIRST_HALF_HINT,
        )


def delete_replaced(cursor: psycopg.Cursor, relations: Relations) -> int:
    """Delete the limits and values of fleets that differ; return how many limits go without being replaced."""
    in_fleets = sql.SQL("delete from {} where ({}) in (select {} from ciris_fleets where {})")

    def delete(table: str, condition: str) -> int:
        cursor.execute(
            in_fleets.format(
                relations[table],
                column_list(FLEET_KEY),
                column_list(FLEET_KEY),
                sql.SQL(condition),
            )
        )
        return cursor.rowcount

    gone = delete("int_score_limits", "inputs_digest is null")
    delete("int_score_limits", "inputs_digest is not null")
    delete("int_interval_fleet_values", "true")
    return gone
