"""What is published: one small reading that tells one publication of the scores from the next."""

from dataclasses import dataclass
from datetime import datetime

from ciris_scoring.reading.marts import MARTS, Marts


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


# Scores come first in a run, so an answer may be made in the middle: it must belong to a publication of its own. Marts
# that are rewritten whole, or whose newest rows are, tell by the transaction that wrote these, others by what stands in
# their place.
PUBLICATION = """
select
    (select max(scored_at) from {fct_capacity_scores}) as scored_at,
    (select max(as_of) from {fct_capacity_scores}) as as_of,
    (select max(parameter_set_id) from {dim_scoring_parameters}) as parameter_set_id,
    (select array_agg(window_days order by window_days) from {dim_scoring_windows}) as window_days,
    (
        select parameter_value::integer from {dim_scoring_parameters} where parameter_name = 'min_traces'
    ) as min_traces,
    (
        select parameter_value::double precision from {dim_scoring_parameters}
        where parameter_name = 'low_capacity_threshold'
    ) as low_capacity_threshold,
    (
        select max(latest_scored_at) from {fct_fleet_capacity}
        where as_of = (select max(as_of) from {fct_fleet_capacity})
    ) as fleet_scored_at,
    (
        select md5(string_agg(concat_ws(' ', oid, relfilenode), ' ' order by oid))
        from pg_catalog.pg_class
        where oid = any(%(marts)s::text[]::regclass[])
    ) as relations,
    concat_ws(
        ' ',
        (select xmin from {fct_capacity_alerts} order by as_of desc limit 1),
        (select xmin from {dim_agents} limit 1),
        (select xmin from {dim_capacity_categories} limit 1),
        (select xmin from {dim_scoring_parameters} limit 1),
        (select xmin from {dim_scoring_windows} limit 1)
    ) as writers
"""


def read_publication(marts: Marts) -> Publication:
    """Read what is published.

    :raises psycopg.Error: the marts are not there, or cannot be read.
    """
    places = [marts.relations[mart].as_string(marts.connection) for mart in MARTS]
    [row] = marts.dicts(PUBLICATION, {"marts": places})
    scored_at, as_of, parameter_set_id, window_days, min_traces, threshold, fleet_scored_at, *state = (
        row.values()
    )
    return Publication(
        identity="|".join(map(str, (scored_at, fleet_scored_at, parameter_set_id, *state))),
        scored_at=scored_at,
        as_of=as_of,
        parameter_set_id=parameter_set_id,
        window_days=tuple(window_days),
        min_traces=min_traces,
        low_capacity_threshold=threshold,
    )
