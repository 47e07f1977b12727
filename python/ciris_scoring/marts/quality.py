"""Counts of input rows that were repaired, set aside or refused, by issue."""

from dataclasses import dataclass
from datetime import date

from ciris_scoring.database.source_schema import RUN_KINDS
from ciris_scoring.marts.marts import Marts

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
    days: list[date]
    """Recent days (UTC) with the issue."""
    of_days: list[int]
    """Number of rows with the issue on each of `days`."""

    def on(self, day: date) -> int:
        """Return the number of rows with the issue on a day."""
        return dict(zip(self.days, self.of_days, strict=True)).get(day, 0)

    @property
    def is_expected(self) -> bool:
        """Whether the issue is not a fault."""
        return self.issue in EXPECTED


@dataclass(frozen=True, slots=True)
class UnscoredAgent:
    """An agent all of whose traces are of run kinds that are not scored, with their numbers."""

    agent_id_hash: str
    agent_name: str | None
    n_mock: int
    n_test: int
    n_production: int

    @property
    def why(self) -> str:
        """Sentence that says why the agent has no score."""
        kinds = {
            "from a mock model": self.n_mock,
            "from tests": self.n_test,
            "of production": self.n_production,
        }
        kinds = {words: n for words, n in kinds.items() if n}
        n, name = sum(kinds.values()), self.agent_name or self.agent_id_hash
        counted = f"All {n:,} traces of {name} are" if n > 1 else f"The only trace of {name} is"
        if len(kinds) == 1:
            return f"{counted} {next(iter(kinds))}, so it has no score."
        return f"{counted} {' or '.join(f'{words} ({n:,})' for words, n in kinds.items())}, so it has no score."


def why_unscored(marts: Marts) -> list[str]:
    """Return a sentence for each agent without a score because of the run kind of its traces, and the remedy. Most
    agents are only counted."""
    if not marts.may_read("fct_data_quality", "dim_agents", "fct_trace_checks"):
        return []
    found = marts.rows(
        UnscoredAgent,
        """
        with unscored as (
            select
                agent_id_hash,
                coalesce(sum(n) filter (where issue = 'mock_trace'), 0)::bigint as n_mock,
                coalesce(sum(n) filter (where issue = 'test_trace'), 0)::bigint as n_test,
                coalesce(sum(n) filter (where issue = 'production_trace'), 0)::bigint as n_production
            from {fct_data_quality}
            where
                issue in ('mock_trace', 'test_trace', 'production_trace')
                and agent_id_hash not in (select agent_id_hash from {dim_agents})
            group by agent_id_hash
        )

        select
            unscored.*,
            (
                select checks.agent_name
                from {fct_trace_checks} as checks
                where checks.agent_id_hash = unscored.agent_id_hash and checks.agent_name is not null
                order by checks.traced_at desc
                limit 1
            ) as agent_name
        from unscored
        order by n_mock + n_test + n_production desc, agent_id_hash collate "C"
        limit %(most)s
        """,
        most=MOST_UNSCORED + 1,
    )
    lines = [agent.why for agent in found[:MOST_UNSCORED]]
    if len(found) > MOST_UNSCORED:
        lines.append("Further agents have no score for this reason; see mock_trace and test_trace in fct_data_quality.")
    if lines:
        lines.append("The variable ciris_scored_run_kinds decides which traces are scored.")
    return lines


def issues(marts: Marts, last_day: date, n_days: int) -> list[Issue] | None:
    """Read the issues: faults first, then by descending count. Return None if the role has no right to read them.

    :param last_day: last day (UTC) that is counted separately. Traces dated in the future have later days.
    :param n_days: number of days up to ``last_day`` that are counted separately.
    """
    if not marts.may_read("fct_data_quality"):
        return None
    found = marts.rows(
        Issue,
        """
        with counted as (
            select *, (period_start at time zone 'UTC')::date as day
            from {fct_data_quality}
        ),

        by_day as (
            select issue, array_agg(day order by day) as days, array_agg(n order by day) as of_days
            from (
                select issue, day, sum(n)::bigint as n
                from counted
                where day > %(last_day)s - %(n_days)s::integer and day <= %(last_day)s
                group by issue, day
            ) as of_days
            group by issue
        ),

        totals as (
            select issue, sum(n)::bigint as n, count(distinct agent_id_hash) as n_agents, max(day)::text as newest
            from counted
            group by issue
        )

        select
            totals.*,
            coalesce(by_day.days, '{{}}') as days,
            coalesce(by_day.of_days, '{{}}') as of_days
        from totals
        left join by_day on totals.issue = by_day.issue
        order by totals.n desc, totals.issue collate "C"
        """,
        last_day=last_day,
        n_days=n_days,
    )
    return sorted(found, key=lambda one: one.is_expected)
