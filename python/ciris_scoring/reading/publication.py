"""What is published: one small reading that tells one publication of the scores from the next."""

from dataclasses import dataclass
from datetime import datetime
from uuid import uuid4

from ciris_scoring.reading.marts import Marts


@dataclass(frozen=True)
class Publication:
    """What stands in the marts."""

    identity: str
    """The run that published it. While a run is at work, or after one that died, each reading has another one, because
    the evidence and the log of runs change without a publication.
    """
    scored_at: datetime | None
    """When the newest score was computed; None where there is no score."""
    as_of: datetime | None
    """The newest as-of; None where there is no score."""
    parameter_set_id: str
    window_days: list[int]
    """The published windows, the shortest, which is the reference, first."""
    min_traces: int
    low_capacity_threshold: float


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
    ) as low_capacity_threshold
"""
# The newest run that has built, with those that were refused since, which have changed nothing that is published.
IDENTITY = """
select case
    when bool_and(outcome in ('published', 'built', 'refused')) then string_agg(scoring_run_id, ' ' order by started_at)
end
from {fct_scoring_runs}
where started_at >= (select max(started_at) from {fct_scoring_runs} where outcome in ('published', 'built'))
"""


def read_publication(marts: Marts) -> Publication:
    """Read what is published.

    :raises psycopg.Error: the marts are not there, or cannot be read.
    """
    identity = marts.value(IDENTITY) if marts.may_read("fct_scoring_runs") else None
    [row] = marts.dicts(PUBLICATION, {})
    return Publication(identity or str(uuid4()), **row)
