"""Identity of the current publication. Caches compare identities to notice that new scores were published."""

from dataclasses import dataclass
from datetime import datetime
from uuid import uuid4

from ciris_scoring.marts import permissions
from ciris_scoring.marts.marts import Marts


@dataclass(frozen=True)
class Publication:
    """The publication that the marts contain."""

    identity: str
    """Identifier of the publication: the run that wrote it, the runs that were refused since, and the permissions. It
    is random while a run is in progress or after a run failed or was killed, because evidence and run log then change
    without a new publication.
    """
    scored_at: datetime | None
    """Time when the newest score was computed, or None if there is no score."""
    as_of: datetime | None
    """Newest as-of, or None if there is no score."""
    parameter_set_id: str
    window_days: list[int]
    """Lengths of the published windows in ascending order. The first one is the default."""
    min_traces: int
    low_capacity_threshold: float


# Query of all fields of Publication except the identity.
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
# The identity consists of the newest successful run and the runs refused since, and of the numbers of all runs and of
# those that have not ended: after a correction of the server's clock the last run is not the newest one by its time.
# The identity is null if a run after the newest successful run had an outcome other than refused.
IDENTITY = """
select case
    when bool_and(outcome in ('published', 'built', 'refused')) then concat_ws(
        ' ', string_agg(scoring_run_id, ' ' order by started_at),
        (select concat_ws(' ', count(*), count(*) filter (where outcome = 'unfinished')) from {fct_scoring_runs})
    )
end
from {fct_scoring_runs}
where started_at >= (select max(started_at) from {fct_scoring_runs} where outcome in ('published', 'built'))
"""


def read_publication(marts: Marts) -> Publication:
    """Read the current publication."""
    identity = marts.value(IDENTITY) if marts.may_read("fct_scoring_runs") else None
    [row] = marts.dicts(PUBLICATION, {})
    return Publication((identity or str(uuid4())) + permissions.state(marts), **row)
