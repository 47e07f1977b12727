"""Runs and their outcomes, the current publication, and the input rows that were repaired, set aside or refused."""

from dataclasses import dataclass, replace
from datetime import datetime
from uuid import uuid4

from ciris_scoring.database.connection import has_right
from ciris_scoring.database.run_lock import RUN_LOCK, is_held
from ciris_scoring.database.source_schema import RUN_KINDS
from ciris_scoring.database.terminal import plural
from ciris_scoring.marts.marts import Marts
from ciris_scoring.marts.verdict import state

OUTCOMES = ("published", "failed", "unfinished")
"""Outcomes of a run that was meant to publish scores and started. The other outcomes are "refused" (the run did not
start) and "built" (a run of single models, which does not publish)."""


@dataclass(frozen=True, slots=True)
class RunRecord:
    """A row of fct_scoring_runs, with the same nulls."""

    as_of: datetime | None
    started_at: datetime
    seconds: float | None
    command: str
    outcome: str
    n_scores: int | None
    n_late_traces: int | None
    message: str | None
    is_at_work: bool = False
    """Whether a session holds the run lock. It is determined only for an unfinished run."""


def run_records(marts: Marts, limit: int) -> list[RunRecord] | None:
    """Read the newest run records, the newest first, or return None if the role has no right to read them."""
    if marts.may_read("fct_scoring_runs"):
        log = "{fct_scoring_runs}"
    elif has_right(marts.connection, marts.relations.places["int_runs"]):
        # fct_scoring_runs does not exist before the first published run.
        log = """(
            select
                as_of, started_at, ended_at, extract(epoch from ended_at - started_at)::float8 as seconds, command,
                coalesce(outcome, 'unfinished') as outcome, n_scores, n_late_traces, message
            from {int_runs}
        ) as runs"""
    else:
        return None
    return marts.rows(
        RunRecord,
        f"select {{columns}} from {log} order by coalesce(ended_at, started_at) desc limit %(limit)s",
        limit=limit,
    )


def unfinished(marts: Marts) -> RunRecord | None:
    """Read the newest run if it neither published nor built its models. Return None otherwise, or if the role has no
    right to read the run log."""
    run = next(iter(run_records(marts, 1) or []), None)
    if run is None or run.outcome in ("published", "built"):
        return None
    return replace(run, is_at_work=is_held(marts.connection, RUN_LOCK, marts.relations.target_schema))


def last_run(marts: Marts) -> RunRecord | None:
    """Read the newest run that was meant to publish scores and was not refused. Return None if it does not exist, or if
    the role may not read the run log."""
    return next((run for run in run_records(marts, 100) or [] if run.outcome in OUTCOMES), None)


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
    low_capacity_threshold: float


# Query of all fields of Publication except the identity.
PUBLICATION = """
select
    (select max(scored_at) from {fct_capacity_scores}) as scored_at,
    (select max(as_of) from {fct_capacity_scores}) as as_of,
    (select max(parameter_set_id) from {dim_scoring_parameters}) as parameter_set_id,
    (select array_agg(window_days order by window_days) from {dim_scoring_windows}) as window_days,
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
    return Publication((identity or str(uuid4())) + state(marts), **row)


MOST_UNSCORED = 5
"""Maximum number of agents without a score that are named."""
EXPECTED = frozenset(
    {"ingestion_received", "ingestion_accepted", "duplicate_trace", *(f"{kind}_trace" for kind in RUN_KINDS)}
)
"""Issues that are not faults. They are counted so that each trace that was received appears in a count."""


@dataclass(frozen=True, slots=True)
class Issue:
    """Counts of an issue in fct_data_quality over all periods."""

    issue: str
    n: int
    n_agents: int
    newest: str | None
    """Newest day (UTC) with the issue, or None if the rows have no time. Text, because Python has no years before 1 or
    after 9999."""

    @property
    def is_expected(self) -> bool:
        """Whether the issue is not a fault."""
        return self.issue in EXPECTED


def why_unscored(marts: Marts) -> list[str]:
    """Return a sentence about the agents without a score because of the run kind of their traces, and the remedy."""
    if not marts.may_read("fct_data_quality", "dim_agents"):
        return []
    query = """
        select coalesce(array_agg(distinct agent_id_hash), '{{}}')
        from {fct_data_quality}
        where
            issue in ('mock_trace', 'test_trace', 'production_trace')
            and agent_id_hash not in (select agent_id_hash from {dim_agents})
        """
    agents: list[str] = marts.value(query)
    if not agents:
        return []
    more = [f"and {len(agents) - MOST_UNSCORED} more"] if len(agents) > MOST_UNSCORED else []
    return [
        f"{plural(len(agents), 'agent')} without a score, because all traces are of run kinds that are not scored: "
        f"{', '.join([*sorted(agents)[:MOST_UNSCORED], *more])}. The issues mock_trace, test_trace and "
        "production_trace of fct_data_quality count the traces. The variable ciris_scored_run_kinds decides which "
        "traces are scored."
    ]


def issues(marts: Marts) -> list[Issue] | None:
    """Read the issues: faults first, then by descending count. Return None if the role has no right to read them."""
    if not marts.may_read("fct_data_quality"):
        return None
    found = marts.rows(
        Issue,
        """
        select
            issue, sum(n)::bigint as n, count(distinct agent_id_hash) as n_agents,
            max((period_start at time zone 'UTC')::date)::text as newest
        from {fct_data_quality}
        group by issue
        order by n desc, issue collate "C"
        """,
    )
    return sorted(found, key=lambda one: one.is_expected)
