"""What is published: one small reading that tells one publication of the scores from the next."""

from dataclasses import dataclass
from datetime import datetime

import psycopg
from psycopg import sql

from ciris_scoring.reading.marts import MARTS


@dataclass(frozen=True)
class Publication:
    """What stands in the marts."""

    identity: str
    """Another one whenever a run has written a mart."""
    scored_at: datetime | None
    """When the newest score was computed; None where there is no score."""
    as_of: datetime | None
    """The newest as-of; None where there is no score."""
    parameter_set_id: str
    window_days: tuple[int, ...]
    """The published windows, the shortest, which is the reference, first."""
    min_traces: int
    low_capacity_threshold: float


# Scores come first in a run and the tables that are replaced (other oids) last, so that an answer made in the middle
# belongs to a publication of its own.
PUBLICATION = """
select
    (select max(scored_at) from {schema}.fct_capacity_scores) as scored_at,
    (select max(as_of) from {schema}.fct_capacity_scores) as as_of,
    (select max(parameter_set_id) from {schema}.dim_scoring_parameters) as parameter_set_id,
    (select array_agg(window_days order by window_days) from {schema}.dim_scoring_windows) as window_days,
    (
        select parameter_value::integer from {schema}.dim_scoring_parameters where parameter_name = 'min_traces'
    ) as min_traces,
    (
        select parameter_value::double precision from {schema}.dim_scoring_parameters
        where parameter_name = 'low_capacity_threshold'
    ) as low_capacity_threshold,
    (
        select max(latest_scored_at) from {schema}.fct_fleet_capacity
        where as_of = (select max(as_of) from {schema}.fct_fleet_capacity)
    ) as fleet_scored_at,
    (
        select md5(string_agg(concat_ws(' ', relname, oid, relfilenode), ' ' order by relname))
        from pg_catalog.pg_class
        where relnamespace = %(schema)s::regnamespace and relname = any(%(marts)s)
    ) as relations
"""


def read_publication(connection: psycopg.Connection, schema: str) -> Publication:
    """Read what is published in a schema.

    :raises psycopg.Error: the marts are not there, or cannot be read.
    """
    query = sql.SQL(PUBLICATION).format(schema=sql.Identifier(schema))
    name = sql.Identifier(schema).as_string(connection)
    row = connection.execute(query, {"schema": name, "marts": list(MARTS)}).fetchone()
    assert row is not None  # a query without a from clause
    scored_at, as_of, parameter_set_id, window_days, min_traces, threshold, fleet_scored_at, relations = row
    return Publication(
        identity=f"{scored_at}|{fleet_scored_at}|{parameter_set_id}|{relations}",
        scored_at=scored_at,
        as_of=as_of,
        parameter_set_id=parameter_set_id,
        window_days=tuple(window_days),
        min_traces=min_traces,
        low_capacity_threshold=threshold,
    )
