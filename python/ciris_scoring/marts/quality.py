"""Counts of input rows that were repaired, set aside or refused, by issue."""

from dataclasses import dataclass
from datetime import date

from ciris_scoring.marts.marts import Marts

EXPECTED = frozenset({"ingestion_received", "ingestion_accepted", "duplicate_trace"})
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
